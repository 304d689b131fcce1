//! A plugin that counts per key, a log that fails on demand, and a pipeline of both.

use std::{
    collections::VecDeque,
    io::Write,
    ops::ControlFlow,
    sync::{
        Arc, Condvar, Mutex, MutexGuard,
        atomic::{AtomicBool, AtomicU32, Ordering},
    },
    time::{Duration, Instant},
};

use bytes::Bytes;
use dovetail_core::{
    checkpoint::{Frozen, Restoring},
    clock::ManualClock,
    context::{Context, ContextError, emit::OutputKey},
    epoch::{Attempt, LaneId, Owner},
    identity::{Identity, InputIdentity, states_of},
    key::Key,
    lane::PluginSwitch,
    log::{
        CommittedOffset, Fetched, Log, LogError, Transaction, Trimmer, Waker,
        memory::{MemoryCluster, MemoryLog},
    },
    options::{
        CallLimits, CommitOptions, DeadLetterRate, InputOptions, LaneOptions, LatePolicy,
        NullKeyPolicy, OutputOptions, SkewReference, WatermarkRule, WhenAllIdle,
    },
    plugin::{
        CallFailure, CallResult, FailureKind, MatchFunction, PluginDescriptor, StateDescriptor,
        StateKind, StateScope,
    },
    record::{
        DecodedRecord, Decoding, Headers, InputIndex, Partition, Record, Source, SourceIndex,
    },
    state::{Clocks, ExpiryTable, MemoryStore, StateId, StateSize, StateStore, StoreError, Visit},
};
use dovetail_runtime::{
    LaneSetup, PipelineSetup, Revision,
    clock::AttemptSource,
    driver::{Advance, LaneDriver, LaneEnd},
    handle::{Handle, LanePort},
    key_watch::KeyWatch,
    setup::OpenStore,
};

/// Emits `digest:value#count`, counting the records of each key in keyed state.
struct Counting {
    digest: String,
}

impl Counting {
    fn handle(&self, context: &mut Context) -> Result<(), ContextError> {
        let record = context.record().cloned().unwrap_or_default();
        let count = context.state_get(0, b"")?.map_or(0, |bytes| bytes[0]) + 1;
        context.state_put(0, b"", &[count])?;
        let value = String::from_utf8_lossy(&record.value.unwrap_or_default()).into_owned();
        let text = format!("{}:{value}#{count}", self.digest);
        context.emit(0, OutputKey::Current, Some(text.as_bytes()), &Headers::default(), None)
    }
}

impl MatchFunction for Counting {
    fn process_element(&mut self, mut context: Box<Context>) -> (Box<Context>, CallResult) {
        let result = self
            .handle(&mut context)
            .map_err(|error| CallFailure { kind: FailureKind::Error, message: error.to_string() });
        (context, result)
    }

    fn on_timer(&mut self, context: Box<Context>) -> (Box<Context>, CallResult) {
        (context, Ok(()))
    }

    fn renew(&mut self) {}
}

/// A revision of the counting plugin.
pub(crate) struct CountingRevision {
    digest: String,
    descriptor: PluginDescriptor,
}

/// Returns a revision whose state has that schema version.
pub(crate) fn revision(digest: &str, schema_version: u16) -> Arc<dyn Revision> {
    let state = StateDescriptor {
        name: "count".to_owned(),
        kind: StateKind::Value,
        scope: StateScope::Keyed,
        schema_version,
        expiry: None,
    };
    Arc::new(CountingRevision {
        digest: digest.to_owned(),
        descriptor: PluginDescriptor {
            inputs: vec!["orders".to_owned()],
            broadcast: Vec::new(),
            outputs: vec!["main".to_owned()],
            states: vec![state],
            metrics: Vec::new(),
        },
    })
}

impl Revision for CountingRevision {
    fn digest(&self) -> &str {
        &self.digest
    }

    fn descriptor(&self) -> &PluginDescriptor {
        &self.descriptor
    }

