//! The API over a real socket, in front of a running pipeline.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use std::{
    io::{ErrorKind, Read, Write},
    net::{SocketAddr, TcpStream},
    ops::ControlFlow,
    sync::{Arc, Mutex},
    thread::Thread,
    time::{Duration, Instant},
};

use bytes::Bytes;
use dovetail_admin::{
    Admin, AdminParts, Bounds, Metrics, bind,
    view::{Failure, PushedView, ReadyView, RevisionView, StatusView, TimerView},
};
use dovetail_core::{
    context::Context,
    epoch::{LaneId, Owner},
    identity::{Identity, InputIdentity},
    key::Key,
    lane::PluginSwitch,
    log::{
        CommittedOffset, Fetched, Log, LogError, Transaction, Waker,
        memory::{MemoryCluster, MemoryLog},
    },
    options::{
        CallLimits, CommitOptions, DeadLetterRate, InputOptions, LaneOptions, LatePolicy,
        NullKeyPolicy, SkewReference, WatermarkRule, WhenAllIdle,
    },
    plugin::{CallResult, MatchFunction, PluginDescriptor},
    record::{DecodedRecord, Decoding, InputIndex, Partition, Record, Source, SourceIndex},
    state::{ExpiryTable, MemoryStore, StateId, StateStore},
    timers::TimerDomain,
};
use dovetail_runtime::{
    LaneSetup, PipelineEnd, PipelineSetup, Revision, Supervisor, reload::PushError,
};
use metrics_exporter_prometheus::PrometheusBuilder;

const TIME: i64 = 1_767_225_600_000;

/// Registers a timer an hour after each record.
struct Remind;

impl MatchFunction for Remind {
    fn process_element(&mut self, mut context: Box<Context>) -> (Box<Context>, CallResult) {
        context.timer_register(TimerDomain::Event, TIME + 3_600_000, 7).unwrap();
        (context, Ok(()))
    }

    fn on_timer(&mut self, context: Box<Context>) -> (Box<Context>, CallResult) {
        (context, Ok(()))
    }

    fn renew(&mut self) {}
}

struct RemindRevision(PluginDescriptor);

impl Revision for RemindRevision {
    fn digest(&self) -> &'static str {
        "abc"
    }

    fn descriptor(&self) -> &PluginDescriptor {
        &self.0
    }

    fn instantiate(&self, _: LaneId, state_ids: Vec<StateId>) -> Result<PluginSwitch, String> {
        Ok(PluginSwitch {
            function: Box::new(Remind),
            descriptor: self.0.clone(),
            state_ids,
            roles: vec![0],
            outputs: Vec::new(),
            late_output: None,
            revision: "abc".to_owned(),
        })
    }
}

/// The log in memory, whose waiting lane sleeps until it is woken.
struct ParkingLog {
    log: MemoryLog,
    waiting: Arc<Mutex<Option<Thread>>>,
}

impl Log for ParkingLog {
    fn acquire(&mut self) -> Result<(), LogError> {
        self.log.acquire()
    }

    fn committed(&mut self) -> Result<Vec<Option<CommittedOffset>>, LogError> {
        self.log.committed()
    }

    fn read_journal(
        &mut self,
        from: i64,
        visit: &mut dyn FnMut(i64, Bytes) -> ControlFlow<()>,
    ) -> Result<i64, LogError> {
        self.log.read_journal(from, visit)
    }

    fn start_positions(&mut self) -> Result<Vec<i64>, LogError> {
        self.log.start_positions()
    }

    fn resume(&mut self, positions: &[i64]) -> Result<(), LogError> {
        self.log.resume(positions)
    }

    fn fetch(&mut self, wanted: &[bool], take: &mut dyn FnMut(Fetched)) -> Result<(), LogError> {
        self.log.fetch(wanted, take)
    }

    fn wait(&mut self, at_most: Duration) {
        *self.waiting.lock().unwrap() = Some(std::thread::current());
        std::thread::park_timeout(at_most);
    }

    fn waker(&self) -> Waker {
        let waiting = Arc::clone(&self.waiting);
        Arc::new(move || {
            if let Some(thread) = waiting.lock().unwrap().as_ref() {
                thread.unpark();
            }
        })
    }

