//! The admin port: taken before anything else is, and who has it when it is taken.

use std::{
    fmt, fs,
    net::{SocketAddr, TcpListener},
    time::Duration,
};

use serde_json::Value;

use crate::failure::Failure;

/// How long a stranger on the port may take to say which pipeline it is.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(1);
/// How `/proc/net/tcp` writes the state of a listening socket.
const LISTENING: &str = "0A";

/// Takes the port.
///
/// # Errors
///
/// When it is taken, with what is known of who has it, or not ours to take.
pub(super) fn bind(listen: SocketAddr) -> Result<TcpListener, Failure> {
    dovetail_admin::bind(listen).map_err(|error| {
        let holder = holder(listen).map_or_else(String::new, |it| format!(" ({it} has it)"));
        Failure::configuration(format!("{error}{holder}"))
    })
}

/// Who listens on a port of this machine, so far as can be found out; at least one is known.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Holder {
    pipeline: Option<String>,
    process: Option<String>,
}

impl Holder {
    /// Returns whether it is this pipeline.
    #[must_use]
    pub fn is(&self, pipeline: &str) -> bool {
        self.pipeline.as_deref() == Some(pipeline)
    }
}

impl fmt::Display for Holder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (&self.pipeline, &self.process) {
            (Some(pipeline), Some(process)) => write!(f, "the pipeline `{pipeline}`, {process},"),
            (Some(pipeline), None) => write!(f, "the pipeline `{pipeline}`"),
            (None, process) => f.write_str(process.as_deref().unwrap_or_default()),
        }
    }
}

/// Returns who listens on a port of this machine.
#[must_use]
pub fn holder(listen: SocketAddr) -> Option<Holder> {
    let holder = Holder { pipeline: pipeline(listen), process: process(listen.port()) };
    (holder.pipeline.is_some() || holder.process.is_some()).then_some(holder)
}

/// Asks whoever listens whether it is a pipeline.
fn pipeline(listen: SocketAddr) -> Option<String> {
    let agent: ureq::Agent =
        ureq::Agent::config_builder().timeout_global(Some(ANSWER_TIMEOUT)).build().into();
    let mut answer = agent.get(format!("http://{listen}/api/v1/status")).call().ok()?;
    let status: Value = serde_json::from_str(&answer.body_mut().read_to_string().ok()?).ok()?;
    status.get("pipeline").and_then(Value::as_str).map(str::to_owned)
}

/// Finds the process that listens on a port (on Linux, where it is ours to see).
fn process(port: u16) -> Option<String> {
    let sockets = listening_sockets(port);
    if sockets.is_empty() {
        return None;
    }
    let processes = fs::read_dir("/proc").ok()?.filter_map(Result::ok);
    for process in processes {
        let Ok(pid) = process.file_name().to_string_lossy().parse::<u32>() else { continue };
        let Ok(files) = fs::read_dir(process.path().join("fd")) else { continue };
        let mut links = files.filter_map(|file| fs::read_link(file.ok()?.path()).ok());
        if links.any(|link| sockets.iter().any(|socket| link.as_os_str() == socket.as_str())) {
            let name = fs::read_to_string(process.path().join("comm")).unwrap_or_default();
            return Some(format!("process {pid} {}", name.trim()).trim_end().to_owned());
        }
    }
    None
}

/// Returns the listening sockets of a port as `/proc/PID/fd` names them.
fn listening_sockets(port: u16) -> Vec<String> {
    let tables = ["/proc/net/tcp", "/proc/net/tcp6"].map(fs::read_to_string);
    let tables = tables.into_iter().filter_map(Result::ok);
    let end = format!(":{port:04X}");
    let socket = |line: &str| {
        let fields: Vec<&str> = line.split_whitespace().collect();
        let is_it = fields.get(1)?.ends_with(&end) && *fields.get(3)? == LISTENING;
        is_it.then(|| fields.get(9).map(|inode| format!("socket:[{inode}]")))?
    };
    tables.flat_map(|table| table.lines().filter_map(socket).collect::<Vec<_>>()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_taken_port_is_refused_with_the_process_that_has_it() {
        let taken = TcpListener::bind("127.0.0.1:0").unwrap();
        let refused = bind(taken.local_addr().unwrap()).unwrap_err().message;
        assert!(refused.contains("admin.listen"), "{refused}");
        if cfg!(target_os = "linux") {
            let process = format!("process {} ", std::process::id());
            assert!(refused.contains(&process), "{refused}");
        }
    }
}
