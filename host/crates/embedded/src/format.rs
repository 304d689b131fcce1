//! Format: the files of an embedded log, format 1.
//!
//! ```text
//! <dir>/lock                             locked by the process that has the directory; its pid
//! <dir>/commits                          what is committed: the only truth
//! <dir>/topics/<topic>/<n>.records       the records of partition n
//! ```
//!
//! Both kinds of file begin with four bytes of magic, one byte of format and three zeros, and
//! consist of frames:
//!
//! | at | bytes | what |
//! |---|---|---|
//! | 0 | 4 | length of the body, little-endian |
//! | 4 | 4 | CRC-32C of the body, little-endian |
//! | 8 | … | body |
//!
//! Integers in bodies are LEB128 (signed ones zig-zag), bytes have their length before them, what
//! may be absent has a byte 0 or 1 before it ([`dovetail_core::wire`]).
//!
//! ```text
//! partition file   "DVTP" 01 00 00 00 · record*
//! record           offset · timestamp (ms, may be absent, signed) · key (may be absent)
//!                  · value (may be absent) · count · (name · value (may be absent))*
//!
//! commit file      "DVTC" 01 00 00 00 · cluster id (16 bytes) · commit*
//! commit           kind: 0 = a snapshot (all before it is void), 1 = a transaction
//!                  · count · (topic · partition · length of its file · records in it)*
//!                  · count · (path of a followed file · where the lines begin · lines)*
//!                  · count · (group · source · partition · position (signed) · metadata
//!                             · size of the file when it was finished (may be absent, signed))*
//! ```
//!
//! A transaction names only what it changes. Records are written to the partition files first,
//! the commit after them; what lies behind a committed length is rubbish and cut off at the next
//! start. Lines of followed files are in the commit itself and written after it, so that a start
//! can repair the file. An incomplete commit at the end of the commit file never happened.

use bytes::Bytes;
use dovetail_core::{
    record::{Header, Headers, Record},
    wire::{Reader, WireError, Writer},
};

/// The beginning of a partition file.
pub const PARTITION_HEADER: [u8; 8] = *b"DVTP\x01\0\0\0";

/// The beginning of the commit file.
pub const COMMITS_HEADER: [u8; 8] = *b"DVTC\x01\0\0\0";

/// Bytes before the body of a frame.
pub const FRAME_HEADER_BYTES: usize = 8;

/// Appends a frame whose body is what `write` appends.
///
/// # Errors
///
/// When the body is 4 GiB or more; nothing is appended then.
pub(crate) fn push_frame(
    to: &mut Vec<u8>,
    write: impl FnOnce(&mut Writer),
) -> Result<(), WireError> {
    let start = to.len();
    let mut writer = Writer(std::mem::take(to));
    writer.0.extend_from_slice(&[0; FRAME_HEADER_BYTES]);
    write(&mut writer);
    *to = writer.0;
    let body = &to[start + FRAME_HEADER_BYTES..];
    let Ok(length) = u32::try_from(body.len()) else {
        to.truncate(start);
        return Err(WireError("a frame of less than 4 GiB"));
    };
    let crc = crc32c::crc32c(body);
    to[start..start + 4].copy_from_slice(&length.to_le_bytes());
    to[start + 4..start + 8].copy_from_slice(&crc.to_le_bytes());
    Ok(())
}

/// What lies at the front of some bytes.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Frame {
    /// A whole frame with a good checksum: its body.
    Body(Bytes),
    /// The bytes end within the frame; it takes this many.
    Needs(usize),
    /// A whole frame with a bad checksum; it takes this many bytes.
    Bad(usize),
}

/// Reads the frame at the front of `bytes`.
pub(crate) fn front_frame(bytes: &Bytes) -> Frame {
    let Some(header) = bytes.first_chunk::<FRAME_HEADER_BYTES>() else {
        return Frame::Needs(FRAME_HEADER_BYTES);
    };
    let [l0, l1, l2, l3, c0, c1, c2, c3] = *header;
    let length = usize::try_from(u32::from_le_bytes([l0, l1, l2, l3])).unwrap_or(usize::MAX);
    let whole = length.saturating_add(FRAME_HEADER_BYTES);
    if bytes.len() < whole {
        return Frame::Needs(whole);
    }
    let body = bytes.slice(FRAME_HEADER_BYTES..whole);
    if crc32c::crc32c(&body) == u32::from_le_bytes([c0, c1, c2, c3]) {
        Frame::Body(body)
    } else {
        Frame::Bad(whole)
    }
}

/// Writes the body of a record.
pub(crate) fn write_record(
    writer: &mut Writer,
    offset: u64,
    timestamp: Option<i64>,
    key: Option<&[u8]>,
    value: Option<&[u8]>,
    headers: &Headers,
) {
    writer.u64(offset);
    writer.optional_i64(timestamp);
    writer.optional_bytes(key);
    writer.optional_bytes(value);
    writer.len(headers.as_slice().len());
    for header in headers.as_slice() {
        writer.bytes(header.name.as_bytes());
        writer.optional_bytes(header.value.as_deref());
    }
}

/// Reads the body of a record; key and value are slices of it.
pub(crate) fn read_record(body: Bytes) -> Result<Record, WireError> {
    let mut reader = Reader(body);
    let offset = reader.u64("a record's offset")?;
    let offset = i64::try_from(offset).map_err(|_too_large| WireError("a record's offset"))?;
    let timestamp = reader.optional_i64("a record's timestamp")?;
    let key = reader.optional_bytes("a record's key")?;
    let value = reader.optional_bytes("a record's value")?;
    let count = reader.count("a record's headers")?;
    let mut headers = Vec::with_capacity(count);
    for _ in 0..count {
        headers.push(Header {
            name: reader.text("a header's name")?,
            value: reader.optional_bytes("a header's value")?,
        });
    }
    Ok(Record { offset, timestamp, key, value, headers: Headers::new(headers) })
}
