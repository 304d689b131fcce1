//! What the system asks of the process: to end.
//!
//! Knows nothing of pipelines: it calls what it was given, on a thread of its own.

use std::{io, thread};

use tokio::signal::unix::{SignalKind, signal};

/// Calls `first` at the first SIGTERM or SIGINT and `again` at each later one, until the process
/// ends.
///
/// # Errors
///
/// When the system gives no thread, or does not let us handle signals.
pub fn on_termination(
    first: impl FnOnce() + Send + 'static,
    again: impl Fn() + Send + 'static,
) -> io::Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_io().build()?;
    let (mut terminate, mut interrupt) = {
        let _entered = runtime.enter();
        (signal(SignalKind::terminate())?, signal(SignalKind::interrupt())?)
    };
    thread::Builder::new().name("signals".to_owned()).spawn(move || {
        runtime.block_on(async {
            let mut first = Some(first);
            loop {
                tokio::select! {
                    _ = terminate.recv() => {}
                    _ = interrupt.recv() => {}
                }
                match first.take() {
                    Some(first) => first(),
                    None => again(),
                }
            }
        });
    })?;
    Ok(())
}
