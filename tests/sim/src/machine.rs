//! Machines and their processes: starting, running a lane's next turn, dying, standing still.

mod desk;

use std::{
    sync::{Arc, Mutex, MutexGuard, PoisonError, atomic::AtomicBool},
    time::Duration,
};

use dovetail_core::{
    epoch::{Attempt, LaneId, Owner},
    identity::{BROADCAST, Identity, InputIdentity, states_of},
    key::Key,
    options::{
        CallLimits, CommitOptions, DeadLetterRate, InputOptions, KEEPALIVE_EVERY_DEFAULT,
        LaneOptions, LatePolicy, NullKeyPolicy, SkewReference, WatermarkRule, WhenAllIdle,
    },
    record::{DecodedRecord, Decoding, InputIndex, Partition, Record, Source},
};
use dovetail_runtime::{
    CheckpointSetup, FatalCause, Handle, LaneSetup, PipelineSetup, Revision,
    claim::Claim,
    driver::{Advance, LaneDriver, LaneEnd},
    handle::LanePort,
    key_watch::KeyWatch,
    revisions::{RevisionOrigin, SwapError},
};

pub use self::desk::Desk;
pub(crate) use self::desk::run_checkpointer;
use crate::{
    bugs::Bug,
    disk::{Disk, SharedDisk, SimStores},
    faults::{DiskFate, Knobs, Point},
    job::{Calls, LaneCalls, SimRevision, output},
    log::SimLog,
    objects::SimCheckpoints,
    workload::{BASE, RULES},
    world::{Event, Process, Shared, SimClock, World},
};

/// The longest wait of a lane's loop, ms.
const WAIT_MAX: i64 = 1_000;

/// What waits for a process at a point.
#[derive(Debug, Clone, Copy)]
pub enum Trap {
    /// It dies there.
    Crash(Point, DiskFate),
    /// It stands still there, ms.
    Pause(Point, i64),
}

/// The quality of a machine's network until a time.
#[derive(Debug, Clone, Copy, Default)]
pub struct Network {
    /// Percent of messages lost.
    pub loss: u32,
    /// The longest delay, ms.
    pub delay_max: i64,
    /// Until then.
    pub until: i64,
}

/// What happens to a machine's next requests to end a transaction.
#[derive(Debug, Clone, Copy, Default)]
pub struct Ends {
    /// So many are lost.
    pub lost: u32,
    /// So many are executed and not answered.
    pub unanswered: u32,
    /// The next one stays in the network.
    pub is_held: bool,
}

/// One lane of a process.
#[derive(Default)]
pub struct Slot {
    /// Absent while it runs, and when it has ended.
    pub driver: Option<LaneDriver>,
    /// When it runs next.
    pub wake_at: i64,
    /// When something may arrive for it.
    pub hint: Option<i64>,
    /// How it ended.
    pub end: Option<LaneEnd>,
}

/// A machine.
pub struct Machine {
    /// Whether its process lives.
    pub is_up: bool,
    /// Which life.
    pub incarnation: u64,
    /// It stands still until then.
    pub paused_until: i64,
    /// It reaches no broker until then.
    pub outage_until: i64,
    /// Its network.
    pub network: Network,
    /// What its wall clock is off by, ms.
    pub clock_offset: i64,
    /// What waits for its process.
    pub trap: Option<Trap>,
    /// What happens to its ends of transactions.
    pub ends: Ends,
    /// Its state directories.
    pub disks: Vec<SharedDisk>,
    /// Its lanes.
    pub slots: Vec<Slot>,
    /// Its checkpointer, where it has one.
    pub desk: Option<Desk>,
    /// Starts that are under way.
    pub starting: u32,
    /// Whether it is to start again once it has stopped.
    pub restarts: bool,
    /// The revision that its process started with.
    started_with: u32,
    /// Where the calls of its lanes are noted.
    pub(crate) calls: Vec<LaneCalls>,
    handle: Option<Handle>,
    dead: Vec<LaneDriver>,
}

impl Machine {
    /// Returns a machine whose process was never started.
    #[must_use]
    pub fn new(lanes: u16) -> Self {
        Self {
            is_up: false,
            incarnation: 0,
            paused_until: 0,
            outage_until: 0,
            network: Network::default(),
            clock_offset: 0,
            trap: None,
            ends: Ends::default(),
            disks: (0..lanes).map(|_| Arc::new(Mutex::new(Disk::default()))).collect(),
            slots: Vec::new(),
            desk: None,
            starting: 0,
            restarts: false,
            started_with: 0,
            calls: Vec::new(),
            handle: None,
            dead: Vec::new(),
        }
    }
}

/// Locks a disk.
pub fn lock(disk: &SharedDisk) -> MutexGuard<'_, Disk> {
    disk.lock().unwrap_or_else(PoisonError::into_inner)
}

