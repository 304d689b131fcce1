//! The head row of a list or buffer: how many items there are, the next one's number, and for which
//! item a timer was registered.
//!
//! It lies under the empty entry, before every item, and goes with the last item, so that nothing
//! of an empty list stays behind.

use crate::{context::Context, error::Result};

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Sequence {
    pub(super) next: u64,
    pub(super) count: u64,
    /// The event time of the item whose timer comes first, where the buffer has timers.
    pub(super) wake: Option<i64>,
}

impl Sequence {
    pub(super) fn read(state: u32, context: &mut Context<'_>) -> Result<Self> {
        let Some(bytes) = context.host.get(state, &[]) else {
            return Ok(Self::default());
        };
        let (next, count, wake) = crate::codec::decode(&bytes)?;
        Ok(Self { next, count, wake })
    }

    pub(super) fn write(self, state: u32, context: &mut Context<'_>) -> Result {
        if self.count == 0 {
            context.host.remove(state, &[]);
        } else {
            let bytes = crate::codec::encode(&(self.next, self.count, self.wake))?;
            context.host.put(state, &[], &bytes);
        }
        Ok(())
    }
}
