//! Format: the metadata string beside committed offsets, format D1.
//!
//! `D1;l=17;e=4711;a=<32 hex>;j=88213;h=<16 hex>`: lane, epoch, attempt, the journal offset of the
//! epoch record's first chunk, and the record's hash. ASCII, far below the 4096 bytes that a broker
//! takes by default.

use std::{fmt, str::FromStr};

use super::{Attempt, Epoch, LaneId};

/// What a commit says beside the offsets; the same for every source of a lane.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CommitMetadata {
    /// The lane.
    pub lane: LaneId,
    /// The epoch.
    pub epoch: Epoch,
    /// Who committed it.
    pub attempt: Attempt,
    /// The journal offset of the epoch record's first chunk.
    pub journal_offset: i64,
    /// The hash of the epoch record.
    pub hash: u64,
}

impl fmt::Display for CommitMetadata {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "D1;l={};e={};a={:032x};j={};h={:016x}",
            self.lane.0, self.epoch.0, self.attempt.0, self.journal_offset, self.hash
        )
    }
}

/// A metadata string that is not ours.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("offset metadata {0:?} was not written by this kind of host")]
pub struct ForeignMetadata(pub String);

impl FromStr for CommitMetadata {
    type Err = ForeignMetadata;

    fn from_str(text: &str) -> Result<Self, ForeignMetadata> {
        parse(text).ok_or_else(|| ForeignMetadata(text.to_owned()))
    }
}

fn parse(text: &str) -> Option<CommitMetadata> {
    let mut fields = text.strip_prefix("D1;")?.split(';');
    let mut field = |name: &str| fields.next()?.strip_prefix(name)?.strip_prefix('=');
    let metadata = CommitMetadata {
        lane: LaneId(field("l")?.parse().ok()?),
        epoch: Epoch(field("e")?.parse().ok()?),
        attempt: Attempt(u128::from_str_radix(field("a")?, 16).ok()?),
        journal_offset: field("j")?.parse().ok()?,
        hash: u64::from_str_radix(field("h")?, 16).ok()?,
    };
    fields.next().is_none().then_some(metadata)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_string_of_format_d1_is_fixed_and_comes_back() {
        let metadata = CommitMetadata {
            lane: LaneId(17),
            epoch: Epoch(4711),
            attempt: Attempt(0xab),
            journal_offset: 88_213,
            hash: 0xcd,
        };
        let text = metadata.to_string();
        assert_eq!(
            text,
            "D1;l=17;e=4711;a=000000000000000000000000000000ab;j=88213;h=00000000000000cd"
        );
        assert_eq!(text.parse(), Ok(metadata));
    }

    #[test]
    fn anything_else_is_foreign() {
        for text in ["", "D2;l=1", "D1;l=1;e=2;a=0;j=3;h=0;x=1", "D1;l=1;e=2;a=zz;j=3;h=0"] {
            assert!(text.parse::<CommitMetadata>().is_err(), "{text}");
        }
    }
}
