//! A lane: takes records in order of event time, moves time, calls the plugin, closes epochs.
//!
//! One lane is the unit of order, ownership, transaction, state and recovery. [`Lane::step`] is the
//! only entrance; it decides everything and does no I/O but through the state and plugin ports.
//!
//! Reading order: [`event`] and [`effect`], then [`input`](self) (what arrives, and what it does to
//! time), `fire` (timers), `handle` (records and calls), `close` (epochs), `counts`, [`status`].
//!
//! Invariant: between two calls of `step` the lane is either open (records may be handled) or
//! closed (an epoch is offered and nothing happens until it is committed).

mod close;
mod counts;
pub mod effect;
pub mod event;
mod fire;
mod flood;
mod handle;
mod input;
pub mod status;
mod timer_loop;

#[cfg(test)]
mod tests;

pub use self::{
    effect::{Effect, Effects, EpochReport, InputCounts, StopCause, Warning},
    event::{Event, PluginSwitch},
    status::{LaneStatus, SourceCondition, SourceStatus},
};

use self::{close::Offered, counts::Counts, flood::FloodWatch, timer_loop::LoopWatch};
use crate::{
    context::{Context, ContextParts},
    epoch::{Attempt, Continuation, Epoch, EpochRecord, Firing, LaneId, Owner, StoredHead},
    identity::Identity,
    options::LaneOptions,
    plugin::{MatchFunction, PluginDescriptor},
    record::{DecodedRecord, InputIndex, Source},
    schedule::Heads,
    state::{StateId, StateStore},
    time::ProcessingTime,
    watermark::{Combiner, Idleness, SourceWatermark},
};

/// Records of a source below which more are wanted.
const QUEUE_LOW: usize = 1_000;
/// Bytes of a source's queued records below which more are wanted.
const QUEUE_LOW_BYTES: usize = 1 << 20;

/// What a lane is made of.
pub struct LaneParts {
    /// Its number.
    pub lane: LaneId,
    /// Its sources, by input, then partition.
    pub sources: Vec<Source>,
    /// The rules.
    pub options: LaneOptions,
    /// Keyed state, standing at `start`.
    pub store: Box<dyn StateStore>,
    /// The plugin's handlers.
    pub function: Box<dyn MatchFunction>,
    /// What the plugin says of itself.
    pub descriptor: PluginDescriptor,
    /// The durable number of each described state.
    pub state_ids: Vec<StateId>,
    /// The digest of the plugin revision.
    pub revision: String,
    /// Who this is, drawn anew with each acquisition.
    pub attempt: Attempt,
    /// The process, for people.
    pub owner: Owner,
    /// Where it goes on.
    pub start: Start,
    /// The wall clock now.
    pub now: ProcessingTime,
}

/// Where a lane goes on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Start {
    /// It has never run.
    Genesis {
        /// What may not change from here on.
        identity: Identity,
        /// The first offset of each source.
        positions: Vec<i64>,
    },
    /// Behind a committed epoch that the store has applied.
    Resume(Box<StoredHead>),
}

/// One source and what the lane knows of it.
#[derive(Debug)]
struct SourceTrack {
    source: Source,
    watermark: SourceWatermark,
    idleness: Idleness,
    /// The next offset to read.
    position: i64,
    /// Where the source stands once its queue is empty.
    end_position: Option<i64>,
    /// When its watermark moved last.
    moved_at: ProcessingTime,
    has_records: bool,
    /// Bytes of the records that wait in its queue.
    queued_bytes: usize,
    /// Whether the head is too far in the future to move time.
    is_head_skewed: bool,
    /// Whether every lane reads it.
    is_broadcast: bool,
}

/// A lane.
pub struct Lane {
    lane: LaneId,
    options: LaneOptions,
    revision: String,
    attempt: Attempt,
    owner: Owner,
    function: Box<dyn MatchFunction>,
    /// Absent only while a call runs.
    context: Option<Box<Context>>,
    tracks: Vec<SourceTrack>,
    heads: Heads<DecodedRecord>,
    combiner: Combiner,
    /// The source of each place in the combiner: inputs without event time take no part.
    timed: Vec<usize>,
    wants: Vec<bool>,
    /// The last committed epoch's record and hash.
    head: Option<(EpochRecord, u64)>,
    genesis: Option<Identity>,
    firing: Option<Firing>,
    continuation: Option<Continuation>,
    /// Whether processing time has moved since its timers were looked at.
    clock_moved: bool,
    /// Since when all sources are idle, and the watermark then.
    all_idle: Option<(ProcessingTime, i64)>,
    /// Whether heads or activity changed since the watermark was combined.
    is_watermark_stale: bool,
    loop_watch: LoopWatch,
    flood: FloodWatch,
    counts: Counts,
    /// When the open epoch got its first work.
    opened_at: Option<ProcessingTime>,
    wants_close: bool,
    calls_made: u32,
    /// An acquired lane shows that it owns: its first epoch is committed even when empty.
    owes_ownership: bool,
    /// When the last epoch was committed, or the lane acquired.
    committed_at: ProcessingTime,
    /// How long epochs last now: `commit.every`, longer while commits are slow.
    epoch_length: i64,
    /// How long the last commit took, ms.
    commit_ms: i64,
    offered: Option<Offered>,
    is_stopped: bool,
    is_finished: bool,
}

