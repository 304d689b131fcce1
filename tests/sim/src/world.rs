//! The world: virtual time, the network, machines and their processes, and what happens next.
//!
//! One thread runs everything. A process that waits for an answer lets the world go on from inside
//! its call ([`Shared::call`]), so other processes, markers, timeouts and faults happen in between;
//! it goes on when its answer is there, or later, as any process may.
//!
//! Invariant: everything that happens is a function of the plan; nothing but its generator draws.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use bytes::Bytes;
use dovetail_core::{
    clock::Clock,
    epoch::{StoredHead, chunk::Assembler, codec},
    record::Record,
    recovery::Plan as Decision,
};

use crate::{
    bugs::Bug,
    disk::{self, SharedDisk},
    faults::{Fault, Knobs, Plan, Point},
    history::{LaneHistory, Rows},
    kafka::{Answer, Contents, Follow, Kafka, Place, Request},
    log::Observed,
    machine::{Machine, Trap, run_slot},
    rng::Rng,
    rows::{Row, row_of},
    trace::Trace,
    workload::{self, BASE, Write, Writing},
};

/// One life of a machine's process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Process {
    /// The machine.
    pub machine: usize,
    /// Which life.
    pub incarnation: u64,
}

/// A client's connections: requests on one arrive in order.
#[derive(Debug, Default)]
pub struct Connection {
    arrived_at: i64,
}

/// What is going to happen.
#[derive(Debug)]
pub(crate) enum Event {
    Arrive { id: u64, machine: usize, request: Request },
    Reply { id: u64, answer: Answer },
    Marker { lane: u16, place: Place },
    TimeOut { lane: u16, epoch: u32 },
    Write(usize),
    Fault(usize),
    Start(usize),
    Meddle(usize),
    WakeAll,
    Reload,
    Calm,
    Operator,
}

/// What came of a run.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Counts {
    /// Commits whose transaction was decided, by lane.
    pub commits: u64,
    /// Crashes.
    pub crashes: u64,
    /// Takeovers that a fenced process has found.
    pub takeovers: u64,
    /// Requests, and those that were lost on either way.
    pub requests: u64,
    /// Lost messages.
    pub lost: u64,
    /// Answers that said "fenced".
    pub fenced: u64,
    /// Transactions that the coordinator ended after their timeout.
    pub timeouts: u64,
    /// Commits that happened although their answer never arrived.
    pub unknown_commits: u64,
    /// Acquisitions by row of the decision.
    pub rows: BTreeMap<Row, u64>,
}

/// Everything there is.
pub struct World {
    pub(crate) now: i64,
    next: u64,
    pub(crate) rng: Rng,
    pub(crate) plan: Plan,
    pub(crate) bug: Option<Bug>,
    events: BTreeMap<(i64, u64), Event>,
    answers: BTreeMap<u64, Answer>,
    waiting: BTreeMap<u64, bool>,
    pub(crate) kafka: Kafka,
    pub(crate) histories: Vec<LaneHistory>,
    pub(crate) machines: Vec<Machine>,
    pub(crate) writings: Vec<Writing>,
    unwritten: usize,
    pub(crate) trace: Trace,
    pub(crate) violation: Option<String>,
    pub(crate) halted: Option<String>,
    /// Whether what an operator did allows, or demands, that the pipeline stops.
    pub(crate) may_halt: bool,
    pub(crate) must_halt: bool,
    pub(crate) is_meddling: bool,
    pub(crate) only_disks_know: bool,
    /// How often one last record was written to every source.
    pub(crate) lasts: i64,
    pub(crate) is_calm: bool,
    pub(crate) counts: Counts,
    incarnations: u64,
}

impl std::fmt::Debug for World {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("World").field("now", &self.now).finish_non_exhaustive()
    }
}

/// When the faults are over, virtual ms.
fn calm_at(plan: &Plan) -> i64 {
    let ends = plan.faults.iter().map(|fault| fault.at + lasting(fault, &plan.knobs));
    ends.chain([plan.knobs.span]).max().unwrap_or(0) + 1_000
}

