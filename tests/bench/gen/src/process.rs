//! What the kernel says about a process: CPU time, memory, load.

use std::path::Path;

/// Ticks per second of the times in `/proc/PID/stat`; the kernel promises programs this value.
const TICKS_PER_SECOND: f64 = 100.0;

/// User and system CPU seconds so far; 0 for a process that is gone.
pub(crate) fn cpu_seconds(pid: &str) -> f64 {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    // The name, in parentheses, may contain blanks: count the fields behind it.
    let fields: Vec<&str> = stat.rsplit(')').next().unwrap_or("").split_whitespace().collect();
    let ticks =
        |index: usize| -> f64 { fields.get(index).and_then(|v| v.parse().ok()).unwrap_or(0.0) };
    (ticks(11) + ticks(12)) / TICKS_PER_SECOND
}

/// The highest resident size so far, in MiB.
pub(crate) fn peak_rss_mb(pid: &str) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let kib: u64 = status
        .lines()
        .find(|line| line.starts_with("VmHWM"))
        .and_then(|line| line.split_whitespace().nth(1))
        .and_then(|value| value.parse().ok())
        .unwrap_or(0);
    kib / 1024
}

pub(crate) fn is_running(pid: &str) -> bool {
    Path::new(&format!("/proc/{pid}")).exists()
}

/// The machine's load over the last minute, as text.
pub(crate) fn load_average() -> String {
    let text = std::fs::read_to_string("/proc/loadavg").unwrap_or_default();
    text.split(' ').next().unwrap_or("").to_owned()
}
