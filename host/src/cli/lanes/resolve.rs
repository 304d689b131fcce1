//! `dovetail lanes resolve`.

use clap::{Args, ValueEnum};
use dovetail_core::recovery::resolve::{StateFate, Trusted};
use dovetail_runtime::resolve::{Move, Proposal, Request};
use serde_json::{Value, json};

use super::super::{FileArgs, Format, terminal};
use crate::{config::Config, failure::Failure, wiring::resolve::Bench};

#[derive(Debug, Args)]
pub(super) struct ResolveArgs {
    /// The lane.
    lane: u16,
    /// What to trust.
    #[arg(long, value_enum)]
    from: From,
    #[command(flatten)]
    file: FileArgs,
    /// The name of the checkpoint to go back to; the newest when not said.
    #[arg(long, value_name = "NAME")]
    checkpoint: Option<String>,
    /// Do it; without, only say what would be done.
    #[arg(long)]
    execute: bool,
    /// How to print it.
    #[arg(long, value_enum, default_value_t)]
    output: Format,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum From {
    /// The journal's last epoch: the inputs go on behind it.
    Journal,
    /// The committed offsets: the inputs go on there, with the state there is.
    Offsets,
    /// A checkpoint: state and inputs go back to it, and results behind it come again.
    Checkpoint,
}

pub(super) fn resolve(args: &ResolveArgs) -> Result<(), Failure> {
    let trusted = match args.from {
        From::Journal => Trusted::Journal,
        From::Offsets => Trusted::Offsets,
        From::Checkpoint => Trusted::Checkpoint,
    };
    if args.checkpoint.is_some() && trusted != Trusted::Checkpoint {
        return Err(Failure::usage("--checkpoint is for --from checkpoint"));
    }
    let request = Request { trusted, checkpoint: args.checkpoint.clone() };
    let mut bench = Bench::take(args.file.fit()?, args.lane)?;
    let proposal = bench.propose(&request)?;
    if args.execute {
        bench.execute(&request, &proposal)?;
    }
    match args.output {
        Format::Json => terminal::print(&terminal::json(&value(args, &bench, &proposal))),
        Format::Table => terminal::print(&render(args, &bench, &proposal)),
    }
}

fn name(config: &Config, it: &Move) -> String {
    let input = config.inputs.get(usize::from(it.source.input.0));
    input.map_or_else(|| it.source.input.0.to_string(), |input| input.name.clone())
}

/// How many records would be read again, and how many skipped, against what the journal's last
/// epoch has read.
fn difference(it: &Move) -> (i64, i64) {
    let before = it.journaled.unwrap_or(it.position);
    ((before - it.position).max(0), (it.position - before).max(0))
}

fn state(bench: &Bench, proposal: &Proposal) -> String {
    let aside = || format!("what is in {} is moved aside", bench.state_path().display());
    match (proposal.resolution.state, &proposal.checkpoint) {
        (StateFate::Kept, _) => "keyed state stays".to_owned(),
        (StateFate::Restored, Some(manifest)) => format!(
            "keyed state goes back to checkpoint {} of epoch {}; {}",
            manifest.id,
            manifest.id.epoch.0,
            aside()
        ),
        (StateFate::Emptied | StateFate::Restored, _) => {
            format!("keyed state and timers begin empty; {}", aside())
        }
    }
}

fn render(args: &ResolveArgs, bench: &Bench, proposal: &Proposal) -> String {
    let dash = |position: Option<i64>| position.map_or("-".to_owned(), |it| it.to_string());
    let row = |it: &Move| {
        let then = match difference(it) {
            (0, 0) => String::new(),
            (again, 0) => format!("{again} records come again"),
            (_, skipped) => format!("{skipped} records are skipped"),
        };
        let source = format!("{}[{}]", name(bench.config(), it), it.source.partition.0);
        vec![source, dash(it.committed), dash(it.journaled), it.position.to_string(), then]
    };
    let rows: Vec<_> = proposal.moves.iter().map(row).collect();
    let header = ["SOURCE", "COMMITTED", "JOURNAL", "GOES ON AT", ""];
    let end = if args.execute {
        "done: start the pipeline again"
    } else {
        "nothing was changed; --execute does it"
    };
    format!(
        "lane {}: found {}; {}\nepoch {} makes it go on; {}\n\n{}\n{end}\n",
        args.lane,
        proposal.halt.found,
        proposal.halt.meaning,
        proposal.resolution.epoch.0,
        state(bench, proposal),
        terminal::table(&header, &rows),
    )
}

fn value(args: &ResolveArgs, bench: &Bench, proposal: &Proposal) -> Value {
    let source = |it: &Move| {
        let (again, skipped) = difference(it);
        json!({
            "input": name(bench.config(), it),
            "partition": it.source.partition.0,
            "committed": it.committed,
            "journal": it.journaled,
            "position": it.position,
            "records_again": again,
            "records_skipped": skipped,
        })
    };
    json!({
        "lane": args.lane,
        "found": proposal.halt.found,
        "meaning": proposal.halt.meaning,
        "epoch": proposal.resolution.epoch.0,
        "state": state(bench, proposal),
        "checkpoint": proposal.checkpoint.as_ref().map(|manifest| manifest.id.to_string()),
        "sources": proposal.moves.iter().map(source).collect::<Vec<_>>(),
        "executed": args.execute,
    })
}