impl World {
    pub(crate) fn start(&mut self, shared: &Arc<Shared>, at: usize) {
        if self.is_meddling {
            self.schedule(self.now + 500, Event::Start(at));
            return;
        }
        let incarnation = self.next_incarnation();
        let machine = &mut self.machines[at];
        machine.starting = machine.starting.saturating_sub(1);
        let knows = machine.disks.iter().all(|disk| lock(disk).knows())
            || (0..self.plan.knobs.lanes).all(|lane| self.objects.manifests(lane).next().is_some());
        if machine.is_up || (self.only_copies_know && !knows) {
            return;
        }
        machine.is_up = true;
        machine.restarts = false;
        machine.incarnation = incarnation;
        machine.paused_until = 0;
        machine.started_with = self.revision;
        machine.calls = (0..self.plan.knobs.lanes).map(|_| LaneCalls::default()).collect();
        let process = Process { machine: at, incarnation };
        let knobs = self.plan.knobs.clone();
        self.note(&format!("m{at} starts as {incarnation}"));
        let calls = self.machines[at].calls.clone();
        let Some(revision) = self.revision_for(at) else { return };
        let mut setup = pipeline(shared, &knobs, process, revision);
        for input in &mut setup.identity.inputs {
            input.partitions += self.added_partitions;
        }
        if self.bug == Some(Bug::KeepaliveForgotten) {
            setup.options.commit.keepalive_every = i64::MAX;
        }
        let (desk, jobs) = Desk::new(knobs.lanes);
        let claim = Arc::new(Claim::default());
        self.objects.copy();
        let keys = Arc::new(KeyWatch::new(setup.names()));
        let mut ports = Vec::new();
        let mut slots = Vec::new();
        for lane in 0..knobs.lanes {
            let is_acquiring = Arc::new(AtomicBool::new(false));
            let disk = &self.machines[at].disks[usize::from(lane)];
            lock(disk).owner = incarnation;
            lock(disk).copy();
            let stores = SimStores {
                shared: Arc::clone(shared),
                process,
                lane,
                disk: Arc::clone(disk),
                is_acquiring,
            };
            let calls = Arc::clone(&calls[usize::from(lane)].calls);
            let parts = lane_setup(shared, process, lane, &knobs, calls, stores);
            let (port, commands) = LanePort::new(LaneId(lane), parts.log.waker(), BASE);
            ports.push(Arc::clone(&port));
            let mut attempts = u128::from(lane) << 32;
            let attempts = Box::new(move || {
                attempts += 1;
                Attempt(u128::from(incarnation) << 64 | attempts)
            });
            let keys = Arc::clone(&keys);
            let driver = LaneDriver::new(parts, setup.clone(), (port, commands), keys, attempts)
                .with_claim(Arc::clone(&claim))
                .with_checkpointer(jobs.clone());
            let wake_at = self.now + self.rng.range(0, 5);
            slots.push(Slot { driver: Some(driver), wake_at, ..Slot::default() });
        }
        let machine = &mut self.machines[at];
        machine.slots = slots;
        machine.desk = Some(desk);
        machine.handle = Some(Handle::new(&setup, ports, keys));
    }

    /// Returns the newest revision, for the process of a machine.
    fn revision_for(&mut self, at: usize) -> Option<Arc<SimRevision>> {
        let machine = &self.machines[at];
        let numbers = (self.revision, machine.started_with);
        let calls = machine.calls.clone();
        match SimRevision::new(self.plan.knobs.job, self.bug, numbers, calls) {
            Ok(revision) => Some(Arc::new(revision)),
            Err(error) => {
                self.fail(error);
                None
            }
        }
    }

    /// A process notices that the plugin file has changed.
    pub(crate) fn notice(&mut self, at: usize, incarnation: u64) {
        let machine = &self.machines[at];
        if !machine.is_up || machine.incarnation != incarnation {
            return;
        }
        if machine.paused_until > self.now {
            return self.schedule(machine.paused_until, Event::Notice(at, incarnation));
        }
        let Some(handle) = machine.handle.clone() else { return };
        let Some(revision) = self.revision_for(at) else { return };
        let revision: Arc<dyn Revision> = revision;
        // The lanes run in this thread: they switch later, each between two of its epochs.
        let begun = handle.swap_within(Duration::ZERO, &revision, RevisionOrigin::File, || Ok(()));
        match begun {
            Ok(()) | Err(SwapError::Slow { .. } | SwapError::Stopping { .. }) => {}
            Err(error) => self.fail(format!("a swap is refused: {error}")),
        }
        self.wake_all(5);
    }

