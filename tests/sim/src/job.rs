//! The jobs that are simulated: a plugin as production calls it, and a model of it that knows
//! neither overlay nor store nor queue.
//!
//! A `Recorder` around the plugin notes every call in the order it was made; the model replays
//! the calls of committed epochs and says what they should have emitted.

pub mod ledger;
pub mod payment;

use std::{
    collections::BTreeSet,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicU32, Ordering},
    },
};

use bytes::Bytes;
use dovetail_core::{
    context::{Context, Subject},
    epoch::LaneId,
    lane::PluginSwitch,
    options::OutputOptions,
    plugin::{CallResult, MatchFunction, PluginDescriptor},
    state::{ExpiryTable, StateId},
    timers::{Timer, TimerDomain},
};
use dovetail_runtime::Revision;
use dovetail_sdk::NativePlugin;
use order_payment::OrderPayment;
use serde::{Deserialize, Serialize};

use crate::bugs::Bug;

/// What a call was about.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CallSubject {
    /// A record.
    Record {
        /// The input.
        input: u16,
        /// The offset.
        offset: i64,
        /// The event time.
        time: i64,
        /// The value.
        value: Bytes,
    },
    /// A timer.
    Timer {
        /// Its time; of a *continue* the event time of the call that asked.
        time: Option<i64>,
        /// Its domain.
        domain: TimerDomain,
        /// Its mark.
        tag: u64,
    },
}

/// One call of the plugin.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Call {
    /// What about.
    pub subject: CallSubject,
    /// Whose.
    pub key: Bytes,
    /// The partition.
    pub partition: u16,
    /// The revision that was called.
    pub revision: u32,
    /// The lane's watermark then.
    pub watermark: i64,
    /// The lane's clock then.
    pub processing_time: i64,
    /// Whether the record was late.
    pub is_late: bool,
}

/// Calls that are not committed yet.
pub type Calls = Arc<Mutex<Vec<Call>>>;

/// What the instances of one lane in one process share.
#[derive(Debug, Clone, Default)]
pub struct LaneCalls {
    /// Where calls are noted.
    pub calls: Calls,
    /// The number of the revision in the plugin file.
    pub newest: Arc<AtomicU32>,
}

/// What a model says a call should have done.
#[derive(Debug, Default)]
pub struct Expected {
    /// What it emitted: output, key, value.
    pub outputs: Vec<Out>,
    /// The *continue* it asked for.
    pub continues: Option<u64>,
    /// It failed, and is tried once more at once.
    pub is_retried: bool,
}

/// A record that was emitted.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Out {
    /// The output; [`DEAD_LETTERS`] for a dead letter.
    pub output: u16,
    /// The key.
    pub key: Bytes,
    /// The value.
    pub value: Bytes,
}

/// The number that stands for the dead-letter topic.
pub const DEAD_LETTERS: u16 = 2;

/// The timers that should be registered, in the order they fire.
#[derive(Debug, Default)]
pub struct TimerSet {
    /// Event-time timers.
    pub event: BTreeSet<Timer>,
    /// Processing-time timers.
    pub processing: BTreeSet<Timer>,
}

impl TimerSet {
    /// Returns the set of a domain.
    pub fn of(&mut self, domain: TimerDomain) -> &mut BTreeSet<Timer> {
        match domain {
            TimerDomain::Processing => &mut self.processing,
            TimerDomain::Event | TimerDomain::Continue => &mut self.event,
        }
    }
}

/// Returns the timer of a call's key.
#[must_use]
pub fn timer_of(call: &Call, time: i64, tag: u64) -> Timer {
    let partition = dovetail_core::record::Partition(call.partition);
    Timer { time, key: dovetail_core::key::Key(call.key.clone()), tag, partition }
}

/// What a job should do, call by call.
pub trait Model: Send {
    /// Takes the next call; its timer is no longer in `timers`.
    fn call(&mut self, call: &Call, timers: &mut TimerSet) -> Expected;
}

/// Which job is simulated.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Job {
    /// The reference plugin that joins orders with payments.
    Payment,
    /// A plugin of the simulator's own that uses everything a call can reach.
    Ledger,
}

impl Job {
    /// Returns its model.
    #[must_use]
    pub fn model(self) -> Box<dyn Model> {
        match self {
            Self::Payment => Box::new(payment::PaymentModel::default()),
            Self::Ledger => Box::new(ledger::LedgerModel::default()),
        }
    }

    /// Returns which of its states expire; states are numbered in the order of its description.
    #[must_use]
    pub fn expiry(self) -> ExpiryTable {
        let states = match self {
            Self::Payment => Vec::new(),
            Self::Ledger => ledger::descriptor().states,
        };
        ExpiryTable::new((0..).map(StateId).zip(states.into_iter().map(|state| state.expiry)))
    }

    fn open(self, revision: u32) -> Result<(Box<dyn MatchFunction>, PluginDescriptor), String> {
        match self {
            Self::Ledger => Ok((Box::new(ledger::Ledger::new(revision)), ledger::descriptor())),
            Self::Payment => {
                let opened = NativePlugin::<OrderPayment>::new(payment::config(revision));
                let (plugin, descriptor) = opened.map_err(|error| error.to_string())?;
                Ok((Box::new(plugin), descriptor))
            }
        }
    }
}

