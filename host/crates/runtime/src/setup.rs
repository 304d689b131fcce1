//! What a pipeline is started with: the ports' makers, and names for messages.
//!
//! Knows neither Kafka nor RocksDB nor Wasm: those are behind the traits here and in core.

use std::{fmt, sync::Arc};

use dovetail_core::{
    checkpoint::{CheckpointStore, Restoring},
    epoch::{LaneId, Owner},
    identity::Identity,
    lane::PluginSwitch,
    log::Log,
    options::{LaneOptions, WhenAllIdle},
    plugin::PluginDescriptor,
    record::{DecodedRecord, InputIndex, Record, Source},
    recovery::{Facts, Plan},
    state::{ExpiryTable, StateId, StateStore, StoreError},
};

/// Makes key and event time of a record.
pub trait Decode: Send {
    /// Decodes one record of a source. Whatever it is, it comes back: what cannot be used is
    /// rejected with a reason, never dropped.
    fn decode(&mut self, source: Source, record: Record) -> DecodedRecord;
}

impl<F: FnMut(Source, Record) -> DecodedRecord + Send> Decode for F {
    fn decode(&mut self, source: Source, record: Record) -> DecodedRecord {
        self(source, record)
    }
}

/// Opens the keyed state of one lane.
pub trait OpenStore: Send {
    /// Opens what is on disk, or a new one. Called again after a failure, when the earlier store
    /// has been dropped.
    ///
    /// # Errors
    ///
    /// When the disk fails, or what is stored is damaged beyond opening.
    fn open(&mut self, expiry: &ExpiryTable) -> Result<Box<dyn StateStore>, StoreError>;

    /// Takes over the expiries of another revision for the store that is open.
    fn set_expiry(&mut self, expiry: &ExpiryTable);

    /// Moves away what is stored, because reading it has shown damage or another history: the next
    /// [`Self::open`] starts with an empty store, which the journal fills. Called when the store has
    /// been dropped.
    /// The default is for stores that begin empty each time they are opened.
    ///
    /// # Errors
    ///
    /// When it cannot be moved; the damage is then met again.
    fn set_aside(&mut self, why: &str) -> Result<(), StoreError> {
        tracing::debug!("nothing to move aside: {why}");
        Ok(())
    }

    /// Begins to fill the lane's place with a checkpoint's files. Called when the store has been
    /// dropped and holds nothing applied. The default is for stores that nobody takes checkpoints
    /// of.
    ///
    /// # Errors
    ///
    /// When the disk fails.
    fn restore(&mut self) -> Result<Box<dyn Restoring + '_>, StoreError> {
        Err(StoreError::Unavailable("this store cannot be restored from a checkpoint".to_owned()))
    }

    /// Hears what an acquisition has found and what follows from it, before that is done. The
    /// default does not listen.
    fn decided(&mut self, _facts: &Facts, _plan: &Plan) {}
}

impl<F: FnMut(&ExpiryTable) -> Result<Box<dyn StateStore>, StoreError> + Send> OpenStore for F {
    fn open(&mut self, expiry: &ExpiryTable) -> Result<Box<dyn StateStore>, StoreError> {
        self(expiry)
    }

    fn set_expiry(&mut self, _expiry: &ExpiryTable) {}
}

/// A revision of the plugin that has passed the gate.
pub trait Revision: Send + Sync {
    /// Returns its digest.
    fn digest(&self) -> &str;

    /// Returns what it says of itself.
    fn descriptor(&self) -> &PluginDescriptor;

    /// Makes what one lane needs to run it, opened and ready.
    ///
    /// # Errors
    ///
    /// The plugin's own reason when its `open` fails, or why no instance could be made.
    fn instantiate(&self, lane: LaneId, state_ids: Vec<StateId>) -> Result<PluginSwitch, String>;
}

/// What one lane is made of.
pub struct LaneSetup {
    /// The lane.
    pub lane: LaneId,
    /// Its sources, ordered by input, then partition.
    pub sources: Vec<Source>,
    /// Its log; it stays through every recovery.
    pub log: Box<dyn Log>,
    /// Its decoder.
    pub decoder: Box<dyn Decode>,
    /// Opens its keyed state.
    pub stores: Box<dyn OpenStore>,
}