fn lasting(fault: &Fault, knobs: &Knobs) -> i64 {
    match fault.kind {
        crate::faults::FaultKind::Meddle(_) => 2 * knobs.transaction_timeout + 5_000,
        _ => 6_000,
    }
}

impl World {
    /// Returns the world of a plan, before anything has happened.
    #[must_use]
    pub fn new(plan: Plan, bug: Option<Bug>, keeps_lines: bool) -> Self {
        let mut rng = Rng::new(plan.seed ^ 0x5eed);
        let knobs = &plan.knobs;
        let calm_at = calm_at(&plan);
        let writings = workload::draw(knobs, calm_at + 1_000, &mut rng.fork());
        let histories = (0..knobs.lanes).map(|lane| LaneHistory::new(lane, knobs.job)).collect();
        let machines = (0..2).map(|_| Machine::new(knobs.lanes)).collect();
        let mut world = Self {
            now: 0,
            next: 0,
            rng,
            bug,
            events: BTreeMap::new(),
            answers: BTreeMap::new(),
            waiting: BTreeMap::new(),
            kafka: Kafka::default(),
            histories,
            machines,
            unwritten: writings.len(),
            writings,
            trace: Trace::new(keeps_lines),
            violation: None,
            halted: None,
            may_halt: false,
            must_halt: false,
            is_meddling: false,
            only_disks_know: false,
            lasts: 1,
            is_calm: false,
            counts: Counts::default(),
            incarnations: 0,
            plan,
        };
        world.kafka.prepare_places(&world.plan.knobs);
        for at in 0..world.writings.len() {
            world.schedule(world.writings[at].at, Event::Write(at));
        }
        for at in 0..world.plan.faults.len() {
            world.schedule(world.plan.faults[at].at, Event::Fault(at));
        }
        world.schedule(0, Event::Start(0));
        world.schedule(calm_at, Event::Calm);
        world.schedule(3_000, Event::Operator);
        world
    }

    pub(crate) fn schedule(&mut self, at: i64, event: Event) {
        self.next += 1;
        self.events.insert((at.max(self.now), self.next), event);
    }

    pub(crate) fn note(&mut self, text: &str) {
        self.trace.note(self.now, text);
    }

    pub(crate) fn fail(&mut self, what: impl Into<String>) {
        let what = what.into();
        self.note(&format!("VIOLATION {what}"));
        self.violation.get_or_insert(what);
    }

    pub(crate) fn next_incarnation(&mut self) -> u64 {
        self.incarnations += 1;
        self.incarnations
    }

    fn is_over(&self) -> bool {
        self.violation.is_some() || self.halted.is_some()
    }

    pub(crate) fn is_alive(&self, process: Process) -> bool {
        let machine = &self.machines[process.machine];
        machine.is_up && machine.incarnation == process.incarnation && !self.is_over()
    }

    /// Returns whether everything is written.
    #[must_use]
    pub fn is_all_written(&self) -> bool {
        self.unwritten == 0
    }

    fn is_cut_off(&self, machine: usize) -> bool {
        self.machines[machine].outage_until > self.now
    }

    /// Draws how long a message takes; `None` when it is lost.
    fn travel(&mut self, machine: usize) -> Option<i64> {
        let network = self.machines[machine].network;
        let (loss, delay_max) = match network.until > self.now {
            true => (network.loss, network.delay_max),
            false => (0, 5),
        };
        if self.is_cut_off(machine) || self.rng.percent(loss) {
            self.counts.lost += 1;
            return None;
        }
        let slow = self.rng.percent(20);
        let delay_max = if slow { delay_max } else { delay_max.min(5) };
        Some(self.rng.range(1, delay_max))
    }

    fn send(&mut self, machine: usize, connection: &mut Connection, request: Request) -> u64 {
        self.next += 1;
        self.counts.requests += 1;
        let id = self.next;
        self.waiting.insert(id, true);
        if let Some(delay) = self.travel(machine) {
            connection.arrived_at = connection.arrived_at.max(self.now + delay);
            self.schedule(connection.arrived_at, Event::Arrive { id, machine, request });
        }
        id
    }

