//! NDJSON files as bounded inputs: a line is the value of a record, its offset the line's first
//! byte.
//!
//! Rules: a last line without line break counts; empty lines are skipped; a carriage return before
//! the line break is not part of the line. A position within a line stands for the next line, so
//! that "the offset of the last record + 1" is a position like any other.

use std::{
    fs::File,
    os::unix::fs::FileExt as _,
    path::{Path, PathBuf},
};

use bytes::Bytes;
use dovetail_core::record::Record;

use crate::{
    error::{During as _, EmbeddedError},
    reader::READ_BYTES,
};

/// The largest record, in bytes: a result that is larger is refused, and a longer line of an input
/// is taken for a file that is not NDJSON.
pub const RECORD_BYTES_MAX: usize = 64 << 20;

const BYTE_ORDER_MARK: &[u8] = "\u{feff}".as_bytes();

/// A place in an NDJSON file.
#[derive(Debug)]
pub(crate) struct FileReader {
    path: PathBuf,
    file: File,
    /// The byte to go on at.
    at: u64,
    /// Whether that is within a line that is not wanted.
    is_within_line: bool,
    /// The offset of the last line that was read.
    last_line: Option<u64>,
}

/// What a read of a file brought.
#[derive(Debug)]
pub(crate) enum FileRead {
    /// Records; never none.
    Records(Vec<Record>),
    /// The end, at this size.
    End(u64),
}

impl FileReader {
    /// Opens a file at a position.
    ///
    /// # Errors
    ///
    /// When the file cannot be read or has become shorter than the position.
    pub(crate) fn open(path: &Path, position: u64) -> Result<Self, EmbeddedError> {
        // Opening a pipe would wait for its writer; a device has no end.
        if !std::fs::metadata(path).during("read", path)?.is_file() {
            return Err(EmbeddedError::Config(format!(
                "{} is not a regular file; name an NDJSON file, or copy its content into one",
                path.display()
            )));
        }
        let file = File::open(path).during("open", path)?;
        let size = file.metadata().during("read", path)?.len();
        if position > size {
            return Err(EmbeddedError::Config(format!(
                "{} has {size} bytes, but {position} of it were already read: it was cut or \
                 replaced. Put the old content back, or give the \
                 pipeline another name and another `state.dir`",
                path.display()
            )));
        }
        Ok(Self {
            path: path.to_owned(),
            file,
            // One byte back: if it ends a line, a new one begins at the position.
            at: position.saturating_sub(1),
            is_within_line: position > 0,
            last_line: None,
        })
    }

    /// Returns the offset of the last line that was read since the file was opened.
    pub(crate) fn last_line(&self) -> Option<u64> {
        self.last_line
    }

    /// Reads some lines, at most about [`READ_BYTES`], or says that there are no more.
    pub(crate) fn read(&mut self) -> Result<FileRead, EmbeddedError> {
        let mut length = READ_BYTES;
        loop {
            let (chunk, is_last) = self.chunk(length)?;
            if chunk.is_empty() {
                return Ok(FileRead::End(self.at));
            }
            let end = match chunk.iter().rposition(|byte| *byte == b'\n') {
                _ if is_last => chunk.len(),
                Some(last_break) => last_break + 1,
                None if length < RECORD_BYTES_MAX => {
                    length *= 2;
                    continue;
                }
                None => {
                    return Err(EmbeddedError::Config(format!(
                        "{}: the line at byte {} is longer than the {RECORD_BYTES_MAX} bytes that a \
                         line may have; expected one JSON document per line",
                        self.path.display(),
                        self.at
                    )));
                }
            };
            let records = self.lines(&chunk.slice(..end));
            if !records.is_empty() {
                return Ok(FileRead::Records(records));
            }
        }
    }

    fn lines(&mut self, lines: &Bytes) -> Vec<Record> {
        let mut records = Vec::new();
        for line in lines.split_inclusive(|byte| *byte == b'\n') {
            let offset = self.at;
            self.at += u64::try_from(line.len()).unwrap_or(u64::MAX);
            if std::mem::take(&mut self.is_within_line) {
                continue;
            }
            let text = line.strip_suffix(b"\n").unwrap_or(line);
            let text = text.strip_suffix(b"\r").unwrap_or(text);
            // Some editors begin a file with a byte order mark, which is no part of its first line.
            let mark = if offset == 0 { BYTE_ORDER_MARK } else { &[] };
            let text = text.strip_prefix(mark).unwrap_or(text);
            if text.is_empty() {
                continue;
            }
            self.last_line = Some(offset);
            records.push(Record {
                offset: i64::try_from(offset).unwrap_or(i64::MAX),
                value: Some(lines.slice_ref(text)),
                ..Record::default()
            });
        }
        records
    }

    /// Reads up to `length` bytes from here, and whether the file ends with them.
    fn chunk(&self, length: usize) -> Result<(Bytes, bool), EmbeddedError> {
        let mut buffer = vec![0; length];
        let mut filled = 0;
        while filled < length {
            let at = self.at + u64::try_from(filled).unwrap_or(u64::MAX);
            let count = self.file.read_at(&mut buffer[filled..], at).during("read", &self.path)?;
            if count == 0 {
                break;
            }
            filled += count;
        }
        buffer.truncate(filled);
        Ok((buffer.into(), filled < length))
    }
}

/// Returns the present size of a file.
pub(crate) fn size(path: &Path) -> Result<u64, EmbeddedError> {
    Ok(std::fs::metadata(path).during("read", path)?.len())
}
