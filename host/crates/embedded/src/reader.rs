//! Reads the records of a partition file, in order, up to what is committed.

use std::{
    fs::File,
    os::unix::fs::FileExt as _,
    path::{Path, PathBuf},
};

use bytes::Bytes;
use dovetail_core::record::Record;

use crate::{
    commits::Extent,
    error::{During as _, EmbeddedError},
    format::{FRAME_HEADER_BYTES, Frame, PARTITION_HEADER, front_frame, read_record},
};

/// How much is read from a file at once; a larger record is read whole.
pub(crate) const READ_BYTES: usize = 256 * 1024;

/// A place in a partition file: at the front of a frame.
#[derive(Debug)]
pub(crate) struct PartitionReader {
    path: PathBuf,
    file: File,
    /// The byte of the next frame.
    at: u64,
    /// Its offset.
    next: u64,
}

impl PartitionReader {
    /// Opens a partition file at an offset; one behind `extent` is its end.
    ///
    /// # Errors
    ///
    /// When the file cannot be read or is damaged before the offset.
    pub(crate) fn open(path: &Path, extent: Extent, offset: u64) -> Result<Self, EmbeddedError> {
        let file = File::open(path).during("open", path)?;
        let mut header = [0; PARTITION_HEADER.len()];
        file.read_exact_at(&mut header, 0).during("read", path)?;
        if header != PARTITION_HEADER {
            return Err(EmbeddedError::corrupt(path, "expected a partition file of format 1"));
        }
        let start = header_bytes();
        let mut reader = Self { path: path.to_owned(), file, at: start, next: 0 };
        if offset >= extent.records {
            reader.at = extent.length;
            reader.next = extent.records;
        }
        while reader.next < offset.min(extent.records) {
            let wanted = usize::try_from(offset - reader.next).unwrap_or(usize::MAX);
            reader.frames(extent, wanted, &mut |_| Ok(()))?;
        }
        Ok(reader)
    }

    /// Returns the offset of the next record.
    pub(crate) fn position(&self) -> u64 {
        self.next
    }

    /// Reads some records, at most about [`READ_BYTES`]; none at the end of `extent`.
    pub(crate) fn read(&mut self, extent: Extent) -> Result<Vec<Record>, EmbeddedError> {
        let mut records = Vec::new();
        let first = self.next;
        self.frames(extent, usize::MAX, &mut |body| {
            let record = read_record(body)?;
            records.push(record);
            Ok(())
        })?;
        let expected = (first..).map(i64::try_from);
        if expected.zip(&records).any(|(offset, record)| offset != Ok(record.offset)) {
            return Err(EmbeddedError::corrupt(
                &self.path,
                format!("expected the record of offset {first}, found others"),
            ));
        }
        Ok(records)
    }

    /// Visits the bodies of the next frames, at most `count` and one read's worth.
    fn frames(
        &mut self,
        extent: Extent,
        count: usize,
        visit: &mut dyn FnMut(Bytes) -> Result<(), dovetail_core::wire::WireError>,
    ) -> Result<(), EmbeddedError> {
        let mut rest = self.bytes(extent, READ_BYTES)?;
        if let Frame::Needs(whole) = front_frame(&rest)
            && !rest.is_empty()
        {
            rest = self.bytes(extent, whole)?;
        }
        let mut visited = 0;
        while visited < count && !rest.is_empty() {
            match front_frame(&rest) {
                Frame::Body(body) => {
                    let whole = body.len() + FRAME_HEADER_BYTES;
                    visit(body).map_err(|error| EmbeddedError::wire(&self.path, self.at, error))?;
                    rest = rest.split_off(whole);
                    self.at += u64::try_from(whole).unwrap_or(u64::MAX);
                    self.next += 1;
                    visited += 1;
                }
                Frame::Needs(_) if visited > 0 => break,
                Frame::Needs(_) | Frame::Bad(_) => {
                    return Err(EmbeddedError::corrupt(
                        &self.path,
                        format!(
                            "the record of offset {} at byte {} has a bad checksum or length; \
                             restore the directory from a copy, or remove it and run again from \
                             the start",
                            self.next, self.at
                        ),
                    ));
                }
            }
        }
        Ok(())
    }

    /// Reads up to `length` bytes from here; fewer only at the end of `extent`.
    fn bytes(&self, extent: Extent, length: usize) -> Result<Bytes, EmbeddedError> {
        let left = usize::try_from(extent.length.saturating_sub(self.at)).unwrap_or(usize::MAX);
        let mut buffer = vec![0; length.min(left)];
        self.file.read_exact_at(&mut buffer, self.at).during("read", &self.path)?;
        Ok(buffer.into())
    }
}

/// Returns the length of a partition file without records.
pub(crate) fn header_bytes() -> u64 {
    u64::try_from(PARTITION_HEADER.len()).expect("eight fits")
}
