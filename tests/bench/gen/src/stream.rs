//! The deterministic stream of events: the same seed gives the same bytes on every machine.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::fmt::Write;

/// Event time of event 0, in ms.
const START_MS: u64 = 1_700_000_000_000;
/// Records are at most this much behind the newest, in ms.
const OUT_OF_ORDERNESS_MS: u64 = 5_000;
/// The flush lies this far behind the last event, in ms: every timer is due by then.
const FLUSH_AFTER_MS: u64 = 7_200_000;
/// A prime that does not divide the number of keys: its multiples visit every key once.
const SCATTER: u64 = 104_729;

/// What the stream is about. The default is what the published figures were measured with.
#[derive(Clone, Copy)]
pub(crate) struct Workload {
    /// Ordinary keys; the flush at the end uses one more per partition. No multiple of 104,729.
    pub(crate) keys: u64,
    /// Partitions of every topic.
    pub(crate) partitions: u16,
    /// Whether dimensions come before the flush at all: without them every behaviour waits, and
    /// all of them time out at once.
    pub(crate) has_dimensions: bool,
}

impl Default for Workload {
    fn default() -> Self {
        Workload { keys: 200_000, partitions: 4, has_dimensions: true }
    }
}

impl Workload {
    /// 0.5 % of the keys never get a dimension, so their behaviours time out.
    pub(crate) fn never_has_dimension(&self, key: u64) -> bool {
        key < self.keys && (!self.has_dimensions || key.is_multiple_of(200))
    }

    /// For 5 % of the keys the first behaviour comes before the dimension.
    pub(crate) fn dimension_comes_late(&self, key: u64) -> bool {
        self.has_dimensions && key % 20 == 1
    }

    /// Whether a result says how long records take: what waits for its dimension, or for the
    /// flush, does not.
    pub(crate) fn is_ordinary(&self, key: u64) -> bool {
        key < self.keys && !self.never_has_dimension(key) && !self.dimension_comes_late(key)
    }

    /// How many first dimensions come before the mix.
    pub(crate) fn preload_count(&self) -> u64 {
        (0..self.keys).filter(|key| self.is_ordinary(*key)).count() as u64
    }

    fn partition(&self, key: u64) -> i32 {
        (key % u64::from(self.partitions)) as i32
    }
}

/// A function of the key alone, so that the expected output does not depend on versions.
pub(crate) fn campaign(key: u64) -> String {
    format!("c{:04}", key.wrapping_mul(2_654_435_761) % 1000)
}

/// One record to be produced; times in ms.
pub(crate) enum Event {
    Dimension { key: u64, version: u32, tag: u64, time: u64 },
    Behaviour { key: u64, id: u64, time: u64, amount: u64 },
}

/// Where an encoded event goes.
pub(crate) struct Address {
    pub(crate) is_dimension: bool,
    pub(crate) partition: i32,
    pub(crate) key: u64,
}

impl Event {
    pub(crate) fn time(&self) -> i64 {
        match self {
            Event::Dimension { time, .. } | Event::Behaviour { time, .. } => *time as i64,
        }
    }

    /// Writes the value into `buffer`; `produced_at_ms` lets a reader measure latency.
    pub(crate) fn encode(
        &self,
        workload: &Workload,
        produced_at_ms: u64,
        buffer: &mut String,
    ) -> Address {
        buffer.clear();
        let written = match self {
            Event::Dimension { key, version, tag, time } => write!(
                buffer,
                "{{\"user_id\":\"u{key:08}\",\"campaign\":\"{}\",\"tag\":\"t{tag:02}\",\
                 \"version\":{version},\"ts\":{time}}}",
                campaign(*key)
            ),
            Event::Behaviour { key, id, time, amount } => write!(
                buffer,
                "{{\"user_id\":\"u{key:08}\",\"event_id\":\"e{id:010}\",\"ts\":{time},\
                 \"amount\":{amount},\"pt\":{produced_at_ms}}}"
            ),
        };
        written.expect("writing to a String cannot fail");
        let (is_dimension, key) = match self {
            Event::Dimension { key, .. } => (true, *key),
            Event::Behaviour { key, .. } => (false, *key),
        };
        Address { is_dimension, partition: workload.partition(key), key }
    }
}

/// splitmix64.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    fn below(&mut self, bound: u64) -> u64 {
        ((u128::from(self.next()) * u128::from(bound)) >> 64) as u64
    }
}

/// `count` events over `span_ms` of event time, then a flush pair per partition far in the future.
pub(crate) struct Stream {
    workload: Workload,
    random: Random,
    count: u64,
    index: u64,
    span_ms: u64,
    /// The newest version per key.
    version: Vec<u32>,
    /// Late dimensions: (index at which it is due, key).
    due: BinaryHeap<Reverse<(u64, u64)>>,
    scheduled: Vec<bool>,
    next_id: u64,
    /// Keys visited by the preload.
    visited: u64,
    flushed: u64,
}

