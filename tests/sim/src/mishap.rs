//! Making faults happen, and ending them.

use std::sync::{Arc, atomic::Ordering};

use dovetail_core::epoch::{Attempt, metadata::CommitMetadata};

use crate::{
    disk,
    faults::{DiskFate, FaultKind, Meddling, Point},
    kafka::{OffsetEntry, Place},
    log::SENDS_MAX,
    machine::{Ends, Network, Trap, lock},
    objects::Trouble,
    workload::RULES,
    world::{Event, Shared, World},
};

/// What an operator's doing means for the pipeline.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Effect {
    /// Nothing was there to be changed.
    None,
    /// It must go on.
    GoesOn,
    /// It may stop, now or later.
    MayHalt,
    /// It must stop.
    MustHalt,
}

impl World {
    pub(crate) fn fault(&mut self, shared: &Arc<Shared>, at: usize) {
        let kind = self.plan.faults[at].kind;
        self.note(&format!("fault {kind:?}"));
        *self.counts.faults.entry(kind.name()).or_default() += 1;
        let now = self.now;
        match kind {
            FaultKind::Crash(machine, fate) => self.crash(machine, fate, true),
            FaultKind::CrashAt(machine, point, fate) => {
                self.machines[machine].trap = Some(Trap::Crash(point, fate));
            }
            FaultKind::Pause(machine, ms) => self.pause(machine, ms),
            FaultKind::PauseAt(machine, point, ms) => {
                self.machines[machine].trap = Some(Trap::Pause(point, ms));
            }
            FaultKind::Stop(machine) => {
                self.machines[machine].restarts = true;
                self.stop(machine);
            }
            FaultKind::SecondOwner(_) if self.only_copies_know => {}
            FaultKind::SecondOwner(machine) => self.start(shared, machine),
            FaultKind::Coordinator(ms) => {
                self.kafka.coordinator_up_at = now + ms;
                self.schedule(now + ms, Event::Reload);
            }
            FaultKind::Leader(number, ms) => {
                let places: Vec<Place> = self.kafka.logs.keys().copied().collect();
                let at = usize::try_from(number % (places.len().max(1) as u64)).unwrap_or(0);
                if let Some(place) = places.get(at) {
                    self.kafka.log(*place).up_at = now + ms;
                }
                self.schedule(now + ms, Event::WakeAll);
            }
            FaultKind::Network(machine, loss, delay_max, ms) => {
                self.machines[machine].network = Network { loss, delay_max, until: now + ms };
            }
            FaultKind::Outage(machine, ms) => {
                self.machines[machine].outage_until = now + ms;
                self.schedule(now + ms, Event::WakeAll);
            }
            FaultKind::Clock(machine, ms) => {
                self.machines[machine].clock_offset += ms;
                self.wake_all(1_000);
            }
            FaultKind::DiskFull(machine, _)
            | FaultKind::DiskUnreadable(machine, _)
            | FaultKind::Rot(machine, _) => self.disk_fault(machine, kind),
            FaultKind::EndLost(machine) => self.machines[machine].ends.lost = SENDS_MAX,
            FaultKind::EndUnanswered(machine) => self.machines[machine].ends.unanswered = SENDS_MAX,
            FaultKind::EndHeld(machine) => self.machines[machine].ends.is_held = true,
            FaultKind::OffsetsPending(ms) => {
                self.kafka.group.hang((0, 0));
                self.schedule(now + ms, Event::Release);
            }
            FaultKind::Swap(point) => self.swap(point),
            // Both witnesses of one commit can be lost, and then nobody can know of it.
            FaultKind::StaleOffsets if self.may_halt => {}
            FaultKind::StaleOffsets => self.kafka.group.goes_stale = true,
            FaultKind::Store(_) if !self.plan.knobs.takes_checkpoints() => {}
            FaultKind::Store(fault) => {
                if !self.store_fault(fault) {
                    *self.counts.faults.entry(kind.name()).or_default() -= 1;
                    self.schedule(now + 100, Event::Fault(at));
                }
            }
            FaultKind::Meddle(_) => self.begin_meddling(at),
        }
    }

