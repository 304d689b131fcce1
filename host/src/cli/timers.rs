//! `dovetail timers`.

use clap::{Args, Subcommand};
use dovetail_admin::view::TimerView;

use super::{Format, client::Where, terminal};
use crate::{config::units::show_ms, failure::Failure};

#[derive(Debug, Subcommand)]
pub(super) enum TimersCommand {
    /// Show the timers that fire next.
    #[command(after_help = "Example:\n  dovetail timers next -n 5 --output json")]
    Next(NextArgs),
}

#[derive(Debug, Args)]
pub(super) struct NextArgs {
    #[command(flatten)]
    at: Where,
    /// How many.
    #[arg(short = 'n', long, default_value_t = 20)]
    limit: u32,
    /// How to print them.
    #[arg(long, value_enum, default_value_t)]
    output: Format,
}

pub(super) fn timers(command: TimersCommand) -> Result<(), Failure> {
    let TimersCommand::Next(args) = command;
    let path = format!("/api/v1/timers?n={}", args.limit);
    let client = args.at.client()?;
    if args.output == Format::Json {
        return terminal::print(&terminal::json(&client.get(&path)?));
    }
    let timers: Vec<TimerView> = client.read_as(&path)?;
    if timers.is_empty() {
        return terminal::print("no timers\n");
    }
    let lines: Vec<String> = timers.iter().map(line).collect();
    terminal::print(&lines.concat())
}

/// Says when a timer is due, where time stands and what keeps it there.
fn line(timer: &TimerView) -> String {
    let mut line = format!("{} due {}", timer.key, timer.time);
    if timer.domain == "event" {
        if let Some(watermark) = timer.watermark_ms {
            let ahead = timer.time_ms.saturating_sub(watermark);
            line.push_str(&format!(" (in {})", show_ms(ahead)));
        }
        let watermark = timer.watermark.as_deref().unwrap_or("none yet");
        line.push_str(&format!(", watermark {watermark}, {}", timer.waits_for));
    } else {
        line.push_str(&format!(" ({} time), {}", timer.domain, timer.waits_for));
    }
    if timer.tag != 0 {
        line.push_str(&format!(", tag {}", timer.tag));
    }
    line + "\n"
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Pain P03, whose times are relative to 2026-01-01.
    #[test]
    fn a_timer_says_when_it_is_due_and_why_it_waits() {
        let timer = TimerView {
            lane: 0,
            domain: "event".to_owned(),
            time_ms: 1_767_225_610_000,
            time: "2026-01-01T00:00:10Z".to_owned(),
            key: "o7".to_owned(),
            tag: 0,
            partition: 0,
            watermark_ms: Some(1_767_225_597_999),
            watermark: Some("2025-12-31T23:59:57.999Z".to_owned()),
            waits_for: "all inputs idle".to_owned(),
        };
        assert_eq!(
            line(&timer),
            "o7 due 2026-01-01T00:00:10Z (in 12001ms), watermark 2025-12-31T23:59:57.999Z, all \
             inputs idle\n"
        );
    }
}