    pub(crate) fn handle(&mut self, shared: &Arc<Shared>, event: Event) {
        match event {
            Event::Arrive { id, machine, request } => self.arrive(id, machine, request),
            Event::Reply { id, answer } => {
                if self.waiting.contains_key(&id) {
                    self.answers.insert(id, answer);
                }
            }
            Event::Marker { lane, place } => {
                if self.kafka.mark(self.now, lane, place) {
                    self.wake_all(5);
                } else {
                    self.schedule(self.now + 40, Event::Marker { lane, place });
                }
            }
            Event::TimeOut { lane, epoch } => self.time_out(lane, epoch),
            Event::Write(at) => self.write(at),
            Event::Fault(at) => self.fault(shared, at),
            Event::Start(machine) => self.start(shared, machine),
            Event::Meddle(at) => self.meddle(at),
            Event::WakeAll => self.wake_all(5),
            Event::Reload => {
                self.kafka.group.reload();
                self.wake_all(5);
            }
            Event::Calm => self.calm(),
            Event::Operator => self.operator(),
        }
    }

    fn arrive(&mut self, id: u64, machine: usize, request: Request) {
        let mut follow = Vec::new();
        let text = summary(&request);
        let answer = self.kafka.execute(self.now, request, &mut follow);
        self.note(&format!("m{machine} {text} -> {}", answer.name()));
        self.counts.fenced += u64::from(answer == Answer::Fenced);
        let is_commit = follow.iter().any(|follow| matches!(follow, Follow::Committed(..)));
        self.follow(follow);
        let is_awaited = self.waiting.contains_key(&id);
        match self.travel(machine) {
            Some(delay) if is_awaited => {
                self.schedule(self.now + delay, Event::Reply { id, answer });
            }
            Some(_) | None => self.counts.unknown_commits += u64::from(is_commit),
        }
    }

    fn follow(&mut self, follow: Vec<Follow>) {
        for follow in follow {
            match follow {
                Follow::Markers(lane, places) => self.send_markers(lane, places),
                Follow::Began(lane, epoch) => {
                    let at = self.now + self.plan.knobs.transaction_timeout;
                    self.schedule(at, Event::TimeOut { lane, epoch });
                }
                Follow::Committed(lane, contents) if self.says_nothing_new(lane, &contents) => {
                    self.note(&format!("lane {lane} commits nothing new"));
                }
                Follow::Committed(lane, contents) => self.committed(lane, *contents),
            }
        }
    }

    /// Doubled requests can open and end a transaction that holds nothing, or the last offsets.
    fn says_nothing_new(&self, lane: u16, contents: &Contents) -> bool {
        let last = self.histories[usize::from(lane)].epochs.last();
        let is_known = last.is_some_and(|last| last.offsets == contents.offsets);
        contents.outputs.is_empty()
            && contents.chunks.is_empty()
            && (contents.offsets.is_empty() || is_known)
    }

    fn send_markers(&mut self, lane: u16, places: Vec<Place>) {
        for place in places {
            let longest = if self.rng.percent(2) { 1_500 } else { 15 };
            let at = self.now + self.rng.range(1, longest);
            self.schedule(at, Event::Marker { lane, place });
        }
    }

    fn committed(&mut self, lane: u16, contents: Contents) {
        let history = &mut self.histories[usize::from(lane)];
        match history.committed(contents, &mut self.kafka) {
            Ok((epoch, attempt)) => {
                self.counts.commits += 1;
                self.note(&format!("lane {lane} epoch {epoch} by {:x}", attempt.0));
            }
            Err(violation) => self.fail(format!("lane {lane}: {violation}")),
        }
    }

    fn time_out(&mut self, lane: u16, epoch: u32) {
        if self.kafka.coordinator_up_at > self.now {
            self.schedule(self.kafka.coordinator_up_at, Event::TimeOut { lane, epoch });
            return;
        }
        let timeout = self.plan.knobs.transaction_timeout;
        let mut follow = Vec::new();
        if self.kafka.time_out(lane, epoch, timeout, self.now, &mut follow) {
            self.counts.timeouts += 1;
            self.note(&format!("lane {lane} transaction timed out"));
            self.follow(follow);
        }
    }

