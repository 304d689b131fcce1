//! Which record a lane takes next: the smallest event time among the heads of its partitions.
//!
//! A partition is in one of three conditions: it has a head, it is at its end, or neither is known.
//! While any is unknown nothing is taken (for at most `wait_for_input`), so verdicts never depend
//! on how records arrived in batches.
//!
//! Partitions of broadcast inputs come first: what is known of them is taken before any other
//! record, and while one of them is unknown no other record is taken, with or without time.
//!
//! What is loaded first (`bootstrap`) is waited for without limit: until each of its partitions has
//! reached the end that it had when that was first heard of, the heads of those that wait for it are
//! not taken, whatever their times. In between the first rule holds among all others.
//!
//! Never decided by offset arithmetic: control markers make it wrong.

use std::collections::VecDeque;

use crate::time::{EventTime, ProcessingTime};

/// The heads of a lane's partitions.
#[derive(Debug)]
pub struct Heads<T> {
    partitions: Vec<Partition<T>>,
    /// Which of them come first.
    firsts: Vec<usize>,
    /// How many partitions are being loaded.
    loading: usize,
}

#[derive(Debug)]
struct Partition<T> {
    queue: VecDeque<(Option<EventTime>, T)>,
    /// What is known once the queue is empty.
    behind: Behind,
    unknown_since: ProcessingTime,
    loading: Option<Loading>,
    /// Whether it waits until everything is loaded.
    waits: bool,
}

/// How far a partition is that is loaded first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Loading {
    /// Records taken of it.
    pub taken: u64,
    /// How many more lie before its end; `None` = the end was not heard of yet.
    pub left: Option<u64>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Behind {
    Unknown,
    AtEnd,
    Ended,
}

/// In which condition a partition is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Condition {
    /// Its next record is known.
    Head,
    /// The end came after its last record.
    AtEnd,
    /// It has ended for good.
    Ended,
    /// Neither is known.
    Unknown,
}

/// What to take next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Choice {
    /// The head of this partition.
    Take(usize),
    /// There are heads, but a partition is unknown: wait for it until then.
    Wait(ProcessingTime),
    /// There is no head.
    Nothing,
}

impl<T> Heads<T> {
    /// Returns partitions of which nothing is known.
    #[must_use]
    pub fn new(partitions: usize, now: ProcessingTime) -> Self {
        let partition = || Partition {
            queue: VecDeque::new(),
            behind: Behind::Unknown,
            unknown_since: now,
            loading: None,
            waits: false,
        };
        Self {
            partitions: (0..partitions).map(|_| partition()).collect(),
            loading: 0,
            firsts: Vec::new(),
        }
    }

    /// Says that records of a partition come before those of all that were not said to.
    pub fn comes_first(&mut self, partition: usize) {
        self.firsts.push(partition);
    }

    /// Loads a partition first, unless it has ended.
    pub fn load_first(&mut self, partition: usize) {
        let partition = &mut self.partitions[partition];
        if partition.behind != Behind::Ended && partition.loading.is_none() {
            partition.loading = Some(Loading::default());
            self.loading += 1;
        }
    }

    /// Lets a partition wait for all that are loaded first.
    pub fn wait_for_loading(&mut self, partition: usize) {
        self.partitions[partition].waits = true;
    }

    /// Returns whether a partition waits for one that is loaded first.
    #[must_use]
    pub fn is_waiting(&self, partition: usize) -> bool {
        self.loading > 0 && self.partitions[partition].waits
    }

    /// Returns how far a partition is that is being loaded; `None` = it is not.
    #[must_use]
    pub fn loading(&self, partition: usize) -> Option<Loading> {
        self.partitions[partition].loading
    }

    /// Returns whether anything is being loaded.
    #[must_use]
    pub fn is_loading(&self) -> bool {
        self.loading > 0
    }

    /// Adds records, in order; `None` as time is taken at once.
    pub fn add(
        &mut self,
        partition: usize,
        records: impl IntoIterator<Item = (Option<EventTime>, T)>,
    ) {
        let partition = &mut self.partitions[partition];
        partition.queue.extend(records);
        if partition.behind == Behind::AtEnd {
            partition.behind = Behind::Unknown;
        }
    }

