//! Uncommitted row changes of the open epoch, with undo per call.
//!
//! Two steps: a call changes the overlay and can be undone alone; the committed epoch goes to the
//! store as a whole.
//!
//! Invariant: rows are listed in the order of their first change, whatever the hasher does, so the
//! journal's bytes depend on the input alone.

use std::{
    collections::BTreeMap,
    ops::{Bound, ControlFlow},
};

use bytes::{Bytes, BytesMut};
use foldhash::fast::FixedState;
use hashbrown::HashTable;
use std::hash::BuildHasher;

use super::{StateStore, StoreError, Visit};

/// Bytes of rows are kept in pieces of this size: one allocation serves hundreds of rows.
const PIECE_BYTES: usize = 64 << 10;

#[derive(Debug)]
struct Row {
    key: Bytes,
    value: Option<Bytes>,
    ordered: bool,
}

#[derive(Debug)]
struct Undo {
    row: u32,
    /// The value before; `None` when the call added the row.
    before: Option<Option<Bytes>>,
}

/// Row changes of the open epoch.
#[derive(Debug, Default)]
pub struct Overlay {
    rows: Vec<Row>,
    /// Finds a row by its key.
    table: HashTable<u32>,
    /// Rows that range scans can meet, in key order.
    ordered: BTreeMap<Bytes, u32>,
    /// What is left of the piece that keys and values are kept in.
    piece: BytesMut,
    undo: Vec<Undo>,
    size_bytes: usize,
    size_bytes_before_call: usize,
    hasher: FixedState,
}

impl Overlay {
    /// Returns the uncommitted value of a row: `None` = unchanged, `Some(None)` = removed.
    #[must_use]
    pub fn get(&self, row: &[u8]) -> Option<Option<&Bytes>> {
        let at = self.find(row)?;
        Some(self.rows[at as usize].value.as_ref())
    }

    fn find(&self, row: &[u8]) -> Option<u32> {
        let hash = self.hasher.hash_one(row);
        self.table.find(hash, |at| self.rows[*at as usize].key == row).copied()
    }

    /// Changes a row; `ordered` rows take part in range scans.
    pub fn put(&mut self, row: &[u8], value: Option<&[u8]>, ordered: bool) {
        self.size_bytes += row.len() + value.map_or(0, <[u8]>::len);
        let Self { rows, table, hasher, undo, piece, .. } = self;
        let value = value.map(|value| keep(piece, value));
        let hash = hasher.hash_one(row);
        if let Some(at) = table.find(hash, |at| rows[*at as usize].key == row).copied() {
            let before = std::mem::replace(&mut rows[at as usize].value, value);
            undo.push(Undo { row: at, before: Some(before) });
            return;
        }
        let at = u32::try_from(rows.len()).expect("an epoch has fewer than 2^32 rows");
        let key = keep(piece, row);
        if ordered {
            self.ordered.insert(key.clone(), at);
        }
        rows.push(Row { key, value, ordered });
        table.insert_unique(hash, at, |at| hasher.hash_one(&rows[*at as usize].key[..]));
        undo.push(Undo { row: at, before: None });
    }

    /// Starts a call: what happens from here on can be undone.
    pub fn begin_call(&mut self) {
        self.undo.clear();
        self.size_bytes_before_call = self.size_bytes;
    }

    /// Undoes everything since [`Overlay::begin_call`].
    pub fn undo_call(&mut self) {
        self.size_bytes = self.size_bytes_before_call;
        while let Some(undo) = self.undo.pop() {
            let at = undo.row as usize;
            if let Some(before) = undo.before {
                self.rows[at].value = before;
                continue;
            }
            let row = self.rows.pop().expect("the call added this row last");
            let hash = self.hasher.hash_one(&row.key[..]);
            if let Ok(entry) = self.table.find_entry(hash, |at| *at == undo.row) {
                entry.remove();
            }
            if row.ordered {
                self.ordered.remove(&row.key);
            }
        }
    }

