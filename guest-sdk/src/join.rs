//! Parts that joins are made of.
//!
//! | part | keeps per key | timers | cost per record |
//! |---|---|---|---|
//! | [`Interval`] | nothing | none | arithmetic |
//! | [`ExpiringBuffer`] | a row per item and a head row | one per key and distinct time | 1 read, 3 writes; a range is sought, not scanned |
//! | [`Windows`] | nothing | none | arithmetic |
//! | [`Sessions`] | a row per open session | none | reads what a record touches, and one more |
//! | [`Total`] | part of a row | none | arithmetic |
//! | [`VersionedTable`] | a row per version and a head row | none | a lookup reads one version; a version 2 reads, 2 writes |
//! | [`upsert_key`] | nothing | none | a call for the key |
//! | [`Steps`] | one row while work goes on | none | nothing where the work fits one call |
//!
//! A part takes the states it needs from `open`, and the [`crate::Context`] with every call. Each
//! does one thing; a plugin puts them together and says what a match is.
//!
//! Invariant: a part reads what it is asked for and nothing else: a range costs what lies in it,
//! expiry what expires.

mod expiring;
mod interval;
mod sessions;
mod steps;
mod totals;
mod upsert;
mod versions;
mod windows;

pub use self::{
    expiring::ExpiringBuffer,
    interval::{Interval, JoinKind, Side},
    sessions::{Absorbed, Open, Sessions},
    steps::Steps,
    totals::{Decimal, Measure, Total},
    upsert::upsert_key,
    versions::{Version, VersionedTable},
    windows::{Window, Windows, window_start},
};
