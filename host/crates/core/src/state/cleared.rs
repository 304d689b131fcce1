//! Where rows are known to be gone, so that scans do not step over removed rows again.
//!
//! Work in steps reads the front of a range, removes it and comes again. Each step would pass all
//! that the earlier ones removed: in the overlay, and in a log-structured store until it is
//! compacted; a hundred thousand rows would cost a hundred thousand squared.
//!
//! Invariant: no live row lies in a range that is remembered, so what a scan shows is the same with
//! and without this.

/// Longest bound that is remembered: entries are far shorter.
const BOUND_BYTES_MAX: usize = 4 << 10;

/// Per state, a range of row keys without a live row: the last that a scan went through.
#[derive(Debug, Default)]
pub struct ClearedRanges {
    of_state: Vec<Option<Cleared>>,
}

/// From the first row key up to (exclusive) the second.
#[derive(Debug)]
struct Cleared {
    from: Vec<u8>,
    to: Vec<u8>,
}

impl ClearedRanges {
    /// Returns where a scan of a state that begins at `from` may begin instead.
    #[must_use]
    pub fn skip(&self, state: u32, from: &[u8]) -> Option<&[u8]> {
        let known = self.of_state.get(state as usize)?.as_ref()?;
        (known.from.as_slice() <= from && from < known.to.as_slice()).then_some(&known.to)
    }

    /// Remembers that a scan from `from` on met no live row before `to`.
    pub fn note(&mut self, state: u32, from: &[u8], to: &[u8]) {
        let at = state as usize;
        if from.len().max(to.len()) > BOUND_BYTES_MAX {
            // A guest may name bounds of megabytes, which would outlast its call.
            return;
        }
        if self.of_state.len() <= at {
            self.of_state.resize_with(at + 1, || None);
        }
        match &mut self.of_state[at] {
            Some(known) if known.from.as_slice() <= from && from <= known.to.as_slice() => {
                if known.to.as_slice() < to {
                    known.to.clear();
                    known.to.extend_from_slice(to);
                }
            }
            // Memory of the one before is used again.
            Some(known) => {
                known.from.clear();
                known.from.extend_from_slice(from);
                known.to.clear();
                known.to.extend_from_slice(to);
            }
            none => *none = Some(Cleared { from: from.to_vec(), to: to.to_vec() }),
        }
    }

    /// Takes notice of a row that is written.
    pub fn put(&mut self, state: u32, row: &[u8]) {
        let Some(Some(known)) = self.of_state.get_mut(state as usize) else { return };
        if row < known.to.as_slice() && known.from.as_slice() <= row {
            known.to.clear();
            known.to.extend_from_slice(row);
        }
    }

    /// Forgets everything: rows may have come back.
    pub fn forget(&mut self) {
        self.of_state.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_range_grows_with_the_scans_that_begin_in_it_and_ends_before_what_is_written() {
        let mut cleared = ClearedRanges::default();
        assert_eq!(cleared.skip(1, b"a"), None);
        cleared.note(1, b"a", b"f");
        cleared.note(1, b"f", b"k");
        assert_eq!(cleared.skip(1, b"a"), Some(&b"k"[..]));
        assert_eq!((cleared.skip(1, b"k"), cleared.skip(0, b"b")), (None, None));
        cleared.put(1, b"k");
        cleared.put(0, b"b");
        assert_eq!(cleared.skip(1, b"c"), Some(&b"k"[..]));
        cleared.put(1, b"d");
        assert_eq!(cleared.skip(1, b"c"), Some(&b"d"[..]));
        assert_eq!(cleared.skip(1, b"d"), None);
        cleared.note(1, b"m", b"p");
        assert_eq!((cleared.skip(1, b"a"), cleared.skip(1, b"n")), (None, Some(&b"p"[..])));
        cleared.note(1, b"m", &[b'z'; BOUND_BYTES_MAX + 1]);
        assert_eq!(cleared.skip(1, b"n"), Some(&b"p"[..]));
        cleared.forget();
        assert_eq!(cleared.skip(1, b"n"), None);
    }
}
