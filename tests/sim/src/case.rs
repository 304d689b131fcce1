//! Cases: a plan in the scenario language of `dovetail test`, to be read, kept and played again.
//!
//! The steps are what that language can say: when which record arrives, and when a process dies.
//! What it has no words for stands under `sim`, which the simulator alone reads: the seed that draws
//! the rest, knobs, faults with their times, and transactions of other programs.
//!
//! Invariant: reading what was written gives the same plan.

use serde::{Deserialize, Serialize};
use serde_json::Value as Json;

use crate::{
    bugs::Bug,
    faults::{Fault, FaultKind, Knobs, Plan},
    job::Job,
    workload::{Transaction, Writing},
};

const INPUTS: [&str; 3] = ["order", "payment", "rules"];

/// What only the simulator plays.
#[derive(Debug, Deserialize)]
struct Sim {
    seed: u64,
    knobs: Knobs,
    #[serde(default)]
    faults: Vec<Fault>,
    #[serde(default)]
    transactions: Vec<Opened>,
    #[serde(default)]
    aborted: Vec<Writing>,
}

/// A record that was written in a transaction.
#[derive(Debug, Serialize, Deserialize)]
struct Opened {
    /// Which of the records, from 0 on.
    record: usize,
    /// When it was written, virtual ms.
    opened_at: i64,
}

#[derive(Debug, Deserialize)]
struct File {
    sim: Sim,
    steps: Vec<Step>,
}

#[derive(Debug, Deserialize)]
struct Step {
    #[serde(rename = "in")]
    input: Option<String>,
    partition: Option<u16>,
    at: Option<String>,
    key: Option<String>,
    value: Option<Json>,
    clock: Option<String>,
}

/// Returns a plan as a case; `why` says what it has shown.
#[must_use]
pub fn write(plan: &Plan, why: &str) -> String {
    let mut text = String::new();
    let mut line = |words: String| {
        text.push_str(&words);
        text.push('\n');
    };
    for words in why.lines() {
        line(format!("# {words}"));
    }
    line(format!("name: seed {} keeps every rule", plan.seed));
    if plan.knobs.job == Job::Payment {
        line("pipeline: ../../pipelines/payment.yaml".to_owned());
    }
    line(format!("partitions: {}", plan.knobs.partitions));
    line("sim:".to_owned());
    line(format!("  seed: {}", plan.seed));
    line(format!("  knobs: {}", json(&plan.knobs)));
    let committed: Vec<&Writing> = in_order(plan);
    let opened = committed.iter().enumerate().filter_map(|(record, writing)| {
        let opened_at = writing.transaction?.opened_at;
        Some(json(&Opened { record, opened_at }))
    });
    let aborted = plan.writings.iter().filter(|writing| !writing.is_committed());
    let lists = [
        ("faults", plan.faults.iter().map(json).collect::<Vec<_>>()),
        ("transactions", opened.collect()),
        ("aborted", aborted.map(json).collect()),
    ];
    for (name, items) in lists {
        if !items.is_empty() {
            line(format!("  {name}:"));
            items.into_iter().for_each(|item| line(format!("    - {item}")));
        }
    }
    let steps = steps(plan, &committed);
    line(if steps.is_empty() { "steps: []" } else { "steps:" }.to_owned());
    steps.into_iter().for_each(|step| line(format!("  - {step}")));
    text
}

/// What is committed of the inputs, in the order in which it can be seen.
fn in_order(plan: &Plan) -> Vec<&Writing> {
    let mut committed: Vec<&Writing> =
        plan.writings.iter().filter(|writing| writing.is_committed()).collect();
    committed.sort_by_key(|writing| writing.at);
    committed
}

fn steps(plan: &Plan, committed: &[&Writing]) -> Vec<String> {
    let crashes = plan.faults.iter().filter(|fault| {
        matches!(
            fault.kind,
            FaultKind::Crash(0, _) | FaultKind::CrashAt(0, ..) | FaultKind::Stop(0)
        )
    });
    let mut crashes = crashes.map(|fault| fault.at).peekable();
    let mut steps = Vec::new();
    let mut now = 0;
    for writing in committed {
        while crashes.next_if(|at| *at < writing.at).is_some() {
            steps.push("crash: {}".to_owned());
        }
        if writing.at > now {
            steps.push(format!("clock: {}", time(writing.at - now)));
            now = writing.at;
        }
        let key = Json::from(writing.key.as_str());
        let value = match plan.knobs.job {
            Job::Payment => writing.value.clone(),
            Job::Ledger => Json::from(writing.value.as_str()).to_string(),
        };
        steps.push(format!(
            "{{ in: {}, partition: {}, at: {}, key: {key}, value: {value} }}",
            INPUTS[usize::from(writing.input).min(2)],
            writing.partition,
            time(writing.time),
        ));
    }
    steps.extend(crashes.map(|_| "crash: {}".to_owned()));
    if plan.knobs.late_percent == 0 && plan.knobs.idle_after.is_none() {
        steps.push("expect_late: { order: 0, payment: 0 }".to_owned());
    }
    steps
}

/// Writes in one line; what is written here can always be.
fn json<T: Serialize>(value: &T) -> String {
    serde_json::to_string(value).unwrap_or_default()
}

fn time(ms: i64) -> String {
    format!("{ms:+}ms")
}

/// Reads a case.
///
/// # Errors
///
/// What cannot be read.
pub fn parse(text: &str) -> Result<Plan, String> {
    let tree: Json = serde_saphyr::from_str(text).map_err(|error| error.to_string())?;
    let file: File = serde_json::from_value(tree).map_err(|error| error.to_string())?;
    let Sim { seed, knobs, faults, transactions, aborted } = file.sim;
    let mut writings = Vec::new();
    let mut at = 0;
    for step in file.steps {
        if let Some(clock) = &step.clock {
            at += ms(clock)?;
        }
        if step.input.is_some() {
            writings.push(writing(step, at)?);
        }
    }
    for Opened { record, opened_at } in transactions {
        let writing = writings.get_mut(record).ok_or(format!("there is no record {record}"))?;
        writing.transaction = Some(Transaction { opened_at, is_aborted: false });
    }
    writings.extend(aborted);
    writings.sort_by_key(|writing| writing.at);
    Ok(Plan { seed, knobs, faults, writings })
}

fn writing(step: Step, at: i64) -> Result<Writing, String> {
    let name = step.input.unwrap_or_default();
    let input = INPUTS.iter().position(|known| *known == name);
    let input = input.and_then(|input| u16::try_from(input).ok());
    Ok(Writing {
        at,
        input: input.ok_or(format!("there is no input `{name}`"))?,
        partition: step.partition.unwrap_or(0),
        key: step.key.ok_or("a record without a key")?,
        time: ms(&step.at.ok_or("a record without a time")?)?,
        value: match step.value.ok_or("a record without a value")? {
            Json::String(text) => text,
            value => value.to_string(),
        },
        transaction: None,
    })
}

fn ms(text: &str) -> Result<i64, String> {
    let number = text.strip_suffix("ms").and_then(|number| number.parse().ok());
    number.ok_or_else(|| format!("expected a time like `+12ms`, found `{text}`"))
}

/// Returns the deliberate bug of a name in snake case.
#[must_use]
pub fn bug(name: &str) -> Option<Bug> {
    serde_json::from_value(Json::from(name)).ok()
}
