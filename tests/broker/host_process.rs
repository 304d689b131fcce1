//! The binary `dovetail` as users start it: a pipeline file, processes, what they say and how they
//! end. No process outlives its owner.

use std::fs;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use dovetail_tests::broker::{Client, shared, unique_name};
use dovetail_tests::workspace;
use serde_json::Value;
use tempfile::TempDir;

/// Limit for everything that must come; long, because the machine may be busy.
pub(crate) const LIMIT: Duration = Duration::from_secs(120);

/// The binary beside this test's own.
pub(crate) fn binary() -> PathBuf {
    binary_named("dovetail")
}

fn binary_named(name: &str) -> PathBuf {
    let test = std::env::current_exe().unwrap();
    let binary = test.parent().unwrap().with_file_name(name);
    assert!(
        binary.exists(),
        "{} is missing: `cargo build --release --workspace --bins` makes it",
        binary.display()
    );
    binary
}

/// The component of plugin `order-payment`, built once per test process.
pub(crate) fn order_payment() -> &'static [u8] {
    static COMPONENT: OnceLock<Vec<u8>> = OnceLock::new();
    COMPONENT.get_or_init(|| component("plugins/order-payment"))
}

/// Builds the plugin in that folder of the repository.
pub(crate) fn component(of: &str) -> Vec<u8> {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("plugin.wasm");
    let mut build = Command::new(binary());
    build.arg("build").arg(workspace::root().join(of)).arg("--out").arg(&file);
    let built = build.output().unwrap();
    assert!(built.status.success(), "{}", String::from_utf8_lossy(&built.stderr));
    fs::read(&file).unwrap()
}

/// A revision of `order-payment` that marks its results: they say `PAI2` for 2, and so on.
pub(crate) fn marked(mark: u8) -> Vec<u8> {
    let mut bytes = order_payment().to_vec();
    let word = b"PAID\"";
    let places: Vec<usize> =
        (0..bytes.len() - word.len()).filter(|at| bytes[*at..].starts_with(word)).collect();
    assert!(!places.is_empty(), "the component has no constant `PAID`");
    for at in places {
        bytes[at + 3] = b'0' + mark;
    }
    bytes
}

/// A pipeline of its own: topics, folder and file.
pub(crate) struct Pipeline {
    pub(crate) name: String,
    pub(crate) client: Client,
    folder: TempDir,
    brokers: String,
}

impl Pipeline {
    /// Makes the topics `<name>.orders` and so on, with that many partitions each, and the plugin
    /// file.
    pub(crate) fn create(partitions: i32) -> Self {
        let pipeline = Self::without_topics();
        pipeline.create_topics(partitions);
        pipeline
    }

    pub(crate) fn create_topics(&self, partitions: i32) {
        for topic in ["orders", "payments", "results", "late"] {
            self.client.create_topic(&self.topic(topic), partitions, &[]).unwrap();
        }
    }

    /// A pipeline whose topics are not there yet.
    pub(crate) fn without_topics() -> Self {
        Self::on(&shared().unwrap())
    }

    /// The same on another cluster.
    pub(crate) fn on(brokers: &str) -> Self {
        let (client, brokers) = (Client::new(brokers), brokers.to_owned());
        let folder = tempfile::tempdir().unwrap();
        let pipeline = Self { name: unique_name("host"), client, folder, brokers };
        pipeline.replace_plugin(order_payment());
        pipeline
    }

    pub(crate) fn brokers(&self) -> &str {
        &self.brokers
    }

