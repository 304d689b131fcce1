//! Format: epoch record, format 1.
//!
//! ```text
//! record       0x01 · length of head · head · count · (row key · optional row value)*
//! head         lane · epoch · attempt (16 bytes BE) · owner (host, pid, start) · previous hash
//!              · optional identity · sources · watermark · processing time
//!              · firing (0 none, 1 event, 2 processing; up to)
//!              · optional continuation (key, partition, tag, optional event time)
//!              · timer floors · revision
//!              · outputs · timers fired
//! source       input · partition · position · watermark · flags (bit 0 idle, bit 1 ended)
//! stored head  0x01 · hash u64 BE · journal next · head
//! ```
//!
//! Integers are LEB128 (signed ones zig-zag), bytes and text carry their length
//! ([`crate::wire`]). The hash of a record is XXH3-64 over all of its bytes.

use bytes::Bytes;
use xxhash_rust::xxh3::xxh3_64;

use super::{
    Attempt, Continuation, Epoch, EpochRecord, Firing, JournaledEpoch, LaneId, Owner, SourceState,
    StoredHead, TimerFloors,
};
use crate::{
    identity,
    key::Key,
    record::{InputIndex, Partition, Source},
    timers::TimerDomain,
    wire::{Reader, WireError, Writer},
};

const FORMAT: u8 = 1;

/// Returns the bytes of an epoch record and their hash.
pub fn encode<'a>(
    record: &EpochRecord,
    changes: impl ExactSizeIterator<Item = (&'a [u8], Option<&'a [u8]>)>,
) -> (Vec<u8>, u64) {
    let mut writer = Writer::default();
    writer.u8(FORMAT);
    writer.bytes(&encode_head(record));
    writer.len(changes.len());
    for (row, value) in changes {
        writer.bytes(row);
        writer.optional_bytes(value);
    }
    let hash = xxh3_64(&writer.0);
    (writer.0, hash)
}

/// Reads an epoch record.
///
/// # Errors
///
/// When the bytes are not an epoch record of a known format.
pub fn decode(bytes: &Bytes) -> Result<JournaledEpoch, WireError> {
    let mut reader = Reader(bytes.clone());
    expect_format(&mut reader)?;
    let record = decode_head(reader.bytes("the head of an epoch record")?)?;
    let count = reader.count("the changes of an epoch record")?;
    let mut changes = Vec::with_capacity(count);
    for _ in 0..count {
        let row = reader.bytes("a row key")?;
        changes.push((row, reader.optional_bytes("a row value")?));
    }
    reader.end("the end of an epoch record")?;
    Ok(JournaledEpoch { record, changes, hash: xxh3_64(bytes) })
}

/// Returns the bytes that a store keeps with an applied epoch.
#[must_use]
pub fn encode_stored(head: &StoredHead) -> Vec<u8> {
    let mut writer = Writer::default();
    writer.u8(FORMAT);
    writer.0.extend_from_slice(&head.hash.to_be_bytes());
    writer.i64(head.journal_next);
    writer.bytes(&encode_head(&head.record));
    writer.0
}

/// Reads what a store keeps with an applied epoch.
///
/// # Errors
///
/// When the bytes are not of a known format.
pub fn decode_stored(bytes: &Bytes) -> Result<StoredHead, WireError> {
    let mut reader = Reader(bytes.clone());
    expect_format(&mut reader)?;
    let mut hash = [0; 8];
    for byte in &mut hash {
        *byte = reader.u8("the hash of a stored head")?;
    }
    let journal_next = reader.i64("the journal offset of a stored head")?;
    let record = decode_head(reader.bytes("a stored head")?)?;
    reader.end("the end of a stored head")?;
    Ok(StoredHead { record, hash: u64::from_be_bytes(hash), journal_next })
}

fn expect_format(reader: &mut Reader) -> Result<(), WireError> {
    match reader.u8("the format")? {
        FORMAT => Ok(()),
        _ => Err(WireError("the format: this host knows format 1")),
    }
}

fn encode_head(record: &EpochRecord) -> Vec<u8> {
    let mut writer = Writer::default();
    writer.u64(record.lane.0.into());
    writer.u64(record.epoch.0);
    writer.0.extend_from_slice(&record.attempt.0.to_be_bytes());
    writer.bytes(record.owner.host.as_bytes());
    writer.u64(record.owner.pid.into());
    writer.i64(record.owner.started_at);
    writer.u64(record.previous_hash);
    match &record.identity {
        Some(identity) => {
            writer.u8(1);
            identity::encode(identity, &mut writer);
        }
        None => writer.u8(0),
    }
    writer.len(record.sources.len());
    for state in &record.sources {
        writer.u64(state.source.input.0.into());
        writer.u64(state.source.partition.0.into());
        writer.i64(state.position);
        writer.i64(state.watermark);
        writer.u8(u8::from(state.is_idle) | u8::from(state.is_ended) << 1);
    }
    writer.i64(record.watermark);
    writer.i64(record.processing_time);
    match record.firing {
        None => writer.u8(0),
        Some(firing) => {
            writer.u8(if firing.domain == TimerDomain::Processing { 2 } else { 1 });
            writer.i64(firing.up_to);
        }
    }
    match &record.continuation {
        None => writer.u8(0),
        Some(continuation) => {
            writer.u8(1);
            writer.bytes(continuation.key.as_bytes());
            writer.u64(continuation.partition.0.into());
            writer.u64(continuation.tag);
            writer.optional_i64(continuation.event_time);
        }
    }
    writer.bytes(&record.timer_floors.event);
    writer.bytes(&record.timer_floors.processing);
    writer.bytes(record.revision.as_bytes());
    writer.u64(record.outputs);
    writer.u64(record.timers_fired);
    writer.0
}

