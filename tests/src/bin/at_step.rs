//! The binary `dovetail` with all of its wiring, that sends itself a signal at a step it reports, or
//! takes its time there.
//!
//! Goal: a process dies or stands still exactly between two steps of a commit, or one of its threads
//! is slow in one, without a hook in the product. Method: the host says at level trace which step is done (field `step`); here
//! another subscriber listens, on the very thread that does the next step.
//!
//! `DOVETAIL_AT_STEP=STEP:COUNT:SIGNAL:MICROSECONDS`: which report of that step it is, which signal
//! is sent (KILL or STOP), and how long after. With WAIT in place of a signal the thread that
//! reports stands for so long.

use std::fmt::Debug;
use std::process::ExitCode;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail};
use signal_hook::consts::signal::{SIGKILL, SIGSTOP};
use tracing::field::{Field, Visit};
use tracing::{Event, Level, Subscriber};
use tracing_subscriber::filter::{LevelFilter, Targets};
use tracing_subscriber::layer::{Context, Layer, SubscriberExt as _};
use tracing_subscriber::util::SubscriberInitExt as _;

const VARIABLE: &str = "DOVETAIL_AT_STEP";

fn main() -> Result<ExitCode> {
    let at_step = AtStep::from_environment()?;
    let said = tracing_subscriber::fmt::layer()
        .with_writer(std::io::stderr)
        .json()
        .flatten_event(true)
        .with_current_span(false)
        .with_span_list(false)
        .with_filter(LevelFilter::INFO);
    let steps = Targets::new()
        .with_target("dovetail_kafka", Level::TRACE)
        .with_target("dovetail_runtime", Level::TRACE);
    // The first subscriber stays when the host starts its own.
    tracing_subscriber::registry().with(said).with(at_step.with_filter(steps)).try_init()?;
    Ok(dovetail::cli::main())
}

struct AtStep {
    step: String,
    left: AtomicU64,
    /// `None`: the thread waits.
    signal: Option<i32>,
    after: Duration,
}

impl AtStep {
    fn from_environment() -> Result<Self> {
        let text = std::env::var(VARIABLE).with_context(|| format!("{VARIABLE} is not set"))?;
        let [step, count, signal, after] = text.split(':').collect::<Vec<_>>()[..] else {
            bail!("expected {VARIABLE}=STEP:COUNT:SIGNAL:MICROSECONDS, found {text:?}");
        };
        let signal = match signal {
            "KILL" => Some(SIGKILL),
            "STOP" => Some(SIGSTOP),
            "WAIT" => None,
            other => bail!("expected KILL, STOP or WAIT, found {other:?}"),
        };
        let left = AtomicU64::new(count.parse().context("read the count")?);
        let after = Duration::from_micros(after.parse().context("read the microseconds")?);
        Ok(Self { step: step.to_owned(), left, signal, after })
    }
}

impl<S: Subscriber> Layer<S> for AtStep {
    fn on_event(&self, event: &Event<'_>, _context: Context<'_, S>) {
        let mut names = Names { step: &self.step, is_found: false };
        event.record(&mut names);
        if !names.is_found || self.left.fetch_sub(1, Ordering::Relaxed) != 1 {
            return;
        }
        let after = self.after;
        let Some(signal) = self.signal else {
            wait(after);
            return;
        };
        if after.is_zero() {
            send(signal);
        } else {
            // The thread that reports goes on meanwhile.
            std::thread::spawn(move || {
                std::thread::park_timeout(after);
                send(signal);
            });
        }
    }
}

fn wait(duration: Duration) {
    let begin = Instant::now();
    while let Some(left) = duration.checked_sub(begin.elapsed()) {
        std::thread::park_timeout(left);
    }
}

fn send(signal: i32) {
    if let Err(error) = signal_hook::low_level::raise(signal) {
        tracing::error!("signal {signal} could not be sent: {error}");
    }
}

/// Whether a report is of that step.
struct Names<'a> {
    step: &'a str,
    is_found: bool,
}

impl Visit for Names<'_> {
    fn record_str(&mut self, field: &Field, value: &str) {
        self.is_found |= field.name() == "step" && value == self.step;
    }

    fn record_debug(&mut self, _field: &Field, _value: &dyn Debug) {}
}