    pub(crate) fn topic(&self, name: &str) -> String {
        format!("{}.{name}", self.name)
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Replaces the plugin file in one step.
    pub(crate) fn replace_plugin(&self, bytes: &[u8]) {
        let new = self.path("plugin.wasm.new");
        fs::write(&new, bytes).unwrap();
        fs::rename(new, self.path("plugin.wasm")).unwrap();
    }

    /// The pipeline file's text: sources never go idle, so that time depends on records alone.
    pub(crate) fn text(&self) -> String {
        let Self { name, brokers, .. } = self;
        format!(
            "pipeline: {name}\n\
             kafka: {{ brokers: \"{brokers}\", transaction_timeout: 10s }}\n\
             inputs:\n\
             \x20 orders:\n\
             \x20   topic: {name}.orders\n\
             \x20   key:  {{ from: value, path: $.order_id, type: string }}\n\
             \x20   time: {{ from: value, path: $.ts, unit: ms, out_of_orderness: 2s, idle_after: never }}\n\
             \x20   start: earliest\n\
             \x20 payments:\n\
             \x20   topic: {name}.payments\n\
             \x20   key:  {{ from: value, path: $.order_id, type: string }}\n\
             \x20   time: {{ from: value, path: $.ts, unit: ms, out_of_orderness: 2s, idle_after: never }}\n\
             \x20   start: earliest\n\
             plugin:\n\
             \x20 file: plugin.wasm\n\
             \x20 inputs: {{ order: orders, payment: payments }}\n\
             \x20 config:\n\
             \x20   within: 10s\n\
             \x20   result: {{ order_id: order.order_id, paid: payment.paid, status: status }}\n\
             outputs:\n\
             \x20 main: {{ topic: {name}.results }}\n\
             \x20 late: {{ topic: {name}.late }}\n\
             state: {{ dir: state }}\n\
             admin: {{ listen: \"127.0.0.1:0\" }}\n"
        )
    }

    /// Writes a pipeline file and returns its path.
    pub(crate) fn file(&self, name: &str, text: &str) -> PathBuf {
        let path = self.path(name);
        fs::write(&path, text).unwrap();
        path
    }

    /// Starts a host on the plain pipeline file.
    pub(crate) fn run(&self) -> Host {
        self.run_text("pipeline.yaml", &self.text())
    }

    /// Starts a host on a pipeline file with that text.
    pub(crate) fn run_text(&self, name: &str, text: &str) -> Host {
        Host::start(&self.file(name, text))
    }

    /// Deletes the state directory; a host that was killed early has not made it yet.
    pub(crate) fn delete_state(&self) {
        if self.path("state").exists() {
            fs::remove_dir_all(self.path("state")).unwrap();
        }
    }
}

/// Runs a command of the binary to its end.
pub(crate) fn dovetail(arguments: &[&str]) -> Output {
    Command::new(binary()).args(arguments).env_remove("DOVETAIL_URL").output().unwrap()
}

/// What a process has said so far, and whether it is still there.
#[derive(Default)]
struct Said {
    lines: Vec<String>,
    has_ended: bool,
}

/// What a process does once it has reported a step that often: sends itself a signal, or waits.
#[derive(Debug, Clone)]
pub(crate) struct AtStep {
    pub(crate) step: &'static str,
    /// From 1 on, over all lanes of the process.
    pub(crate) count: u64,
    /// `KILL` or `STOP`; `WAIT`: the thread that has reported stands for as long as `after` says.
    pub(crate) signal: &'static str,
    /// How long after the report; zero: before the next step begins.
    pub(crate) after: Duration,
}

/// A running `dovetail run`; dropping it kills it.
pub(crate) struct Host {
    child: Child,
    said: Arc<(Mutex<Said>, Condvar)>,
    reader: Option<JoinHandle<()>>,
}

impl Host {
    pub(crate) fn start(file: &Path) -> Self {
        Self::start_command(&mut Command::new(binary()), file)
    }

    /// Starts one that sends itself a signal (`tests/src/bin/at_step.rs`).
    pub(crate) fn start_at_step(file: &Path, at: &AtStep) -> Self {
        let AtStep { step, count, signal, after } = at;
        let at = format!("{step}:{count}:{signal}:{}", after.as_micros());
        let mut command = Command::new(binary_named("dovetail-at-step"));
        Self::start_command(command.env("DOVETAIL_AT_STEP", at), file)
    }

    /// Starts one whose writes fail, instead of ending it, once its files may grow no more.
    pub(crate) fn start_on_a_disk_that_fills(file: &Path) -> Self {
        let ignoring = "trap '' XFSZ; exec \"$0\" \"$@\"";
        let mut command = Command::new("sh");
        Self::start_command(command.arg("-c").arg(ignoring).arg(binary()), file)
    }

