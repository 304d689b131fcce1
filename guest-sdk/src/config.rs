//! Reading a plugin's configuration.
//!
//! The host hands it over as JSON made from the pipeline's YAML.
//!
//! Keeps: an error begins with the key it is about, as `` `window.length`: ``, so that the host can
//! point at it in the file; a number without a unit is never taken for a length of time.

use std::fmt;

use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

use crate::error::{Error, Result};

/// Reads a configuration; nothing or `null` reads as an empty object.
pub(crate) fn parse<C: de::DeserializeOwned>(json: &str) -> Result<C> {
    let json = match json.trim() {
        "" | "null" => "{}",
        given => given,
    };
    let mut json = serde_json::Deserializer::from_str(json);
    let config = serde_path_to_error::deserialize(&mut json).map_err(|error| {
        let path = error.path().to_string();
        let at = if path == "." { String::new() } else { format!("`{path}`: ") };
        Error::new(format!("plugin config: {at}{}", told(error.inner())))
    })?;
    json.end().map_err(|error| Error::new(format!("plugin config: {}", told(&error))))?;
    Ok(config)
}

/// Says an error without its place in the JSON, which the author of the YAML never sees, and with
/// the nearest of the words that were expected.
fn told(error: &serde_json::Error) -> String {
    let text = error.to_string();
    let text = text.split(" at line ").next().unwrap_or(&text);
    let Some((found, expected)) = text.split_once(", expected ") else { return text.to_owned() };
    let is_unknown = found.starts_with("unknown field") || found.starts_with("unknown variant");
    let written = found.split('`').nth(1).filter(|_| is_unknown).unwrap_or_default();
    let words = expected.split('`').skip(1).step_by(2);
    match words.min_by_key(|word| strsim::damerau_levenshtein(written, word)) {
        Some(word) if strsim::damerau_levenshtein(written, word) <= (written.len() / 3).max(1) => {
            format!("{found}; did you mean `{word}`? Expected {expected}")
        }
        _ => text.to_owned(),
    }
}

/// A length of time in ms, written with its unit: `250ms`, `30s`, `5m`, `2h`, `7d`. Never negative.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
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

impl Serialize for Millis {
    fn serialize<S: Serializer>(&self, serializer: S) -> std::result::Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Millis {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> std::result::Result<Self, D::Error> {
        struct Visitor;

        impl de::Visitor<'_> for Visitor {
            type Value = Millis;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a length of time with its unit, such as `30m`, `10s` or `500ms`")
            }

            fn visit_str<E: de::Error>(self, text: &str) -> std::result::Result<Millis, E> {
                Millis::parse(text)
                    .ok_or_else(|| E::invalid_value(de::Unexpected::Str(text), &self))
            }
        }

        deserializer.deserialize_str(Visitor)
    }
}

/// A difference of two times in ms, written as [`Millis`] is, with or without a sign: `-5s`, `10m`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
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

impl Serialize for SignedMillis {
    fn serialize<S: Serializer>(&self, serializer: S) -> std::result::Result<S::Ok, S::Error> {
        serializer.collect_str(&Millis(self.0))
    }
}

impl<'de> Deserialize<'de> for SignedMillis {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> std::result::Result<Self, D::Error> {
        struct Visitor;

        impl de::Visitor<'_> for Visitor {
            type Value = SignedMillis;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a difference of times with its unit, such as `-30m` or `10s`")
            }

            fn visit_str<E: de::Error>(self, text: &str) -> std::result::Result<SignedMillis, E> {
                SignedMillis::parse(text)
                    .ok_or_else(|| E::invalid_value(de::Unexpected::Str(text), &self))
            }
        }

        deserializer.deserialize_str(Visitor)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lengths_of_time_are_read_with_their_units() {
        let read = |json: &str| serde_json::from_str::<Millis>(json).map(|millis| millis.0).ok();
        let expected =
            [("\"30m\"", Some(1_800_000)), ("\"250ms\"", Some(250)), ("\"0s\"", Some(0))];
        for (json, millis) in expected {
            assert_eq!(read(json), millis, "{json}");
        }
        for json in
            ["7", "0", "\"30\"", "\"m\"", "-1", "\"-5s\"", "1.5", "\"99999999999999999d\"", "true"]
        {
            assert_eq!(read(json), None, "{json}");
        }
    }

    #[test]
    fn differences_of_times_have_a_sign() {
        let read = |json: &str| serde_json::from_str::<SignedMillis>(json).ok().map(|it| it.0);
        let expected = [("\"-5s\"", Some(-5_000)), ("\"+2m\"", Some(120_000)), ("-7", None)];
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
        assert!(error.message().contains("unknown field `wiat`"), "{error}");
        assert!(!error.message().contains("line"), "{error}");
        assert!(parse::<Config>("").is_ok() && parse::<Config>("null").is_ok());
        assert!(parse::<Config>("{} {}").is_err());
    }

    #[test]
    fn an_error_of_the_configuration_begins_with_its_key_and_names_the_nearest() {
        #[derive(Debug, Deserialize)]
        #[serde(deny_unknown_fields)]
        #[expect(dead_code, reason = "only its reading is tested")]
        struct Config {
            wait: Option<Millis>,
            buffer: Option<Vec<Buffer>>,
        }
        #[derive(Debug, Deserialize)]
        #[serde(deny_unknown_fields)]
        #[expect(dead_code, reason = "only its reading is tested")]
        struct Buffer {
            rows: u32,
        }
        let said = |json: &str| parse::<Config>(json).unwrap_err().message().to_owned();
        assert_eq!(
            said(r#"{"wait": 30}"#),
            "plugin config: `wait`: invalid type: integer `30`, expected a length of time with its \
             unit, such as `30m`, `10s` or `500ms`"
        );
        assert_eq!(
            said(r#"{"wiat": "30s"}"#),
            "plugin config: `wiat`: unknown field `wiat`; did you mean `wait`? Expected `wait` or \
             `buffer`"
        );
        let nested = said(r#"{"buffer": [{"rows": 1}, {"rows": "x"}]}"#);
        assert!(nested.starts_with("plugin config: `buffer[1].rows`: "), "{nested}");
        let far = said(r#"{"something": 1}"#);
        assert!(far.ends_with("unknown field `something`, expected `wait` or `buffer`"), "{far}");
    }

    #[test]
    fn lengths_and_differences_are_written_as_they_are_read() {
        let written = serde_json::to_string(&(Millis(90_000), SignedMillis(-1_500))).unwrap();
        assert_eq!(written, r#"["90s","-1500ms"]"#);
        let read: (Millis, SignedMillis) = serde_json::from_str(&written).unwrap();
        assert_eq!(read, (Millis(90_000), SignedMillis(-1_500)));
    }
}
