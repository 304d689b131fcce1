//! The benchmark's workload: generates the two inputs, paces them, and checks what a join made of them.
//!
//! Reading order: `stream` (what happens, in which order), `expectation` (what must come out),
//! then one module per command. README.md has the record formats and the join's logic.
#![expect(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "standard output is the result: one JSON line per measurement"
)]
#![expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "counts and milliseconds of a benchmark stay far below 2^53"
)]

mod broker;
mod expectation;
mod latency;
mod load;
mod process;
mod stream;
mod verify;
mod wait;

use anyhow::{Context, Result, bail};
use std::process::ExitCode;

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match run(&arguments) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error:#}");
            ExitCode::from(2)
        }
    }
}

fn run(arguments: &[String]) -> Result<()> {
    let (command, rest) = arguments.split_first().context("see README.md for the commands")?;
    let a = Arguments(rest);
    match command.as_str() {
        "topics" => broker::create_topics(a.text(0)?, &a.texts_from(1)),
        "delete" => broker::delete_topics(a.text(0)?, &a.texts_from(1)),
        "load" => load::load(&a.inputs()?, a.number(3)?, a.number(4)?, a.number(5)?),
        "pace" => load::pace(&a.inputs()?, a.number(3)?, a.number(4)?, a.number(5)?),
        "wait" => wait::wait(&wait::Wait {
            brokers: a.text(0)?,
            output: a.text(1)?,
            expected: a.number(2)? as i64,
            events: a.number(3)? as f64,
            mark: a.text(4)?,
            peer: a.text(5)?,
            broker: a.text(6)?,
            limit_s: a.number(7)?,
        }),
        "verify" => verify::verify(a.text(0)?, a.text(1)?, a.number(2)?, a.text(3)?),
        "latency" => latency::latency(&latency::Latency {
            brokers: a.text(0)?,
            output: a.text(1)?,
            seconds: a.number(2)?,
            skip_before_ms: a.number(3)?,
            isolation: a.text(4)?,
            series: a.text(5)?,
            label: a.text(6)?,
        }),
        "cpu" => {
            let pid = a.text(0)?;
            println!("{:.2} {}", process::cpu_seconds(pid), process::peak_rss_mb(pid));
            Ok(())
        }
        other => bail!("unknown command {other}; see README.md"),
    }
}

/// What follows the command, read by position.
struct Arguments<'a>(&'a [String]);

impl<'a> Arguments<'a> {
    fn text(&self, index: usize) -> Result<&'a str> {
        self.0.get(index).map(String::as_str).context("see README.md for the commands")
    }

    fn texts_from(&self, index: usize) -> Vec<&'a str> {
        self.0.iter().skip(index).map(String::as_str).collect()
    }

    fn number(&self, index: usize) -> Result<u64> {
        let text = self.text(index)?;
        text.parse().with_context(|| format!("expected a number, found {text}"))
    }

    fn inputs(&self) -> Result<load::Inputs<'a>> {
        Ok(load::Inputs {
            brokers: self.text(0)?,
            dimensions: self.text(1)?,
            behaviours: self.text(2)?,
        })
    }
}
