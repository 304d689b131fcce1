//! The world as processes see it: requests, waiting, points where they die, time.
//!
//! Invariant: the world is never locked while a process runs.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use dovetail_core::{
    clock::Clock,
    epoch::{StoredHead, chunk::Assembler, codec},
    record::Record,
};

use super::{Connection, Process, Turn, World};
use crate::{
    bugs::Bug,
    disk::{self, SharedDisk},
    faults::{Knobs, Point},
    history::Rows,
    kafka::{Answer, Place, Request},
    machine::{Trap, run_checkpointer, run_slot},
    workload::BASE,
};

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

/// What a disk does after an epoch was applied.
#[derive(Debug, Clone, Copy)]
pub struct Next {
    /// Everything becomes durable.
    pub syncs: bool,
    /// Rows that have expired are dropped.
    pub compacts: bool,
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
            let turn = world.next_turn();
            let turn = turn.filter(|turn| event.is_none_or(|event| turn.0 < event));
            let at = turn.map(|turn| turn.0).or(event).unwrap_or(i64::MAX);
            if at > until {
                world.now = world.now.max(until);
                return;
            }
            world.now = world.now.max(at);
            if let Some((_, machine, turn)) = turn {
                match turn {
                    Turn::Lane(lane) => run_slot(world, self, machine, lane),
                    Turn::Checkpointer => run_checkpointer(world, self, machine),
                }
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

    /// A lane acquires, works or switches: its producer has no transaction open.
    pub fn expect_no_transaction(&self, lane: u16, epoch: u32) {
        let mut world = self.lock();
        world.counts.turns += 1;
        if world.kafka.is_open(lane, epoch) {
            world.fail(format!("lane {lane}: I8: it works while its transaction is open"));
        }
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

    /// A store has applied an epoch; returns what its disk happens to do next.
    pub fn applied(&self, lane: u16, head: &[u8], rows: &Rows) -> Next {
        let mut world = self.lock();
        let Ok(head) = codec::decode_stored(&Bytes::copy_from_slice(head)) else {
            world.fail(format!("lane {lane}: I4: a stored head cannot be read"));
            return Next { syncs: false, compacts: false };
        };
        world.counts.applies += 1;
        let history = &world.histories[usize::from(lane)];
        if let Err(violation) = history.applied(head.record.epoch.0, head.hash, rows) {
            world.fail(format!("lane {lane}: {violation}"));
        }
        let percent = world.plan.knobs.sync_percent;
        Next { syncs: world.rng.percent(percent), compacts: world.rng.percent(20) }
    }

    /// Drops what is expired by an epoch that is not committed.
    pub fn compact_early(&self, process: Process, lane: u16, chunks: &[Vec<u8>]) {
        let world = self.lock();
        let disk: SharedDisk =
            Arc::clone(&world.machines[process.machine].disks[usize::from(lane)]);
        let expiry = world.plan.knobs.job.expiry();
        drop(world);
        let mut assembler = Assembler::default();
        for chunk in chunks {
            let Ok(Some(bytes)) = assembler.add(&Bytes::copy_from_slice(chunk)) else { continue };
            let Ok(epoch) = codec::decode(&bytes) else { continue };
            let mut disk = disk.lock().unwrap_or_else(PoisonError::into_inner);
            disk.compact(&expiry, epoch.record.clocks());
        }
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
            // Whatever it would do next, the rule is broken.
            let _next = self.applied(lane, &head, &disk.rows);
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