    fn write(&mut self, at: usize) {
        self.unwritten -= 1;
        let Writing { input, partition, write, .. } = self.writings[at].clone();
        let log = self.kafka.log(Place::Input(input, partition));
        match write {
            Write::Plain(records) => drop(log.append(None, records)),
            Write::Open(producer, records) => drop(log.append(Some(producer), records)),
            Write::End(producer, is_commit) => log.mark(producer, is_commit),
        }
        self.wake_all(15);
    }

    /// Gives every process something to do, so that one that was fenced finds out.
    pub(crate) fn probe(&mut self) {
        self.lasts += 1;
        for writing in workload::last(&self.plan.knobs, self.now + 1, self.lasts) {
            self.schedule(writing.at, Event::Write(self.writings.len()));
            self.writings.push(writing);
            self.unwritten += 1;
        }
    }

    /// Something may have arrived for every lane.
    pub(crate) fn wake_all(&mut self, within: i64) {
        for machine in &mut self.machines {
            for slot in &mut machine.slots {
                let at = self.now + self.rng.range(0, within);
                slot.wake_at = slot.wake_at.min(at);
                slot.hint = Some(slot.hint.map_or(at, |hint| hint.min(at)));
            }
        }
    }

    /// Returns the slot that runs next, and when.
    fn next_slot(&self) -> Option<(i64, usize, usize)> {
        let machines = self.machines.iter().enumerate().filter(|(_, machine)| machine.is_up);
        let slots = machines.flat_map(|(at, machine)| {
            let paused = machine.paused_until;
            let slots = machine.slots.iter().enumerate();
            slots
                .filter(|(_, slot)| slot.driver.is_some())
                .map(move |(lane, slot)| (slot.wake_at.max(paused), at, lane))
        });
        slots.min()
    }
}

fn summary(request: &Request) -> String {
    match request {
        Request::Produce { lane, epoch, place, records, sequence, .. } => {
            format!("produce {lane}.{epoch} {place:?} {} #{sequence}", records.len())
        }
        Request::Offsets { lane, epoch, offsets } => {
            let positions: Vec<i64> = offsets.iter().map(|(_, position, _)| *position).collect();
            format!("offsets {lane}.{epoch} {positions:?}")
        }
        other => format!("{other:?}"),
    }
}

/// The world, shared by everything that runs in it.
#[derive(Debug)]
pub struct Shared {
    world: Mutex<World>,
}

/// What a client sees of a partition.
#[derive(Debug, Clone, Copy)]
pub struct View {
    /// The end that it will know when it has asked again.
    pub end: i64,
    /// Whether nothing ever follows.
    pub is_ended: bool,
}

impl Shared {
    /// Shares a world.
    #[must_use]
    pub fn new(world: World) -> Arc<Self> {
        Arc::new(Self { world: Mutex::new(world) })
    }

    /// Returns the world; never held while a process runs.
    pub fn lock(&self) -> MutexGuard<'_, World> {
        self.world.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Lets things happen until a time, or until `is_done`.
    pub fn pump(self: &Arc<Self>, until: i64, is_done: &dyn Fn(&World) -> bool) {
        loop {
            let mut world = self.lock();
            if is_done(&world) || world.is_over() {
                return;
            }
            let event = world.events.first_key_value().map(|((at, _), _)| *at);
            let slot = world.next_slot();
            let slot = slot.filter(|slot| event.is_none_or(|event| slot.0 < event));
            let at = slot.map(|slot| slot.0).or(event).unwrap_or(i64::MAX);
            if at > until {
                world.now = world.now.max(until);
                return;
            }
            world.now = world.now.max(at);
            if let Some((_, machine, lane)) = slot {
                run_slot(world, self, machine, lane);
            } else if let Some((_, event)) = world.events.pop_first() {
                let shared = Arc::clone(self);
                world.handle(&shared, event);
                let dead = world.take_dead();
                drop(world);
                drop(dead);
            }
        }
    }