    fn start_command(command: &mut Command, file: &Path) -> Self {
        let mut child = command
            .arg("run")
            .arg(file)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let lines = BufReader::new(child.stderr.take().unwrap()).lines();
        let said = Arc::new((Mutex::new(Said::default()), Condvar::new()));
        let told = Arc::clone(&said);
        let reader = std::thread::spawn(move || {
            let (said, changed) = &*told;
            for line in lines.map_while(Result::ok) {
                lock(said).lines.push(line);
                changed.notify_all();
            }
            // Only the end of the process closes its standard error.
            lock(said).has_ended = true;
            changed.notify_all();
        });
        Self { child, said, reader: Some(reader) }
    }

    /// Everything that it has said.
    pub(crate) fn text(&self) -> String {
        lock(&self.said.0).lines.join("\n")
    }

    /// Waits for a line with that text in it.
    pub(crate) fn wait_for(&self, text: &str) -> String {
        let has_come = |said: &Said| said.lines.iter().any(|line| line.contains(text));
        let said = self.wait_until(LIMIT, |said| said.has_ended || has_come(said));
        let line = said.lines.iter().find(|line| line.contains(text)).cloned();
        drop(said);
        line.unwrap_or_else(|| panic!("nothing said {text:?}:\n{}", self.text()))
    }

    /// Waits until it has begun; returns `HOST:PORT` of the admin port.
    pub(crate) fn admin(&self) -> String {
        let line: Value = serde_json::from_str(&self.wait_for(" on http://")).unwrap();
        let (_, admin) = line["message"].as_str().unwrap().split_once(" on http://").unwrap();
        admin.to_owned()
    }

