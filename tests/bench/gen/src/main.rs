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
mod steps;
mod stream;
mod verify;
mod wait;

use anyhow::{Context, Result, bail};
use std::process::ExitCode;

use crate::stream::Workload;

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
    let (workload, arguments) = workload(arguments)?;
    let (command, rest) = arguments.split_first().context("see README.md for the commands")?;
    let a = Arguments(rest, workload);
    match command.as_str() {
        "topics" => broker::create_topics(a.text(0)?, &a.texts_from(1), workload.partitions),
        "delete" => broker::delete_topics(a.text(0)?, &a.texts_from(1)),
        "load" => load::load(&a.inputs()?, a.number(3)?, a.number(4)?, a.number(5)?),
        "pace" => load::pace(&a.inputs()?, a.number(3)?, a.number(4)?, a.number(5)?),
        "wait" => wait::wait(&wait::Wait {
            partitions: workload.partitions,
            brokers: a.text(0)?,
            output: a.text(1)?,
            expected: a.number(2)? as i64,
            events: a.number(3)? as f64,
            mark: a.text(4)?,
            peer: a.text(5)?,
            broker: a.text(6)?,
            limit_s: a.number(7)?,
        }),
        "verify" => {
            verify::verify(workload.partitions, a.text(0)?, a.text(1)?, a.number(2)?, a.text(3)?)
        }
        "latency" => latency::latency(&latency::Latency {
            workload,
            brokers: a.text(0)?,
            output: a.text(1)?,
            seconds: a.number(2)?,
            skip_before_ms: a.number(3)?,
            isolation: a.text(4)?,
            series: a.text(5)?,
            label: a.text(6)?,
        }),
        "steps" => steps::steps(a.text(0)?, a.number(1)?),
        "cpu" => {
            let pid = a.text(0)?;
            println!("{:.2} {}", process::cpu_seconds(pid), process::peak_rss_mb(pid));
            Ok(())
        }
        other => bail!("unknown command {other}; see README.md"),
    }
}

/// Takes what comes before the command: what the stream is about.
fn workload(arguments: &[String]) -> Result<(Workload, &[String])> {
    let (mut workload, mut rest) = (Workload::default(), arguments);
    while let [option, others @ ..] = rest {
        let value = || others.first().with_context(|| format!("{option} needs a number"));
        let taken = match option.as_str() {
            "--keys" => {
                workload.keys = value()?.parse().context("read --keys")?;
                1
            }
            "--partitions" => {
                workload.partitions = value()?.parse().context("read --partitions")?;
                1
            }
            "--no-dimensions" => {
                workload.has_dimensions = false;
                0
            }
            _ => break,
        };
        rest = &others[taken..];
    }
    Ok((workload, rest))
}

/// What follows the command, read by position.
struct Arguments<'a>(&'a [String], Workload);

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
            workload: self.1,
            brokers: self.text(0)?,
            dimensions: self.text(1)?,
            behaviours: self.text(2)?,
        })
    }
}
