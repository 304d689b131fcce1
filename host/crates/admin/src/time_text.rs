//! Times as people read them.

use dovetail_core::time::{END_OF_TIME, NO_WATERMARK};
use jiff::Timestamp;

/// Returns ms since the Unix epoch as RFC 3339 in UTC; the bare number where no calendar reaches.
#[must_use]
pub fn rfc3339(ms: i64) -> String {
    Timestamp::from_millisecond(ms).map_or_else(|_| ms.to_string(), |time| time.to_string())
}

/// Returns a watermark as text; `None` before the first record.
pub(crate) fn watermark(ms: i64) -> Option<String> {
    match ms {
        NO_WATERMARK => None,
        END_OF_TIME => Some("end of time".to_owned()),
        ms => Some(rfc3339(ms)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_rfc_3339_and_the_ends_are_words() {
        assert_eq!(rfc3339(1_767_225_600_123), "2026-01-01T00:00:00.123Z");
        assert_eq!(rfc3339(i64::MAX), i64::MAX.to_string());
        assert_eq!(watermark(NO_WATERMARK), None);
        assert_eq!(watermark(END_OF_TIME).as_deref(), Some("end of time"));
    }
}
