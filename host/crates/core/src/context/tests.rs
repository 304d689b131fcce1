//! Range scans against a plain map, and what they cost.

use std::{
    collections::BTreeMap,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
};

use bytes::Bytes;

use super::{Context, ContextParts, Current, Subject};
use crate::{
    key::Key,
    options::CallLimits,
    plugin::{PluginDescriptor, StateDescriptor, StateKind, StateScope},
    record::Partition,
    state::{Clocks, MemoryStore, StateId, StateSize, StateStore, StoreError, Visit},
    timers::TimerDomain,
};

const MAP: u32 = 0;
const CLOCKS: Clocks = Clocks { watermark: 0, processing_time: 0 };

/// A store that counts the rows it shows to scans.
struct Counting {
    store: MemoryStore,
    shown: Arc<AtomicUsize>,
}

impl StateStore for Counting {
    fn get(&mut self, row: &[u8]) -> Result<Option<Bytes>, StoreError> {
        self.store.get(row)
    }

    fn scan(&mut self, from: &[u8], to: &[u8], visit: &mut Visit<'_>) -> Result<(), StoreError> {
        let shown = &self.shown;
        self.store.scan(from, to, &mut |row, value| {
            shown.fetch_add(1, Ordering::Relaxed);
            visit(row, value)
        })
    }

    fn apply(
        &mut self,
        changes: &mut dyn Iterator<Item = (&[u8], Option<&[u8]>)>,
        head: &[u8],
        clocks: Clocks,
    ) -> Result<(), StoreError> {
        self.store.apply(changes, head, clocks)
    }

    fn head(&mut self) -> Result<Option<Bytes>, StoreError> {
        self.store.head()
    }

    fn flush(&mut self) -> Result<(), StoreError> {
        Ok(())
    }

    fn size(&self) -> StateSize {
        self.store.size()
    }

    fn clear(&mut self) -> Result<(), StoreError> {
        self.store.clear()
    }
}

fn context() -> (Context, Arc<AtomicUsize>) {
    let shown = Arc::new(AtomicUsize::new(0));
    let store = Counting { store: MemoryStore::default(), shown: Arc::clone(&shown) };
    let map = StateDescriptor {
        name: "map".to_owned(),
        kind: StateKind::Map,
        scope: StateScope::Keyed,
        schema_version: 1,
        expiry: None,
    };
    let parts = ContextParts {
        store: Box::new(store),
        descriptor: PluginDescriptor {
            inputs: Vec::new(),
            broadcast: Vec::new(),
            outputs: Vec::new(),
            states: vec![map],
            metrics: Vec::new(),
        },
        state_ids: vec![StateId(0)],
        inputs: Vec::new(),
        outputs: Vec::new(),
        late_output: None,
        limits: CallLimits::default(),
    };
    (Context::new(parts, None), shown)
}

fn begin_call(context: &mut Context) {
    context.begin_call(Current {
        subject: Subject::Timer { time: None, domain: TimerDomain::Event, tag: 0 },
        key: Some(Key::new("k")),
        partition: Partition(0),
        event_time: None,
    });
}

fn commit(context: &mut Context) {
    let Context { overlay, store, .. } = context;
    store.apply(&mut overlay.changes(), b"", CLOCKS).unwrap();
    context.end_epoch();
}

/// Numbers without a pattern, always the same.
struct Numbers(u64);

impl Numbers {
    fn below(&mut self, end: u8) -> u8 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        u8::try_from((self.0 >> 33) % u64::from(end)).unwrap()
    }
}

/// Changes a few rows, or looks at them, in both.
fn act(context: &mut Context, model: &mut BTreeMap<u8, u8>, numbers: &mut Numbers) {
    let (entry, other) = (numbers.below(24), numbers.below(24));
    match numbers.below(6) {
        0 => {
            context.state_put(MAP, &[entry], &[other]).unwrap();
            model.insert(entry, other);
        }
        1 => {
            context.state_remove(MAP, &[entry]).unwrap();
            model.remove(&entry);
        }
        2 => {
            context.state_remove_range(MAP, &[entry], Some(&[other])).unwrap();
            model.retain(|known, _| !(entry..other).contains(known));
        }
        _ => {
            let limit = u32::from(numbers.below(4)) + 1;
            let page = context.state_scan(MAP, &[entry], Some(&[other]), None, limit).unwrap();
            let mut rows = model.iter().filter(|row| (entry..other).contains(row.0));
            for (found, value) in &page.entries {
                let row = rows.next().map(|(entry, value)| (vec![*entry], vec![*value]));
                assert_eq!(row, Some((found.to_vec(), value.to_vec())));
            }
            assert_eq!(page.has_more, rows.next().is_some());
        }
    }
}

#[test]
fn scans_show_what_a_plain_map_holds_whatever_was_removed_undone_and_committed_between_them() {
    for seed in 0..200 {
        let (mut context, _) = context();
        let mut numbers = Numbers(seed);
        let mut model = BTreeMap::new();
        for _ in 0..200 {
            let before = model.clone();
            begin_call(&mut context);
            for _ in 0..numbers.below(6) {
                act(&mut context, &mut model, &mut numbers);
            }
            match numbers.below(5) {
                0 => {
                    context.undo_call();
                    model = before;
                }
                1 => commit(&mut context),
                _ => {}
            }
        }
    }
}

#[test]
fn what_is_taken_from_the_front_in_steps_is_read_once() {
    const ROWS: u32 = 10_000;
    let (mut context, shown) = context();
    begin_call(&mut context);
    for row in 0..ROWS {
        context.state_put(MAP, &row.to_be_bytes(), b"").unwrap();
    }
    commit(&mut context);
    let mut taken = 0;
    loop {
        begin_call(&mut context);
        let page = context.state_scan(MAP, &[], None, None, 10).unwrap();
        for (entry, _) in &page.entries {
            context.state_remove(MAP, entry).unwrap();
        }
        taken += page.entries.len();
        if !page.has_more {
            break;
        }
    }
    assert_eq!(taken, ROWS as usize);
    // A step reads its 10 rows, the one that tells that there are more, and the 10 just removed.
    let shown = shown.load(Ordering::Relaxed);
    assert!(shown <= 3 * ROWS as usize, "{shown} rows were shown for {ROWS}");
}
