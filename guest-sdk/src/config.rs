//! Reading a plugin's configuration.
//!
//! The host hands it over as JSON made from the pipeline's YAML.

use std::fmt;

use serde::{Deserialize, Deserializer, Serialize, de};

use crate::error::{Error, Result};

/// Reads a configuration; nothing or `null` reads as an empty object.
pub(crate) fn parse<C: de::DeserializeOwned>(json: &str) -> Result<C> {
    let json = match json.trim() {
        "" | "null" => "{}",
        given => given,
    };
    serde_json::from_str(json).map_err(|error| {
        let text = error.to_string();
        // The place is one in the JSON, which the author of the YAML never sees.
        let text = text.split(" at line ").next().unwrap_or(&text);
        Error::new(format!("plugin config: {text}"))
    })
}

/// A length of time in ms, written `250ms`, `30s`, `5m`, `2h`, `7d` or as a number of ms. Never
/// negative.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default, Serialize)]
pub struct Millis(pub i64);

impl Millis {
    /// Returns a number of seconds.
    #[must_use]
    pub const fn seconds(seconds: i64) -> Self {
        Self(seconds * 1_000)
    }

    /// Returns a number of minutes.
    #[must_use]
    pub const fn minutes(minutes: i64) -> Self {
        Self::seconds(minutes * 60)
    }

    fn parse(text: &str) -> Option<Self> {
        let digits = text.bytes().take_while(u8::is_ascii_digit).count();
        let (number, unit) = text.split_at(digits);
        let factor: i64 = match unit.trim_start() {
            "ms" => 1,
            "s" => 1_000,
            "m" => 60_000,
            "h" => 3_600_000,
            "d" => 86_400_000,
            _ => return None,
        };
        number.parse::<i64>().ok()?.checked_mul(factor).map(Self)
    }
}

impl fmt::Display for Millis {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let units = [(86_400_000, "d"), (3_600_000, "h"), (60_000, "m"), (1_000, "s"), (1, "ms")];
        let (factor, unit) =
            units.into_iter().find(|(factor, _)| self.0 % factor == 0).unwrap_or((1, "ms"));
        write!(f, "{}{unit}", self.0 / factor)
    }
}

impl<'de> Deserialize<'de> for Millis {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> std::result::Result<Self, D::Error> {
        struct Visitor;

        impl de::Visitor<'_> for Visitor {
            type Value = Millis;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a length of time such as `30m`, `10s`, `500ms` or a number of ms")
            }

            fn visit_str<E: de::Error>(self, text: &str) -> std::result::Result<Millis, E> {
                Millis::parse(text)
                    .ok_or_else(|| E::invalid_value(de::Unexpected::Str(text), &self))
            }

            fn visit_u64<E: de::Error>(self, number: u64) -> std::result::Result<Millis, E> {
                let Ok(millis) = i64::try_from(number) else {
                    return Err(E::invalid_value(de::Unexpected::Unsigned(number), &self));
                };
                Ok(Millis(millis))
            }

            fn visit_i64<E: de::Error>(self, number: i64) -> std::result::Result<Millis, E> {
                if number < 0 {
                    return Err(E::invalid_value(de::Unexpected::Signed(number), &self));
                }
                Ok(Millis(number))
            }
        }

        deserializer.deserialize_any(Visitor)
    }
}

/// A difference of two times in ms, written as [`Millis`] is, with or without a sign: `-5s`, `10m`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default, Serialize)]
pub struct SignedMillis(pub i64);

impl SignedMillis {
    fn parse(text: &str) -> Option<Self> {
        let (sign, length) = match text.as_bytes().first() {
            Some(b'-') => (-1, &text[1..]),
            Some(b'+') => (1, &text[1..]),
            _ => (1, text),
        };
        Millis::parse(length).map(|length| Self(sign * length.0))
    }
}

impl<'de> Deserialize<'de> for SignedMillis {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> std::result::Result<Self, D::Error> {
        struct Visitor;

        impl de::Visitor<'_> for Visitor {
            type Value = SignedMillis;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a difference of times such as `-30m`, `10s` or a number of ms")
            }

            fn visit_str<E: de::Error>(self, text: &str) -> std::result::Result<SignedMillis, E> {
                SignedMillis::parse(text)
                    .ok_or_else(|| E::invalid_value(de::Unexpected::Str(text), &self))
            }

            fn visit_u64<E: de::Error>(self, number: u64) -> std::result::Result<SignedMillis, E> {
                let Ok(millis) = i64::try_from(number) else {
                    return Err(E::invalid_value(de::Unexpected::Unsigned(number), &self));
                };
                Ok(SignedMillis(millis))
            }

            fn visit_i64<E: de::Error>(self, number: i64) -> std::result::Result<SignedMillis, E> {
                Ok(SignedMillis(number))
            }
        }

        deserializer.deserialize_any(Visitor)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lengths_of_time_are_read_with_their_units() {
        let read = |json: &str| serde_json::from_str::<Millis>(json).map(|millis| millis.0).ok();
        let expected = [("\"30m\"", Some(1_800_000)), ("\"250ms\"", Some(250)), ("7", Some(7))];
        for (json, millis) in expected {
            assert_eq!(read(json), millis, "{json}");
        }
        for json in ["\"30\"", "\"m\"", "-1", "\"-5s\"", "1.5", "\"99999999999999999d\"", "true"] {
            assert_eq!(read(json), None, "{json}");
        }
    }

    #[test]
    fn differences_of_times_have_a_sign() {
        let read = |json: &str| serde_json::from_str::<SignedMillis>(json).ok().map(|it| it.0);
        let expected = [("\"-5s\"", Some(-5_000)), ("\"+2m\"", Some(120_000)), ("-7", Some(-7))];
        for (json, millis) in expected {
            assert_eq!(read(json), millis, "{json}");
        }
        assert_eq!((read("\"--5s\""), read("\"5\"")), (None, None));
    }

    #[test]
    fn a_length_of_time_shows_itself_as_it_is_written() {
        assert_eq!(Millis::minutes(90).to_string(), "90m");
        assert_eq!(Millis(1_500).to_string(), "1500ms");
    }

    #[test]
    fn an_error_of_the_configuration_does_not_name_a_place_in_json() {
        #[derive(Debug, Deserialize)]
        #[serde(deny_unknown_fields)]
        struct Config {}
        let error = parse::<Config>(r#"{"wiat": 3}"#).unwrap_err();
        assert!(error.message().starts_with("plugin config: unknown field `wiat`"), "{error}");
        assert!(!error.message().contains("line"), "{error}");
        assert!(parse::<Config>("").is_ok() && parse::<Config>("null").is_ok());
    }
}
