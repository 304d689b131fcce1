//! What the process says of itself while it runs: text on a terminal, JSON lines elsewhere.

use std::io::{self, IsTerminal as _};

use tracing_subscriber::EnvFilter;

use crate::cli::terminal::use_color;

/// The variable that says what is logged.
const FILTER_VARIABLE: &str = "DOVETAIL_LOG";

/// Starts logging to standard error. Called once, by `run`.
pub fn start() {
    let filter =
        EnvFilter::try_from_env(FILTER_VARIABLE).unwrap_or_else(|_unset| EnvFilter::new("info"));
    // A line that cannot be written would be told on the same broken stream, which panics: a full
    // disk under the log, or a reader that went away, must not end the pipeline.
    let builder = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(io::stderr)
        .log_internal_errors(false);
    let is_terminal = io::stderr().is_terminal();
    let started = if is_terminal {
        builder.with_target(false).with_ansi(use_color(true)).try_init()
    } else {
        builder.json().flatten_event(true).with_current_span(false).with_span_list(false).try_init()
    };
    // Only a test that starts twice gets here with an error; the first subscriber stays.
    drop(started);
}