    fn disk_fault(&mut self, machine: usize, kind: FaultKind) {
        // A database that links blocks which have rotted into a checkpoint is not modelled.
        let is_sound = self.only_copies_know || self.plan.knobs.takes_checkpoints();
        for disk in &self.machines[machine].disks {
            match kind {
                FaultKind::DiskFull(_, ms) => lock(disk).full_until = self.now + ms,
                FaultKind::DiskUnreadable(_, times) => lock(disk).unreadable = times,
                FaultKind::Rot(_, one_in) if !is_sound => {
                    self.counts.rotten += lock(disk).rot(one_in, &mut self.rng);
                }
                _ => {}
            }
        }
    }

    /// The plugin file is replaced: every process notices, soon or when it can.
    fn swap(&mut self, point: Option<Point>) {
        self.revision += 1;
        if let Some(point) = point {
            self.machines[0].trap = Some(Trap::Crash(point, DiskFate::Kept));
        }
        for lane in self.machines.iter().flat_map(|machine| &machine.calls) {
            lane.newest.store(self.revision, Ordering::Relaxed);
        }
        for at in 0..self.machines.len() {
            let (at_time, incarnation) =
                (self.now + self.rng.range(0, 300), self.machines[at].incarnation);
            self.schedule(at_time, Event::Notice(at, incarnation));
        }
    }

    /// Stops everything and waits until no transaction can be open.
    fn begin_meddling(&mut self, at: usize) {
        self.is_meddling = true;
        for machine in 0..self.machines.len() {
            let restarts = self.machines[machine].is_up && machine == 0;
            self.crash(machine, DiskFate::Kept, restarts);
        }
        let until = self.now + 2 * self.plan.knobs.transaction_timeout + 3_000;
        self.schedule(until, Event::Meddle(at));
    }

    pub(crate) fn meddle(&mut self, at: usize) {
        if !self.kafka.is_idle() {
            self.schedule(self.now + 500, Event::Meddle(at));
            return;
        }
        self.is_meddling = false;
        let FaultKind::Meddle(meddling) = self.plan.faults[at].kind else { return };
        self.kafka.group.goes_stale = false;
        self.kafka.group.reload();
        let effect = self.meddle_as(meddling);
        self.note(&format!("meddled: {meddling:?}, {effect:?}"));
        self.may_halt |= matches!(effect, Effect::MayHalt | Effect::MustHalt);
        self.must_halt |= effect == Effect::MustHalt;
    }

    fn meddle_as(&mut self, meddling: Meddling) -> Effect {
        match meddling {
            Meddling::GroupDeleted => {
                self.kafka.group.forget();
                Effect::GoesOn
            }
            Meddling::OffsetsSetBack(epochs) => self.set_back(epochs),
            Meddling::ForeignMetadata | Meddling::OnePartitionSetBack | Meddling::OtherAttempt => {
                self.change_offsets(meddling)
            }
            Meddling::JournalTruncated(_)
            | Meddling::JournalTrimmed
            | Meddling::JournalDeleted
            | Meddling::JournalHole => self.change_journals(meddling),
            Meddling::Regressed(epochs) => self.regress(epochs),
            Meddling::PartitionAdded if self.is_finished() => Effect::None,
            Meddling::PartitionAdded => {
                self.added_partitions += 1;
                match self.histories.iter().all(|history| history.epochs.is_empty()) {
                    true => Effect::None,
                    false => Effect::MustHalt,
                }
            }
            Meddling::CheckpointForeign => self.falsify_checkpoints(),
            Meddling::InputTrimmed | Meddling::InputRecreated => self.change_inputs(meddling),
            Meddling::EverythingDeleted => self.delete_everything(),
            Meddling::DisksSwapped => {
                let [first, second, ..] = &self.machines[0].disks[..] else { return Effect::None };
                std::mem::swap(&mut *lock(first), &mut *lock(second));
                // A lane that has never committed finds state where nothing can be.
                match self.histories.iter().any(|history| history.epochs.is_empty()) {
                    true => Effect::MayHalt,
                    false => Effect::GoesOn,
                }
            }
            Meddling::DiskOfOtherHistory | Meddling::DiskAhead => {
                let is_ahead = meddling == Meddling::DiskAhead;
                for disk in &self.machines[0].disks {
                    disk::falsify(&mut lock(disk), is_ahead);
                }
                Effect::GoesOn
            }
        }
    }