    /// Says that nothing follows what was added.
    pub fn at_end(&mut self, partition: usize) {
        if self.partitions[partition].behind == Behind::Unknown {
            self.partitions[partition].behind = Behind::AtEnd;
            self.note_end(partition);
        }
    }

    /// Says that nothing ever follows what was added.
    pub fn ended(&mut self, partition: usize) {
        self.partitions[partition].behind = Behind::Ended;
        self.note_end(partition);
    }

    /// The first end that is heard of is the one that loading goes up to.
    fn note_end(&mut self, partition: usize) {
        let partition = &mut self.partitions[partition];
        if let Some(loading) = &mut partition.loading {
            let left = *loading.left.get_or_insert(partition.queue.len() as u64);
            if left == 0 {
                partition.loading = None;
                self.loading -= 1;
            }
        }
    }

    /// Says that what follows is not known.
    pub fn unknown(&mut self, partition: usize, now: ProcessingTime) {
        let partition = &mut self.partitions[partition];
        if partition.behind == Behind::AtEnd {
            partition.behind = Behind::Unknown;
            partition.unknown_since = now;
        }
    }

    /// Returns what to take next.
    #[must_use]
    pub fn choose(&self, now: ProcessingTime, wait_for_input: i64) -> Choice {
        let mut best: Option<(EventTime, usize)> = None;
        let mut wait_until = None;
        for at in &self.firsts {
            if !self.partitions[*at].queue.is_empty() {
                return Choice::Take(*at);
            }
            wait_until = wait_until.max(self.waits_until(*at, now, wait_for_input));
        }
        let first_wait: Option<ProcessingTime> = wait_until;
        for (at, partition) in self.partitions.iter().enumerate() {
            if self.loading > 0 && partition.waits {
                continue;
            }
            match partition.queue.front() {
                Some((None, _)) => return first_wait.map_or(Choice::Take(at), Choice::Wait),
                Some((Some(time), _)) if best.is_none_or(|(smallest, _)| *time < smallest) => {
                    best = Some((*time, at));
                }
                Some(_) => {}
                None => wait_until = wait_until.max(self.waits_until(at, now, wait_for_input)),
            }
        }
        match (best, wait_until) {
            (None, _) => Choice::Nothing,
            (Some(_), Some(until)) => Choice::Wait(until),
            (Some((_, at)), None) => Choice::Take(at),
        }
    }

    /// Returns until when a partition without head is waited for.
    fn waits_until(
        &self,
        at: usize,
        now: ProcessingTime,
        wait_for_input: i64,
    ) -> Option<ProcessingTime> {
        let partition = &self.partitions[at];
        let until = partition.unknown_since.saturating_add(wait_for_input);
        (partition.behind == Behind::Unknown && until > now).then_some(until)
    }

    /// Takes the head of a partition.
    pub fn take(&mut self, partition: usize, now: ProcessingTime) -> Option<T> {
        let partition = &mut self.partitions[partition];
        let (_, record) = partition.queue.pop_front()?;
        if partition.queue.is_empty() && partition.behind == Behind::Unknown {
            partition.unknown_since = now;
        }
        if let Some(loading) = &mut partition.loading {
            loading.taken += 1;
            loading.left = loading.left.map(|left| left - 1);
            if loading.left == Some(0) {
                partition.loading = None;
                self.loading -= 1;
            }
        }
        Some(record)
    }

    /// Returns the head of a partition.
    #[must_use]
    pub fn head(&self, partition: usize) -> Option<&T> {
        self.partitions[partition].queue.front().map(|(_, record)| record)
    }

    /// Returns the condition of a partition.
    #[must_use]
    pub fn condition(&self, partition: usize) -> Condition {
        let partition = &self.partitions[partition];
        match (partition.queue.is_empty(), partition.behind) {
            (false, _) => Condition::Head,
            (true, Behind::Unknown) => Condition::Unknown,
            (true, Behind::AtEnd) => Condition::AtEnd,
            (true, Behind::Ended) => Condition::Ended,
        }
    }

