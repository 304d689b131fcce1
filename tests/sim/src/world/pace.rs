//! How soon what can be read is committed while nothing fails but the checkpoint store.

use dovetail_core::options::KEEPALIVE_EVERY_DEFAULT;

use super::World;
use crate::{faults::Fault, kafka::Place};

/// How long a commit may take beyond what an epoch may last, ms: markers are slow at times, several
/// in a row where another lane commits inside of this one's turn.
const ALLOWANCE: i64 = 6_000;
/// Messages that one commit waits for, another lane's inside of it included.
const MESSAGES: i64 = 40;
/// Slow commits stretch an epoch so many times at most, and as long as they take.
const STRETCH_MAX: (i64, i64) = (8, 2_000);

/// When what could be read, and when it was committed last.
#[derive(Debug, Default)]
pub(crate) struct Pace {
    /// Whether nothing fails but the checkpoint store.
    is_watched: bool,
    /// Per input partition: an end, and since when readers see it.
    ends: std::collections::BTreeMap<(u16, u16), Vec<(i64, i64)>>,
    /// Per lane, the time of its last commit.
    commits: std::collections::BTreeMap<u16, i64>,
}

impl Pace {
    pub(super) fn new(faults: &[Fault], lanes: u16) -> Self {
        // A turn inside another lane's turn delays it; with two lanes not by much.
        let is_watched = lanes <= 2 && faults.iter().all(Fault::disturbs_store);
        Self { is_watched, ..Self::default() }
    }

    /// Returns since when readers see an offset.
    fn seen_since(&self, place: (u16, u16), offset: i64) -> Option<i64> {
        self.ends.get(&place)?.iter().find(|(end, _)| *end > offset).map(|(_, at)| *at)
    }
}

impl World {
    /// Something was written to an input.
    pub(super) fn note_end(&mut self, input: u16, partition: u16) {
        if self.pace.is_watched {
            let end = self.kafka.log(Place::Input(input, partition)).stable_end();
            self.pace.ends.entry((input, partition)).or_default().push((end, self.now));
        }
    }

    /// Returns how long an epoch and its commit may last, ms.
    fn epoch_max(&self) -> i64 {
        let every = self.plan.knobs.commit_every;
        let slow = self.plan.knobs.latency * MESSAGES;
        every.max((STRETCH_MAX.0 * every).min(STRETCH_MAX.1 + slow)) + slow + ALLOWANCE
    }

    /// Returns how long a lane may commit nothing, ms.
    fn keepalive_max(&self) -> i64 {
        let every = self.plan.knobs.keepalive_every.unwrap_or(KEEPALIVE_EVERY_DEFAULT);
        every + self.epoch_max()
    }

    /// At the end every lane has committed lately, where nothing failed and it has not ended.
    pub(crate) fn check_alive(&self) -> Result<(), String> {
        let longest = self.keepalive_max();
        let is_watched = self.pace.is_watched && !self.plan.knobs.is_bounded;
        let silent = self.pace.commits.iter().filter(|_| is_watched).find_map(|(lane, at)| {
            let silent = self.now - at;
            (silent > longest).then(|| {
                format!("lane {lane}: keepalive: it has committed nothing for {silent} ms")
            })
        });
        silent.map_or(Ok(()), Err)
    }

    /// A lane has committed: not later than it may, where it has run since its last commit.
    pub(super) fn check_pace(&mut self, lane: u16) {
        let committed_at = self.pace.commits.insert(lane, self.now);
        let history = &self.histories[usize::from(lane)];
        let epoch_max = self.epoch_max();
        let (Some(committed_at), [.., before, last]) = (committed_at, &history.epochs[..]) else {
            return;
        };
        if !self.pace.is_watched || before.record.attempt != last.record.attempt {
            return;
        }
        self.counts.paces += 1;
        let (epoch, silent) = (last.record.epoch.0, self.now - committed_at);
        if silent > self.keepalive_max() {
            return self.fail(format!(
                "lane {lane}: keepalive: epoch {epoch} comes {silent} ms after the one before"
            ));
        }
        let sources = before.record.sources.iter().zip(&last.record.sources);
        let seen = sources.filter_map(|(before, after)| {
            let place = (before.source.input.0, before.source.partition.0);
            let log = self.kafka.logs.get(&Place::Input(place.0, place.1))?;
            let (first, _) = log.read(before.position, after.position, 1, true);
            self.pace.seen_since(place, first.first()?.offset)
        });
        let Some(seen) = seen.min() else { return };
        let took = self.now - seen.max(committed_at);
        if took > epoch_max {
            self.fail(format!(
                "lane {lane}: pace: epoch {epoch} came {took} ms after what it holds could be read"
            ));
        }
    }
}
