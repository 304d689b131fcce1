//! Which records of two inputs are near enough in event time, and which sides keep what finds no
//! partner.

use std::ops::{Bound, RangeBounds, RangeInclusive};

use serde::{Deserialize, Serialize};

use crate::error::{Error, Result};

/// One of the two inputs of a join.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Side {
    /// The left one.
    Left,
    /// The right one.
    Right,
}

impl Side {
    /// Returns the other side.
    #[must_use]
    pub const fn other(self) -> Self {
        match self {
            Self::Left => Self::Right,
            Self::Right => Self::Left,
        }
    }

    /// Returns its place in a list of two: left is 0.
    #[must_use]
    pub const fn index(self) -> usize {
        match self {
            Self::Left => 0,
            Self::Right => 1,
        }
    }
}

/// What a join makes of a record with a partner, and of one without.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum JoinKind {
    /// A result per pair.
    #[default]
    Inner,
    /// A result per pair, and one per left record without a partner.
    Left,
    /// A result per pair, and one per right record without a partner.
    Right,
    /// A result per pair, and one per record of either side without a partner.
    Full,
    /// One result per left record that has a partner.
    Semi,
    /// One result per left record that has none.
    Anti,
}

impl JoinKind {
    /// Returns whether pairs are results.
    #[must_use]
    pub const fn emits_pairs(self) -> bool {
        !matches!(self, Self::Semi | Self::Anti)
    }

    /// Returns whether a record of a side that finds no partner is a result.
    #[must_use]
    pub const fn keeps(self, side: Side) -> bool {
        match side {
            Side::Left => matches!(self, Self::Left | Self::Full | Self::Anti),
            Side::Right => matches!(self, Self::Right | Self::Full),
        }
    }
}

/// How far a right record may lie from a left one: `lower <= right - left <= upper`, in ms.
///
/// State: none. Timers: none. Cost: arithmetic.
///
/// ```
/// use dovetail_sdk::join::{Interval, Side};
///
/// // A payment from 5 s before to less than 10 s after its order.
/// let interval = Interval::new(-5_000..10_000)?;
/// assert_eq!(interval.partners(Side::Left, 60_000), 55_000..=69_999);
/// assert_eq!(interval.partners(Side::Right, 60_000), 50_001..=65_000);
/// // An order is decided once the watermark is 9.999 s past it, a payment after 5 s.
/// assert_eq!((interval.reach(Side::Left), interval.reach(Side::Right)), (9_999, 5_000));
/// # Ok::<(), dovetail_sdk::Error>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Interval {
    lower: i64,
    upper: i64,
}

impl Interval {
    /// Returns the interval of these differences.
    ///
    /// # Errors
    ///
    /// When no difference lies in it, or it has no end: what is kept for such a join would never
    /// go away.
    pub fn new(differences: impl RangeBounds<i64>) -> Result<Self> {
        let lower = match differences.start_bound() {
            Bound::Included(lower) => Some(*lower),
            Bound::Excluded(lower) => lower.checked_add(1),
            Bound::Unbounded => None,
        };
        let upper = match differences.end_bound() {
            Bound::Included(upper) => Some(*upper),
            Bound::Excluded(upper) => upper.checked_sub(1),
            Bound::Unbounded => None,
        };
        match lower.zip(upper) {
            Some((lower, upper)) if lower <= upper => Ok(Self { lower, upper }),
            Some((lower, upper)) => Err(Error::new(format!(
                "the bounds leave nothing between them: the first difference is {lower} ms, the \
                 last {upper} ms"
            ))),
            None => Err(Error::new("an interval has two ends")),
        }
    }

    /// Returns the event times that partners of a record can have.
    #[must_use]
    pub fn partners(&self, side: Side, time: i64) -> RangeInclusive<i64> {
        match side {
            Side::Left => time.saturating_add(self.lower)..=time.saturating_add(self.upper),
            Side::Right => time.saturating_sub(self.upper)..=time.saturating_sub(self.lower),
        }
    }

    /// Returns how far behind a record's event time its last partner can come: when the watermark
    /// is there, the record is decided. Never negative.
    #[must_use]
    pub fn reach(&self, side: Side) -> i64 {
        match side {
            Side::Left => self.upper.max(0),
            Side::Right => self.lower.saturating_neg().max(0),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn interval_without_an_end_or_without_content_is_refused() {
        for refused in [
            Interval::new(3..3),
            Interval::new((Bound::Included(5), Bound::Included(4))),
            Interval::new(..=4),
        ] {
            assert!(refused.is_err());
        }
        assert_eq!(Interval::new(3..=3).unwrap().partners(Side::Left, 1), 4..=4);
    }

    proptest! {
        #[test]
        fn both_sides_agree_who_is_a_partner(
            lower in -20i64..20, length in 0i64..20, left in -50i64..50, right in -50i64..50,
        ) {
            let interval = Interval::new(lower..=lower + length).unwrap();
            let is_pair = (lower..=lower + length).contains(&(right - left));
            prop_assert_eq!(interval.partners(Side::Left, left).contains(&right), is_pair);
            prop_assert_eq!(interval.partners(Side::Right, right).contains(&left), is_pair);
            if is_pair {
                prop_assert!(right <= left + interval.reach(Side::Left));
                prop_assert!(left <= right + interval.reach(Side::Right));
            }
        }
    }
}
