//! The reference store: an ordered map in memory.

use std::{
    collections::BTreeMap,
    io::{Cursor, Read},
    ops::Bound,
};

use bytes::Bytes;

use super::{Clocks, StateSize, StateStore, StoreError, Visit};
use crate::{
    checkpoint::{Frozen, FrozenFile},
    wire::{Reader, WireError, Writer},
};

/// The only file of a frozen memory store.
const FROZEN_FILE: &str = "rows";

/// Keyed state in memory. Rows live until they are removed: expiry is judged by readers alone.
#[derive(Debug, Default, Clone)]
pub struct MemoryStore {
    rows: BTreeMap<Bytes, Bytes>,
    head: Option<Bytes>,
}

impl MemoryStore {
    /// Reads what [`StateStore::freeze`] has written into its only file.
    ///
    /// # Errors
    ///
    /// When these are no such bytes.
    pub fn thaw(content: &Bytes) -> Result<Self, WireError> {
        let mut reader = Reader(content.clone());
        let mut store = Self { head: Some(reader.bytes("head")?), ..Self::default() };
        for _ in 0..reader.count("rows")? {
            store.rows.insert(reader.bytes("row")?, reader.bytes("value")?);
        }
        reader.end("rows")?;
        Ok(store)
    }
}

struct FrozenMemory {
    head: Bytes,
    content: Vec<u8>,
}

impl Frozen for FrozenMemory {
    fn head(&mut self) -> Result<Bytes, String> {
        Ok(self.head.clone())
    }

    fn files(&mut self) -> Result<Vec<FrozenFile>, String> {
        let bytes = self.content.len() as u64;
        Ok(vec![FrozenFile { name: FROZEN_FILE.to_owned(), bytes, is_immutable: false }])
    }

    fn open(&mut self, _name: &str) -> Result<Box<dyn Read + Send>, String> {
        Ok(Box::new(Cursor::new(self.content.clone())))
    }
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

    fn freeze(&mut self) -> Result<Option<Box<dyn Frozen>>, StoreError> {
        let Some(head) = self.head.clone() else { return Ok(None) };
        let mut writer = Writer::default();
        writer.bytes(&head);
        writer.len(self.rows.len());
        for (row, value) in &self.rows {
            writer.bytes(row);
            writer.bytes(value);
        }
        Ok(Some(Box::new(FrozenMemory { head, content: writer.0 })))
    }

    fn clear(&mut self) -> Result<(), StoreError> {
        self.rows.clear();
        self.head = None;
        Ok(())
    }
}