    fn commit(&mut self, transaction: &Transaction<'_>) -> Result<i64, LogError> {
        self.log.commit(transaction)
    }
}

fn setup() -> PipelineSetup {
    let input = InputOptions {
        name: "orders".to_owned(),
        topic: "shop.orders".to_owned(),
        watermark: WatermarkRule::OutOfOrderness(0),
        idle_after: None,
        max_future_skew: None,
        skew_reference: SkewReference::Clock,
        late: LatePolicy::Process,
        null_key: NullKeyPolicy::DeadLetter,
        is_broadcast: false,
        bootstrap: false,
    };
    PipelineSetup {
        identity: Identity {
            pipeline: "remind".to_owned(),
            cluster_id: "memory".to_owned(),
            lanes: 1,
            inputs: vec![InputIdentity {
                name: "orders".to_owned(),
                topic: "shop.orders".to_owned(),
                partitions: 1,
                key_type: "string".to_owned(),
            }],
            states: Vec::new(),
        },
        options: LaneOptions {
            pipeline: "remind".to_owned(),
            inputs: vec![input],
            roles: vec![0],
            outputs: Vec::new(),
            late_output: None,
            wait_for_input: 10_000,
            when_all_idle: WhenAllIdle::Hold,
            commit: CommitOptions {
                every: 5_000,
                max_records: 1,
                max_bytes: 1 << 20,
                ..CommitOptions::default()
            },
            dead_letter_rate: DeadLetterRate::default(),
            limits: CallLimits::default(),
        },
        owner: Owner { host: "here".to_owned(), pid: 1, started_at: 5 },
        revision: Arc::new(RemindRevision(PluginDescriptor {
            inputs: vec!["orders".to_owned()],
            ..PluginDescriptor::default()
        })),
        transaction_timeout: 1_000,
        checkpoints: None,
        committed: None,
        untrimmed: None,
    }
}

struct Api {
    supervisor: Supervisor,
    cluster: MemoryCluster,
    admin: Admin,
}

fn started() -> Api {
    started_within(Bounds::default())
}

fn started_within(bounds: Bounds) -> Api {
    let cluster = MemoryCluster::new(1);
    let log = ParkingLog { log: cluster.log(), waiting: Arc::default() };
    let lane = LaneSetup {
        lane: LaneId(0),
        sources: vec![Source { input: InputIndex(0), partition: Partition(0) }],
        log: Box::new(log),
        decoder: Box::new(|_: Source, record: Record| {
            let key = record.key.clone().map(Key);
            DecodedRecord { record, decoding: Decoding::Ready { key, time: Some(TIME) } }
        }),
        stores: Box::new(|_: &ExpiryTable| {
            Ok(Box::new(MemoryStore::default()) as Box<dyn StateStore>)
        }),
    };
    let supervisor = Supervisor::start(&setup(), vec![lane]).unwrap();
    let admin = Admin::start(AdminParts {
        listener: bind("127.0.0.1:0".parse().unwrap()).unwrap(),
        handle: supervisor.handle(),
        token: "secret".to_owned(),
        metrics: Metrics {
            handle: PrometheusBuilder::new().build_recorder().handle(),
            refresh: Arc::new(|| {}),
        },
        push: Arc::new(|bytes| match bytes {
            b"good" => Ok("good digest".to_owned()),
            _ => Err(PushError::Refused {
                digest: "bad digest".to_owned(),
                reason: "no component".to_owned(),
            }),
        }),
        push_bytes_max: 1_000,
        bounds,
    });
    Api { supervisor, cluster, admin: admin.unwrap() }
}

/// Returns status and body of one request.
fn request(address: SocketAddr, head: &str, headers: &str, body: &[u8]) -> (u16, String) {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    let length = body.len();
    let head = format!(
        "{head} HTTP/1.1\r\n{headers}Content-Length: {length}\r\nConnection: close\r\n\r\n"
    );
    stream.write_all(head.as_bytes()).unwrap();
    stream.write_all(body).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    (head.split(' ').nth(1).unwrap().parse().unwrap(), body.to_owned())
}

