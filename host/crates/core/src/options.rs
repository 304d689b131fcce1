//! What the configuration decides about a lane, already checked and in core's own terms.
//!
//! Every duration is in ms. Defaults are those of the configuration reference.

/// How a source's watermark comes about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WatermarkRule {
    /// Newest event time of the taken records and the head, minus this, minus 1 ms.
    OutOfOrderness(i64),
    /// Told by [`crate::lane::Event::Watermark`] alone; records do not move it.
    Told,
    /// The input has no event time: it never holds the lane's watermark.
    None,
}

/// What is done with a record that is late.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum LatePolicy {
    /// The plugin handles it and can ask whether it is late.
    #[default]
    Process,
    /// It goes to the output `late` unchanged; the plugin does not see it.
    SideOutput,
    /// It is counted and nothing else.
    Drop,
}

/// What is done with a record whose key is null.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum NullKeyPolicy {
    /// It becomes a dead letter.
    #[default]
    DeadLetter,
    /// It is counted and nothing else.
    Drop,
    /// The plugin handles it, without key, state or timers.
    Process,
}

/// What event time does when every source that has not ended is idle.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum WhenAllIdle {
    /// It stands at the highest watermark seen.
    #[default]
    Hold,
    /// It goes on at the pace of the lane's clock.
    FollowClock,
}

/// What "too far ahead" is measured against.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum SkewReference {
    /// The lane's clock.
    #[default]
    Clock,
    /// The record's timestamp, where the broker sets it (`LogAppendTime`).
    RecordTimestamp,
}

/// The rules of one input.
#[derive(Debug, Clone)]
pub struct InputOptions {
    /// The input's name.
    pub name: String,
    /// The topic (or file) it reads, for messages and dead letters.
    pub topic: String,
    /// How its watermark comes about.
    pub watermark: WatermarkRule,
    /// How long a source must be at its end before it is idle, in ms; `None` = never.
    pub idle_after: Option<i64>,
    /// A record further ahead than this, in ms, does not move time; `None` = no guard.
    pub max_future_skew: Option<i64>,
    /// What "ahead" refers to.
    pub skew_reference: SkewReference,
    /// Late records.
    pub late: LatePolicy,
    /// Null keys.
    pub null_key: NullKeyPolicy,
    /// Whether every lane reads all of it: its records have no keyed state, move no time, are never
    /// late and come before the next record of other inputs. `watermark` is then
    /// [`WatermarkRule::None`], and the rules about idleness, lateness, skew and null keys are idle.
    pub is_broadcast: bool,
    /// Whether records of inputs without this wait, after each acquisition, until every partition of
    /// this one has reached the end that it had (`bootstrap: until_end_offset`).
    pub bootstrap: bool,
}

/// What one output accepts; what it would refuse fails the call of a record, and is a dead letter of
/// its own where a timer emitted it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OutputOptions {
    /// The output's name.
    pub name: String,
    /// The topic (or file) behind it.
    pub topic: String,
    /// The largest record in bytes (key, value and headers).
    pub max_record_bytes: usize,
    /// Whether a record without key is refused (a compacted topic).
    pub requires_key: bool,
}

/// How much one call may do. Exceeding any is a typed failure of that call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CallLimits {
    /// Records emitted in one call.
    pub outputs_max: u32,
    /// Bytes emitted in one call.
    pub output_bytes_max: u64,
    /// Entries in one page of a scan.
    pub scan_entries_max: u32,
    /// Bytes of entries and values in one page of a scan.
    pub scan_bytes_max: u64,
    /// Bytes of one key, entry or value written to state.
    pub state_row_bytes_max: u64,
    /// Bytes of rows changed in one call.
    pub state_bytes_max: u64,
    /// Timers registered or deleted in one call.
    pub timers_max: u32,
    /// Firings, in one move of time, of timers that one key has registered in that move; also the
    /// steps of one *continue*.
    pub firings_per_timer_max: u32,
}

impl Default for CallLimits {
    fn default() -> Self {
        Self {
            outputs_max: 10_000,
            output_bytes_max: 8 << 20,
            scan_entries_max: 1_000,
            scan_bytes_max: 8 << 20,
            state_row_bytes_max: 8 << 20,
            state_bytes_max: 32 << 20,
            timers_max: 10_000,
            firings_per_timer_max: 100_000,
        }
    }
}

/// When an epoch ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CommitOptions {
    /// After this many ms.
    pub every: i64,
    /// After this many records and firings.
    pub max_records: u32,
    /// After this many bytes of outputs, dead letters and state changes.
    pub max_bytes: u64,
    /// A lane that has committed nothing for this many ms commits where it stands all the same.
    pub keepalive_every: i64,
}

/// The default of [`CommitOptions::keepalive_every`], in ms.
///
/// Kafka forgets the positions of a group without members, and an unused transactional id, after
/// seven days (`offsets.retention.minutes`, `transactional.id.expiration.ms`); a cluster may be set
/// to hours. Five minutes are far below either, cost 288 small records per lane and day, and bound
/// how long an idle process does not notice that another has taken its lanes over.
pub const KEEPALIVE_EVERY_DEFAULT: i64 = 300_000;

impl Default for CommitOptions {
    fn default() -> Self {
        Self {
            every: 100,
            max_records: 50_000,
            max_bytes: 8 << 20,
            keepalive_every: KEEPALIVE_EVERY_DEFAULT,
        }
    }
}

/// When a flood of dead letters stops the pipeline.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DeadLetterRate {
    /// Percent of the records of the last 10 s; 100 or more never stops.
    pub percent_max: u32,
    /// The rate counts from this many dead letters on.
    pub from_count: u64,
}

impl Default for DeadLetterRate {
    fn default() -> Self {
        Self { percent_max: 10, from_count: 100 }
    }
}

/// Everything that decides what a lane does.
#[derive(Debug, Clone)]
pub struct LaneOptions {
    /// The pipeline's name: its identity.
    pub pipeline: String,
    /// The inputs in configuration order.
    pub inputs: Vec<InputOptions>,
    /// For each of the plugin's inputs (in the order of `describe`), the input it reads.
    /// An inverse map: `roles[input]` is the plugin's number for that input.
    pub roles: Vec<u32>,
    /// The outputs, in the order of the plugin's `describe`.
    pub outputs: Vec<OutputOptions>,
    /// Which of `outputs` is named `late`, for `late: side_output`.
    pub late_output: Option<u16>,
    /// How long a lane waits for a partition whose end is unknown, in ms.
    pub wait_for_input: i64,
    /// What happens when everything is idle.
    pub when_all_idle: WhenAllIdle,
    /// When an epoch ends.
    pub commit: CommitOptions,
    /// When dead letters stop the pipeline.
    pub dead_letter_rate: DeadLetterRate,
    /// Limits of a call.
    pub limits: CallLimits,
}