    /// Waits until it has acquired every lane; returns `HOST:PORT` of the admin port.
    pub(crate) fn wait_for_lanes(&self) -> String {
        let admin = self.admin();
        wait_for_status(&admin, |status| {
            let lanes = status["lanes"].as_array().unwrap();
            lanes.iter().all(|lane| lane["phase"] == "running" && lane["epoch"].is_u64())
        });
        admin
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Waits until it handles SIGTERM.
    pub(crate) fn wait_for_handler(&self) {
        const SIGTERM: u64 = 1 << 14;
        let begin = Instant::now();
        let status = PathBuf::from(format!("/proc/{}/status", self.pid()));
        let caught = || {
            let status = fs::read_to_string(&status).ok()?;
            let mask = status.lines().find_map(|line| line.strip_prefix("SigCgt:"))?;
            u64::from_str_radix(mask.trim(), 16).ok()
        };
        while caught().is_none_or(|mask| mask & SIGTERM == 0) {
            assert!(begin.elapsed() < LIMIT && !lock(&self.said.0).has_ended, "{}", self.text());
            std::thread::park_timeout(Duration::from_millis(1));
        }
    }

    /// SIGKILL.
    pub(crate) fn kill(mut self) {
        self.child.kill().unwrap();
        self.wait_exit(LIMIT);
    }

    /// SIGTERM.
    pub(crate) fn terminate(&self) {
        self.signal("TERM");
    }

    /// Lets it go on after a SIGSTOP.
    pub(crate) fn go_on(&self) {
        self.signal("CONT");
    }

    fn signal(&self, name: &str) {
        let sent =
            Command::new("kill").arg(format!("-{name}")).arg(self.pid().to_string()).status();
        assert!(sent.unwrap().success());
    }

    /// Waits until it stands still after a SIGSTOP.
    pub(crate) fn wait_for_standstill(&self) {
        wait_until("the standstill", || {
            let stat = fs::read_to_string(format!("/proc/{}/stat", self.pid())).unwrap();
            let (_, rest) = stat.rsplit_once(')').unwrap();
            rest.trim_start().starts_with('T')
        });
    }

    /// SIGTERM, and its end with exit code 0.
    pub(crate) fn stop(mut self) {
        self.terminate();
        assert_eq!(self.wait_exit(LIMIT), Some(0), "{}", self.text());
    }

    /// Whether it has ended.
    pub(crate) fn has_ended(&self) -> bool {
        lock(&self.said.0).has_ended
    }

    /// Whether it ends within that time.
    pub(crate) fn ends_within(&self, limit: Duration) -> bool {
        self.wait_until(limit, |said| said.has_ended).has_ended
    }

    /// Waits for its end; returns the exit code, `None` after a signal.
    pub(crate) fn wait_exit(&mut self, limit: Duration) -> Option<i32> {
        let has_ended = self.wait_until(limit, |said| said.has_ended).has_ended;
        assert!(has_ended, "still running after {limit:?}:\n{}", self.text());
        if let Some(reader) = self.reader.take() {
            reader.join().unwrap();
        }
        self.child.wait().unwrap().code()
    }

    fn wait_until(
        &self,
        limit: Duration,
        is_enough: impl Fn(&Said) -> bool,
    ) -> MutexGuard<'_, Said> {
        let (said, changed) = &*self.said;
        let waiting = changed.wait_timeout_while(lock(said), limit, |said| !is_enough(said));
        waiting.unwrap_or_else(PoisonError::into_inner).0
    }
}

impl Drop for Host {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("the host said:\n{}\n{}", self.text(), doing(self.pid()));
        }
        // It may have ended already.
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

/// For each thread of a process its name, state and where in the kernel it waits.
fn doing(pid: u32) -> String {
    let read = |path: PathBuf| fs::read_to_string(path).unwrap_or_default();
    let threads = fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten();
    let thread = |thread: fs::DirEntry| {
        let stat = read(thread.path().join("stat"));
        let (name, rest) = stat.rsplit_once(')').unwrap_or_default();
        let state = rest.trim_start().chars().next().unwrap_or('?');
        format!("{name}) {state} {}\n", read(thread.path().join("wchan")))
    };
    threads.map(thread).collect()
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Waits until something holds that only asking shows.
pub(crate) fn wait_until(what: &str, mut holds: impl FnMut() -> bool) {
    let begin = Instant::now();
    while !holds() {
        assert!(begin.elapsed() < LIMIT, "{what} did not come");
        std::thread::park_timeout(Duration::from_millis(50));
    }
}

/// Status and body of `GET path`.
pub(crate) fn get(admin: &str, path: &str) -> (u16, String) {
    let mut stream = TcpStream::connect(admin).unwrap();
    stream.set_read_timeout(Some(LIMIT)).unwrap();
    write!(stream, "GET {path} HTTP/1.0\r\n\r\n").unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    let code = head.split(' ').nth(1).unwrap().parse().unwrap();
    (code, body.to_owned())
}

/// The value of a metric that has these labels.
pub(crate) fn metric(metrics: &str, name: &str, labels: &[&str]) -> Option<f64> {
    let is_meant = |line: &&str| {
        let is_named = line.strip_prefix(name).is_some_and(|rest| rest.starts_with(['{', ' ']));
        is_named && labels.iter().all(|label| line.contains(label))
    };
    let line = metrics.lines().find(is_meant)?;
    Some(line.rsplit_once(' ')?.1.parse().unwrap())
}

/// Asks until the status is as wanted; says the last one otherwise.
pub(crate) fn wait_for_status(admin: &str, is_wanted: impl Fn(&Value) -> bool) -> Value {
    let status = |body: &str| serde_json::from_str::<Value>(body).unwrap();
    let is_wanted = |(_, body): &(u16, String)| is_wanted(&status(body));
    status(&wait_for_answer(admin, "/api/v1/status", is_wanted).1)
}

/// Asks until status and body are as wanted; says the last ones otherwise.
pub(crate) fn wait_for_answer(
    admin: &str,
    path: &str,
    is_wanted: impl Fn(&(u16, String)) -> bool,
) -> (u16, String) {
    let begin = Instant::now();
    loop {
        let answer = get(admin, path);
        if is_wanted(&answer) {
            return answer;
        }
        assert!(begin.elapsed() < LIMIT, "the answer did not come: {answer:?}");
        std::thread::park_timeout(Duration::from_millis(20));
    }
}
