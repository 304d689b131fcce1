//! Stops the pipeline when too many of the last records are dead letters.
//!
//! A flood says that a format or a plugin is wrong, not a record; going on would empty the topic
//! into the dead letters.

use std::collections::{BTreeMap, VecDeque};

use crate::{dead_letter::Reason, lane::StopCause, options::DeadLetterRate, time::ProcessingTime};

const WINDOW_S: i64 = 10;

#[derive(Debug)]
pub(super) struct FloodWatch {
    rate: DeadLetterRate,
    /// (second, records, dead letters), oldest first.
    seconds: VecDeque<(i64, u64, u64)>,
    /// Dead letters by reason since the lane began, with the last message of each.
    reasons: BTreeMap<Reason, (u64, String)>,
}

impl FloodWatch {
    pub(super) fn new(rate: DeadLetterRate) -> Self {
        Self { rate, seconds: VecDeque::new(), reasons: BTreeMap::new() }
    }

    fn second(&mut self, now: ProcessingTime) -> &mut (i64, u64, u64) {
        let second = now.div_euclid(1_000);
        if self.seconds.back().is_none_or(|(last, ..)| *last < second) {
            self.seconds.push_back((second, 0, 0));
            while self.seconds.front().is_some_and(|(first, ..)| *first <= second - WINDOW_S) {
                self.seconds.pop_front();
            }
        }
        self.seconds.back_mut().expect("a second was pushed if there was none")
    }

    pub(super) fn record(&mut self, now: ProcessingTime) {
        self.second(now).1 += 1;
    }

    /// Counts a dead letter; returns why the pipeline must stop, if it must.
    pub(super) fn dead_letter(
        &mut self,
        now: ProcessingTime,
        reason: Reason,
        message: &str,
    ) -> Option<StopCause> {
        self.second(now).2 += 1;
        let (count, last) = self.reasons.entry(reason).or_default();
        *count += 1;
        message.clone_into(last);
        let records: u64 = self.seconds.iter().map(|(_, records, _)| records).sum();
        let dead_letters: u64 = self.seconds.iter().map(|(.., dead)| dead).sum();
        let percent_max = self.rate.percent_max;
        let is_flood = percent_max < 100
            && dead_letters >= self.rate.from_count
            && dead_letters * 100 > u64::from(percent_max) * records;
        if !is_flood {
            return None;
        }
        let (reason, (_, message)) = self.reasons.iter().max_by_key(|(_, (count, _))| *count)?;
        let (reason, message) = (*reason, message.clone());
        Some(StopCause::DeadLetterFlood { dead_letters, records, percent_max, reason, message })
    }
}