    fn instantiate(&self, _: LaneId, state_ids: Vec<StateId>) -> Result<PluginSwitch, String> {
        if self.digest.contains("unopenable") {
            return Err("open says no".to_owned());
        }
        Ok(PluginSwitch {
            function: Box::new(Counting { digest: self.digest.clone() }),
            descriptor: self.descriptor.clone(),
            state_ids,
            roles: vec![0],
            outputs: vec![output("main")],
            late_output: None,
            revision: self.digest.clone(),
        })
    }
}

fn output(name: &str) -> OutputOptions {
    let topic = name.to_owned();
    OutputOptions { name: name.to_owned(), topic, max_record_bytes: 1 << 20, requires_key: false }
}

/// Returns a pipeline of one input without event time.
pub(crate) fn pipeline(revision: Arc<dyn Revision>) -> PipelineSetup {
    let input = InputOptions {
        name: "orders".to_owned(),
        topic: "orders".to_owned(),
        watermark: WatermarkRule::None,
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
            pipeline: "counting".to_owned(),
            cluster_id: "memory".to_owned(),
            lanes: 1,
            inputs: vec![InputIdentity {
                name: "orders".to_owned(),
                topic: "orders".to_owned(),
                partitions: 1,
                key_type: "string".to_owned(),
            }],
            states: states_of(revision.descriptor()),
        },
        options: LaneOptions {
            pipeline: "counting".to_owned(),
            inputs: vec![input],
            roles: vec![0],
            outputs: vec![output("main")],
            late_output: None,
            wait_for_input: 10_000,
            when_all_idle: WhenAllIdle::Hold,
            commit: CommitOptions {
                every: 100,
                max_records: 10,
                max_bytes: 1 << 20,
                ..CommitOptions::default()
            },
            dead_letter_rate: DeadLetterRate::default(),
            limits: CallLimits::default(),
        },
        owner: Owner { host: "here".to_owned(), pid: 1, started_at: 5 },
        revision,
        transaction_timeout: 1_000,
        checkpoints: None,
        committed: None,
        untrimmed: None,
    }
}

/// What goes wrong with a commit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fault {
    /// It is committed, and the answer is lost.
    AnswerLost,
    /// It is not committed, and the answer is lost.
    RequestLost,
    /// Our producer's epoch is old; nothing is committed.
    Fenced,
    /// This partition of an output refuses it.
    Refused(i32),
    /// The log's machine failed.
    Failed,
}

/// Something that happens once.
type Deed = Box<dyn FnOnce() + Send>;

/// Topics in memory whose commits fail on demand, and whose waiting lane is woken by appending.
#[derive(Clone)]
pub(crate) struct Topics {
    pub(crate) cluster: MemoryCluster,
    faults: Arc<Mutex<VecDeque<Option<Fault>>>>,
    pub(crate) news: Arc<(Mutex<u64>, Condvar)>,
    meanwhile: Arc<Mutex<Option<Deed>>>,
    is_absent: Arc<AtomicBool>,
    /// How often a log has waited for an absent broker, and how often to no end.
    pub(crate) waited: Arc<AtomicU32>,
    pub(crate) gave_up: Arc<AtomicU32>,
    /// Records of the journal that were read.
    pub(crate) journal_reads: Arc<AtomicU32>,
}

impl Topics {
    pub(crate) fn new() -> Self {
        Self {
            cluster: MemoryCluster::new(1),
            faults: Arc::default(),
            news: Arc::default(),
            meanwhile: Arc::default(),
            is_absent: Arc::default(),
            waited: Arc::default(),
            gave_up: Arc::default(),
            journal_reads: Arc::default(),
        }
    }

    /// Lets nobody answer from here on.
    pub(crate) fn go_away(&self) {
        self.is_absent.store(true, Ordering::SeqCst);
    }

    /// Does something once, after the committed offsets are read next.
    pub(crate) fn after_committed(&self, then: impl FnOnce() + Send + 'static) {
        *self.meanwhile.lock().unwrap() = Some(Box::new(then));
    }

    /// Appends a record, `key=value`.
    pub(crate) fn append(&self, text: &str) {
        let (key, value) = text.split_once('=').unwrap();
        let bytes = |text: &str| Some(Bytes::copy_from_slice(text.as_bytes()));
        let record = Record { key: bytes(key), value: bytes(value), ..Record::default() };
        self.cluster.append(SourceIndex(0), record);
        wake(&self.news);
    }

