//! What is drawn from a seed: knobs, and a list of faults with their times.
//!
//! A run is a function of (knobs, faults, seed); a failing seed is shrunk by leaving faults out.

use crate::{job::Job, rng::Rng};

/// A place inside a commit where a host can die or stand still.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Point {
    /// Partitions are added, nothing is produced.
    Begun,
    /// The outputs are acknowledged.
    Produced,
    /// The epoch record is acknowledged.
    Journaled,
    /// The offsets are acknowledged.
    OffsetsSent,
    /// The commit is acknowledged, nothing is applied.
    Committed,
    /// Older writers are fenced, nothing is read.
    Fenced,
    /// The epoch is applied.
    Applied,
}

const POINTS: [Point; 7] = [
    Point::Begun,
    Point::Produced,
    Point::Journaled,
    Point::OffsetsSent,
    Point::Committed,
    Point::Fenced,
    Point::Applied,
];

/// What a crash leaves of a disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DiskFate {
    /// What was synced, and a part of what followed.
    Kept,
    /// Nothing.
    Lost,
    /// It cannot be read, is set aside, and an empty one takes its place.
    Damaged,
}

/// An operator, or a broken cluster, changes what was committed while everything is stopped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Meddling {
    /// The group's offsets are deleted, or have expired.
    GroupDeleted,
    /// The offsets are set back by that many epochs.
    OffsetsSetBack(u64),
    /// Offsets are committed by another program.
    ForeignMetadata,
    /// Offsets of one partition are set back.
    OnePartitionSetBack,
    /// The offsets carry the right epoch of another attempt.
    OtherAttempt,
    /// An unclean election loses that many entries of the journal.
    JournalTruncated(i64),
    /// The first records of the journal are deleted.
    JournalTrimmed,
    /// The journal topic is deleted and made anew.
    JournalDeleted,
    /// Journal and offsets are gone.
    EverythingDeleted,
    /// A record of the journal is missing in the middle.
    JournalHole,
    /// The lanes' state directories are exchanged.
    DisksSwapped,
    /// The state directory comes from the same pipeline with another history.
    DiskOfOtherHistory,
    /// The state directory is ahead of everything that was committed.
    DiskAhead,
}

/// A fault.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FaultKind {
    /// A machine's process dies at once.
    Crash(usize, DiskFate),
    /// It dies the next time it reaches a point.
    CrashAt(usize, Point, DiskFate),
    /// It stands still for that long, ms.
    Pause(usize, i64),
    /// It stands still for that long, ms, the next time it reaches a point.
    PauseAt(usize, Point, i64),
    /// It stops as asked and starts again.
    Stop(usize),
    /// A process starts on the other machine although one runs.
    SecondOwner(usize),
    /// The coordinators are away, ms.
    Coordinator(i64),
    /// A partition has no leader, ms; the number chooses among all.
    Leader(u64, i64),
    /// A machine's network loses (percent) and delays (up to ms) messages for a time, ms.
    Network(usize, u32, i64, i64),
    /// A machine reaches no broker, ms.
    Outage(usize, i64),
    /// A machine's clock jumps, ms.
    Clock(usize, i64),
    /// A machine's disk takes nothing, that many times.
    DiskFull(usize, u32),
    /// A machine's disk cannot be read, that many times.
    DiskUnreadable(usize, u32),
    /// The group coordinator does not see the next committed offsets until it loads again.
    StaleOffsets,
    /// Everything is stopped, something is changed, everything is started.
    Meddle(Meddling),
}

/// A fault and when it happens, virtual ms.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Fault {
    /// When.
    pub at: i64,
    /// What.
    pub kind: FaultKind,
}

/// The knobs of one run.
#[derive(Debug, Clone)]
pub struct Knobs {
    /// Which job.
    pub job: Job,
    /// Lanes.
    pub lanes: u16,
    /// Partitions of each input.
    pub partitions: u16,
    /// Different keys.
    pub keys: u64,
    /// Records of both inputs together.
    pub records: u64,
    /// How long records keep coming, ms.
    pub span: i64,
    /// How far records are out of order, ms.
    pub out_of_orderness: i64,
    /// Percent of records that are behind even that.
    pub late_percent: u32,
    /// When a source is idle, ms.
    pub idle_after: Option<i64>,
    /// How long a lane waits for an unknown partition, ms.
    pub wait_for_input: i64,
    /// Ends an epoch, ms.
    pub commit_every: i64,
    /// Ends an epoch, records.
    pub commit_records: u32,
    /// Percent of records that are written in transactions, a third of them aborted.
    pub transactional_percent: u32,
    /// Whether the inputs end.
    pub is_bounded: bool,
    /// Whether keys have at most one order and one payment.
    pub is_tidy: bool,
    /// The brokers' transaction timeout, ms.
    pub transaction_timeout: i64,
    /// How long a request is waited for, ms.
    pub request_timeout: i64,
    /// Records per fetch at most.
    pub fetch_max: usize,
    /// Percent of applied epochs after which the disk is synced.
    pub sync_percent: u32,
}