impl fmt::Debug for LaneSetup {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LaneSetup").field("lane", &self.lane).finish_non_exhaustive()
    }
}

/// Asked before the journal is trimmed, with the committed identity: why it must not be.
pub type BeforeTrim = Arc<dyn Fn(&Identity) -> Result<(), String> + Send + Sync>;

/// Where checkpoints go, and when.
#[derive(Clone)]
pub struct CheckpointSetup {
    /// The store.
    pub store: Arc<dyn CheckpointStore>,
    /// How often a lane takes one, ms.
    pub every: i64,
    /// How many stay.
    pub keep: usize,
    /// How long an upload may take, ms.
    pub timeout: i64,
    /// How long a file stays that no manifest reaches, ms: an upload in progress, of whoever, may
    /// count on it. Never shorter than three uploads may take.
    pub grace: i64,
    /// Asked before each trim; `None` = nobody objects.
    pub before_trim: Option<BeforeTrim>,
}

impl CheckpointSetup {
    /// The grace of a pipeline, ms: far longer than an upload may take, and than clocks differ.
    pub const GRACE_DEFAULT: i64 = 60 * 60 * 1_000;
}

impl fmt::Debug for CheckpointSetup {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CheckpointSetup")
            .field("store", &self.store.place())
            .finish_non_exhaustive()
    }
}

/// What all lanes of a pipeline share.
#[derive(Clone)]
pub struct PipelineSetup {
    /// The identity as configured, with the states of the first revision.
    pub identity: Identity,
    /// The committed identity, where the start has found it: a trimmed journal does not say it.
    pub committed: Option<Identity>,
    /// What the configuration decides about a lane.
    pub options: LaneOptions,
    /// This process.
    pub owner: Owner,
    /// The revision to start with.
    pub revision: Arc<dyn Revision>,
    /// How long the broker lets a transaction be open, in ms: bounds how long a fenced lane looks
    /// for its successor.
    pub transaction_timeout: i64,
    /// Checkpoints; `None` = nothing is uploaded and nothing trimmed.
    pub checkpoints: Option<CheckpointSetup>,
    /// Why the journal is not trimmed, for people; `None` = it is trimmed behind checkpoints.
    pub untrimmed: Option<String>,
}

impl fmt::Debug for PipelineSetup {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PipelineSetup").field("identity", &self.identity).finish_non_exhaustive()
    }
}

impl PipelineSetup {
    /// Returns the names for metrics and messages.
    #[must_use]
    pub fn names(&self) -> Names {
        let broadcast = self.options.inputs.iter().filter(|input| input.is_broadcast);
        Names {
            pipeline: self.options.pipeline.clone(),
            inputs: self.options.inputs.iter().map(|input| input.name.clone()).collect(),
            topics: self.options.inputs.iter().map(|input| input.topic.clone()).collect(),
            broadcast: broadcast.map(|input| input.name.clone()).collect(),
            outputs: self.options.outputs.iter().map(|output| output.name.clone()).collect(),
            when_all_idle: self.options.when_all_idle,
        }
    }
}

/// The names of a configuration.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Names {
    /// The pipeline.
    pub pipeline: String,
    /// The inputs in order.
    pub inputs: Vec<String>,
    /// The topic of each input.
    pub topics: Vec<String>,
    /// Those of the inputs that every lane reads whole.
    pub broadcast: Vec<String>,
    /// The outputs in the order of the lanes: every revision numbers them alike.
    pub outputs: Vec<String>,
    /// What event time does while every source is idle.
    pub when_all_idle: WhenAllIdle,
}

impl Names {
    /// Returns an input's name.
    #[must_use]
    pub fn input(&self, input: InputIndex) -> &str {
        self.inputs.get(usize::from(input.0)).map_or("?", String::as_str)
    }

    /// Returns whether every lane reads all of an input.
    #[must_use]
    pub fn is_broadcast(&self, input: &str) -> bool {
        self.broadcast.iter().any(|name| name == input)
    }
}

/// Returns the expiry of each of a revision's states, by durable number.
#[must_use]
pub fn expiry_of(descriptor: &PluginDescriptor, state_ids: &[StateId]) -> ExpiryTable {
    let expiries = descriptor.states.iter().map(|state| state.expiry);
    ExpiryTable::new(state_ids.iter().copied().zip(expiries))
}