    fn commit_offsets(&mut self, offsets: &[OffsetEntry]) {
        self.kafka.group.reload();
        for (source, position, text) in offsets {
            self.kafka.group.committed.insert(*source, (*position, text.clone()));
        }
    }

    fn set_back(&mut self, epochs: u64) -> Effect {
        let back = usize::try_from(epochs).unwrap_or(usize::MAX);
        let mut effect = Effect::None;
        for lane in 0..self.histories.len() {
            let committed = &self.histories[lane].epochs;
            let Some(at) = committed.len().checked_sub(back + 1) else { continue };
            let offsets = committed[at].offsets.clone();
            self.commit_offsets(&offsets);
            effect = if epochs == 1 { Effect::GoesOn } else { Effect::MustHalt };
        }
        effect
    }

    fn change_offsets(&mut self, meddling: Meddling) -> Effect {
        let Some([before, last]) = self.histories[0].epochs.last_chunk() else {
            return Effect::None;
        };
        let (before, mut last) = (before.offsets.clone(), last.offsets.clone());
        for (at, (_, _, text)) in last.iter_mut().enumerate() {
            match meddling {
                Meddling::OnePartitionSetBack if at == 0 => text.clone_from(&before[0].2),
                Meddling::OtherAttempt => {
                    if let Ok(metadata) = text.parse::<CommitMetadata>() {
                        let hash = metadata.hash ^ 1;
                        *text =
                            CommitMetadata { attempt: Attempt(1), hash, ..metadata }.to_string();
                    }
                }
                Meddling::ForeignMetadata if at == 0 => "another program's".clone_into(text),
                _ => {}
            }
        }
        self.commit_offsets(&last);
        Effect::MustHalt
    }

    fn change_journals(&mut self, meddling: Meddling) -> Effect {
        let mut effect = Effect::None;
        // Nobody looks at what a store has applied already.
        let is_hidden = meddling != Meddling::JournalHole || self.rng.percent(30);
        for disk in self.machines[0].disks.iter().filter(|_| !is_hidden) {
            lock(disk).crash(DiskFate::Lost, &mut self.rng, None);
        }
        for lane in 0..self.plan.knobs.lanes {
            let log = self.kafka.log(Place::Journal(lane));
            let end = log.end();
            if end == 0 {
                continue;
            }
            match meddling {
                Meddling::JournalTruncated(entries) => log.truncate((end - entries).max(0)),
                Meddling::JournalTrimmed => log.start = (end / 2).max(1),
                Meddling::JournalDeleted => log.truncate(0),
                _ => log.punch(end / 2),
            }
            effect = Effect::MayHalt;
        }
        let is_trimmed = meddling == Meddling::JournalTrimmed;
        // What was trimmed, checkpoints replace.
        if is_trimmed && (0..self.plan.knobs.lanes).all(|lane| self.is_covered(lane)) {
            return Effect::GoesOn;
        }
        effect
    }

    fn change_inputs(&mut self, meddling: Meddling) -> Effect {
        let mut effect = Effect::None;
        // Offsets that are written again before anyone looks hide that a topic is another one; and
        // after the end nobody looks.
        let unwritten = i64::try_from(self.unwritten()).unwrap_or(i64::MAX);
        let is_finished = self.is_finished();
        let skips_gaps = self.plan.knobs.skips_gaps;
        // The pipeline may have ended meanwhile, and then nobody looks.
        let recreated = if skips_gaps { Effect::GoesOn } else { Effect::MayHalt };
        let trimmed = if skips_gaps { Effect::GoesOn } else { Effect::MustHalt };
        for history in &mut self.histories {
            let sources = history.last().map(|last| last.sources.clone()).unwrap_or_default();
            // Records of the broadcast input that one lane has read are others' yet to read.
            for state in sources.into_iter().filter(|state| state.source.input.0 != RULES) {
                let place = Place::Input(state.source.input.0, state.source.partition.0);
                let log = self.kafka.log(place);
                let is_trimmed = meddling == Meddling::InputTrimmed;
                if is_trimmed && state.position < log.end() {
                    log.start = state.position + 1;
                    effect = trimmed;
                }
                if !is_trimmed && !is_finished && state.position > unwritten {
                    log.truncate(0);
                    let source = (state.source.input.0, state.source.partition.0);
                    history.anew.extend(skips_gaps.then_some(source));
                    effect = effect.max(recreated);
                }
            }
        }
        self.lost_input |= effect == Effect::GoesOn;
        effect
    }