    fn ended(&mut self, at: usize, lane: usize, end: LaneEnd) {
        self.note(&format!("m{at} lane {lane} ends: {end:?}"));
        if let LaneEnd::Fatal(FatalCause { message, .. }) = &end {
            self.fatal(message);
            self.stop(at);
        }
        let machine = &self.machines[at];
        if machine.slots.iter().any(|slot| slot.end.is_none()) {
            return;
        }
        let is_finished =
            machine.slots.iter().all(|slot| matches!(slot.end, Some(LaneEnd::Finished)));
        let restarts = machine.restarts;
        self.crash(at, DiskFate::Kept, restarts && !is_finished);
    }

    /// A lane stops its pipeline: for a cause that the plan has given, or for none.
    fn fatal(&mut self, message: &str) {
        if message.contains("has taken this lane over") {
            self.counts.takeovers += 1;
            return;
        }
        let is_disk = message.contains("keyed state cannot be read or written")
            || (message.contains("keyed state is damaged") && self.counts.rotten > 0);
        if is_disk {
            return;
        }
        if message.contains("other settings that may not change") {
            self.count_row(crate::rows::Row::PartitionsChanged);
        }
        // Without an identity nothing is decided.
        if message.contains("begins at epoch") && !message.starts_with("found ") {
            self.count_row(crate::rows::Row::JournalTooShort);
        }
        match self.may_halt {
            true => self.halted = Some(message.to_owned()),
            false => self.fail(format!("halt: stops without a cause: {message}")),
        }
    }

    /// Asks a process to stop.
    pub(crate) fn stop(&mut self, at: usize) {
        if let Some(handle) = &self.machines[at].handle {
            handle.stop();
        }
        self.wake_all(1);
    }

    /// A process dies at once, and starts again some time later if it is to.
    pub(crate) fn crash(&mut self, at: usize, fate: DiskFate, restarts: bool) {
        let bug = self.bug;
        let fate = if self.only_copies_know { DiskFate::Kept } else { fate };
        let machine = &mut self.machines[at];
        if !machine.is_up {
            return;
        }
        machine.is_up = false;
        machine.trap = None;
        machine.handle = None;
        machine.desk = None;
        let drivers = machine.slots.iter_mut().filter_map(|slot| slot.driver.take());
        machine.dead.extend(drivers);
        machine.starting += u32::from(restarts);
        for disk in &machine.disks {
            lock(disk).owner = 0;
            lock(disk).crash(fate, &mut self.rng, bug);
        }
        self.counts.crashes += 1;
        self.note(&format!("m{at} is down, its disk {fate:?}"));
        if restarts {
            let at_time = self.now + self.rng.range(20, 2_500);
            self.schedule(at_time, Event::Start(at));
        }
    }

    pub(crate) fn pause(&mut self, at: usize, ms: i64) {
        let until = self.now + ms;
        self.machines[at].paused_until = self.machines[at].paused_until.max(until);
    }

    /// Takes what is left of dead processes, to be dropped while the world is not locked.
    pub(crate) fn take_dead(&mut self) -> Vec<LaneDriver> {
        self.machines.iter_mut().flat_map(|machine| machine.dead.drain(..)).collect()
    }
}

/// Runs a lane's next turn; the world is released meanwhile.
pub(crate) fn run_slot(
    mut world: MutexGuard<'_, World>,
    shared: &Arc<Shared>,
    at: usize,
    lane: usize,
) {
    let incarnation = world.machines[at].incarnation;
    let slot = &mut world.machines[at].slots[lane];
    slot.hint = None;
    let Some(mut driver) = slot.driver.take() else { return };
    world.turning += 1;
    drop(world);
    let mut clock = SimClock { shared: Arc::clone(shared), machine: at };
    let advance = driver.advance(&mut clock);
    let mut world = shared.lock();
    if world.bug == Some(Bug::UploadOnCommitPath)
        && world.machines[at].desk.as_ref().is_some_and(Desk::has_work)
    {
        run_checkpointer(world, shared, at);
        world = shared.lock();
    }
    world.turning -= 1;
    let now = world.now;
    let is_same = world.machines[at].is_up && world.machines[at].incarnation == incarnation;
    if !is_same {
        drop(world);
        drop(driver);
        return;
    }
    let offset = world.machines[at].clock_offset;
    let busy = i64::from(world.rng.percent(25));
    let slot = &mut world.machines[at].slots[lane];
    match advance {
        Advance::Again => slot.wake_at = now + busy,
        Advance::Wait(until) => {
            let until = until.map_or(now + WAIT_MAX, |until| until - BASE - offset);
            let until = until.clamp(now + 1, now + WAIT_MAX);
            slot.wake_at = slot.hint.map_or(until, |hint| hint.max(now + 1).min(until));
        }
        Advance::Ended(end) => {
            slot.end = Some(end.clone());
            world.ended(at, lane, end);
            drop(world);
            drop(driver);
            return;
        }
    }
    slot.driver = Some(driver);
}