/// Notes every call of the function it wraps.
struct Recorder {
    function: Box<dyn MatchFunction>,
    job: Job,
    revision: u32,
    /// The number of the revision in the plugin file.
    newest: Arc<AtomicU32>,
    calls: Calls,
    bug: Option<Bug>,
}

impl Recorder {
    /// Does what [`Bug::SwapInsideEpoch`] does.
    fn spoil(&mut self) {
        let newest = self.newest.load(Ordering::Relaxed);
        if self.bug == Some(Bug::SwapInsideEpoch)
            && newest > self.revision
            && let Ok((function, _)) = self.job.open(newest)
        {
            (self.function, self.revision) = (function, newest);
        }
    }

    fn note(&self, context: &Context) {
        let current = context.current();
        let subject = match &current.subject {
            Subject::None => return,
            Subject::Record { input, record, time, .. } => CallSubject::Record {
                input: input.0,
                offset: record.offset,
                time: time.unwrap_or(i64::MIN),
                value: record.value.clone().unwrap_or_default(),
            },
            Subject::Timer { time, domain, tag } => {
                CallSubject::Timer { time: *time, domain: *domain, tag: *tag }
            }
        };
        let call = Call {
            subject,
            key: current.key.clone().unwrap_or_default().0,
            partition: current.partition.0,
            revision: self.revision,
            watermark: context.watermark(),
            processing_time: context.processing_time(),
            is_late: context.is_late(),
        };
        self.calls.lock().unwrap_or_else(PoisonError::into_inner).push(call);
    }

    fn ended(&self, (context, result): (Box<Context>, CallResult)) -> (Box<Context>, CallResult) {
        match self.bug {
            Some(Bug::UndoMissing) => (context, Ok(())),
            _ => (context, result),
        }
    }
}

impl MatchFunction for Recorder {
    fn process_element(&mut self, context: Box<Context>) -> (Box<Context>, CallResult) {
        self.spoil();
        self.note(&context);
        let ended = self.function.process_element(context);
        self.ended(ended)
    }

    fn process_broadcast(&mut self, context: Box<Context>) -> (Box<Context>, CallResult) {
        self.spoil();
        self.note(&context);
        let ended = self.function.process_broadcast(context);
        self.ended(ended)
    }

    fn on_timer(&mut self, context: Box<Context>) -> (Box<Context>, CallResult) {
        self.spoil();
        self.note(&context);
        let ended = self.function.on_timer(context);
        self.ended(ended)
    }

    fn renew(&mut self) {
        self.function.renew();
    }
}

/// What the digest of a simulated revision begins with; its number follows.
pub const REVISION: &str = "revision-";

/// A revision, for one process.
pub struct SimRevision {
    job: Job,
    bug: Option<Bug>,
    number: u32,
    digest: String,
    /// The revision that the process started with.
    started_with: u32,
    descriptor: PluginDescriptor,
    calls: Vec<LaneCalls>,
    /// Lanes that were given an instance.
    made: Mutex<BTreeSet<u16>>,
}

impl SimRevision {
    /// Returns a job's revision of a number for a process that started with another; `calls` are
    /// where each lane's calls are noted.
    ///
    /// # Errors
    ///
    /// When the plugin cannot be opened.
    pub fn new(
        job: Job,
        bug: Option<Bug>,
        (number, started_with): (u32, u32),
        calls: Vec<LaneCalls>,
    ) -> Result<Self, String> {
        let (_, descriptor) = job.open(number)?;
        let (digest, made) = (format!("{REVISION}{number}"), Mutex::default());
        Ok(Self { job, bug, number, digest, started_with, descriptor, calls, made })
    }
}

/// Returns the options of an output.
#[must_use]
pub fn output(name: &str) -> OutputOptions {
    let topic = name.to_owned();
    OutputOptions { name: name.to_owned(), topic, max_record_bytes: 1 << 20, requires_key: false }
}

impl Revision for SimRevision {
    fn digest(&self) -> &str {
        &self.digest
    }

    fn descriptor(&self) -> &PluginDescriptor {
        &self.descriptor
    }

    fn instantiate(&self, lane: LaneId, state_ids: Vec<StateId>) -> Result<PluginSwitch, String> {
        let is_first = self.made.lock().unwrap_or_else(PoisonError::into_inner).insert(lane.0);
        let revision = match self.bug {
            Some(Bug::SwapForgotten) if !is_first => self.started_with,
            _ => self.number,
        };
        let (function, descriptor) = self.job.open(revision)?;
        let LaneCalls { calls, newest } =
            self.calls.get(usize::from(lane.0)).cloned().unwrap_or_default();
        let (job, bug) = (self.job, self.bug);
        Ok(PluginSwitch {
            function: Box::new(Recorder { function, job, revision, newest, calls, bug }),
            descriptor,
            state_ids,
            roles: vec![0, 1, 2],
            outputs: vec![output("main"), output("late")],
            late_output: None,
            revision: format!("{REVISION}{revision}"),
        })
    }
}