impl Api {
    fn get(&self, path: &str) -> (u16, String) {
        request(self.admin.address(), &format!("GET {path}"), "Host: localhost\r\n", b"")
    }

    fn post(&self, path: &str, headers: &str, body: &[u8]) -> (u16, String) {
        request(self.admin.address(), &format!("POST {path}"), headers, body)
    }

    /// Asks again until the answer is as wanted.
    fn get_until(&self, path: &str, mut is_so: impl FnMut(u16, &str) -> bool) -> String {
        let deadline = Instant::now() + Duration::from_secs(20);
        loop {
            let (status, body) = self.get(path);
            if is_so(status, &body) {
                return body;
            }
            assert!(Instant::now() < deadline, "{path} still answers {status}: {body}");
        }
    }
}

const GOOD: &str = "Host: localhost\r\nAuthorization: Bearer secret\r\n";

#[test]
fn status_tells_where_every_source_stands_and_timers_what_comes_next() {
    let api = started();
    api.get_until("/readyz", |status, _| status == 200);
    assert_eq!(api.get("/livez"), (200, "ok\n".to_owned()));
    let before: StatusView = serde_json::from_str(&api.get("/api/v1/status").1).unwrap();
    let held_by = before.held_by.unwrap();
    assert!(held_by.starts_with("orders[0]: no record seen yet"), "{held_by}");

    let key = Some(Bytes::from_static(b"o-1"));
    api.cluster.append(SourceIndex(0), Record { key, ..Record::default() });
    let body = api.get_until("/api/v1/status", |_, body| {
        let status: StatusView = serde_json::from_str(body).unwrap();
        status.inputs[0].records == 1
    });
    let status: StatusView = serde_json::from_str(&body).unwrap();
    assert_eq!((status.pipeline.as_str(), status.revision.as_str()), ("remind", "abc"));
    let lane = &status.lanes[0];
    assert_eq!((lane.phase.as_str(), lane.epoch), ("running", Some(1)));
    assert_eq!(lane.watermark_ms, Some(TIME - 1));
    assert_eq!(lane.watermark.as_deref(), Some("2025-12-31T23:59:59.999Z"));
    let source = &lane.sources[0];
    assert_eq!((source.topic.as_str(), source.position), ("shop.orders", 1));
    assert!(source.holds_watermark && !source.idle);

    let timers: Vec<TimerView> = serde_json::from_str(&api.get("/api/v1/timers?n=5").1).unwrap();
    assert_eq!((timers[0].key.as_str(), timers[0].tag), ("o-1", 7));
    assert_eq!(timers[0].time, "2026-01-01T01:00:00Z");
    let plugins: Vec<RevisionView> = serde_json::from_str(&api.get("/api/v1/plugins").1).unwrap();
    assert_eq!((plugins[0].digest.as_str(), plugins[0].state.as_str()), ("abc", "active"));
    assert_eq!(api.get("/metrics").0, 200);
    assert_eq!(api.get("/nothing").0, 404);
    api.supervisor.handle().stop();
    assert_eq!(api.supervisor.join(), PipelineEnd::Stopped);
}

#[test]
fn timers_are_asked_for_by_a_number_that_makes_sense() {
    let api = started();
    for query in ["n=0", "n=-1", "n=abc", "n=10001", "limit=5"] {
        let (status, body) = api.get(&format!("/api/v1/timers?{query}"));
        assert_eq!(status, 400, "{query}: {body}");
        assert!(body.contains("expected `n`, how many timers, from 1 to 10000"), "{body}");
    }
    for path in ["/api/v1/timers", "/api/v1/timers?n=1", "/api/v1/timers?n=10000"] {
        assert_eq!(api.get(path).0, 200, "{path}");
    }
    api.supervisor.handle().stop();
    assert_eq!(api.supervisor.join(), PipelineEnd::Stopped);
}