    pub(crate) fn end(&self) {
        self.cluster.end(SourceIndex(0));
        wake(&self.news);
    }

    /// What becomes of the next commits, in order; `None` goes well.
    pub(crate) fn next_commits(&self, faults: impl IntoIterator<Item = Option<Fault>>) {
        self.faults.lock().unwrap().extend(faults);
    }

    /// Returns the committed values, in order.
    pub(crate) fn outputs(&self) -> Vec<String> {
        let text = |bytes: Option<Bytes>| String::from_utf8_lossy(&bytes.unwrap()).into_owned();
        self.cluster.outputs().into_iter().map(|record| text(record.value)).collect()
    }

    pub(crate) fn log(&self) -> Box<dyn Log> {
        Box::new(FaultyLog {
            log: self.cluster.log(),
            topics: self.clone(),
            seen: 0,
            stopping: Arc::default(),
        })
    }
}

fn wake(news: &(Mutex<u64>, Condvar)) {
    *news.0.lock().unwrap() += 1;
    news.1.notify_all();
}

struct FaultyLog {
    log: MemoryLog,
    topics: Topics,
    seen: u64,
    stopping: Arc<AtomicBool>,
}

impl FaultyLog {
    /// Waits for a broker that is not there, until it is to stop or has no patience left.
    fn wait_for_broker(&self) -> LogError {
        self.topics.waited.fetch_add(1, Ordering::SeqCst);
        let deadline = Instant::now() + Duration::from_secs(30);
        while !self.stopping.load(Ordering::SeqCst) {
            if Instant::now() >= deadline {
                self.topics.gave_up.fetch_add(1, Ordering::SeqCst);
                break;
            }
            std::thread::yield_now();
        }
        LogError::Doubt("no broker answers".to_owned())
    }
}

impl Log for FaultyLog {
    fn acquire(&mut self) -> Result<(), LogError> {
        match self.topics.is_absent.load(Ordering::SeqCst) {
            true => Err(self.wait_for_broker()),
            false => self.log.acquire(),
        }
    }

    fn heed(&mut self, stopping: &Arc<AtomicBool>) {
        self.stopping = Arc::clone(stopping);
    }

    fn committed(&mut self) -> Result<Vec<Option<CommittedOffset>>, LogError> {
        let committed = self.log.committed();
        let then = self.topics.meanwhile.lock().unwrap().take();
        if let Some(then) = then {
            then();
        }
        committed
    }

    fn read_journal(
        &mut self,
        from: i64,
        visit: &mut dyn FnMut(i64, Bytes) -> ControlFlow<()>,
    ) -> Result<i64, LogError> {
        self.log.read_journal(from, &mut |offset, chunk| {
            self.topics.journal_reads.fetch_add(1, Ordering::SeqCst);
            visit(offset, chunk)
        })
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
        let (count, changed) = &*self.topics.news;
        let count = count.lock().unwrap();
        let seen = self.seen;
        let (count, _) = changed.wait_timeout_while(count, at_most, |now| *now == seen).unwrap();
        self.seen = *count;
    }

    fn trimmer(&self) -> Option<Trimmer> {
        self.log.trimmer()
    }

    fn waker(&self) -> Waker {
        let news = Arc::clone(&self.topics.news);
        Arc::new(move || wake(&news))
    }

    fn commit(&mut self, transaction: &Transaction<'_>) -> Result<i64, LogError> {
        let fault = self.topics.faults.lock().unwrap().pop_front().flatten();
        match fault {
            None => self.log.commit(transaction),
            Some(Fault::AnswerLost) => {
                self.log.commit(transaction)?;
                Err(LogError::Doubt("the answer was lost".to_owned()))
            }
            Some(Fault::RequestLost) => Err(LogError::Doubt("the request was lost".to_owned())),
            Some(Fault::Fenced) => Err(LogError::Fenced("an old epoch".to_owned())),
            Some(Fault::Refused(partition)) => Err(LogError::Refused {
                topic: "main".to_owned(),
                partition,
                message: "too large".to_owned(),
            }),
            Some(Fault::Failed) => Err(LogError::Failed("no space left".to_owned())),
        }
    }
}

