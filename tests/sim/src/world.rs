//! The world: virtual time, the network, machines and their processes, and what happens next.
//!
//! One thread runs everything. A process that waits for an answer lets the world go on from inside
//! its call ([`Shared::call`]), so other processes, markers, timeouts and faults happen in between;
//! it goes on when its answer is there, or later, as any process may.
//!
//! Invariant: everything that happens is a function of the plan; nothing but its generator draws.

mod checkpoints;
mod counts;
mod pace;
mod view;

use std::{collections::BTreeMap, sync::Arc};

use self::pace::Pace;
pub use self::{
    counts::Counts,
    view::{Shared, SimClock, View},
};
use crate::{
    bugs::Bug,
    faults::{Fault, FaultKind, Knobs, Plan},
    history::{LaneHistory, Taken},
    kafka::{Answer, Contents, Follow, Kafka, Place, Request},
    machine::Machine,
    objects::Objects,
    rng::Rng,
    rows::Row,
    trace::Trace,
    workload::{self, Writing},
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

/// Whose turn it is in a process.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Turn {
    Lane(usize),
    Checkpointer,
}

/// What is going to happen.
#[derive(Debug)]
pub(crate) enum Event {
    Arrive {
        id: u64,
        machine: usize,
        request: Request,
    },
    Reply {
        id: u64,
        answer: Answer,
    },
    Marker {
        lane: u16,
        place: Place,
    },
    TimeOut {
        lane: u16,
        epoch: u32,
    },
    /// A process notices that the plugin file has changed.
    Notice(usize, u64),
    /// The record of a transaction is written.
    Open(usize),
    Write(usize),
    Fault(usize),
    Start(usize),
    Meddle(usize),
    WakeAll,
    /// Another program's transaction ends.
    Release,
    Reload,
    Calm,
    Operator,
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
    pub(crate) objects: Objects,
    pace: Pace,
    /// Lanes that are inside a turn.
    pub(crate) turning: u32,
    pub(crate) writings: Vec<Writing>,
    unwritten: usize,
    pub(crate) trace: Trace,
    pub(crate) violation: Option<String>,
    pub(crate) halted: Option<String>,
    /// Whether what an operator did allows, or demands, that the pipeline stops.
    pub(crate) may_halt: bool,
    pub(crate) must_halt: bool,
    /// Records were deleted that nobody had read, and the inputs skip such gaps.
    pub(crate) lost_input: bool,
    /// Partitions that every input has got since the first start.
    pub(crate) added_partitions: u16,
    pub(crate) is_meddling: bool,
    /// Journal and offsets are gone: only state directories and checkpoints tell of them.
    pub(crate) only_copies_know: bool,
    /// How often one last record was written to every source.
    pub(crate) lasts: i64,
    pub(crate) is_calm: bool,
    /// The number of the revision in the plugin file.
    pub(crate) revision: u32,
    /// An end of a transaction that is still in the network.
    held: Option<(u64, usize, Request)>,
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
        FaultKind::Meddle(_) => 2 * knobs.transaction_timeout + 5_000,
        _ => 6_000,
    }
}

