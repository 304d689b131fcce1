//! The knobs of one run: the shape of the pipeline, of its inputs and of the world around it.

use serde::{Deserialize, Serialize};

use crate::{job::Job, rng::Rng};

/// The knobs of one run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
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
    /// An idle lane commits that often, ms; as in production if none is said.
    #[serde(default)]
    pub keepalive_every: Option<i64>,
    /// How long brokers keep offsets and transactional ids that nobody uses, ms.
    #[serde(default)]
    pub retention: Option<i64>,
    /// Whether inputs go on behind records that were deleted (`on_gap: earliest`).
    #[serde(default)]
    pub skips_gaps: bool,
    /// How long a message takes at most while the network is sound, ms.
    #[serde(default = "latency")]
    pub latency: i64,
    /// Partitions of the broadcast input; 0 where there is none.
    #[serde(default)]
    pub rule_partitions: u16,
    /// Checkpoints, where they are taken.
    #[serde(default)]
    pub checkpoints: Option<CheckpointKnobs>,
}

fn latency() -> i64 {
    5
}

/// When checkpoints are taken, and what stays of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct CheckpointKnobs {
    /// How often, ms.
    pub every: i64,
    /// How many stay.
    pub keep: usize,
    /// How long one may take, ms.
    pub timeout: i64,
    /// How long a file stays that no manifest reaches, ms.
    pub grace: i64,
    /// Whether the journal is trimmed behind them.
    pub trims: bool,
}

impl Knobs {
    /// Returns whether checkpoints are taken.
    #[must_use]
    pub fn takes_checkpoints(&self) -> bool {
        self.checkpoints.is_some()
    }

    /// Returns whether the journal is never trimmed.
    #[must_use]
    pub fn keeps_journal(&self) -> bool {
        self.checkpoints.is_none_or(|checkpoints| !checkpoints.trims)
    }

    /// Draws knobs.
    pub fn draw(rng: &mut Rng) -> Self {
        let lanes = u16::try_from(rng.pick(&[1, 1, 2, 2, 3])).unwrap_or(1);
        let partitions = lanes + u16::try_from(rng.range(0, 2)).unwrap_or(0);
        let job = rng.pick(&[Job::Payment, Job::Ledger]);
        let is_tidy = rng.percent(60);
        let keepalive_every = rng.pick(&[None, None, Some(500), Some(3_000)]);
        let (latency, slow) = rng.pick(&[(5, 1), (5, 1), (5, 1), (40, 8), (80, 16)]);
        let keys = rng.range(2, 25).cast_unsigned();
        let records = rng.range(20, 160).cast_unsigned();
        // Not drawn, so that seeds stay what they were.
        let rule_partitions = match (job, records % 4) {
            (Job::Ledger, odd @ (1 | 3)) => odd.div_ceil(2),
            (Job::Ledger | Job::Payment, _) => 0,
        };
        Self {
            job,
            lanes,
            partitions,
            keys,
            records,
            span: rng.range(2_000, 12_000),
            out_of_orderness: rng.pick(&[0, 100, 700, 2_000]),
            late_percent: rng.pick(&[0, 0, 0, 5, 20]),
            idle_after: rng.pick(&[None, None, None, Some(300), Some(1_500)]),
            wait_for_input: rng.pick(&[200, 2_000, 10_000]),
            commit_every: rng.pick(&[20, 50, 100, 100, 300, 1_000]),
            // A slow network and epochs of one record would take hours.
            commit_records: rng.pick(&[1, 2, 3, 7, 50, 1_000]).max(slow),
            transactional_percent: rng.pick(&[0, 0, 20, 60]),
            is_bounded: rng.percent(25),
            is_tidy,
            // Longer than a commit takes, which waits for some twenty messages, with other lanes inside.
            transaction_timeout: rng.pick(&[1_500, 4_000, 10_000]).max(100 * latency),
            // Longer than an answer takes.
            request_timeout: rng.pick(&[100, 300, 1_000]).max(3 * latency),
            fetch_max: rng.pick(&[1, 5, 50, 500]),
            sync_percent: rng.pick(&[0, 10, 50, 100]),
            keepalive_every,
            retention: keepalive_every.map(|every| every + 60 * latency + 5_000),
            skips_gaps: rng.percent(30),
            latency,
            rule_partitions: u16::try_from(rule_partitions).unwrap_or(0),
            checkpoints: rng.percent(60).then(|| CheckpointKnobs::draw(rng)),
        }
    }
}

impl CheckpointKnobs {
    fn draw(rng: &mut Rng) -> Self {
        let timeout = rng.pick(&[200, 1_000, 5_000, 20_000]);
        Self {
            every: rng.pick(&[100, 400, 1_000, 3_000]),
            keep: rng.pick(&[2, 2, 3]),
            timeout,
            grace: rng.pick(&[0, 20_000]),
            trims: rng.percent(85),
        }
    }
}