impl Lane {
    /// Returns a lane that goes on where `parts.start` says.
    ///
    /// # Panics
    ///
    /// When the committed sources are not the lane's: the identity was not compared before.
    #[must_use]
    pub fn new(parts: LaneParts) -> Self {
        let (head, genesis, positions) = match parts.start {
            Start::Genesis { identity, positions } => (None, Some(identity), positions),
            Start::Resume(head) => {
                let positions = head.record.sources.iter().map(|state| state.position).collect();
                (Some((head.record, head.hash)), None, positions)
            }
        };
        let record = head.as_ref().map(|(record, _)| record);
        let committed_clock = record.map_or(i64::MIN, |record| record.processing_time);
        let now = committed_clock.max(parts.now);
        let mut context = Context::new(
            ContextParts {
                store: parts.store,
                descriptor: parts.descriptor,
                state_ids: parts.state_ids,
                inputs: parts.options.inputs.iter().map(|input| input.name.clone()).collect(),
                outputs: parts.options.outputs.clone(),
                late_output: parts.options.late_output,
                limits: parts.options.limits,
            },
            record,
        );
        context.clocks.processing_time = now;
        let tracks = tracks(&parts.sources, &positions, record, &parts.options, now);
        let heads = heads(&tracks, record, &parts.options, now);
        let timed: Vec<usize> = (0..tracks.len())
            .filter(|at| is_timed(&parts.options, tracks[*at].source.input))
            .collect();
        let mut lane = Self {
            lane: parts.lane,
            revision: parts.revision,
            attempt: parts.attempt,
            owner: parts.owner,
            function: parts.function,
            combiner: Combiner::new(timed.len(), context.watermark()),
            context: Some(Box::new(context)),
            wants: vec![true; tracks.len()],
            firing: record.and_then(|record| record.firing),
            continuation: record.and_then(|record| record.continuation.clone()),
            clock_moved: true,
            all_idle: None,
            is_watermark_stale: true,
            loop_watch: LoopWatch::new(parts.options.limits.firings_per_timer_max),
            flood: FloodWatch::new(parts.options.dead_letter_rate),
            counts: Counts::new(parts.options.inputs.len(), parts.options.outputs.len()),
            opened_at: None,
            wants_close: false,
            calls_made: 0,
            owes_ownership: true,
            committed_at: now,
            epoch_length: parts.options.commit.every,
            commit_ms: 0,
            offered: None,
            is_stopped: false,
            is_finished: false,
            options: parts.options,
            tracks,
            heads,
            timed,
            head,
            genesis,
        };
        lane.tell_combiner();
        lane
    }

    /// Handles one event at a time of the lane's clock, adds what it asks for to `effects`, and
    /// returns when it wants to be called again if nothing happens.
    pub fn step(
        &mut self,
        now: ProcessingTime,
        event: Event,
        effects: &mut Effects,
    ) -> Option<ProcessingTime> {
        if self.is_stopped {
            return None;
        }
        self.move_clock(now);
        match event {
            Event::Fetched { source, records } => self.fetched(source, records),
            Event::AtEnd { source, position } => self.at_end(source, position),
            Event::Unknown { source } => self.unknown(source),
            Event::Gap { source, position, lost } => self.gap(source, position, lost),
            Event::Ended { source } => self.ended(source),
            Event::Watermark { source, watermark } => self.told_watermark(source, watermark),
            Event::Proceed { calls_max } => self.proceed(calls_max, effects),
            Event::Close => {
                self.wants_close = true;
                self.proceed(0, effects);
            }
            Event::Committed { journal_next } => self.committed(journal_next, effects),
            Event::Switch(switch) => self.switch(*switch),
        }
        self.next_deadline()
    }

    fn proceed(&mut self, calls_max: u32, effects: &mut Effects) {
        self.calls_made = 0;
        while self.offered.is_none() && !self.is_stopped {
            if self.is_epoch_over() {
                self.close(effects);
                return;
            }
            if self.calls_made >= calls_max || !self.work(effects) {
                return;
            }
            self.calls_made += 1;
        }
    }

    /// Does the next piece of work; returns false when there is none.
    fn work(&mut self, effects: &mut Effects) -> bool {
        if let Some(continuation) = self.continuation.take() {
            self.run_continuation(continuation, effects);
            return true;
        }
        if self.fire_next(effects) {
            return true;
        }
        if self.take_next(effects) {
            return true;
        }
        self.note_end();
        false
    }