    /// Journal and offsets of the lanes whose local state shows that there was something.
    fn delete_everything(&mut self) -> Effect {
        let lanes = 0..self.plan.knobs.lanes;
        let has_checkpoints =
            lanes.into_iter().all(|lane| self.objects.manifests(lane).next().is_some());
        let loses_disks = has_checkpoints && self.rng.percent(50);
        if loses_disks {
            self.lose_disks();
            self.objects.disturb(Trouble::None, 0);
        }
        let disks = &self.machines[0].disks;
        if (!loses_disks && disks.iter().any(|disk| !lock(disk).knows()))
            || self.histories.iter().any(|history| history.epochs.is_empty())
        {
            return Effect::None;
        }
        // From here on only the disks know: without them nothing tells this from a first start.
        for disk in disks {
            lock(disk).sync();
        }
        self.only_copies_know = true;
        self.kafka.group.forget();
        for lane in 0..self.plan.knobs.lanes {
            self.kafka.log(Place::Journal(lane)).truncate(0);
        }
        Effect::MustHalt
    }

    /// Journal and offsets lose the epochs from so many before the newest checkpoint on, which tells
    /// that they were there.
    fn regress(&mut self, epochs: u64) -> Effect {
        let lanes = 0..self.plan.knobs.lanes;
        let targets: Option<Vec<(u16, u64)>> = lanes
            .map(|lane| {
                let newest = self.objects.manifests(lane).next()?.id.epoch.0;
                (newest > 0).then(|| (lane, newest.saturating_sub(epochs)))
            })
            .collect();
        let Some(targets) = targets else { return Effect::None };
        for (lane, target) in targets {
            let at = usize::try_from(target).unwrap_or(usize::MAX);
            let Some(kept) = self.histories[usize::from(lane)].epochs.get(at) else { continue };
            let (offsets, next) = (kept.offsets.clone(), kept.journal_next);
            self.commit_offsets(&offsets);
            self.kafka.log(Place::Journal(lane)).truncate(next);
        }
        self.lose_disks();
        self.objects.disturb(Trouble::None, 0);
        // Without the checkpoints nothing tells of what is lost.
        self.only_copies_know = true;
        Effect::MustHalt
    }

    fn lose_disks(&mut self) {
        for disk in &self.machines[0].disks {
            lock(disk).crash(DiskFate::Lost, &mut self.rng, None);
        }
    }

    fn falsify_checkpoints(&mut self) -> Effect {
        if !self.plan.knobs.takes_checkpoints() {
            return Effect::None;
        }
        self.lose_disks();
        let mut effect = Effect::GoesOn;
        for lane in 0..self.plan.knobs.lanes {
            self.objects.falsify(lane);
            if !self.is_covered(lane) || self.objects.note_loss(lane) {
                effect = Effect::MayHalt;
            }
        }
        effect
    }

    /// The faults are over.
    pub(crate) fn calm(&mut self) {
        self.note("calm");
        self.is_calm = true;
        self.objects.disturb(Trouble::None, 0);
        for machine in &mut self.machines {
            machine.network = Network::default();
            machine.outage_until = 0;
            machine.trap = None;
            machine.ends = Ends::default();
            for disk in &machine.disks {
                lock(disk).full_until = 0;
                lock(disk).unreadable = 0;
            }
        }
        self.wake_all(5);
    }

    /// Starts a process when none is there and none will be.
    pub(crate) fn operator(&mut self) {
        self.schedule(self.now + 3_000, Event::Operator);
        let is_any = self.machines.iter().any(|machine| machine.is_up || machine.starting > 0);
        if !is_any && !self.is_meddling && !self.is_finished() {
            self.machines[0].starting += 1;
            self.schedule(self.now + 1, Event::Start(0));
        }
    }
}
