//! Whether a partition still holds what comes next, and what happens where it does not.
//!
//! Two things look alike to a consumer: the topic has deleted records before they were read, and
//! the topic is another one than it was. Decides by the input's `on_gap`, from offsets alone.

use dovetail_core::log::LogError;

use crate::options::{OnGap, SourceOptions};

/// A jump that the configuration allows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Gap {
    /// Where reading goes on.
    pub(crate) position: i64,
    /// How many offsets were jumped over; 0 where it goes on at the beginning of another topic.
    pub(crate) lost: u64,
}

/// Compares the next offset to read with the first one kept and the one behind the last.
pub(crate) fn find(
    source: &SourceOptions,
    position: i64,
    (low, high): (i64, i64),
) -> Result<Option<Gap>, LogError> {
    let SourceOptions { topic, partition, on_gap, .. } = source;
    let refuse =
        |message| Err(LogError::Gap { topic: topic.clone(), partition: *partition, message });
    if position < low {
        let lost = low.abs_diff(position);
        if *on_gap == OnGap::Earliest {
            tracing::warn!(topic, partition, from = position, to = low, lost, "records are gone");
            return Ok(Some(Gap { position: low, lost }));
        }
        return refuse(format!(
            "offsets {position}–{} ({lost} records) are gone: the topic kept them too short. Set \
             `on_gap: earliest` on this input to go on at {low} without them",
            low - 1
        ));
    }
    if position > high {
        if *on_gap == OnGap::Earliest {
            tracing::warn!(
                topic,
                partition,
                position,
                end = high,
                "the topic is another one than was read before: reading from its beginning, {low}"
            );
            return Ok(Some(Gap { position: low, lost: 0 }));
        }
        return refuse(format!(
            "the position is {position}, and the partition ends at {high}: the topic was deleted \
             and made anew, or restored from a copy. Results of what it held before are committed. \
             Set `on_gap: earliest` on this input to go on at its beginning, {low}, with the state \
             that is there; or use another pipeline name to start anew"
        ));
    }
    Ok(None)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::options::Start;

    fn source(on_gap: OnGap) -> SourceOptions {
        SourceOptions { topic: "in".to_owned(), partition: 3, start: Start::Earliest, on_gap }
    }

    #[test]
    fn a_position_inside_the_partition_is_no_gap() {
        for on_gap in [OnGap::Fail, OnGap::Earliest] {
            for position in [5, 7, 9] {
                assert_eq!(find(&source(on_gap), position, (5, 9)), Ok(None));
            }
        }
    }

    #[test]
    fn deleted_records_and_another_topic_are_refused_or_jumped_over() {
        let allowed = |position| find(&source(OnGap::Earliest), position, (5, 9)).unwrap();
        assert_eq!(allowed(2), Some(Gap { position: 5, lost: 3 }));
        assert_eq!(allowed(10), Some(Gap { position: 5, lost: 0 }));
        for (position, found) in [(2, "offsets 2–4 (3 records)"), (10, "position is 10")] {
            let error = find(&source(OnGap::Fail), position, (5, 9)).unwrap_err().to_string();
            assert!(error.starts_with("in[3]: ") && error.contains(found), "{error}");
            assert!(error.contains("`on_gap: earliest`"), "{error}");
        }
    }
}
