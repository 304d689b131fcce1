//! Plans, and how one is drawn.
//!
//! Faults are drawn in a swarm: each seed has its own mix of kinds, so that some runs see much of
//! one kind and nothing of the others.

use serde::{Deserialize, Serialize};

use super::{DiskFate, FaultKind, Knobs, Meddling, Point, StoreFault};
use crate::{
    rng::Rng,
    workload::{self, Writing},
};

/// A fault and when it happens, virtual ms.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Fault {
    /// When.
    pub at: i64,
    /// What.
    pub kind: FaultKind,
}

/// Everything that is decided before the run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Plan {
    /// The seed, from which everything is drawn that is not said here.
    pub seed: u64,
    /// The knobs.
    pub knobs: Knobs,
    /// The faults.
    pub faults: Vec<Fault>,
    /// What is written to the inputs.
    pub writings: Vec<Writing>,
}

impl Plan {
    /// Draws a plan.
    #[must_use]
    pub fn draw(seed: u64) -> Self {
        let mut rng = Rng::new(seed);
        let mut knobs = Knobs::draw(&mut rng);
        let mut faults = Vec::new();
        if knobs.takes_checkpoints() && rng.percent(8) {
            for _ in 0..rng.range(1, 3) {
                let at = rng.range(1, knobs.span);
                faults.push(Fault { at, kind: FaultKind::Store(passing(&mut rng)) });
            }
        } else if !rng.percent(4) {
            let mix = mix(&mut rng);
            for _ in 0..rng.range(1, 9) {
                let at = rng.range(1, knobs.span + 2_000);
                let group = rng.pick(&mix);
                faults.push(Fault { at, kind: fault(group, &mut rng, &knobs) });
            }
        }
        if rng.percent(3) {
            // Two processes start at once.
            faults.push(Fault { at: rng.range(1, 60), kind: FaultKind::SecondOwner(1) });
        }
        if !faults.iter().all(Fault::disturbs_store) && rng.percent(20) {
            // Of offsets that expire as well nobody would know.
            knobs.retention = None;
            let at = rng.range(knobs.span / 2, knobs.span + 3_000);
            faults.push(Fault { at, kind: FaultKind::Meddle(meddling(&mut rng)) });
        }
        faults.sort_by_key(|fault| fault.at);
        let writings = workload::draw(&knobs, &mut rng.fork());
        Self { seed, knobs, faults, writings }
    }
}

impl Fault {
    /// Returns whether only the checkpoint store is disturbed, for a time.
    #[must_use]
    pub fn disturbs_store(&self) -> bool {
        matches!(self.kind, FaultKind::Store(fault) if fault.passes())
    }
}

/// What faults have to do with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Group {
    Processes,
    Pauses,
    Owners,
    Brokers,
    Network,
    Commits,
    Clocks,
    Disks,
    Plugin,
    Checkpoints,
}

const GROUPS: [Group; 10] = [
    Group::Processes,
    Group::Pauses,
    Group::Owners,
    Group::Brokers,
    Group::Network,
    Group::Commits,
    Group::Clocks,
    Group::Disks,
    Group::Plugin,
    Group::Checkpoints,
];

const POINTS: [Point; 7] = [
    Point::Begun,
    Point::Produced,
    Point::Journaled,
    Point::OffsetsSent,
    Point::Committed,
    Point::Fenced,
    Point::Applied,
];

fn mix(rng: &mut Rng) -> Vec<Group> {
    let percent = rng.pick(&[20, 50, 100]);
    let mut mix: Vec<Group> = GROUPS.into_iter().filter(|_| rng.percent(percent)).collect();
    if mix.is_empty() {
        mix.push(rng.pick(&GROUPS));
    }
    mix
}