impl World {
    /// Returns the world of a plan, before anything has happened.
    #[must_use]
    pub fn new(plan: Plan, bug: Option<Bug>, keeps_lines: bool) -> Self {
        let rng = Rng::new(plan.seed ^ 0x5eed);
        let knobs = &plan.knobs;
        let calm_at = calm_at(&plan);
        let mut writings = plan.writings.clone();
        writings.extend(workload::last(knobs, calm_at + 1_000, 1));
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
            objects: Objects::default(),
            pace: Pace::new(&plan.faults, plan.knobs.lanes),
            turning: 0,
            unwritten: writings.len(),
            writings,
            trace: Trace::new(keeps_lines),
            violation: None,
            halted: None,
            may_halt: false,
            must_halt: false,
            lost_input: false,
            added_partitions: 0,
            is_meddling: false,
            only_copies_know: false,
            lasts: 1,
            is_calm: false,
            revision: 0,
            held: None,
            counts: Counts::default(),
            incarnations: 0,
            plan,
        };
        world.kafka.prepare_places(&world.plan.knobs);
        for at in 0..world.writings.len() {
            if let Some(transaction) = world.writings[at].transaction {
                world.schedule(transaction.opened_at, Event::Open(at));
            }
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

    /// Returns how many records are still to be written.
    pub(crate) fn unwritten(&self) -> usize {
        self.unwritten
    }

    fn is_cut_off(&self, machine: usize) -> bool {
        self.machines[machine].outage_until > self.now
    }

    /// Draws how long a message takes; `None` when it is lost.
    fn travel(&mut self, machine: usize) -> Option<i64> {
        let network = self.machines[machine].network;
        let (loss, delay_max) = match network.until > self.now {
            true => (network.loss, network.delay_max),
            false => (0, self.plan.knobs.latency),
        };
        if self.is_cut_off(machine) || self.rng.percent(loss) {
            self.counts.lost += 1;
            return None;
        }
        let slow = self.rng.percent(20);
        let delay_max = if slow { delay_max } else { delay_max.min(self.plan.knobs.latency) };
        Some(self.rng.range(1, delay_max))
    }

    fn send(&mut self, machine: usize, connection: &mut Connection, request: Request) -> u64 {
        self.next += 1;
        self.counts.requests += 1;
        let id = self.next;
        self.waiting.insert(id, true);
        if matches!(request, Request::End { .. }) {
            let ends = &mut self.machines[machine].ends;
            if ends.lost > 0 {
                ends.lost -= 1;
                self.counts.lost_ends += u64::from(ends.lost == 0);
                return id;
            }
            if std::mem::take(&mut ends.is_held) {
                self.held = Some((id, machine, request));
                return id;
            }
        }
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
            Event::Notice(machine, incarnation) => self.notice(machine, incarnation),
            Event::Open(at) => self.open(at),
            Event::Write(at) => self.write(at),
            Event::Fault(at) => self.fault(shared, at),
            Event::Start(machine) => self.start(shared, machine),
            Event::Meddle(at) => self.meddle(at),
            Event::WakeAll => self.wake_all(5),
            Event::Release => self.kafka.group.release(),
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
        self.release(&request);
        let is_end = matches!(request, Request::End { .. });
        let answer = self.kafka.execute(self.now, request, &mut follow);
        self.note(&format!("m{machine} {text} -> {}", answer.name()));
        self.counts.fenced += u64::from(answer == Answer::Fenced);
        let is_commit = follow.iter().any(|follow| matches!(follow, Follow::Committed(..)));
        self.follow(follow);
        let ends = &mut self.machines[machine].ends;
        let is_unanswered = is_end && ends.unanswered > 0;
        ends.unanswered -= u32::from(is_unanswered);
        let is_awaited = self.waiting.contains_key(&id) && !is_unanswered;
        match self.travel(machine) {
            Some(delay) if is_awaited => {
                self.schedule(self.now + delay, Event::Reply { id, answer });
            }
            Some(_) | None => self.counts.unknown_commits += u64::from(is_commit),
        }
    }

    /// What was held of an earlier transaction arrives behind a later one's epoch record.
    fn release(&mut self, request: &Request) {
        let Request::Produce { lane, place: Place::Journal(_), .. } = request else { return };
        let is_it = |held: &mut (u64, usize, Request)| matches!(held.2, Request::End { lane: other, .. } if other == *lane);
        if let Some((id, machine, request)) = self.held.take_if(is_it) {
            self.counts.held_ends += 1;
            self.schedule(self.now, Event::Arrive { id, machine, request });
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
                Follow::Trimmed(lane, before) => self.trimmed(lane, before),
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
            Ok(Taken { epoch, attempt, is_switch }) => {
                self.counts.commits += 1;
                self.counts.switches += u64::from(is_switch);
                self.note(&format!("lane {lane} epoch {epoch} by {:x}", attempt.0));
                self.check_pace(lane);
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
        let writing = &self.writings[at];
        let log = self.kafka.log(Place::Input(writing.input, writing.partition));
        match writing.transaction {
            None => drop(log.append(None, vec![writing.record()])),
            Some(transaction) => log.mark(stranger(at), !transaction.is_aborted),
        }
        let (input, partition) = (writing.input, writing.partition);
        self.note_end(input, partition);
        self.wake_all(15);
    }

    fn open(&mut self, at: usize) {
        let writing = &self.writings[at];
        let log = self.kafka.log(Place::Input(writing.input, writing.partition));
        log.append(Some(stranger(at)), vec![writing.record()]);
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

    /// Something has arrived for the lanes of a machine.
    pub(crate) fn wake(&mut self, at: usize) {
        let now = self.now;
        for slot in &mut self.machines[at].slots {
            slot.wake_at = slot.wake_at.min(now);
            slot.hint = Some(now);
        }
    }

    /// Counts a row of the decision.
    pub(crate) fn count_row(&mut self, row: Row) {
        *self.counts.rows.entry(row).or_default() += 1;
    }

    /// Returns whose turn comes next, and when. A checkpointer begins only while no lane is inside
    /// a turn, which would have to wait until it is done: it is a thread of its own.
    fn next_turn(&self) -> Option<(i64, usize, Turn)> {
        let is_free = self.turning == 0;
        let up = self.machines.iter().enumerate().filter(|(_, machine)| machine.is_up);
        let desks = up.filter(|(_, machine)| {
            is_free && machine.desk.as_ref().is_some_and(|desk| desk.has_work())
        });
        let desks =
            desks.map(|(at, machine)| (self.now.max(machine.paused_until), at, Turn::Checkpointer));
        desks.chain(self.next_slot()).min()
    }

    fn next_slot(&self) -> Option<(i64, usize, Turn)> {
        let machines = self.machines.iter().enumerate().filter(|(_, machine)| machine.is_up);
        let slots = machines.flat_map(|(at, machine)| {
            let paused = machine.paused_until;
            let slots = machine.slots.iter().enumerate();
            slots
                .filter(|(_, slot)| slot.driver.is_some())
                .map(move |(lane, slot)| (slot.wake_at.max(paused), at, Turn::Lane(lane)))
        });
        slots.min()
    }
}

/// The producer id of the program that writes this in a transaction.
fn stranger(at: usize) -> u64 {
    50_000 + at as u64
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
