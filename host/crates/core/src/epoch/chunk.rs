//! Format: chunks of an epoch record in the journal, format 1.
//!
//! ```text
//! chunk   "DJ" · 0x01 · lane · epoch · attempt (16 bytes BE) · index · count · payload (to the end)
//! ```
//!
//! A broker limits the size of a record, so an epoch record travels in chunks of at most
//! [`PAYLOAD_BYTES_MAX`]; only a complete set of one attempt counts.

use bytes::{Bytes, BytesMut};

use super::{Attempt, Epoch, LaneId};
use crate::wire::{Reader, WireError, Writer};

/// Largest payload of a chunk in bytes.
pub const PAYLOAD_BYTES_MAX: usize = 512 * 1024;

const MAGIC: [u8; 3] = [b'D', b'J', 1];

/// Cuts the bytes of an epoch record into chunks.
#[must_use]
pub fn split(lane: LaneId, epoch: Epoch, attempt: Attempt, record: &[u8]) -> Vec<Vec<u8>> {
    let count = record.len().div_ceil(PAYLOAD_BYTES_MAX).max(1);
    let mut payloads = record.chunks(PAYLOAD_BYTES_MAX);
    (0..count)
        .map(|index| {
            let mut writer = Writer(MAGIC.to_vec());
            writer.u64(lane.0.into());
            writer.u64(epoch.0);
            writer.0.extend_from_slice(&attempt.0.to_be_bytes());
            writer.len(index);
            writer.len(count);
            writer.0.extend_from_slice(payloads.next().unwrap_or_default());
            writer.0
        })
        .collect()
}

/// Who wrote a chunk, and where it stands.
struct Head {
    lane: LaneId,
    epoch: Epoch,
    attempt: Attempt,
    index: usize,
    count: usize,
}

fn read_head(reader: &mut Reader) -> Result<Head, WireError> {
    for expected in MAGIC {
        if reader.u8("a journal chunk")? != expected {
            return Err(WireError("a journal chunk: this host knows format 1"));
        }
    }
    let lane = LaneId(reader.u16("a chunk's lane")?);
    let epoch = Epoch(reader.u64("a chunk's epoch")?);
    let mut attempt = [0; 16];
    for byte in &mut attempt {
        *byte = reader.u8("a chunk's attempt")?;
    }
    let attempt = Attempt(u128::from_be_bytes(attempt));
    let index =
        usize::try_from(reader.u64("a chunk's index")?).ok().ok_or(WireError("a chunk's index"))?;
    let count =
        usize::try_from(reader.u64("a chunk's count")?).ok().ok_or(WireError("a chunk's count"))?;
    Ok(Head { lane, epoch, attempt, index, count })
}

/// Returns of how many chunks an epoch record consists, by one of them.
///
/// # Errors
///
/// When the bytes are not a chunk.
pub fn count(chunk: &Bytes) -> Result<usize, WireError> {
    read_head(&mut Reader(chunk.clone())).map(|head| head.count)
}

/// Puts chunks together again, in the order of the journal.
#[derive(Debug, Default)]
pub struct Assembler {
    current: Option<(LaneId, Epoch, Attempt, usize, usize)>,
    bytes: BytesMut,
}

impl Assembler {
    /// Takes the next journal record; returns the bytes of an epoch record when it is complete.
    ///
    /// # Errors
    ///
    /// When the bytes are not a chunk.
    pub fn add(&mut self, chunk: &Bytes) -> Result<Option<Bytes>, WireError> {
        let mut reader = Reader(chunk.clone());
        let Head { lane, epoch, attempt, index, count } = read_head(&mut reader)?;
        let expected = Some((lane, epoch, attempt, index, count));
        if index == 0 {
            self.bytes.clear();
        } else if self.current != expected {
            self.current = None;
            return Ok(None);
        }
        self.bytes.extend_from_slice(&reader.0);
        if index + 1 == count {
            self.current = None;
            return Ok(Some(self.bytes.split().freeze()));
        }
        self.current = Some((lane, epoch, attempt, index + 1, count));
        Ok(None)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const WHO: (LaneId, Epoch) = (LaneId(1), Epoch(2));

    #[test]
    fn a_large_record_travels_in_chunks_and_comes_back() {
        let record = vec![7; PAYLOAD_BYTES_MAX * 2 + 1];
        let chunks = split(WHO.0, WHO.1, Attempt(3), &record);
        assert_eq!(chunks.len(), 3);
        let mut assembler = Assembler::default();
        assert_eq!(assembler.add(&chunks[0].clone().into()), Ok(None));
        assert_eq!(assembler.add(&chunks[1].clone().into()), Ok(None));
        assert_eq!(assembler.add(&chunks[2].clone().into()), Ok(Some(record.into())));
        assert_eq!(count(&chunks[2].clone().into()), Ok(3));
    }

    #[test]
    fn an_incomplete_set_does_not_count() {
        let record = vec![7; PAYLOAD_BYTES_MAX + 1];
        let first = split(WHO.0, WHO.1, Attempt(3), &record);
        let second = split(WHO.0, WHO.1, Attempt(4), &record);
        let mut assembler = Assembler::default();
        assert_eq!(assembler.add(&first[0].clone().into()), Ok(None));
        assert_eq!(assembler.add(&second[1].clone().into()), Ok(None));
        assert_eq!(assembler.add(&second[0].clone().into()), Ok(None));
        assert_eq!(assembler.add(&second[1].clone().into()), Ok(Some(record.into())));
    }
}