fn lane_setup(
    shared: &Arc<Shared>,
    process: Process,
    lane: u16,
    knobs: &Knobs,
    calls: Calls,
    stores: SimStores,
) -> LaneSetup {
    let sources = sources_of(lane, knobs);
    let is_acquiring = Arc::clone(&stores.is_acquiring);
    let log = SimLog::new(Arc::clone(shared), process, lane, sources.clone(), calls, is_acquiring);
    LaneSetup {
        lane: LaneId(lane),
        sources,
        log: Box::new(log),
        decoder: Box::new(|_: Source, record: Record| {
            let decoding =
                Decoding::Ready { key: record.key.clone().map(Key), time: record.timestamp };
            DecodedRecord { record, decoding }
        }),
        stores: Box::new(stores),
    }
}

/// Returns a lane's sources, by input, then partition; all of the broadcast input behind them.
#[must_use]
pub fn sources_of(lane: u16, knobs: &Knobs) -> Vec<Source> {
    let own = (0..knobs.partitions).filter(|partition| partition % knobs.lanes == lane);
    let of = |input| {
        own.clone().map(move |partition| Source {
            input: InputIndex(input),
            partition: Partition(partition),
        })
    };
    let rule = |partition| Source { input: InputIndex(RULES), partition: Partition(partition) };
    of(0).chain(of(1)).chain((0..knobs.rule_partitions).map(rule)).collect()
}

/// Returns where a process's checkpoints go, and when.
fn checkpoints(shared: &Arc<Shared>, knobs: &Knobs, process: Process) -> Option<CheckpointSetup> {
    let knobs = knobs.checkpoints?;
    let (every, keep, timeout) = (knobs.every, knobs.keep, knobs.timeout);
    let store = Arc::new(SimCheckpoints { shared: Arc::clone(shared), process, timeout });
    Some(CheckpointSetup { store, every, keep, timeout, grace: knobs.grace, before_trim: None })
}

fn pipeline(
    shared: &Arc<Shared>,
    knobs: &Knobs,
    process: Process,
    revision: Arc<SimRevision>,
) -> PipelineSetup {
    let has_rules = knobs.rule_partitions > 0;
    let names = &["order", "payment", "rules"][..if has_rules { 3 } else { 2 }];
    let keyed = |name: &str| InputOptions {
        name: name.to_owned(),
        topic: name.to_owned(),
        watermark: WatermarkRule::OutOfOrderness(knobs.out_of_orderness),
        idle_after: knobs.idle_after,
        max_future_skew: None,
        skew_reference: SkewReference::Clock,
        late: LatePolicy::Process,
        null_key: NullKeyPolicy::DeadLetter,
        is_broadcast: false,
        bootstrap: false,
    };
    let input = |name: &&str| match *name {
        "rules" => InputOptions {
            watermark: WatermarkRule::None,
            idle_after: None,
            is_broadcast: true,
            ..keyed(name)
        },
        _ => keyed(name),
    };
    let identity = |name: &&str| InputIdentity {
        name: (*name).to_owned(),
        topic: (*name).to_owned(),
        partitions: if *name == "rules" { knobs.rule_partitions } else { knobs.partitions },
        key_type: if *name == "rules" { BROADCAST } else { "string" }.to_owned(),
    };
    PipelineSetup {
        identity: Identity {
            pipeline: "simulated".to_owned(),
            cluster_id: "model".to_owned(),
            lanes: knobs.lanes,
            inputs: names.iter().map(identity).collect(),
            states: states_of(revision.descriptor()),
        },
        options: LaneOptions {
            pipeline: "simulated".to_owned(),
            inputs: names.iter().map(input).collect(),
            roles: vec![0, 1, 2],
            outputs: vec![output("main"), output("late")],
            late_output: None,
            wait_for_input: knobs.wait_for_input,
            when_all_idle: WhenAllIdle::Hold,
            commit: CommitOptions {
                every: knobs.commit_every,
                max_records: knobs.commit_records,
                max_bytes: 1 << 20,
                keepalive_every: knobs.keepalive_every.unwrap_or(KEEPALIVE_EVERY_DEFAULT),
            },
            dead_letter_rate: DeadLetterRate { percent_max: 100, from_count: 100 },
            limits: CallLimits::default(),
        },
        owner: Owner {
            host: format!("machine-{}", process.machine),
            pid: u32::try_from(process.incarnation).unwrap_or(0),
            started_at: BASE,
        },
        revision,
        transaction_timeout: knobs.transaction_timeout,
        checkpoints: checkpoints(shared, knobs, process),
        committed: None,
        untrimmed: knobs.keeps_journal().then(|| "the knobs say so".to_owned()),
    }
}
