//! The reference store: an ordered map in memory.

use std::{collections::BTreeMap, ops::Bound};

use bytes::Bytes;

use super::{Clocks, StateSize, StateStore, StoreError, Visit};

/// Keyed state in memory. Rows live until they are removed: expiry is judged by readers alone.
#[derive(Debug, Default, Clone)]
pub struct MemoryStore {
    rows: BTreeMap<Bytes, Bytes>,
    head: Option<Bytes>,
}

impl StateStore for MemoryStore {
    fn get(&mut self, row: &[u8]) -> Result<Option<Bytes>, StoreError> {
        Ok(self.rows.get(row).cloned())
    }

    fn scan(&mut self, from: &[u8], to: &[u8], visit: &mut Visit<'_>) -> Result<(), StoreError> {
        if from >= to {
            return Ok(());
        }
        let range = (Bound::Included(from), Bound::Excluded(to));
        for (key, value) in self.rows.range::<[u8], _>(range) {
            if visit(key, value).is_break() {
                break;
            }
        }
        Ok(())
    }

    fn apply(
        &mut self,
        changes: &mut dyn Iterator<Item = (&[u8], Option<&[u8]>)>,
        head: &[u8],
        _clocks: Clocks,
    ) -> Result<(), StoreError> {
        for (row, value) in changes {
            match value {
                Some(value) => {
                    self.rows.insert(Bytes::copy_from_slice(row), Bytes::copy_from_slice(value));
                }
                None => {
                    self.rows.remove(row);
                }
            }
        }
        self.head = Some(Bytes::copy_from_slice(head));
        Ok(())
    }

    fn head(&mut self) -> Result<Option<Bytes>, StoreError> {
        Ok(self.head.clone())
    }

    fn flush(&mut self) -> Result<(), StoreError> {
        Ok(())
    }

    fn size(&self) -> StateSize {
        let bytes: usize = self.rows.iter().map(|(row, value)| row.len() + value.len()).sum();
        StateSize { rows: self.rows.len() as u64, bytes: bytes as u64 }
    }

    fn clear(&mut self) -> Result<(), StoreError> {
        self.rows.clear();
        self.head = None;
        Ok(())
    }
}