    /// Returns how many records of a partition wait.
    #[must_use]
    pub fn waiting(&self, partition: usize) -> usize {
        self.partitions[partition].queue.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_taken_while_a_partition_is_unknown_until_the_wait_is_over() {
        let mut heads = Heads::new(2, 0);
        heads.add(0, [(Some(5), 'a')]);
        assert_eq!(heads.choose(0, 10), Choice::Wait(10));
        assert_eq!(heads.choose(10, 10), Choice::Take(0));
        heads.at_end(1);
        assert_eq!(heads.choose(0, 10), Choice::Take(0));
    }

    #[test]
    fn what_is_loaded_first_is_waited_for_up_to_the_end_that_was_heard_of_first() {
        let mut heads = Heads::new(3, 0);
        heads.load_first(1);
        heads.load_first(2);
        heads.wait_for_loading(0);
        heads.add(0, [(None, 'a'), (Some(1), 'b')]);
        heads.add(1, [(Some(9), 'c')]);
        heads.at_end(2);
        assert_eq!(heads.choose(10, 10), Choice::Take(1));
        assert_eq!(heads.take(1, 10), Some('c'));
        // Its end is not known: neither time nor a missing one helps.
        assert_eq!(heads.choose(i64::MAX, 10), Choice::Nothing);
        heads.add(1, [(Some(8), 'd')]);
        assert_eq!(heads.loading(1), Some(Loading { taken: 1, left: None }));
        heads.at_end(1);
        heads.add(1, [(Some(0), 'e')]);
        assert_eq!(heads.loading(1), Some(Loading { taken: 1, left: Some(1) }));
        assert!(heads.is_waiting(0) && !heads.is_waiting(1));
        assert_eq!(heads.take(1, 10), Some('d'));
        assert!(!heads.is_loading() && !heads.is_waiting(0));
        assert_eq!(heads.choose(10, 10), Choice::Take(0), "what came later is read in step");
    }

    #[test]
    fn what_has_ended_is_loaded_when_its_records_are_taken() {
        let mut heads = Heads::new(2, 0);
        heads.load_first(0);
        heads.wait_for_loading(1);
        heads.add(1, [(Some(1), 'b')]);
        heads.add(0, [(Some(5), 'a')]);
        heads.ended(0);
        assert_eq!(heads.choose(0, 10), Choice::Take(0));
        assert_eq!(heads.take(0, 0), Some('a'));
        heads.at_end(1);
        assert_eq!(heads.choose(0, 10), Choice::Take(1));
        heads.load_first(0);
        assert!(!heads.is_loading(), "it ended before");
    }

    #[test]
    fn a_record_without_time_is_taken_at_once() {
        let mut heads = Heads::new(2, 0);
        heads.add(1, [(None, 'a')]);
        assert_eq!(heads.choose(0, 10), Choice::Take(1));
    }

    #[test]
    fn a_partition_that_comes_first_is_taken_first_and_waited_for_even_without_time() {
        let mut heads = Heads::new(3, 0);
        heads.comes_first(2);
        heads.add(0, [(None, 'a')]);
        assert_eq!(heads.choose(0, 10), Choice::Wait(10));
        assert_eq!(heads.choose(10, 10), Choice::Take(0));
        heads.add(2, [(None, 'b')]);
        assert_eq!(heads.choose(0, 10), Choice::Take(2));
        heads.take(2, 5);
        assert_eq!(heads.choose(5, 10), Choice::Wait(15), "another may follow");
        heads.at_end(2);
        assert_eq!(heads.choose(5, 10), Choice::Take(0), "the unknown partition 1 has no say");
    }

    #[test]
    fn equal_times_go_by_partition_order() {
        let mut heads = Heads::new(3, 0);
        for partition in [2, 1, 0] {
            heads.add(partition, [(Some(7), partition)]);
        }
        assert_eq!(heads.choose(0, 10), Choice::Take(0));
    }
}