fn decode_head(bytes: Bytes) -> Result<EpochRecord, WireError> {
    let mut reader = Reader(bytes);
    let lane = LaneId(reader.u16("a lane")?);
    let epoch = Epoch(reader.u64("an epoch")?);
    let mut attempt = [0; 16];
    for byte in &mut attempt {
        *byte = reader.u8("an attempt")?;
    }
    let owner = Owner {
        host: reader.text("an owner's host")?,
        pid: u32::try_from(reader.u64("a process")?).ok().ok_or(WireError("a process"))?,
        started_at: reader.i64("a start time")?,
    };
    let previous_hash = reader.u64("a hash")?;
    let identity = match reader.u8("whether there is an identity")? {
        0 => None,
        _ => Some(identity::decode(&mut reader)?),
    };
    let count = reader.count("the sources")?;
    let mut sources = Vec::with_capacity(count);
    for _ in 0..count {
        sources.push(decode_source(&mut reader)?);
    }
    let watermark = reader.i64("a watermark")?;
    let processing_time = reader.i64("a processing time")?;
    let firing = match reader.u8("whether time is moving")? {
        0 => None,
        1 => Some(Firing { domain: TimerDomain::Event, up_to: reader.i64("a move of time")? }),
        2 => Some(Firing { domain: TimerDomain::Processing, up_to: reader.i64("a move of time")? }),
        _ => return Err(WireError("whether time is moving")),
    };
    let continuation = decode_continuation(&mut reader)?;
    let timer_floors = TimerFloors {
        event: reader.bytes("a timer floor")?,
        processing: reader.bytes("a timer floor")?,
    };
    let record = EpochRecord {
        lane,
        epoch,
        attempt: Attempt(u128::from_be_bytes(attempt)),
        owner,
        previous_hash,
        identity,
        sources,
        watermark,
        processing_time,
        firing,
        continuation,
        timer_floors,
        revision: reader.text("a plugin revision")?,
        outputs: reader.u64("a count of outputs")?,
        timers_fired: reader.u64("a count of timers")?,
    };
    reader.end("the end of a head")?;
    Ok(record)
}

fn decode_continuation(reader: &mut Reader) -> Result<Option<Continuation>, WireError> {
    if reader.u8("whether a call continues")? == 0 {
        return Ok(None);
    }
    Ok(Some(Continuation {
        key: Key(reader.bytes("a continuing key")?),
        partition: Partition(reader.u16("a continuing key's partition")?),
        tag: reader.u64("a continuation's tag")?,
        event_time: reader.optional_i64("a continuation's event time")?,
    }))
}

fn decode_source(reader: &mut Reader) -> Result<SourceState, WireError> {
    let source = Source {
        input: InputIndex(reader.u16("an input")?),
        partition: Partition(reader.u16("a partition")?),
    };
    let position = reader.i64("a position")?;
    let watermark = reader.i64("a source's watermark")?;
    let flags = reader.u8("a source's flags")?;
    Ok(SourceState {
        source,
        position,
        watermark,
        is_idle: flags & 1 != 0,
        is_ended: flags & 2 != 0,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record() -> EpochRecord {
        EpochRecord {
            lane: LaneId(3),
            epoch: Epoch(7),
            attempt: Attempt(0x0102),
            owner: Owner { host: "h".into(), pid: 42, started_at: 5 },
            previous_hash: u64::MAX,
            identity: None,
            sources: vec![SourceState {
                source: Source { input: InputIndex(1), partition: Partition(2) },
                position: 10,
                watermark: i64::MIN,
                is_idle: true,
                is_ended: false,
            }],
            watermark: -5,
            processing_time: 1_000,
            firing: Some(Firing { domain: TimerDomain::Event, up_to: 77 }),
            continuation: Some(Continuation {
                key: Key::new("k"),
                partition: Partition(1),
                tag: 9,
                event_time: None,
            }),
            timer_floors: TimerFloors { event: Bytes::from_static(b"\x03x"), ..Default::default() },
            revision: "abc".into(),
            outputs: 1,
            timers_fired: 2,
        }
    }

    #[test]
    fn a_record_comes_back_as_written() {
        let changes: [(&[u8], Option<&[u8]>); 2] = [(b"a", Some(b"1")), (b"b", None)];
        let (bytes, hash) = encode(&record(), changes.into_iter());
        let decoded = decode(&bytes.into()).unwrap();
        assert_eq!(decoded.record, record());
        assert_eq!(decoded.hash, hash);
        assert_eq!(decoded.changes[1], (Bytes::from_static(b"b"), None));
        let head = StoredHead { record: record(), hash, journal_next: 12 };
        assert_eq!(decode_stored(&encode_stored(&head).into()), Ok(head));
    }

    fn hex(bytes: &[u8]) -> String {
        bytes.iter().map(|byte| format!("{byte:02x}")).collect()
    }

    /// The bytes of a record and of a stored head as format 1 has them, for ever.
    #[test]
    fn the_bytes_of_format_1_are_fixed() {
        let changes: [(&[u8], Option<&[u8]>); 2] = [(b"a", Some(b"1")), (b"b", None)];
        let (bytes, hash) = encode(&record(), changes.into_iter());
        assert_eq!(hex(&bytes), include_str!("fixtures/record-1.hex").trim());
        let head = encode_stored(&StoredHead { record: record(), hash, journal_next: 12 });
        assert_eq!(hex(&head), include_str!("fixtures/stored-head-1.hex").trim());
    }

    #[test]
    fn a_record_cut_anywhere_is_refused() {
        let (bytes, _) = encode(&record(), std::iter::empty());
        for end in 0..bytes.len() {
            assert!(decode(&Bytes::copy_from_slice(&bytes[..end])).is_err(), "cut at {end}");
        }
    }
}
