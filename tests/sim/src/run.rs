//! Runs a plan to its end and judges it.

use std::collections::BTreeSet;

use dovetail_core::time::END_OF_TIME;

use crate::{
    bugs::Bug,
    faults::Plan,
    history::{check_topics, revision_number},
    job::{Job, Out, payment},
    kafka::Place,
    workload::{self, AFTERWARDS, BASE},
    world::{Counts, Shared, World},
};

/// How long a pipeline may take to work everything off once the faults are over, virtual ms.
const PATIENCE: i64 = 240_000;
/// How often processes get something to do while there are too many of them, virtual ms.
const PROBE_EVERY: i64 = 15_000;

/// How a run ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Outcome {
    /// The rule that was broken.
    pub violation: Option<String>,
    /// Why the pipeline stopped itself, where it had to or might.
    pub halted: Option<String>,
    /// The hash of everything that happened.
    pub hash: u64,
    /// How much happened.
    pub events: u64,
    /// Virtual time, ms.
    pub took: i64,
    /// Records that were handled, timers that fired.
    pub work: (u64, u64),
    /// What happened how often.
    pub counts: Counts,
    /// The trace, where it was asked for.
    pub lines: Vec<String>,
}

/// Runs the plan of a seed.
#[must_use]
pub fn run_seed(seed: u64, bug: Option<Bug>) -> Outcome {
    run(Plan::draw(seed), bug, false)
}

/// Runs a plan.
#[must_use]
pub fn run(plan: Plan, bug: Option<Bug>, keeps_lines: bool) -> Outcome {
    let shared = Shared::new(World::new(plan, bug, keeps_lines));
    shared.pump(i64::MAX - 1, &|world| world.is_calm);
    let until = shared.now() + PATIENCE;
    let mut probe_at = shared.now() + PROBE_EVERY;
    loop {
        let at = shared.now() + 500;
        shared.pump(at, &|_| false);
        let mut world = shared.lock();
        if world.now >= probe_at && !world.plan.knobs.is_bounded && world.is_worked_off().is_ok() {
            probe_at = world.now + PROBE_EVERY;
            world.probe();
        }
        let is_over = world.violation.is_some() || world.halted.is_some();
        if is_over || world.is_complete().is_ok() || world.now >= until {
            break;
        }
    }
    // The last markers are still being written.
    shared.pump(shared.now() + 5_000, &|_| false);
    shared.pump(shared.now() + 60_000, &|world| world.kafka.is_settled());
    let mut world = shared.lock();
    if world.violation.is_none()
        && let Err(violation) = world.judge()
    {
        world.fail(violation);
    }
    let outcome = Outcome {
        violation: world.violation.clone(),
        halted: world.halted.clone(),
        hash: world.trace.hash(),
        events: world.trace.events(),
        took: world.now,
        work: world.histories.iter().fold((0, 0), |(records, fired), history| {
            (records + history.records, fired + history.fired)
        }),
        counts: world.counts.clone(),
        lines: world.trace.take_lines(),
    };
    // The processes hold the world that holds them.
    let machines = std::mem::take(&mut world.machines);
    drop(world);
    drop(machines);
    outcome
}

impl World {
    /// Returns whether every record of every source is handled and committed, time included.
    fn is_worked_off(&self) -> Result<(), String> {
        if !self.is_all_written() {
            return Err("not everything is written".to_owned());
        }
        let knobs = &self.plan.knobs;
        for history in &self.histories {
            let Some(last) = history.last() else {
                return Err("a lane has never committed".to_owned());
            };
            for state in &last.sources {
                let place = Place::Input(state.source.input.0, state.source.partition.0);
                let log = &self.kafka.logs[&place];
                let (left, _) = log.read(state.position, log.end(), usize::MAX, true);
                if !left.is_empty() {
                    return Err(format!("{} records of {place:?} are not handled", left.len()));
                }
            }
            let watermark = match knobs.is_bounded {
                true => END_OF_TIME,
                false => BASE + knobs.span + AFTERWARDS * self.lasts - knobs.out_of_orderness - 1,
            };
            if knobs.idle_after.is_none() && last.watermark != watermark {
                return Err(format!("watermark {} instead of {watermark}", last.watermark));
            }
            if revision_number(&last.revision)? != self.revision {
                return Err(format!("{} decides, {} is newer", last.revision, self.revision));
            }
            let first = history.timers.event.first();
            if first.is_some_and(|timer| timer.time <= last.watermark) {
                return Err(format!("{first:?} has not fired"));
            }
        }
        Ok(())
    }

    /// Returns whether bounded inputs are worked off to their end.
    pub(crate) fn is_finished(&self) -> bool {
        self.plan.knobs.is_bounded && self.is_worked_off().is_ok()
    }

    /// Returns whether everything is done and exactly one process is left, none after an end.
    fn is_complete(&self) -> Result<(), String> {
        self.is_worked_off()?;
        let left: u32 = self.machines.iter().map(|m| u32::from(m.is_up) + m.starting).sum();
        let wanted = u32::from(!self.plan.knobs.is_bounded);
        match left == wanted {
            true => Ok(()),
            false => Err(format!("{left} processes are left, {wanted} should be")),
        }
    }

    fn judge(&mut self) -> Result<(), String> {
        self.counts.ends += 1;
        if self.halted.is_none() && self.must_halt {
            return Err("halt: an operator's change should have been refused".to_owned());
        }
        if self.halted.is_none() {
            self.is_complete().map_err(|why| format!("I10: {why}"))?;
            check_topics(&self.histories, &mut self.kafka)?;
            self.check_alive()?;
            self.counts.expired_ids += self.kafka.expired_ids;
            self.judge_by_input()?;
        }
        Ok(())
    }

    /// What depends on the inputs alone, where no record is late and no source goes idle.
    fn judge_by_input(&self) -> Result<(), String> {
        let knobs = &self.plan.knobs;
        if knobs.idle_after.is_some() || knobs.late_percent > 0 || self.lost_input {
            return Ok(());
        }
        let late: u64 = self.histories.iter().map(|history| history.late).sum();
        if late > 0 {
            return Err(format!("time: {late} records were late, and none was written late"));
        }
        if knobs.job != Job::Payment || !knobs.is_tidy {
            return Ok(());
        }
        let expected = payment::offline(&workload::given(&self.writings));
        let outs = self.histories.iter().flat_map(|history| &history.outputs);
        let outs =
            outs.map(|out| Out { value: payment::as_first_revision(&out.value), ..out.clone() });
        let outs: Vec<Out> = outs.collect();
        let found: BTreeSet<Out> = outs.iter().cloned().collect();
        if found.len() != outs.len() {
            return Err("I2: a result comes twice".to_owned());
        }
        if found != expected {
            let missing: Vec<_> = expected.difference(&found).take(2).collect();
            let wrong: Vec<_> = found.difference(&expected).take(2).collect();
            return Err(format!(
                "I2: by the inputs alone {missing:?} is missing, {wrong:?} is wrong"
            ));
        }
        Ok(())
    }
}
