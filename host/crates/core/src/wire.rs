//! Byte encoding of durable formats: LEB128 integers, zig-zag for signed ones, length-prefixed
//! bytes.
//!
//! Invariant: reading never panics and never allocates more than the input holds, whatever the
//! bytes are.

use bytes::{Buf, Bytes};

/// Bytes that are not what the format says.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("bytes end early or are out of range while reading {0}")]
pub struct WireError(
    /// What was being read.
    pub &'static str,
);

/// Appends values to a byte vector.
#[derive(Debug, Default)]
pub struct Writer(
    /// The bytes so far.
    pub Vec<u8>,
);

impl Writer {
    /// Appends an unsigned integer.
    pub fn u64(&mut self, mut value: u64) {
        while value >= 0x80 {
            self.0.push(u8::try_from(value & 0x7f).expect("seven bits fit") | 0x80);
            value >>= 7;
        }
        self.0.push(u8::try_from(value).expect("seven bits fit"));
    }

    /// Appends a signed integer.
    pub fn i64(&mut self, value: i64) {
        self.u64(value.cast_unsigned() << 1 ^ (value >> 63).cast_unsigned());
    }

    /// Appends one byte.
    pub fn u8(&mut self, value: u8) {
        self.0.push(value);
    }

    /// Appends a length.
    pub fn len(&mut self, value: usize) {
        self.u64(u64::try_from(value).expect("lengths fit in 64 bits"));
    }

    /// Appends bytes with their length.
    pub fn bytes(&mut self, value: &[u8]) {
        self.len(value.len());
        self.0.extend_from_slice(value);
    }

    /// Appends bytes that may be absent.
    pub fn optional_bytes(&mut self, value: Option<&[u8]>) {
        match value {
            Some(value) => {
                self.u8(1);
                self.bytes(value);
            }
            None => self.u8(0),
        }
    }

    /// Appends an integer that may be absent.
    pub fn optional_i64(&mut self, value: Option<i64>) {
        match value {
            Some(value) => {
                self.u8(1);
                self.i64(value);
            }
            None => self.u8(0),
        }
    }
}

/// Takes values from the front of some bytes.
#[derive(Debug, Clone)]
pub struct Reader(
    /// What is left.
    pub Bytes,
);

impl Reader {
    /// Takes an unsigned integer.
    ///
    /// # Errors
    ///
    /// When the bytes end or the number does not fit in 64 bits.
    pub fn u64(&mut self, what: &'static str) -> Result<u64, WireError> {
        let mut value = 0_u64;
        for shift in (0..64).step_by(7) {
            let byte = self.u8(what)?;
            let bits = u64::from(byte & 0x7f);
            if shift == 63 && bits > 1 {
                return Err(WireError(what));
            }
            value |= bits << shift;
            if byte & 0x80 == 0 {
                return Ok(value);
            }
        }
        Err(WireError(what))
    }

    /// Takes a signed integer.
    ///
    /// # Errors
    ///
    /// As [`Reader::u64`].
    pub fn i64(&mut self, what: &'static str) -> Result<i64, WireError> {
        let value = self.u64(what)?;
        Ok((value >> 1).cast_signed() ^ -((value & 1).cast_signed()))
    }

    /// Takes one byte.
    ///
    /// # Errors
    ///
    /// When there is none.
    pub fn u8(&mut self, what: &'static str) -> Result<u8, WireError> {
        if self.0.has_remaining() { Ok(self.0.get_u8()) } else { Err(WireError(what)) }
    }

    /// Takes an unsigned integer of 16 bits.
    ///
    /// # Errors
    ///
    /// When the bytes end or the number is larger.
    pub fn u16(&mut self, what: &'static str) -> Result<u16, WireError> {
        u16::try_from(self.u64(what)?).ok().ok_or(WireError(what))
    }

    /// Takes a count of things that take at least one byte each.
    ///
    /// # Errors
    ///
    /// When more are announced than bytes are left.
    pub fn count(&mut self, what: &'static str) -> Result<usize, WireError> {
        let count = usize::try_from(self.u64(what)?).ok().ok_or(WireError(what))?;
        if count > self.0.len() { Err(WireError(what)) } else { Ok(count) }
    }

    /// Takes bytes with their length, without copying.
    ///
    /// # Errors
    ///
    /// When fewer bytes are left.
    pub fn bytes(&mut self, what: &'static str) -> Result<Bytes, WireError> {
        let length = self.count(what)?;
        Ok(self.0.split_to(length))
    }

    /// Takes bytes that may be absent.
    ///
    /// # Errors
    ///
    /// As [`Reader::bytes`].
    pub fn optional_bytes(&mut self, what: &'static str) -> Result<Option<Bytes>, WireError> {
        match self.u8(what)? {
            0 => Ok(None),
            1 => self.bytes(what).map(Some),
            _ => Err(WireError(what)),
        }
    }

    /// Takes an integer that may be absent.
    ///
    /// # Errors
    ///
    /// As [`Reader::i64`].
    pub fn optional_i64(&mut self, what: &'static str) -> Result<Option<i64>, WireError> {
        match self.u8(what)? {
            0 => Ok(None),
            1 => self.i64(what).map(Some),
            _ => Err(WireError(what)),
        }
    }

    /// Takes text.
    ///
    /// # Errors
    ///
    /// When bytes are missing or are not UTF-8.
    pub fn text(&mut self, what: &'static str) -> Result<String, WireError> {
        let bytes = self.bytes(what)?;
        std::str::from_utf8(&bytes).map(str::to_owned).ok().ok_or(WireError(what))
    }

    /// Ends reading.
    ///
    /// # Errors
    ///
    /// When bytes are left over.
    pub fn end(self, what: &'static str) -> Result<(), WireError> {
        if self.0.is_empty() { Ok(()) } else { Err(WireError(what)) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn integers_come_back_as_written() {
        let values = [0, 1, -1, 63, -64, 64, i64::MAX, i64::MIN, i64::MIN + 1, 1 << 40];
        let mut writer = Writer::default();
        for value in values {
            writer.i64(value);
        }
        let mut reader = Reader(writer.0.into());
        for value in values {
            assert_eq!(reader.i64("a value"), Ok(value));
        }
        assert_eq!(reader.end("the values"), Ok(()));
    }

    #[test]
    fn a_length_beyond_the_input_is_refused_before_anything_is_allocated() {
        let mut writer = Writer::default();
        writer.u64(u64::MAX);
        assert_eq!(Reader(writer.0.into()).bytes("a key"), Err(WireError("a key")));
    }
}
