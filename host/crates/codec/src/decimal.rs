//! Exact decimal numbers as text: canonical form and scaling without floating point.
//!
//! Invariant: no digit is ever lost or invented; a result that would be too long is refused.

/// Longest canonical text that an exponent may blow a number up to, in digits. Numbers written out
/// may be longer.
pub(crate) const EXPANDED_DIGITS_MAX: i64 = 4096;

/// Exponents beyond this behave like this one: both are far outside of every limit.
const EXPONENT_MAX: i64 = 1_000_000_000;

/// A number as `digits × 10^exponent`; `digits` has no zero at either end and is empty for 0.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Decimal {
    is_negative: bool,
    digits: String,
    exponent: i64,
}

impl Decimal {
    /// Reads `-?digits[.digits][e[+-]digits]`; leading zeros are allowed.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let (is_negative, rest) = match text.strip_prefix('-') {
            Some(rest) => (true, rest),
            None => (false, text),
        };
        let (mantissa, exponent) = match rest.split_once(['e', 'E']) {
            Some((mantissa, exponent)) => (mantissa, parse_exponent(exponent)?),
            None => (rest, 0),
        };
        let (integer, fraction) = match mantissa.split_once('.') {
            Some((_, "")) => return None,
            Some((integer, fraction)) => (integer, fraction),
            None => (mantissa, ""),
        };
        if integer.is_empty() || !is_digits(integer) || !is_digits(fraction) {
            return None;
        }
        let all = format!("{integer}{fraction}");
        let significant = all.trim_end_matches('0');
        let dropped = length(&all) - length(significant);
        let digits = significant.trim_start_matches('0').to_owned();
        if digits.is_empty() {
            return Some(Self { is_negative: false, digits, exponent: 0 });
        }
        Some(Self { is_negative, exponent: exponent - length(fraction) + dropped, digits })
    }

    /// Returns whether it has no fractional part.
    pub(crate) fn is_integral(&self) -> bool {
        self.exponent >= 0
    }

    /// Returns the canonical text: no exponent, no superfluous zeros, `-` where negative; `None`
    /// when an exponent makes it longer than [`EXPANDED_DIGITS_MAX`].
    pub(crate) fn canonical(&self) -> Option<String> {
        if self.digits.is_empty() {
            return Some("0".to_owned());
        }
        let sign = if self.is_negative { "-" } else { "" };
        let point = length(&self.digits) + self.exponent;
        let zeros = if self.exponent >= 0 { self.exponent } else { -point };
        if zeros > EXPANDED_DIGITS_MAX {
            return None;
        }
        let zeros = "0".repeat(usize::try_from(zeros).unwrap_or(0));
        Some(if self.exponent >= 0 {
            format!("{sign}{}{zeros}", self.digits)
        } else if point <= 0 {
            format!("{sign}0.{zeros}{}", self.digits)
        } else {
            let (integer, fraction) = self.digits.split_at(usize::try_from(point).ok()?);
            format!("{sign}{integer}.{fraction}")
        })
    }

    /// Returns the largest integer not above `self × 10^shift`; `None` beyond 64 bits.
    pub(crate) fn scaled_floor(&self, shift: i64) -> Option<i64> {
        let exponent = self.exponent + shift;
        let integer_digits = length(&self.digits) + exponent;
        if integer_digits > 19 {
            return None;
        }
        let magnitude: i128 = if exponent >= 0 {
            let power = 10_i128.checked_pow(u32::try_from(exponent).ok()?)?;
            self.parsed(self.digits.len())?.checked_mul(power)?
        } else {
            self.parsed(usize::try_from(integer_digits).unwrap_or(0))?
        };
        // The digits cut off are never all zero.
        let is_cut = exponent < 0 && !self.digits.is_empty();
        let value = match (self.is_negative, is_cut) {
            (false, _) => magnitude,
            (true, false) => -magnitude,
            (true, true) => -magnitude - 1,
        };
        i64::try_from(value).ok()
    }

    fn parsed(&self, count: usize) -> Option<i128> {
        if count == 0 { Some(0) } else { self.digits.get(..count)?.parse().ok() }
    }
}

/// Returns whether these are digits only; true for nothing.
pub(crate) fn is_digits(text: &str) -> bool {
    text.bytes().all(|byte| byte.is_ascii_digit())
}

/// Returns whether the text is an integer in canonical form already.
pub(crate) fn is_canonical_integer(text: &str) -> bool {
    match text.as_bytes() {
        [b'0'] => true,
        [b'-', b'1'..=b'9', rest @ ..] | [b'1'..=b'9', rest @ ..] => {
            rest.iter().all(u8::is_ascii_digit)
        }
        _ => false,
    }
}

fn parse_exponent(text: &str) -> Option<i64> {
    let digits = text.strip_prefix(['+', '-']).unwrap_or(text);
    if digits.is_empty() || !is_digits(digits) {
        return None;
    }
    let magnitude = digits.parse().unwrap_or(EXPONENT_MAX).min(EXPONENT_MAX);
    Some(if text.starts_with('-') { -magnitude } else { magnitude })
}

fn length(text: &str) -> i64 {
    i64::try_from(text.len()).unwrap_or(i64::MAX / 4)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn canonical_text_has_no_exponent_and_no_superfluous_zero() {
        let cases = [
            ("0", "0"),
            ("-0", "0"),
            ("0.00", "0"),
            ("0e5", "0"),
            ("603", "603"),
            ("007", "7"),
            ("-12", "-12"),
            ("5.0", "5"),
            ("1e3", "1000"),
            ("1E+3", "1000"),
            ("1200e-2", "12"),
            ("1.50", "1.5"),
            ("15e-1", "1.5"),
            ("-0.025", "-0.025"),
            ("25e-3", "0.025"),
            ("123456789012345678901234567890", "123456789012345678901234567890"),
        ];
        for (text, canonical) in cases {
            assert_eq!(Decimal::parse(text).unwrap().canonical().unwrap(), canonical, "{text}");
        }
    }

    #[test]
    fn what_is_no_number_is_not_read() {
        for text in ["", "-", ".", "1.", ".5", "1e", "1e+", "+1", "1 ", "0x1", "1_000", "--1", "ä"]
        {
            assert_eq!(Decimal::parse(text), None, "{text}");
        }
    }

    #[test]
    fn an_exponent_cannot_blow_a_number_up_without_end() {
        for text in ["1e4097", "1e99999999999999999999", "1e-99999999999999999999"] {
            assert_eq!(Decimal::parse(text).unwrap().canonical(), None, "{text}");
        }
    }

    #[test]
    fn scaling_rounds_toward_the_past_and_is_checked() {
        let cases = [
            ("1772359200.5", 3, Some(1_772_359_200_500)),
            ("1772359200123456", -3, Some(1_772_359_200_123)),
            ("-1", -3, Some(-1)),
            ("-1000", -3, Some(-1)),
            ("-1001", -3, Some(-2)),
            ("0.0001", 3, Some(0)),
            ("-0.0001", 3, Some(-1)),
            ("0", 3, Some(0)),
            ("9223372036854775807", 0, Some(i64::MAX)),
            ("-9223372036854775808", 0, Some(i64::MIN)),
            ("9223372036854775808", 0, None),
            ("9223372036854775807", 3, None),
            ("1e30", -3, None),
            ("1e-30", 0, Some(0)),
        ];
        for (text, shift, expected) in cases {
            assert_eq!(Decimal::parse(text).unwrap().scaled_floor(shift), expected, "{text}");
        }
    }
}
