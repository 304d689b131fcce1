//! Durations, sizes, shares and dates as people write them.
//!
//! Keeps: a number without a unit is never guessed at.

/// Milliseconds of a duration such as `500ms`, `5s`, `30m`, `12h`, `7d`.
///
/// # Errors
///
/// What was expected.
pub fn duration_ms(text: &str) -> Result<i64, String> {
    let expected = || "a duration with a unit, such as 500ms, 5s, 30m, 12h or 7d".to_owned();
    let (number, unit) = split(text).ok_or_else(expected)?;
    let factor: i64 = match unit {
        "ms" => 1,
        "s" => 1_000,
        "m" | "min" => 60_000,
        "h" => 3_600_000,
        "d" => 86_400_000,
        _ => return Err(expected()),
    };
    i64::try_from(number)
        .ok()
        .and_then(|number| number.checked_mul(factor))
        .ok_or_else(|| "a duration below 292 million years".to_owned())
}

/// Bytes of a size such as `8MiB`, `64KiB`, `1GB`.
///
/// # Errors
///
/// What was expected.
pub fn size_bytes(text: &str) -> Result<u64, String> {
    let expected = || "a size with a unit, such as 512KiB, 8MiB or 1GiB".to_owned();
    let (number, unit) = split(text).ok_or_else(expected)?;
    let factor: u64 = match unit {
        "B" => 1,
        "KiB" => 1 << 10,
        "MiB" => 1 << 20,
        "GiB" => 1 << 30,
        "KB" | "kB" => 1_000,
        "MB" => 1_000_000,
        "GB" => 1_000_000_000,
        _ => return Err(expected()),
    };
    number.checked_mul(factor).ok_or_else(|| "a size below 16 EiB".to_owned())
}

/// A whole percentage such as `10%`; `off` is 100.
///
/// # Errors
///
/// What was expected.
pub fn percent(text: &str) -> Result<u32, String> {
    let expected = || "a share such as 10%, or off".to_owned();
    if text == "off" {
        return Ok(100);
    }
    let number = text.strip_suffix('%').map(str::trim_end).ok_or_else(expected)?;
    number.parse::<u32>().ok().filter(|number| *number <= 100).ok_or_else(expected)
}

/// Milliseconds since the Unix epoch of `2026-01-31` (midnight UTC) or an RFC 3339 time.
///
/// # Errors
///
/// What was expected.
pub fn date_ms(text: &str) -> Result<i64, String> {
    let full = if text.contains('T') || text.contains(' ') {
        text.to_owned()
    } else {
        format!("{text}T00:00:00Z")
    };
    full.parse::<jiff::Timestamp>().map(jiff::Timestamp::as_millisecond).map_err(|_unreadable| {
        "a date such as 2026-01-31 or a time such as 2026-01-31T12:00:00Z".to_owned()
    })
}

/// A range of event times such as `2000-01-01 to 2100-01-01`, in ms, the end exclusive.
///
/// # Errors
///
/// What was expected.
pub fn date_range_ms(text: &str) -> Result<(i64, i64), String> {
    let expected = || "a range of dates such as 2000-01-01 to 2100-01-01".to_owned();
    let (from, to) = text.split_once(" to ").ok_or_else(expected)?;
    let (from, to) = (date_ms(from.trim())?, date_ms(to.trim())?);
    if from < to {
        Ok((from, to))
    } else {
        Err("a range whose end lies behind its start".to_owned())
    }
}

/// Writes ms as the largest unit that loses nothing.
#[must_use]
pub fn show_ms(ms: i64) -> String {
    for (factor, unit) in [(86_400_000, "d"), (3_600_000, "h"), (60_000, "m"), (1_000, "s")] {
        if ms != 0 && ms % factor == 0 {
            return format!("{}{unit}", ms / factor);
        }
    }
    format!("{ms}ms")
}

fn split(text: &str) -> Option<(u64, &str)> {
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    let (number, unit) = text.split_at(digits);
    let number = number.replace('_', "").parse().ok()?;
    let unit = unit.trim_start();
    (!unit.is_empty()).then_some((number, unit))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_carry_units() {
        assert_eq!(duration_ms("500ms"), Ok(500));
        assert_eq!(duration_ms("30m"), Ok(1_800_000));
        assert_eq!(duration_ms("7d"), Ok(604_800_000));
        for wrong in ["5", "s", "5 parsecs", "-5s", "1.5s", "", "99999999999999999d"] {
            assert!(duration_ms(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn sizes_carry_units() {
        assert_eq!(size_bytes("8MiB"), Ok(8 << 20));
        assert_eq!(size_bytes("1 GB"), Ok(1_000_000_000));
        for wrong in ["8", "8Mi", "MiB", "-1MiB", "99999999999999GiB"] {
            assert!(size_bytes(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn what_is_shown_reads_back_as_the_same() {
        for ms in [1, 500, 1_500, 60_000, 5_400_000, 86_400_000] {
            assert_eq!(duration_ms(&show_ms(ms)), Ok(ms));
        }
    }

    #[test]
    fn ranges_of_dates_have_a_start_before_their_end() {
        assert_eq!(date_range_ms("1970-01-01 to 1970-01-02"), Ok((0, 86_400_000)));
        assert!(date_range_ms("2100-01-01 to 2000-01-01").is_err());
        assert!(date_range_ms("2000-01-01").is_err());
    }
}