    /// Visits live rows with `from` ≤ key < `to`, overlay over store, ascending, until `visit`
    /// breaks. Only rows put as `ordered` are seen from the overlay.
    ///
    /// # Errors
    ///
    /// When the store fails.
    pub fn scan(
        &self,
        store: &mut dyn StateStore,
        from: &[u8],
        to: &[u8],
        visit: &mut Visit<'_>,
    ) -> Result<(), StoreError> {
        if from >= to {
            return Ok(());
        }
        let range = (Bound::Included(from), Bound::Excluded(to));
        let mut changed = self.ordered.range::<[u8], _>(range).peekable();
        let mut stopped = false;
        store.scan(from, to, &mut |row, value| {
            while let Some((key, at)) = changed.next_if(|(key, _)| &key[..] < row) {
                if let Some(value) = &self.rows[*at as usize].value
                    && visit(key, value).is_break()
                {
                    stopped = true;
                    return ControlFlow::Break(());
                }
            }
            let flow = match changed.next_if(|(key, _)| &key[..] == row) {
                Some((key, at)) => match &self.rows[*at as usize].value {
                    Some(value) => visit(key, value),
                    None => ControlFlow::Continue(()),
                },
                None => visit(row, value),
            };
            stopped = flow.is_break();
            flow
        })?;
        if stopped {
            return Ok(());
        }
        for (key, at) in changed {
            if let Some(value) = &self.rows[*at as usize].value
                && visit(key, value).is_break()
            {
                break;
            }
        }
        Ok(())
    }

    /// Returns the changes in the order of their first change.
    pub fn changes(&self) -> impl ExactSizeIterator<Item = (&[u8], Option<&[u8]>)> {
        self.rows.iter().map(|row| (&row.key[..], row.value.as_deref()))
    }

    /// Returns whether nothing has changed.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// Returns the bytes written in this epoch, overwritten ones included.
    #[must_use]
    pub fn size_bytes(&self) -> usize {
        self.size_bytes
    }

    /// Empties it, keeping its memory for the next epoch.
    pub fn clear(&mut self) {
        self.rows.clear();
        self.table.clear();
        self.ordered.clear();
        self.undo.clear();
        self.size_bytes = 0;
        self.size_bytes_before_call = 0;
    }
}

/// Copies bytes to where many of them lie together.
fn keep(piece: &mut BytesMut, bytes: &[u8]) -> Bytes {
    if piece.capacity() < bytes.len() {
        *piece = BytesMut::with_capacity(PIECE_BYTES.max(bytes.len()));
    }
    piece.extend_from_slice(bytes);
    piece.split().freeze()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::state::{Clocks, MemoryStore};

    fn bytes(text: &str) -> Bytes {
        Bytes::copy_from_slice(text.as_bytes())
    }

    fn scan(overlay: &Overlay, store: &mut MemoryStore) -> Vec<(String, String)> {
        let mut seen = Vec::new();
        let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
        overlay
            .scan(store, b"a", b"z", &mut |row, value| {
                seen.push((text(row), text(value)));
                ControlFlow::Continue(())
            })
            .unwrap();
        seen
    }

    #[test]
    fn a_scan_shows_the_overlay_over_the_store_in_order() {
        let mut store = MemoryStore::default();
        let rows: [(&[u8], Option<&[u8]>); 3] =
            [(b"b", Some(b"1")), (b"d", Some(b"2")), (b"f", Some(b"3"))];
        let clocks = Clocks { watermark: 0, processing_time: 0 };
        store.apply(&mut rows.into_iter(), b"", clocks).unwrap();
        let mut overlay = Overlay::default();
        overlay.put(b"a", Some(b"x"), true);
        overlay.put(b"d", None, true);
        overlay.put(b"f", Some(b"y"), true);
        overlay.put(b"g", Some(b"z"), true);
        let expected = [("a", "x"), ("b", "1"), ("f", "y"), ("g", "z")];
        let expected: Vec<_> =
            expected.iter().map(|(a, b)| ((*a).to_owned(), (*b).to_owned())).collect();
        assert_eq!(scan(&overlay, &mut store), expected);
    }

    #[test]
    fn undo_leaves_exactly_what_stood_before_the_call() {
        let mut overlay = Overlay::default();
        overlay.put(b"a", Some(b"1"), true);
        overlay.begin_call();
        overlay.put(b"a", None, true);
        overlay.put(b"a", Some(b"2"), true);
        overlay.put(b"b", Some(b"3"), true);
        overlay.put(b"b", None, true);
        overlay.undo_call();
        assert_eq!(overlay.get(b"a"), Some(Some(&bytes("1"))));
        assert_eq!(overlay.get(b"b"), None);
        assert_eq!(overlay.changes().count(), 1);
        overlay.begin_call();
        overlay.put(b"b", Some(b"4"), true);
        assert_eq!(overlay.get(b"b"), Some(Some(&bytes("4"))));
    }
}
