//! What happens to checkpoints, and whether it may: the oracles beside [`crate::history`].
//!
//! I7: every manifest is of a committed epoch and holds what was applied then. I9: nothing that can
//! be reached from the two newest manifests is collected. The journal is trimmed only as far as each
//! of the two newest checkpoints replaces what is gone. A restore yields a state that the journal's
//! history has had.

use bytes::Bytes;
use dovetail_core::{
    checkpoint::{CheckpointId, FileHash, Manifest},
    epoch::{LaneId, StoredHead, codec},
    recovery::{Facts, Plan as Decision},
};

use super::{Event, Shared, World};
use crate::{
    bugs::Bug,
    disk::image::Image,
    faults::StoreFault,
    history::Rows,
    kafka::{Place, Request},
    objects::Trouble,
    rows::{Row, row_of},
};

impl World {
    /// Returns whether a manifest is of an epoch that was committed.
    fn is_on_chain(&self, manifest: &Manifest) -> bool {
        let history = &self.histories[usize::from(manifest.id.lane.0)];
        let (epoch, attempt) = (manifest.id.epoch.0, manifest.id.attempt);
        history.find(epoch, manifest.hash).is_ok_and(|found| {
            found.record.attempt == attempt && found.journal_next == manifest.journal_next
        })
    }

    /// A manifest is published.
    pub(crate) fn published(&mut self, manifest: &Manifest) {
        self.counts.checkpoints += 1;
        if let Err(why) = self.check_checkpoint(manifest) {
            let (lane, id) = (manifest.id.lane.0, manifest.id);
            self.fail(format!("lane {lane}: I7: checkpoint {id} {why}"));
        }
    }

    fn check_checkpoint(&self, manifest: &Manifest) -> Result<(), String> {
        if !self.is_on_chain(manifest) {
            return Err("is of an epoch that was not committed so".to_owned());
        }
        if self.objects.has_rot(manifest) {
            return Ok(());
        }
        let files = self.objects.files_of(manifest);
        if files.len() < manifest.files.len() {
            return Err("lacks files".to_owned());
        }
        let Some((rows, head, _)) = Image::read(&files) else {
            return Err("cannot be read".to_owned());
        };
        let head: StoredHead = codec::decode_stored(&head).map_err(|error| error.to_string())?;
        if head.hash != manifest.hash {
            return Err(format!("holds epoch {}", head.record.epoch.0));
        }
        let history = &self.histories[usize::from(manifest.id.lane.0)];
        let committed = history.find(manifest.id.epoch.0, manifest.hash)?;
        match history.is_state(committed, &rows) {
            true => Ok(()),
            false => Err("holds another state than its epoch's".to_owned()),
        }
    }

    /// A manifest is about to be removed.
    pub(crate) fn removes_manifest(&mut self, id: CheckpointId) {
        let is_newest = self.objects.manifests(id.lane.0).take(2).any(|manifest| manifest.id == id);
        if is_newest {
            self.fail(format!("lane {}: I9: {id}, one of the two newest, is removed", id.lane.0));
        }
    }

    /// A file is about to be removed.
    pub(crate) fn removes_file(&mut self, lane: LaneId, hash: FileHash) {
        self.counts.collected += 1;
        if self.objects.is_reachable(lane, hash) {
            let what = "a file of one of the two newest checkpoints is collected";
            self.fail(format!("lane {}: I9: {what}", lane.0));
        }
    }

    /// The journal of a lane was trimmed.
    pub(crate) fn trimmed(&mut self, lane: u16, before: i64) {
        self.counts.trims += 1;
        let sound = self.objects.manifests(lane).filter(|manifest| {
            self.is_on_chain(manifest)
                && self.objects.files_of(manifest).len() == manifest.files.len()
        });
        let covers: Vec<bool> =
            sound.take(2).map(|manifest| manifest.journal_next >= before).collect();
        if covers != [true, true] {
            self.fail(format!(
                "lane {lane}: trim: the journal is trimmed up to {before}, further than the two \
                 newest checkpoints replace"
            ));
        }
    }

    /// Returns whether a process uploads, trims or collects, or what it asked for is on its way.
    fn is_storing(&self) -> bool {
        let is_trim =
            |event: &Event| matches!(event, Event::Arrive { request: Request::Trim { .. }, .. });
        self.events.values().any(is_trim)
            || self
                .machines
                .iter()
                .any(|machine| machine.desk.as_ref().is_some_and(|it| it.is_busy()))
    }