impl Stream {
    pub(crate) fn new(workload: Workload, seed: u64, count: u64, span_ms: u64) -> Self {
        let Workload { keys, partitions, .. } = workload;
        Stream {
            workload,
            random: Random(seed),
            count,
            index: 0,
            span_ms,
            version: vec![0; keys as usize + usize::from(partitions)],
            due: BinaryHeap::new(),
            scheduled: vec![false; keys as usize],
            next_id: 0,
            visited: 0,
            flushed: 0,
        }
    }

    /// Whether the first dimensions are still being sent.
    pub(crate) fn is_preloading(&self) -> bool {
        self.visited < self.workload.keys
    }

    fn elapsed_ms(&self) -> u64 {
        (u128::from(self.index) * u128::from(self.span_ms) / u128::from(self.count)) as u64
    }

    fn time(&mut self) -> u64 {
        let newest = START_MS + OUT_OF_ORDERNESS_MS + self.elapsed_ms();
        newest - self.random.below(OUT_OF_ORDERNESS_MS + 1)
    }

    fn dimension(&mut self, key: u64) -> Event {
        let time = self.time();
        // 5 % of the updates repeat the previous version, which must not replace the newer one.
        let newest = &mut self.version[key as usize];
        let is_stale = *newest > 1 && self.random.below(100) < 5;
        let version = if is_stale {
            *newest - 1
        } else {
            *newest += 1;
            *newest
        };
        Event::Dimension { key, version, tag: self.random.below(100), time }
    }

    fn behaviour(&mut self, key: u64) -> Event {
        if self.workload.dimension_comes_late(key) && !self.scheduled[key as usize] {
            self.scheduled[key as usize] = true;
            let per_minute = (u128::from(self.count) * 60_000 / u128::from(self.span_ms)) as u64;
            let per_minute = per_minute.max(1);
            // 1 to 20 minutes of event time.
            let wait = per_minute + self.random.below(19 * per_minute);
            self.due.push(Reverse((self.index + wait, key)));
        }
        self.next_id += 1;
        Event::Behaviour {
            key,
            id: self.next_id,
            time: self.time(),
            amount: self.random.below(1_000_000),
        }
    }

    /// The first dimension of every ordinary key, in a scattered order.
    fn preload(&mut self) -> Option<Event> {
        while self.is_preloading() {
            let key = self.visited.wrapping_mul(SCATTER) % self.workload.keys;
            self.visited += 1;
            if self.workload.is_ordinary(key) {
                return Some(self.dimension(key));
            }
        }
        None
    }

    /// A late dimension whose moment has come; at the end, all that are left.
    fn late_dimension(&mut self) -> Option<Event> {
        let &Reverse((at, key)) = self.due.peek()?;
        if at > self.index && self.index < self.count {
            return None;
        }
        self.due.pop();
        Some(self.dimension(key))
    }

    /// 25 % dimension updates, 75 % behaviours.
    fn mix(&mut self) -> Option<Event> {
        if self.index >= self.count {
            return None;
        }
        let key = self.random.below(self.workload.keys);
        if self.random.below(4) == 0 && self.version[key as usize] > 0 {
            Some(self.dimension(key))
        } else {
            Some(self.behaviour(key))
        }
    }

    /// One dimension and one behaviour per partition, two hours later.
    fn flush(&mut self) -> Option<Event> {
        if self.flushed >= 2 * u64::from(self.workload.partitions) {
            return None;
        }
        let key = self.workload.keys + self.flushed / 2;
        let time = START_MS + self.span_ms.max(self.elapsed_ms()) + FLUSH_AFTER_MS;
        self.flushed += 1;
        if self.flushed % 2 == 1 {
            return Some(Event::Dimension { key, version: 1, tag: 0, time });
        }
        self.next_id += 1;
        Some(Event::Behaviour { key, id: self.next_id, time, amount: 1 })
    }
}

impl Iterator for Stream {
    type Item = Event;

    fn next(&mut self) -> Option<Event> {
        let event = self.preload().or_else(|| self.late_dimension()).or_else(|| self.mix());
        if event.is_some() {
            self.index += 1;
            return event;
        }
        self.flush()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// FNV-1a 64 over partition, kind, time and value of every event.
    fn fingerprint(stream: Stream) -> u64 {
        let mut h = 0xcbf2_9ce4_8422_2325_u64;
        let mut buffer = String::new();
        for event in stream {
            let address = event.encode(&Workload::default(), 7, &mut buffer);
            let head = format!("{} {} ", address.partition, address.is_dimension);
            let time = event.time().to_le_bytes();
            for byte in head.bytes().chain(time).chain(buffer.bytes()) {
                h = (h ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3);
            }
        }
        h
    }

    #[test]
    fn same_seed_gives_the_bytes_that_the_published_figures_were_measured_with() {
        assert_eq!(
            fingerprint(Stream::new(Workload::default(), 42, 500_000, 720_000)),
            0xeaf7_6946_8d75_10f7
        );
    }
}
