//! The head row of a list or buffer: how many items there are, and the next one's number.
//!
//! It lies under the empty entry, before every item, and goes with the last item, so that nothing
//! of an empty list stays behind.
//!
//! Durable: two numbers. Bytes behind them are not looked at: head rows were written that have a
//! third field.

use crate::{context::Context, error::Result};

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Sequence {
    pub(super) next: u64,
    pub(super) count: u64,
}

impl Sequence {
    pub(super) fn read(state: u32, context: &mut Context<'_>) -> Result<Self> {
        match context.host.get(state, &[]) {
            Some(bytes) => Self::decode(&bytes),
            None => Ok(Self::default()),
        }
    }

    pub(super) fn write(self, state: u32, context: &mut Context<'_>) -> Result {
        if self.count == 0 {
            context.host.remove(state, &[]);
        } else {
            context.host.put(state, &[], &self.encode()?);
        }
        Ok(())
    }

    fn decode(bytes: &[u8]) -> Result<Self> {
        let (next, count) = crate::codec::decode(bytes)?;
        Ok(Self { next, count })
    }

    fn encode(self) -> Result<Vec<u8>> {
        crate::codec::encode(&(self.next, self.count))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn head_rows_of_every_form_that_was_written_are_read() {
        let sequence = Sequence { next: 300, count: 2 };
        let forms: [&[u8]; 3] = [
            &[0xac, 0x02, 0x02],
            // With the event time a timer was registered for: none, and 7.
            &[0xac, 0x02, 0x02, 0x00],
            &[0xac, 0x02, 0x02, 0x01, 0x0e],
        ];
        for bytes in forms {
            assert_eq!(Sequence::decode(bytes).unwrap(), sequence, "{bytes:?}");
        }
        assert_eq!(sequence.encode().unwrap(), forms[0]);
        assert!(Sequence::decode(&[0xac]).is_err());
    }
}
