//! Counts, sums and extremes of fields, exact and in any order the same.

use std::{cmp::Ordering, fmt};

use serde::{Deserialize, Serialize};

use crate::error::{Error, Result};

/// Most digits behind the point.
const SCALE_MAX: u32 = 18;

/// A decimal number: the digits of a JSON number without exponent, exactly.
///
/// Sums of them do not depend on the order, as those of floating-point numbers do.
///
/// ```
/// use dovetail_sdk::join::Decimal;
///
/// let sum = Decimal::parse("0.1")?.plus(Decimal::parse("0.20")?)?;
/// assert_eq!(sum.to_string(), "0.30");
/// # Ok::<(), dovetail_sdk::Error>(())
/// ```
#[derive(Debug, Clone, Copy, Default, Serialize, Deserialize)]
pub struct Decimal {
    digits: i128,
    scale: u32,
}

impl Decimal {
    /// Reads a JSON number, or a string that holds one.
    ///
    /// # Errors
    ///
    /// When it is not a number, has an exponent, or more digits than fit.
    pub fn parse(raw: &str) -> Result<Self> {
        let text = raw.strip_prefix('"').and_then(|raw| raw.strip_suffix('"')).unwrap_or(raw);
        let (whole, fraction) = text.split_once('.').unwrap_or((text, ""));
        let is_number = !whole.trim_start_matches('-').is_empty()
            && fraction.bytes().all(|byte| byte.is_ascii_digit());
        let digits = if is_number { format!("{whole}{fraction}").parse().ok() } else { None };
        let scale = u32::try_from(fraction.len()).ok().filter(|scale| *scale <= SCALE_MAX);
        match digits.zip(scale) {
            Some((digits, scale)) => Ok(Self { digits, scale }),
            None => Err(Error::new(format!(
                "expected a number without exponent and with at most {SCALE_MAX} digits behind \
                 the point, found {raw}"
            ))),
        }
    }

    /// Returns the sum.
    ///
    /// # Errors
    ///
    /// When it has more digits than fit (38).
    pub fn plus(self, other: Self) -> Result<Self> {
        let scale = self.scale.max(other.scale);
        let sum = self
            .digits_at(scale)
            .zip(other.digits_at(scale))
            .and_then(|(left, right)| left.checked_add(right));
        let digits = sum.ok_or_else(|| Error::new("a sum has more than 38 digits"))?;
        Ok(Self { digits, scale })
    }

    fn digits_at(self, scale: u32) -> Option<i128> {
        self.digits.checked_mul(10i128.checked_pow(scale - self.scale)?)
    }

    /// Compares the values. Numbers that differ by more than 38 digits cannot be: each has fewer.
    fn compare(self, other: Self) -> Ordering {
        let scale = self.scale.max(other.scale);
        match (self.digits_at(scale), other.digits_at(scale)) {
            (Some(left), Some(right)) => left.cmp(&right),
            // The one that does not fit is the one further from 0.
            (None, _) => self.digits.cmp(&0),
            (_, None) => 0.cmp(&other.digits),
        }
    }
}

impl fmt::Display for Decimal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let sign = if self.digits < 0 { "-" } else { "" };
        let scale = self.scale as usize;
        let digits = format!("{:0>width$}", self.digits.unsigned_abs(), width = scale + 1);
        let (whole, fraction) = digits.split_at(digits.len() - scale);
        let point = if scale > 0 { "." } else { "" };
        write!(f, "{sign}{whole}{point}{fraction}")
    }
}

/// What is computed of a field.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Measure {
    /// How many records have it.
    Count,
    /// The sum.
    Sum,
    /// The least.
    Min,
    /// The largest.
    Max,
}