#[test]
fn nothing_is_read_under_a_name_that_somebody_else_can_point_here() {
    let api = started();
    let address = api.admin.address();
    let paths =
        ["/api/v1/status", "/api/v1/timers", "/api/v1/plugins", "/metrics", "/readyz", "/x"];
    for path in paths {
        let get = format!("GET {path}");
        for evil in ["evil.example", "evil.example:9464", "localhost.evil.example", ""] {
            let (status, body) = request(address, &get, &format!("Host: {evil}\r\n"), b"");
            assert_eq!(status, 403, "{path} {evil}: {body}");
            assert!(body.contains("`localhost` only"), "{body}");
        }
        for good in ["localhost", "127.0.0.1:9464", "[::1]"] {
            let (status, _) = request(address, &get, &format!("Host: {good}\r\n"), b"");
            assert_ne!(status, 403, "{path} {good}");
        }
    }
    api.supervisor.handle().stop();
    assert_eq!(api.supervisor.join(), PipelineEnd::Stopped);
}

#[test]
fn changes_need_the_token_and_no_foreign_page_can_make_them() {
    let api = started();
    let evil = "Host: evil.example\r\nAuthorization: Bearer secret\r\n";
    let page = "Host: localhost\r\nOrigin: http://evil.example\r\nAuthorization: Bearer secret\r\n";
    for (headers, expected) in [
        ("Host: localhost\r\n", 401),
        ("Host: localhost\r\nAuthorization: Bearer guess\r\n", 401),
        (evil, 403),
        (page, 403),
    ] {
        for path in ["/api/v1/stop", "/api/v1/plugin"] {
            let (status, body) = api.post(path, headers, b"good");
            assert_eq!(status, expected, "{path} {headers}: {body}");
            assert!(!serde_json::from_str::<Failure>(&body).unwrap().error.is_empty());
        }
    }
    assert_eq!(api.get("/api/v1/stop").0, 401);
    assert!(!api.supervisor.handle().is_draining());

    let (status, body) = api.post("/api/v1/plugin", GOOD, b"good");
    let pushed = PushedView { digest: "good digest".to_owned() };
    assert_eq!((status, serde_json::from_str(&body).ok()), (200, Some(pushed)));
    let (status, body) = api.post("/api/v1/plugin", GOOD, b"bad");
    assert_eq!(status, 422);
    assert!(body.contains("no component"), "{body}");
    assert_eq!(api.post("/api/v1/plugin", GOOD, &[0; 2_000]).0, 413);

    assert_eq!(api.post("/api/v1/stop", GOOD, b"").0, 202);
    let (status, body) = api.get("/readyz");
    let ready: ReadyView = serde_json::from_str(&body).unwrap();
    assert_eq!((status, ready.reasons[0].code.as_str()), (503, "draining"));
    assert_eq!(api.supervisor.join(), PipelineEnd::Stopped);
}

#[test]
fn a_taken_address_is_named_with_the_way_out() {
    let api = started();
    let message = bind(api.admin.address()).unwrap_err().to_string();
    assert!(message.contains("127.0.0.1") && message.contains("admin.listen"), "{message}");
    api.supervisor.handle().stop();
    assert_eq!(api.supervisor.join(), PipelineEnd::Stopped);
}

/// Opens a connection and sends a beginning.
fn begun(api: &Api, beginning: &str) -> TcpStream {
    let mut stream = TcpStream::connect(api.admin.address()).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    stream.write_all(beginning.as_bytes()).unwrap();
    stream
}

/// Returns all that comes until the server closes.
fn rest(mut stream: TcpStream) -> String {
    let mut answer = Vec::new();
    let end = stream.read_to_end(&mut answer).map_err(|error| error.kind());
    // What was sent and not read resets the connection when it is closed.
    assert!(matches!(end, Ok(_) | Err(ErrorKind::ConnectionReset)), "it is still open: {end:?}");
    String::from_utf8(answer).unwrap()
}

const LIVEZ: &str = "GET /livez HTTP/1.1\r\nHost: localhost\r\n\r\n";