/// A store that outlives its lane, as a disk does, and whose applying can fail.
#[derive(Clone, Default)]
pub(crate) struct Disk {
    store: Arc<Mutex<MemoryStore>>,
    failures: Arc<AtomicU32>,
    is_damaged: Arc<AtomicBool>,
    is_stopped: Arc<AtomicBool>,
    is_stuck: Arc<AtomicBool>,
    pub(crate) opened: Arc<AtomicU32>,
    pub(crate) set_aside: Arc<AtomicU32>,
    pub(crate) sized: Arc<AtomicU32>,
    pub(crate) restored: Arc<AtomicU32>,
}

impl Disk {
    /// Lets the next applications fail.
    pub(crate) fn fail(&self, times: u32) {
        self.failures.store(times, Ordering::SeqCst);
    }

    /// Loses everything.
    pub(crate) fn lose(&self) {
        *self.store.lock().unwrap() = MemoryStore::default();
    }

    /// Lets every read find damage until the store is moved aside; its head can still be read.
    pub(crate) fn damage(&self) {
        self.is_damaged.store(true, Ordering::SeqCst);
    }

    /// Takes no epochs any more until it is opened again, as after a flush that failed.
    pub(crate) fn stop(&self) {
        self.is_stopped.store(true, Ordering::SeqCst);
    }

    /// Writes what it would freeze for ever.
    pub(crate) fn stick(&self, is_stuck: bool) {
        self.is_stuck.store(is_stuck, Ordering::SeqCst);
    }

    fn writable(&self) -> Result<(), StoreError> {
        match self.is_stopped.load(Ordering::SeqCst) {
            true => Err(StoreError::Unavailable("too many open files".to_owned())),
            false => Ok(()),
        }
    }

    fn readable(&self) -> Result<MutexGuard<'_, MemoryStore>, StoreError> {
        match self.is_damaged.load(Ordering::SeqCst) {
            true => Err(StoreError::Corrupt("block checksum mismatch".to_owned())),
            false => Ok(self.store.lock().unwrap()),
        }
    }
}

impl OpenStore for Disk {
    fn open(&mut self, _: &ExpiryTable) -> Result<Box<dyn StateStore>, StoreError> {
        self.opened.fetch_add(1, Ordering::SeqCst);
        self.is_stopped.store(false, Ordering::SeqCst);
        Ok(Box::new(self.clone()))
    }

    fn set_expiry(&mut self, _: &ExpiryTable) {}

    fn restore(&mut self) -> Result<Box<dyn Restoring + '_>, StoreError> {
        self.restored.fetch_add(1, Ordering::SeqCst);
        Ok(Box::new(Thawing { disk: self, content: Vec::new() }))
    }

    fn set_aside(&mut self, _: &str) -> Result<(), StoreError> {
        self.set_aside.fetch_add(1, Ordering::SeqCst);
        self.is_damaged.store(false, Ordering::SeqCst);
        self.lose();
        Ok(())
    }
}

struct Thawing<'a> {
    disk: &'a Disk,
    content: Vec<u8>,
}

impl Restoring for Thawing<'_> {
    fn create<'a>(&'a mut self, _: &str) -> Result<Box<dyn Write + 'a>, StoreError> {
        Ok(Box::new(&mut self.content))
    }

    fn finish(self: Box<Self>) -> Result<(), StoreError> {
        let content = Bytes::from(self.content);
        *self.disk.store.lock().unwrap() = MemoryStore::thaw(&content).unwrap();
        Ok(())
    }
}

impl StateStore for Disk {
    fn freeze(&mut self) -> Result<Option<Box<dyn Frozen>>, StoreError> {
        self.writable()?;
        match self.is_stuck.load(Ordering::SeqCst) {
            true => Ok(None),
            false => self.readable()?.freeze(),
        }
    }

    fn get(&mut self, row: &[u8]) -> Result<Option<Bytes>, StoreError> {
        self.readable()?.get(row)
    }

    fn scan(&mut self, from: &[u8], to: &[u8], visit: &mut Visit<'_>) -> Result<(), StoreError> {
        self.readable()?.scan(from, to, visit)
    }