/// One of several totals on its way: what they are is the plugin's to know.
///
/// State: part of the plugin's row. Timers: none. Cost: arithmetic.
///
/// ```
/// use dovetail_sdk::join::{Measure, Total};
///
/// let mut largest = Total::default();
/// for raw in ["3", "12.5", "4"] {
///     largest.add(Measure::Max, raw)?;
/// }
/// let mut other = Total::default();
/// other.add(Measure::Max, "7")?;
/// largest.merge(Measure::Max, &other)?;
/// assert_eq!(largest.text(Measure::Max), "12.5");
/// assert_eq!(Total::default().text(Measure::Sum), "0");
/// assert_eq!(Total::default().text(Measure::Min), "null");
/// # Ok::<(), dovetail_sdk::Error>(())
/// ```
#[derive(Debug, Clone, Copy, Default, Serialize, Deserialize)]
pub struct Total {
    count: u64,
    value: Option<Decimal>,
}

impl Total {
    /// Adds a field's raw value; null counts as absent.
    ///
    /// # Errors
    ///
    /// When a sum, minimum or maximum is wanted and the value is not a number.
    pub fn add(&mut self, measure: Measure, raw: &str) -> Result {
        if raw == "null" {
            return Ok(());
        }
        let value = if measure == Measure::Count { None } else { Some(Decimal::parse(raw)?) };
        self.merge(measure, &Self { count: 1, value })
    }

    /// Adds what another one has.
    ///
    /// # Errors
    ///
    /// When a sum has more digits than fit.
    pub fn merge(&mut self, measure: Measure, other: &Self) -> Result {
        self.count += other.count;
        self.value = match (self.value, other.value) {
            (Some(left), Some(right)) => Some(match measure {
                Measure::Count | Measure::Sum => left.plus(right)?,
                Measure::Min if right.compare(left) == Ordering::Less => right,
                Measure::Max if right.compare(left) == Ordering::Greater => right,
                Measure::Min | Measure::Max => left,
            }),
            (left, right) => left.or(right),
        };
        Ok(())
    }

    /// Returns it as JSON: a count or sum of nothing is 0, a least or largest of nothing null.
    #[must_use]
    pub fn text(&self, measure: Measure) -> String {
        match (measure, self.value) {
            (Measure::Count, _) => self.count.to_string(),
            (_, Some(value)) => value.to_string(),
            (Measure::Sum, None) => "0".to_owned(),
            (Measure::Min | Measure::Max, None) => "null".to_owned(),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn what_is_no_plain_number_is_refused() {
        for raw in ["1e5", "true", "\"x\"", "", "-", "--1", "1.", "0.1234567890123456789"] {
            let parsed = Decimal::parse(raw);
            assert_eq!(parsed.is_ok(), raw == "1.", "{raw}: {parsed:?}");
        }
        let most = Decimal::parse(&i128::MAX.to_string()).unwrap();
        assert!(most.plus(Decimal::parse("1").unwrap()).is_err());
    }

    #[test]
    fn numbers_show_themselves_with_their_digits() {
        for raw in ["0", "-0.05", "12.50", "-7", "\"3.1\""] {
            assert_eq!(Decimal::parse(raw).unwrap().to_string(), raw.trim_matches('"'));
        }
    }

    proptest! {
        #[test]
        fn totals_do_not_depend_on_order_or_grouping(
            numbers in proptest::collection::vec((-100_000i64..100_000, 0u32..4), 1..20),
            split in 0usize..20,
        ) {
            let raws: Vec<String> = numbers
                .iter()
                .map(|(digits, scale)| Decimal { digits: i128::from(*digits), scale: *scale }.to_string())
                .collect();
            for measure in [Measure::Count, Measure::Sum, Measure::Min, Measure::Max] {
                let total = |raws: &[String]| {
                    let mut total = Total::default();
                    raws.iter().try_for_each(|raw| total.add(measure, raw)).unwrap();
                    total
                };
                let (head, tail) = raws.split_at(split.min(raws.len()));
                let mut merged = total(tail);
                merged.merge(measure, &total(head)).unwrap();
                let whole = total(&raws);
                match (merged.value, whole.value) {
                    (Some(merged), Some(whole)) => {
                        prop_assert_eq!(merged.compare(whole), Ordering::Equal);
                    }
                    (merged, whole) => prop_assert_eq!(merged.is_none(), whole.is_none()),
                }
                prop_assert_eq!(merged.count, whole.count);
            }
        }
    }
}