#[test]
fn no_more_connections_are_taken_at_once_than_there_may_be() {
    let api = started();
    let mut taken: Vec<TcpStream> =
        (0..Bounds::default().connections).map(|_| begun(&api, "G")).collect();
    let mut next = begun(&api, LIVEZ);
    next.set_read_timeout(Some(Duration::from_millis(300))).unwrap();
    let waits = next.read(&mut [0]).unwrap_err().kind();
    assert_eq!(waits, ErrorKind::WouldBlock);

    taken.pop();
    next.set_read_timeout(Some(Duration::from_secs(5))).unwrap();
    let mut status = [0; 12];
    next.read_exact(&mut status).unwrap();
    assert_eq!(&status, b"HTTP/1.1 200");
    api.supervisor.handle().stop();
    assert_eq!(api.supervisor.join(), PipelineEnd::Stopped);
}

#[test]
fn a_request_that_comes_a_byte_at_a_time_is_cut() {
    let head = Duration::from_millis(500);
    let api = started_within(Bounds { head, ..Bounds::default() });
    let begin = Instant::now();
    let mut slow = begun(&api, "");
    slow.set_read_timeout(Some(Duration::from_millis(50))).unwrap();
    let mut bytes = LIVEZ.bytes().cycle().filter(|byte| !b"\r\n".contains(byte));
    let is_cut = |stream: &mut TcpStream| match stream.read(&mut [0; 512]) {
        Ok(length) => length == 0,
        Err(error) => error.kind() == ErrorKind::ConnectionReset,
    };
    while !is_cut(&mut slow) {
        assert!(begin.elapsed() < Duration::from_secs(10), "it is still read");
        let _cut_meanwhile = slow.write(&[bytes.next().unwrap()]);
    }
    assert!(begin.elapsed() >= head);
    api.supervisor.handle().stop();
    assert_eq!(api.supervisor.join(), PipelineEnd::Stopped);
}

#[test]
fn a_connection_that_is_idle_or_old_is_closed() {
    let soon = Duration::from_millis(300);
    for bounds in
        [Bounds { head: soon, ..Bounds::default() }, Bounds { life: soon, ..Bounds::default() }]
    {
        let api = started_within(bounds);
        let answer = rest(begun(&api, LIVEZ));
        assert!(answer.starts_with("HTTP/1.1 200") && answer.ends_with("ok\n"), "{answer}");
        api.supervisor.handle().stop();
        assert_eq!(api.supervisor.join(), PipelineEnd::Stopped);
    }
}

#[test]
fn an_answer_that_nobody_reads_is_cut() {
    let soon = Duration::from_millis(200);
    let api =
        started_within(Bounds { connections: 1, life: soon, last: soon, ..Bounds::default() });
    // More answers than the sockets' buffers hold.
    let mut deaf = begun(&api, "");
    deaf.set_write_timeout(Some(Duration::from_millis(100))).unwrap();
    let requests = "GET /nothing HTTP/1.1\r\nHost: localhost\r\n\r\n".repeat(1_000);
    while deaf.write_all(requests.as_bytes()).is_ok() {}
    assert_eq!(api.get("/livez").0, 200);
    drop(deaf);
    api.supervisor.handle().stop();
    assert_eq!(api.supervisor.join(), PipelineEnd::Stopped);
}

#[test]
fn a_plugin_that_is_too_large_is_refused_before_it_is_sent() {
    let api = started();
    let head = format!("POST /api/v1/plugin HTTP/1.1\r\n{GOOD}Content-Length: 1001\r\n\r\n");
    let answer = rest(begun(&api, &head));
    assert!(answer.starts_with("HTTP/1.1 413"), "{answer}");
    assert!(answer.contains("has 1001 bytes, it may have 1000"), "{answer}");
    api.supervisor.handle().stop();
    assert_eq!(api.supervisor.join(), PipelineEnd::Stopped);
}

#[test]
fn a_plugin_that_does_not_come_is_not_waited_for() {
    let body = Duration::from_millis(300);
    let api = started_within(Bounds { body, ..Bounds::default() });
    let head = format!("POST /api/v1/plugin HTTP/1.1\r\n{GOOD}Content-Length: 4\r\n\r\ngo");
    let answer = rest(begun(&api, &head));
    assert!(answer.starts_with("HTTP/1.1 408"), "{answer}");
    assert!(answer.contains("push it again"), "{answer}");
    api.supervisor.handle().stop();
    assert_eq!(api.supervisor.join(), PipelineEnd::Stopped);
}