    fn apply(
        &mut self,
        changes: &mut dyn Iterator<Item = (&[u8], Option<&[u8]>)>,
        head: &[u8],
        clocks: Clocks,
    ) -> Result<(), StoreError> {
        self.writable()?;
        let left = self.failures.load(Ordering::SeqCst);
        if left > 0 {
            self.failures.store(left - 1, Ordering::SeqCst);
            return Err(StoreError::Unavailable("the disk is full".to_owned()));
        }
        self.store.lock().unwrap().apply(changes, head, clocks)
    }

    fn head(&mut self) -> Result<Option<Bytes>, StoreError> {
        self.store.lock().unwrap().head()
    }

    fn flush(&mut self) -> Result<(), StoreError> {
        Ok(())
    }

    fn size(&self) -> StateSize {
        self.sized.fetch_add(1, Ordering::SeqCst);
        self.store.lock().unwrap().size()
    }

    fn clear(&mut self) -> Result<(), StoreError> {
        self.store.lock().unwrap().clear()
    }
}

pub(crate) fn lane_setup(lane: u16, topics: &Topics, disk: &Disk) -> LaneSetup {
    LaneSetup {
        lane: LaneId(lane),
        sources: vec![Source { input: InputIndex(0), partition: Partition(lane) }],
        log: topics.log(),
        decoder: Box::new(|_: Source, record: Record| {
            let key = record.key.clone().map(Key);
            DecodedRecord { record, decoding: Decoding::Ready { key, time: None } }
        }),
        stores: Box::new(disk.clone()),
    }
}

/// A lane that is driven by hand, with a clock that is moved by hand.
pub(crate) struct Driven {
    pub(crate) driver: LaneDriver,
    pub(crate) handle: Handle,
    pub(crate) clock: ManualClock,
}

pub(crate) fn attempts(from: u128) -> AttemptSource {
    let mut next = from;
    Box::new(move || {
        next += 1;
        Attempt(next)
    })
}

impl Driven {
    pub(crate) fn new(topics: &Topics, disk: &Disk, setup: &PipelineSetup, attempt: u128) -> Self {
        Self::of_lane(0, topics, disk, setup, attempt)
    }

    pub(crate) fn of_lane(
        lane: u16,
        topics: &Topics,
        disk: &Disk,
        setup: &PipelineSetup,
        attempt: u128,
    ) -> Self {
        let parts = lane_setup(lane, topics, disk);
        let keys = Arc::new(KeyWatch::new(setup.names()));
        let (port, commands) = LanePort::new(LaneId(lane), parts.log.waker(), 0);
        let handle = Handle::new(setup, vec![Arc::clone(&port)], Arc::clone(&keys));
        let attempts = attempts(attempt);
        let driver = LaneDriver::new(parts, setup.clone(), (port, commands), keys, attempts);
        Self { driver, handle, clock: ManualClock(1_000) }
    }

    /// Drives until there is nothing to do at this time; returns how it ended, if it did.
    pub(crate) fn settle(&mut self) -> Option<LaneEnd> {
        for _ in 0..1_000 {
            match self.driver.advance(&mut self.clock) {
                Advance::Again => {}
                Advance::Wait(until) if until.is_some_and(|until| until <= self.clock.0) => {}
                Advance::Wait(_) => return None,
                Advance::Ended(end) => return Some(end),
            }
        }
        panic!("the lane does not come to rest");
    }

    /// Drives, jumping from deadline to deadline, for that long.
    pub(crate) fn run_for(&mut self, ms: i64) -> Option<LaneEnd> {
        let end = self.clock.0 + ms;
        for _ in 0..10_000 {
            match self.driver.advance(&mut self.clock) {
                Advance::Again => {}
                Advance::Wait(until) => {
                    let next = until.filter(|until| *until < end).unwrap_or(end);
                    if next >= end && self.clock.0 >= end {
                        return None;
                    }
                    self.clock.0 = self.clock.0.max(next);
                }
                Advance::Ended(end) => return Some(end),
            }
        }
        panic!("the lane does not come to rest");
    }
}
