//! Everything that can make a lane act.

use crate::{
    options::OutputOptions,
    plugin::{MatchFunction, PluginDescriptor},
    record::{DecodedRecord, SourceIndex},
    state::StateId,
    time::EventTime,
};

/// Everything that can make a lane act. Time arrives beside it, in [`super::Lane::step`].
pub enum Event {
    /// Records of one source, in order, following what came before.
    Fetched {
        /// The source.
        source: SourceIndex,
        /// The records, decoded.
        records: Vec<DecodedRecord>,
    },
    /// A source has nothing after what was fetched.
    AtEnd {
        /// The source.
        source: SourceIndex,
        /// The next offset; may lie behind the last record.
        position: i64,
    },
    /// A source's end is not known.
    Unknown {
        /// The source.
        source: SourceIndex,
    },
    /// A source goes on at another position than it stood at: what was there is gone. Comes before
    /// anything else of the source.
    Gap {
        /// The source.
        source: SourceIndex,
        /// The next offset.
        position: i64,
        /// How many offsets were jumped over.
        lost: u64,
    },
    /// A bounded source has nothing left and never will.
    Ended {
        /// The source.
        source: SourceIndex,
    },
    /// A source's watermark is told, instead of following from its records.
    Watermark {
        /// The source.
        source: SourceIndex,
        /// No more records with event time ≤ this are expected.
        watermark: EventTime,
    },
    /// Go on: fire what is due and handle records, at most this many calls.
    Proceed {
        /// Calls at most.
        calls_max: u32,
    },
    /// End the open epoch as soon as the current call is over (a stop, a swap, a hand-over).
    Close,
    /// The epoch that was offered is committed.
    Committed {
        /// The journal offset behind its record.
        journal_next: i64,
    },
    /// Take over another revision; only between two epochs.
    Switch(Box<PluginSwitch>),
}

/// Another revision of the plugin, through the gate and ready to run.
pub struct PluginSwitch {
    /// Its handlers.
    pub function: Box<dyn MatchFunction>,
    /// What it says of itself.
    pub descriptor: PluginDescriptor,
    /// The durable number of each of its states.
    pub state_ids: Vec<StateId>,
    /// `roles[input]` is its number for that input.
    pub roles: Vec<u32>,
    /// Its outputs, in the order of `describe`.
    pub outputs: Vec<OutputOptions>,
    /// Which of them is named `late`.
    pub late_output: Option<u16>,
    /// Its digest.
    pub revision: String,
}
