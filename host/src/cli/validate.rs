//! `dovetail validate`.

use std::net::TcpListener;

use clap::Args;
use serde_json::{Value, json};

use super::{FileArgs, Format, short, terminal};
use crate::{
    config::{Config, report::Problem},
    failure::{Exit, Failure},
    wiring::{
        self, Surveyed,
        sample::{self, Findings},
    },
};

#[derive(Debug, Args)]
pub(super) struct ValidateArgs {
    #[command(flatten)]
    file: FileArgs,
    /// Ask the broker (or look at the files) too; changes nothing.
    #[arg(long)]
    connect: bool,
    /// Read this many of each input's newest records and say how many could be used. Fails where
    /// more of them would be dead letters than `dead_letters.max_rate`.
    #[arg(long, value_name = "N", requires = "connect")]
    sample: Option<u32>,
    /// Print every value in force with its origin, secrets masked, and exit.
    #[arg(long)]
    print_config: bool,
    /// How the result is printed.
    #[arg(long, value_enum, default_value_t)]
    output: Format,
}

/// What was found right, so far as the checks went.
#[derive(Default)]
struct Report {
    text: String,
    fields: serde_json::Map<String, Value>,
    warnings: Vec<String>,
}

impl Report {
    fn add(&mut self, name: &str, value: impl Into<Value>) {
        self.fields.insert(name.to_owned(), value.into());
    }
}

pub(super) fn validate(args: &ValidateArgs) -> Result<(), Failure> {
    if args.print_config {
        return terminal::print(&args.file.load()?.print());
    }
    let mut report = Report::default();
    let checked = check(args, &mut report);
    for warning in &report.warnings {
        let label = if warning.starts_with("warning: ") { "" } else { "warning: " };
        terminal::complain(&format!("{label}{warning}"));
    }
    match args.output {
        Format::Table => terminal::print(&report.text)?,
        Format::Json => {
            report.add("ok", checked.is_ok());
            let warnings = std::mem::take(&mut report.warnings);
            report.add("warnings", warnings);
            let errors = checked.as_ref().err().map_or_else(Vec::new, errors);
            report.add("errors", errors);
            terminal::print(&terminal::json(&Value::Object(report.fields)))?;
        }
    }
    // A file that is wrong is what this command is asked about: a failed check.
    checked.map_err(|failure| match failure.exit {
        Exit::Configuration => Failure { exit: Exit::Check, ..failure },
        Exit::Check | Exit::Usage | Exit::Rule | Exit::Internal => failure,
    })
}

fn check(args: &ValidateArgs, report: &mut Report) -> Result<(), Failure> {
    report.add("file", args.file.file.display().to_string());
    let fitted = args.file.fit()?;
    report.warnings.append(&mut fitted.loaded.render_warnings());
    report.warnings.extend(wiring::freshness::warning(&fitted.loaded.config.plugin.file));
    report.warnings.extend(port_warning(&fitted.loaded.config));
    let digest = fitted.revision.digest();
    report.add("plugin", digest);
    report.text = format!("{}: ok (plugin {})\n", fitted.loaded.file, short(digest));
    if !args.connect {
        return Ok(());
    }
    let mut surveyed = wiring::survey(fitted, wiring::Delivery::ExactlyOnce)?;
    let ground = &mut surveyed.ground;
    report.warnings.append(&mut ground.warnings);
    let (partitions, lanes) = (ground.partitions, surveyed.identity.lanes);
    report.text.push_str(&format!(
        "cluster {}: ok ({}, {})\n",
        ground.cluster_id,
        terminal::count(partitions.into(), "partition"),
        terminal::count(lanes.into(), "lane")
    ));
    report.add("cluster", ground.cluster_id.as_str());
    report.add("partitions", partitions);
    report.add("lanes", lanes);
    match args.sample {
        Some(count) => sample(&mut surveyed, count, report),
        None => Ok(()),
    }
}

/// Samples every input; fails where too much of one could not be used.
fn sample(surveyed: &mut Surveyed, count: u32, report: &mut Report) -> Result<(), Failure> {
    let loaded = &surveyed.fitted.loaded;
    let mut all = Vec::new();
    for input in &loaded.config.inputs {
        let sampled = surveyed.backend.sample(input, count)?;
        let findings = Findings::new(input, &sampled);
        report.text.push_str(&(findings.line() + "\n"));
        report.warnings.extend(findings.notes.iter().cloned());
        all.push(findings);
    }
    report.warnings.extend(sample::key_apart(&all));
    report.add("inputs", all.iter().map(Findings::to_json).collect::<Vec<_>>());
    let percent_max = loaded.config.dead_letters.max_rate.percent_max;
    let problems: Vec<Problem> = all
        .iter()
        .filter(|findings| findings.exceeds(percent_max))
        .map(|findings| {
            let message = format!(
                "{} of {} sampled records would be dead letters, more than the {percent_max} % of \
                 `dead_letters.max_rate`; the first: {}",
                findings.dead(),
                findings.sampled,
                findings.first_dead_letter.as_deref().unwrap_or_default()
            );
            let help = "correct the input's `key` or `time`, or what is produced";
            loaded.problem(&format!("inputs.{}", findings.input), message, help)
        })
        .collect();
    if problems.is_empty() { Ok(()) } else { Err(loaded.problems(problems).into()) }
}

/// Whoever runs here already may be this pipeline: no error.
fn port_warning(config: &Config) -> Option<String> {
    let listen = config.admin_listen;
    let error = TcpListener::bind(listen).err()?;
    Some(format!(
        "admin.listen: {listen} cannot be listened on now: {error}{}",
        wiring::port::holder(listen)
            .map_or_else(String::new, |holder| format!(" ({holder} has it)"))
    ))
}

fn errors(failure: &Failure) -> Vec<Value> {
    if failure.problems.is_empty() {
        return vec![json!({ "message": failure.message })];
    }
    let error = |problem: &Problem| {
        json!({
            "path": problem.path,
            "line": problem.place.line,
            "column": problem.place.column,
            "message": problem.message,
            "help": problem.help,
        })
    };
    failure.problems.iter().map(error).collect()
}