    fn now(&self) -> ProcessingTime {
        self.context().clocks.processing_time
    }

    fn context(&self) -> &Context {
        self.context.as_ref().expect("the context is absent only inside a call")
    }

    fn context_mut(&mut self) -> &mut Context {
        self.context.as_mut().expect("the context is absent only inside a call")
    }

    /// Returns, for each source, whether more of its records are wanted.
    #[must_use]
    pub fn wants(&self) -> &[bool] {
        &self.wants
    }

    /// Returns how many of the calls that the last [`Event::Proceed`] allowed were made.
    #[must_use]
    pub fn calls_made(&self) -> u32 {
        self.calls_made
    }

    /// Returns whether an epoch is open with work in it, or offered.
    #[must_use]
    pub fn has_uncommitted_work(&self) -> bool {
        self.opened_at.is_some() || self.offered.is_some()
    }

    /// Returns whether an epoch is offered: the next event must be [`Event::Committed`].
    #[must_use]
    pub fn is_closed(&self) -> bool {
        self.offered.is_some()
    }

    /// Returns how long an epoch with work in it stays open now, ms: `commit.every`, or as long as
    /// the last commit took where that was longer, up to 8 × `commit.every`.
    ///
    /// So no more than about half of a lane's time goes into commits while they are slow, and one
    /// commit that hung does not make the next epoch hang.
    #[must_use]
    pub fn epoch_length(&self) -> i64 {
        self.epoch_length
    }

    /// Takes the store back, to be used by the lane's successor.
    #[must_use]
    pub fn into_store(self) -> Box<dyn StateStore> {
        let context = self.context.expect("the context is absent only inside a call");
        context.store
    }

    fn switch(&mut self, switch: PluginSwitch) {
        assert!(self.opened_at.is_none() && self.offered.is_none(), "a swap is between two epochs");
        self.function = switch.function;
        self.revision = switch.revision;
        self.options.roles = switch.roles;
        self.options.outputs.clone_from(&switch.outputs);
        self.options.late_output = switch.late_output;
        self.counts = Counts::new(self.options.inputs.len(), switch.outputs.len());
        self.context_mut().switch_plugin(
            switch.descriptor,
            switch.state_ids,
            switch.outputs,
            switch.late_output,
        );
    }

    /// Returns its number.
    #[must_use]
    pub fn id(&self) -> LaneId {
        self.lane
    }

    /// Returns the last committed epoch.
    #[must_use]
    pub fn epoch(&self) -> Option<Epoch> {
        self.head.as_ref().map(|(record, _)| record.epoch)
    }
}

/// Nothing is known of a source yet, unless it has ended for good; one of a broadcast input may have
/// grown since.
fn heads(
    tracks: &[SourceTrack],
    record: Option<&EpochRecord>,
    options: &LaneOptions,
    now: ProcessingTime,
) -> Heads<DecodedRecord> {
    let mut heads = Heads::new(tracks.len(), now);
    let is_ended = |at: usize| record.is_some_and(|record| record.sources[at].is_ended);
    for (at, track) in tracks.iter().enumerate() {
        if track.is_broadcast {
            heads.comes_first(at);
        } else if is_ended(at) {
            heads.ended(at);
        }
        if options.inputs[usize::from(track.source.input.0)].bootstrap {
            heads.load_first(at);
        } else if !track.is_broadcast {
            heads.wait_for_loading(at);
        }
    }
    heads
}

fn is_timed(options: &LaneOptions, input: InputIndex) -> bool {
    options.inputs[usize::from(input.0)].watermark != crate::options::WatermarkRule::None
}

fn tracks(
    sources: &[Source],
    positions: &[i64],
    record: Option<&EpochRecord>,
    options: &LaneOptions,
    now: ProcessingTime,
) -> Vec<SourceTrack> {
    assert_eq!(sources.len(), positions.len(), "every source has a position");
    let track = |(at, (source, position)): (usize, (&Source, &i64))| {
        let committed = record.map(|record| &record.sources[at]);
        if let Some(committed) = committed {
            assert_eq!(committed.source, *source, "the identity keeps sources in order");
        }
        let input = &options.inputs[usize::from(source.input.0)];
        SourceTrack {
            source: *source,
            watermark: committed
                .map_or_else(SourceWatermark::default, |c| SourceWatermark::restored(c.watermark)),
            idleness: Idleness::new(input.idle_after),
            position: *position,
            end_position: None,
            moved_at: now,
            has_records: committed
                .is_some_and(|committed| committed.watermark != crate::time::NO_WATERMARK),
            queued_bytes: 0,
            is_head_skewed: false,
            is_broadcast: input.is_broadcast,
        }
    };
    sources.iter().zip(positions).enumerate().map(track).collect()
}
