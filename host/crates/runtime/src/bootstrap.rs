//! How far inputs are that are loaded first (`bootstrap`), in numbers and in words.
//!
//! Decides nothing: [`dovetail_core::schedule`] says who waits. Keeps: a number of records that is
//! estimated by offsets says so, since control markers and compaction leave offsets without record.

use std::fmt;

use dovetail_core::{
    lane::{LaneStatus, SourceStatus},
    schedule::Loading,
};

use crate::{
    reason::ReasonCode,
    setup::Names,
    status::{LaneView, NotReady, Phase},
};

/// How far one source is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Progress {
    /// Records read since the lane was acquired.
    pub records: u64,
    /// How many there are up to its end; `None` = that is not known.
    pub of: Option<u64>,
    /// Whether there may be fewer.
    pub is_at_most: bool,
}

impl Progress {
    /// Returns how far a source is; `None` = it is not being loaded. `end` is the offset behind its
    /// last record, as the log last heard of it.
    #[must_use]
    pub fn of_source(source: &SourceStatus, end: Option<i64>) -> Option<Self> {
        let Loading { taken, left } = source.loading?;
        let by_offsets = || {
            let left = end?.checked_sub(source.position)?;
            u64::try_from(left).ok()
        };
        let of = left.or_else(by_offsets).map(|left| taken.saturating_add(left));
        Some(Self { records: taken, of, is_at_most: left.is_none() })
    }

    /// Returns whole percents, where the end is known.
    #[must_use]
    pub fn percent(&self) -> Option<u64> {
        let of = self.of?;
        Some(self.records.saturating_mul(100).checked_div(of).unwrap_or(100))
    }
}

impl fmt::Display for Progress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Some((of, percent)) = self.of.zip(self.percent()) else {
            return write!(f, "{} records so far, its end is not known yet", grouped(self.records));
        };
        let at_most = if self.is_at_most { "at most " } else { "" };
        let (records, of) = (grouped(self.records), grouped(of));
        write!(f, "{records} of {at_most}{of} records ({percent} %)")
    }
}

/// Returns a number with its digits in groups of three.
fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::with_capacity(digits.len() * 2);
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// Returns what a lane loads first and who waits for it, as a reason not to be ready.
#[must_use]
pub fn bootstrap_reason(view: &LaneView, names: &Names) -> Option<NotReady> {
    let status = view.status.as_ref().filter(|_| view.phase == Phase::Running)?;
    let told = told(status, &view.ends, names);
    if told.is_empty() {
        return None;
    }
    let mut waiting: Vec<&str> = status
        .sources
        .iter()
        .filter(|it| it.is_waiting)
        .map(|it| names.input(it.source.input))
        .collect();
    waiting.dedup();
    let message = format!(
        "lane {}: bootstrapping {}; records of {} wait for that",
        view.lane.0,
        told.join(", "),
        waiting.join(", ")
    );
    Some(NotReady { code: ReasonCode::Bootstrapping, lane: Some(view.lane), message })
}

fn told(status: &LaneStatus, ends: &[Option<i64>], names: &Names) -> Vec<String> {
    let source = |(at, source): (usize, &SourceStatus)| {
        let progress = Progress::of_source(source, ends.get(at).copied().flatten())?;
        let (input, partition) = (names.input(source.source.input), source.source.partition.0);
        Some(format!("{input}[{partition}]: {progress}"))
    };
    status.sources.iter().enumerate().filter_map(source).collect()
}

#[cfg(test)]
mod tests {
    use dovetail_core::{
        epoch::LaneId,
        lane::SourceCondition,
        record::{InputIndex, Partition, Source},
        state::{StateSize, StoreReads},
    };

    use super::*;

    fn source(input: u16, loading: Option<Loading>) -> SourceStatus {
        SourceStatus {
            source: Source { input: InputIndex(input), partition: Partition(2) },
            condition: SourceCondition::Head,
            position: 1_300,
            watermark: 0,
            is_idle: false,
            is_holder: false,
            held_since: None,
            has_records: true,
            loading,
            is_waiting: loading.is_none(),
        }
    }

    #[test]
    fn a_lane_that_loads_is_not_ready_and_says_how_far_it_is_and_who_waits() {
        let names =
            Names { inputs: ["clicks", "users"].map(str::to_owned).to_vec(), ..Names::default() };
        let mut view = LaneView::new(LaneId(2), 0);
        view.enter(Phase::Running, 0);
        let mut told = |loading, end| {
            let status = LaneStatus {
                epoch: None,
                watermark: 0,
                processing_time: 0,
                sources: vec![source(0, None), source(1, loading)],
                firing: None,
                timers_pending: 0,
                all_idle: false,
                state: StateSize::default(),
                reads: StoreReads::default(),
                revision: String::new(),
            };
            view.ends = vec![None, end];
            view.stand(status, 0);
            bootstrap_reason(&view, &names).map(|reason| reason.message)
        };
        let loading = |left| Some(Loading { taken: 1_200, left });
        assert_eq!(
            told(loading(Some(3_800)), None).unwrap(),
            "lane 2: bootstrapping users[2]: 1,200 of 5,000 records (24 %); records of clicks wait \
             for that"
        );
        let said = told(loading(None), Some(5_100)).unwrap();
        assert!(said.contains("users[2]: 1,200 of at most 5,000 records (24 %)"), "{said}");
        let said = told(loading(None), None).unwrap();
        assert!(
            said.contains("users[2]: 1,200 records so far, its end is not known yet"),
            "{said}"
        );
        assert_eq!(told(None, None), None);
    }

    #[test]
    fn progress_says_what_is_known_and_what_is_an_estimate() {
        let said = |records, of, is_at_most| Progress { records, of, is_at_most }.to_string();
        assert_eq!(said(1_200, Some(5_000), false), "1,200 of 5,000 records (24 %)");
        assert_eq!(said(0, Some(1_000_000), true), "0 of at most 1,000,000 records (0 %)");
        assert_eq!(said(12, None, true), "12 records so far, its end is not known yet");
        assert_eq!(said(0, Some(0), false), "0 of 0 records (100 %)");
    }
}
