//! Whether a source still holds what comes next, and what happens where it does not.
//!
//! Two things look alike to a reader: the topic has deleted records before they were read, and the
//! topic is another one than it was. Decided by the input's `on_gap`, from offsets alone.

use super::LogError;

/// What happens when the record to read next is gone.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum OnGap {
    /// The pipeline stops.
    #[default]
    Fail,
    /// It goes on at the first record kept; the loss is counted.
    Earliest,
}

/// A jump that the input's `on_gap` allows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Gap {
    /// Where reading goes on; before the old position where the topic is another one.
    pub position: i64,
    /// How many offsets were jumped over; 0 where it goes on at the beginning of another topic.
    pub lost: u64,
}

/// Compares the next offset to read with the first one kept and the one behind the last.
///
/// # Errors
///
/// [`LogError::Gap`] when it is not between them and `on_gap` does not allow to go on.
pub fn find(
    (topic, partition): (&str, u16),
    on_gap: OnGap,
    position: i64,
    (low, high): (i64, i64),
) -> Result<Option<Gap>, LogError> {
    let refused = |message| LogError::Gap { topic: topic.to_owned(), partition, message };
    if position < low {
        let lost = low.abs_diff(position);
        return match on_gap {
            OnGap::Earliest => Ok(Some(Gap { position: low, lost })),
            OnGap::Fail => Err(refused(format!(
                "offsets {position}–{} ({lost} records) are gone: the topic kept them too short. \
                 Set `on_gap: earliest` on this input to go on at {low} without them",
                low - 1
            ))),
        };
    }
    if position > high {
        return match on_gap {
            OnGap::Earliest => Ok(Some(Gap { position: low, lost: 0 })),
            OnGap::Fail => Err(refused(format!(
                "the position is {position}, and the partition ends at {high}: the topic was \
                 deleted and made anew, or restored from a copy. Results of what it held before \
                 are committed. Set `on_gap: earliest` on this input to go on at its beginning, \
                 {low}, with the state that is there; or use another pipeline name to start anew"
            ))),
        };
    }
    Ok(None)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(on_gap: OnGap, position: i64) -> Result<Option<Gap>, LogError> {
        find(("in", 3), on_gap, position, (5, 9))
    }

    #[test]
    fn a_position_inside_the_partition_is_no_gap() {
        for on_gap in [OnGap::Fail, OnGap::Earliest] {
            for position in [5, 7, 9] {
                assert_eq!(found(on_gap, position), Ok(None));
            }
        }
    }

    #[test]
    fn deleted_records_and_another_topic_are_refused_or_jumped_over() {
        let allowed = |position| found(OnGap::Earliest, position).unwrap();
        assert_eq!(allowed(2), Some(Gap { position: 5, lost: 3 }));
        assert_eq!(allowed(10), Some(Gap { position: 5, lost: 0 }));
        for (position, part) in [(2, "offsets 2–4 (3 records)"), (10, "position is 10")] {
            let error = found(OnGap::Fail, position).unwrap_err().to_string();
            assert!(error.starts_with("in[3]: ") && error.contains(part), "{error}");
            assert!(error.contains("`on_gap: earliest`"), "{error}");
        }
    }
}