fn fault(group: Group, rng: &mut Rng, knobs: &Knobs) -> FaultKind {
    let machine = usize::from(rng.percent(15));
    let kept = [DiskFate::Kept, DiskFate::Kept, DiskFate::Kept];
    let fate = rng.pick(&[&kept[..], &[DiskFate::Torn, DiskFate::Lost, DiskFate::Older]].concat());
    let long = knobs.transaction_timeout + rng.range(100, 4_000);
    let pause = rng.pick(&[200, 1_000, long]);
    match group {
        Group::Processes => match rng.below(6) {
            0 | 1 => FaultKind::Crash(machine, fate),
            2..=4 => FaultKind::CrashAt(machine, rng.pick(&POINTS), fate),
            _ => FaultKind::Stop(machine),
        },
        Group::Pauses => match rng.below(3) {
            0 => FaultKind::Pause(machine, pause),
            _ => FaultKind::PauseAt(machine, rng.pick(&POINTS), pause),
        },
        Group::Owners => FaultKind::SecondOwner(1 - machine),
        Group::Brokers => match rng.below(4) {
            0 => FaultKind::Coordinator(rng.range(50, 6_000)),
            1 => FaultKind::Leader(rng.draw(), rng.range(50, 5_000)),
            2 => FaultKind::OffsetsPending(rng.range(100, 8_000)),
            _ => FaultKind::StaleOffsets,
        },
        Group::Network if rng.percent(33) => FaultKind::Outage(machine, rng.range(100, 6_000)),
        Group::Network => {
            let (loss, delay) = (rng.pick(&[0, 5, 20, 50]), rng.pick(&[10, 300, 2_500]));
            FaultKind::Network(machine, loss, delay, rng.range(300, 5_000))
        }
        Group::Commits => match rng.below(3) {
            0 => FaultKind::EndLost(machine),
            1 => FaultKind::EndUnanswered(machine),
            _ => FaultKind::EndHeld(machine),
        },
        Group::Clocks => {
            FaultKind::Clock(machine, rng.pick(&[-3_600_000, -2_000, -50, 700, 20_000]))
        }
        Group::Disks => match rng.below(4) {
            0 => FaultKind::DiskFull(machine, rng.pick(&[10, 300, 2_000, 5_000])),
            1 => FaultKind::DiskUnreadable(machine, rng.pick(&[1, 2, 8])),
            2 => FaultKind::Rot(machine, rng.pick(&[1, 3, 20])),
            _ => FaultKind::Crash(machine, fate),
        },
        Group::Plugin => FaultKind::Swap(Some(rng.pick(&POINTS)).filter(|_| rng.percent(40))),
        Group::Checkpoints => match rng.below(6) {
            0 => FaultKind::Crash(machine, DiskFate::Lost),
            1 => FaultKind::Store(StoreFault::ManifestLost(rng.below(2))),
            2 => FaultKind::Store(rng.pick(&[StoreFault::FileRotten, StoreFault::Older])),
            _ => FaultKind::Store(passing(rng)),
        },
    }
}

/// Draws what passes and leaves the checkpoint store as it was.
fn passing(rng: &mut Rng) -> StoreFault {
    let ms = rng.pick(&[300, 3_000, 15_000]);
    match rng.below(4) {
        0 => StoreFault::Away(ms),
        1 => StoreFault::Refuses(ms),
        2 => StoreFault::Ambiguous(ms),
        _ => StoreFault::Slow(rng.pick(&[100, 1_000, 6_000]), ms),
    }
}

fn meddling(rng: &mut Rng) -> Meddling {
    match rng.below(23) {
        0 | 1 => Meddling::GroupDeleted,
        2 => Meddling::OffsetsSetBack(rng.pick(&[1, 2, 5])),
        3 => Meddling::ForeignMetadata,
        4 => Meddling::OnePartitionSetBack,
        5 => Meddling::OtherAttempt,
        6 | 7 => Meddling::JournalTruncated(rng.range(1, 5)),
        8 => Meddling::JournalTrimmed,
        9 => Meddling::JournalDeleted,
        10 => Meddling::EverythingDeleted,
        11 => Meddling::JournalHole,
        12 => Meddling::DisksSwapped,
        13 => Meddling::DiskOfOtherHistory,
        14 => Meddling::InputTrimmed,
        15 => Meddling::InputRecreated,
        16 | 19 | 20 => Meddling::Regressed(rng.pick(&[2, 6, 12])),
        17 => Meddling::CheckpointForeign,
        18 => Meddling::PartitionAdded,
        _ => Meddling::DiskAhead,
    }
}