    /// Something happens to the checkpoint store; false = later, because a process is just looking
    /// at what would change.
    pub(crate) fn store_fault(&mut self, fault: StoreFault) -> bool {
        // Then nothing but the checkpoints tells of a loss.
        if self.only_copies_know {
            return true;
        }
        let now = self.now;
        let is_loss = match fault {
            StoreFault::Away(ms) => {
                self.objects.disturb(Trouble::Away, now + ms);
                false
            }
            StoreFault::Refuses(ms) => {
                self.objects.disturb(Trouble::Refuses, now + ms);
                false
            }
            StoreFault::Ambiguous(ms) => {
                self.objects.disturb(Trouble::Ambiguous, now + ms);
                false
            }
            StoreFault::Slow(call, ms) => {
                self.objects.disturb(Trouble::Slow(call), now + ms);
                false
            }
            StoreFault::ManifestLost(_) | StoreFault::FileRotten | StoreFault::Older => true,
        };
        if !is_loss {
            return true;
        }
        if self.is_storing() {
            return false;
        }
        self.lose(fault);
        true
    }

    fn lose(&mut self, fault: StoreFault) {
        if fault == StoreFault::Older {
            self.objects.fall_back();
        }
        for lane in 0..self.plan.knobs.lanes {
            let is_lost = match fault {
                StoreFault::ManifestLost(newer) => self.objects.lose_manifest(lane, newer),
                StoreFault::FileRotten => self.objects.rot(lane, &mut self.rng),
                _ => true,
            };
            let is_second = is_lost && self.objects.note_loss(lane);
            // What can be restored must still continue to what is left of the journal.
            // What rots is in every later checkpoint that shares it.
            self.may_halt |= is_second || fault == StoreFault::FileRotten || !self.is_covered(lane);
        }
    }

    /// Returns whether a lane can be restored without its disk.
    pub(crate) fn is_covered(&mut self, lane: u16) -> bool {
        let start = self.kafka.log(Place::Journal(lane)).start;
        start == 0
            || self.objects.manifests(lane).any(|manifest| {
                manifest.journal_next >= start
                    && !self.objects.has_rot(manifest)
                    && self.check_checkpoint(manifest).is_ok()
            })
    }
}

impl Shared {
    /// Returns what a store needs to freeze: the time, how long it takes to write down what is
    /// applied, and the simulated bug.
    #[must_use]
    pub fn freezes(&self) -> (i64, i64, Option<Bug>) {
        let mut world = self.lock();
        let ms = world.rng.range(0, 60);
        (world.now, ms, world.bug)
    }

    /// A directory was filled from a checkpoint.
    pub fn restored(&self, lane: u16, head: &Bytes, rows: &Rows) {
        let mut world = self.lock();
        world.counts.restores += 1;
        let Ok(head) = codec::decode_stored(head) else {
            return world.fail(format!("lane {lane}: restore: the head cannot be read"));
        };
        let (epoch, history) = (head.record.epoch.0, &world.histories[usize::from(lane)]);
        let is_ours =
            history.find(epoch, head.hash).is_ok_and(|found| history.is_state(found, rows));
        world.note(&format!("lane {lane} is restored at epoch {epoch}"));
        if !is_ours {
            world.fail(format!(
                "lane {lane}: restore: epoch {epoch} is restored, and no such state was committed"
            ));
        }
    }

    /// An acquisition has decided.
    pub fn decided(&self, lane: u16, facts: &Facts, plan: &Decision) {
        let row = row_of(facts, plan);
        let mut world = self.lock();
        world.count_row(row);
        let plan = match plan {
            Decision::Genesis => "genesis".to_owned(),
            Decision::Resume { target, .. } => format!("resume {}", target.0),
            Decision::RebuildStore { .. } => "rebuild".to_owned(),
            Decision::Restore => "restore".to_owned(),
            Decision::PassOver { .. } => "pass over".to_owned(),
            Decision::AwaitCheckpoints { .. } => "await checkpoints".to_owned(),
            Decision::Halt(_) => "halt".to_owned(),
        };
        world.note(&format!("lane {lane} {row:?}: {plan}"));
    }

    /// Counts a row of the decision.
    pub fn count_row(&self, row: Row) {
        self.lock().count_row(row);
    }
}