    /// Sends a request and waits for its answer; `None` when none came in time.
    pub fn call(
        self: &Arc<Self>,
        process: Process,
        connection: &mut Connection,
        request: Request,
    ) -> Option<Answer> {
        let (id, until) = {
            let mut world = self.lock();
            if !world.is_alive(process) {
                return None;
            }
            let id = world.send(process.machine, connection, request);
            (id, world.now + world.plan.knobs.request_timeout)
        };
        self.pump(until, &|world| world.answers.contains_key(&id) || !world.is_alive(process));
        self.stand_still(process);
        let mut world = self.lock();
        world.waiting.remove(&id);
        let answer = world.answers.remove(&id);
        answer.filter(|_| world.is_alive(process))
    }

    /// Lets time pass for a process that waits.
    pub fn sleep(self: &Arc<Self>, process: Process, ms: i64) {
        let until = self.now() + ms;
        self.pump(until, &|world| !world.is_alive(process));
        self.stand_still(process);
    }

    /// Waits while the process is stopped.
    fn stand_still(self: &Arc<Self>, process: Process) {
        loop {
            let until = {
                let world = self.lock();
                let until = world.machines[process.machine].paused_until;
                if until <= world.now || !world.is_alive(process) {
                    return;
                }
                until
            };
            self.pump(until, &|world| !world.is_alive(process));
        }
    }

    /// A process reaches a point, where it may die or stand still; returns whether it lives on.
    pub fn point(self: &Arc<Self>, process: Process, point: Point) -> bool {
        {
            let mut world = self.lock();
            if !world.is_alive(process) {
                return false;
            }
            let machine = &mut world.machines[process.machine];
            match machine.trap {
                Some(Trap::Crash(at, fate)) if at == point => {
                    machine.trap = None;
                    world.note(&format!("m{} dies at {point:?}", process.machine));
                    world.crash(process.machine, fate, true);
                }
                Some(Trap::Pause(at, ms)) if at == point => {
                    machine.trap = None;
                    world.note(&format!("m{} stands still at {point:?}", process.machine));
                    world.pause(process.machine, ms);
                }
                Some(_) | None => {}
            }
        }
        self.stand_still(process);
        self.lock().is_alive(process)
    }

    /// Returns virtual time, ms.
    #[must_use]
    pub fn now(&self) -> i64 {
        self.lock().now
    }

    /// Returns the knobs.
    #[must_use]
    pub fn knobs(&self) -> Knobs {
        self.lock().plan.knobs.clone()
    }

    /// Returns whether a bug is to be simulated.
    #[must_use]
    pub fn has(&self, bug: Bug) -> bool {
        self.lock().bug == Some(bug)
    }

    /// Returns whether a process lives.
    #[must_use]
    pub fn is_alive(&self, process: Process) -> bool {
        self.lock().is_alive(process)
    }

    /// Notes a broken rule.
    pub fn fail(&self, what: &str) {
        self.lock().fail(what);
    }

    /// Returns the producer epoch of a lane's transactional id.
    #[must_use]
    pub fn epoch_of(&self, lane: u16) -> Option<u32> {
        self.lock().kafka.epoch_of(lane)
    }

    /// Returns the journal's end.
    #[must_use]
    pub fn journal_end(&self, lane: u16) -> i64 {
        self.lock().kafka.log(Place::Journal(lane)).end()
    }

    /// Returns what a client sees of a partition; `None` when it reaches no leader. What it knows
    /// of the end is brought up to date when its time has come.
    pub fn view(
        &self,
        process: Process,
        place: Place,
        refresh_at: &mut i64,
        seen: &mut i64,
    ) -> Option<View> {
        let mut world = self.lock();
        let now = world.now;
        let ended = world.plan.knobs.is_bounded && world.is_all_written();
        let is_cut_off = world.is_cut_off(process.machine);
        let is_uncommitted = world.bug == Some(Bug::InputReadUncommitted);
        let delay = world.rng.range(1, 12);
        let log = world.kafka.log(place);
        if is_cut_off || log.up_at > now {
            return None;
        }
        let end = if is_uncommitted { log.end() } else { log.stable_end() };
        if *refresh_at <= now {
            *seen = end;
            *refresh_at = now + delay;
        }
        Some(View { end, is_ended: ended && end == log.end() })
    }