/// Everything that a seed decides before the run.
#[derive(Debug, Clone)]
pub struct Plan {
    /// The seed.
    pub seed: u64,
    /// The knobs.
    pub knobs: Knobs,
    /// The faults.
    pub faults: Vec<Fault>,
}

impl Plan {
    /// Draws a plan.
    #[must_use]
    pub fn draw(seed: u64) -> Self {
        let mut rng = Rng::new(seed);
        let knobs = knobs(&mut rng);
        let mut faults = Vec::new();
        if !rng.percent(4) {
            for _ in 0..rng.range(1, 9) {
                let at = rng.range(1, knobs.span + 2_000);
                faults.push(Fault { at, kind: fault(&mut rng, &knobs) });
            }
        }
        if rng.percent(20) {
            let at = rng.range(knobs.span / 2, knobs.span + 3_000);
            faults.push(Fault { at, kind: FaultKind::Meddle(meddling(&mut rng)) });
        }
        faults.sort_by_key(|fault| fault.at);
        Self { seed, knobs, faults }
    }
}

fn knobs(rng: &mut Rng) -> Knobs {
    let lanes = u16::try_from(rng.range(1, 2)).unwrap_or(1);
    let partitions = lanes + u16::try_from(rng.range(0, 2)).unwrap_or(0);
    let job = rng.pick(&[Job::Payment, Job::Ledger]);
    let is_tidy = rng.percent(60);
    Knobs {
        job,
        lanes,
        partitions,
        keys: rng.range(2, 25).cast_unsigned(),
        records: rng.range(20, 160).cast_unsigned(),
        span: rng.range(2_000, 12_000),
        out_of_orderness: rng.pick(&[0, 100, 700, 2_000]),
        late_percent: rng.pick(&[0, 0, 0, 5, 20]),
        idle_after: rng.pick(&[None, None, None, Some(300), Some(1_500)]),
        wait_for_input: rng.pick(&[200, 2_000, 10_000]),
        commit_every: rng.pick(&[20, 50, 100, 100, 300, 1_000]),
        commit_records: rng.pick(&[1, 2, 3, 7, 50, 1_000]),
        transactional_percent: rng.pick(&[0, 0, 20, 60]),
        is_bounded: rng.percent(25),
        is_tidy,
        transaction_timeout: rng.pick(&[1_500, 4_000, 10_000]),
        request_timeout: rng.pick(&[100, 300, 1_000]),
        fetch_max: rng.pick(&[1, 5, 50, 500]),
        sync_percent: rng.pick(&[0, 10, 50, 100]),
    }
}

fn fault(rng: &mut Rng, knobs: &Knobs) -> FaultKind {
    let machine = usize::from(rng.percent(15));
    let fate = rng.pick(&[DiskFate::Kept, DiskFate::Kept, DiskFate::Lost, DiskFate::Damaged]);
    let long = knobs.transaction_timeout + rng.range(100, 4_000);
    let pause = rng.pick(&[200, 1_000, long]);
    match rng.below(20) {
        0 | 1 => FaultKind::Crash(machine, fate),
        2..=4 => FaultKind::CrashAt(machine, rng.pick(&POINTS), fate),
        5 => FaultKind::Pause(machine, pause),
        6 | 7 => FaultKind::PauseAt(machine, rng.pick(&POINTS), pause),
        8 => FaultKind::Stop(machine),
        9 | 10 => FaultKind::SecondOwner(1 - machine),
        11 => FaultKind::Coordinator(rng.range(50, 6_000)),
        12 => FaultKind::Leader(rng.draw(), rng.range(50, 5_000)),
        13 | 14 => {
            let (loss, delay) = (rng.pick(&[0, 5, 20, 50]), rng.pick(&[10, 300, 2_500]));
            FaultKind::Network(machine, loss, delay, rng.range(300, 5_000))
        }
        15 => FaultKind::Outage(machine, rng.range(100, 6_000)),
        16 => FaultKind::Clock(machine, rng.pick(&[-3_600_000, -2_000, -50, 700, 20_000])),
        17 => FaultKind::DiskFull(machine, rng.pick(&[1, 1, 2, 5])),
        18 => FaultKind::DiskUnreadable(machine, rng.pick(&[1, 2, 8])),
        _ => FaultKind::StaleOffsets,
    }
}

fn meddling(rng: &mut Rng) -> Meddling {
    match rng.below(16) {
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
        _ => Meddling::DiskAhead,
    }
}