    /// Reads records of a partition.
    #[must_use]
    pub fn read(&self, place: Place, from: i64, to: i64, is_committed: bool) -> (Vec<Record>, i64) {
        let mut world = self.lock();
        let max = world.plan.knobs.fetch_max;
        world.kafka.log(place).read(from, to, max, is_committed)
    }

    /// Wakes a lane at a time.
    pub fn wake(&self, process: Process, lane: u16, at: i64) {
        let mut world = self.lock();
        let slots = &mut world.machines[process.machine].slots;
        if let Some(slot) = slots.get_mut(usize::from(lane)) {
            slot.hint = Some(slot.hint.map_or(at, |hint| hint.min(at)));
        }
    }

    /// Counts the row of the decision that an acquisition has reached.
    pub fn note_row(&self, observed: &Observed) {
        let (row, plan) = row_of(&observed.facts());
        let mut world = self.lock();
        *world.counts.rows.entry(row).or_default() += 1;
        let plan = match plan {
            Decision::Genesis => "genesis".to_owned(),
            Decision::Resume { target, .. } => format!("resume {}", target.0),
            Decision::RebuildStore { .. } => "rebuild".to_owned(),
            Decision::Halt(_) => "halt".to_owned(),
        };
        world.note(&format!("{row:?}: {plan}"));
    }

    /// A store has applied an epoch; returns whether the disk happens to be synced now.
    pub fn applied(&self, lane: u16, head: &[u8], rows: &Rows) -> bool {
        let mut world = self.lock();
        let Ok(head) = codec::decode_stored(&Bytes::copy_from_slice(head)) else {
            world.fail("a stored head cannot be read");
            return false;
        };
        let history = &world.histories[usize::from(lane)];
        if let Err(violation) = history.applied(head.record.epoch.0, head.hash, rows) {
            world.fail(format!("lane {lane}: {violation}"));
        }
        let percent = world.plan.knobs.sync_percent;
        world.rng.percent(percent)
    }

    /// Does to a stored head what the simulated bug does.
    pub fn spoil_head(&self, lane: u16, head: &mut StoredHead) {
        let world = self.lock();
        disk::spoil(head, world.bug);
        if world.bug != Some(Bug::EpochNumberOnly) {
            return;
        }
        let epochs = &world.histories[usize::from(lane)].epochs;
        let at = usize::try_from(head.record.epoch.0).unwrap_or(usize::MAX);
        if let Some(committed) = epochs.get(at) {
            head.record = committed.record.clone();
            head.hash = committed.hash;
        }
    }

    /// Applies an epoch that is not committed.
    pub fn apply_early(&self, process: Process, lane: u16, chunks: &[Vec<u8>]) {
        let disk: SharedDisk =
            Arc::clone(&self.lock().machines[process.machine].disks[usize::from(lane)]);
        let mut assembler = Assembler::default();
        for chunk in chunks {
            let Ok(Some(bytes)) = assembler.add(&Bytes::copy_from_slice(chunk)) else { continue };
            let Ok(epoch) = codec::decode(&bytes) else { continue };
            let head = StoredHead { record: epoch.record, hash: epoch.hash, journal_next: 0 };
            let head = codec::encode_stored(&head);
            let mut disk = disk.lock().unwrap_or_else(PoisonError::into_inner);
            disk.apply(&epoch.changes, Bytes::copy_from_slice(&head));
            self.applied(lane, &head, &disk.rows);
        }
    }
}

/// A machine's wall clock.
pub struct SimClock {
    /// The world.
    pub shared: Arc<Shared>,
    /// The machine.
    pub machine: usize,
}

impl Clock for SimClock {
    fn read(&mut self) -> i64 {
        let world = self.shared.lock();
        BASE + world.now + world.machines[self.machine].clock_offset
    }
}
