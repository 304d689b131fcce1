//! What was valid when: the versions of a row, by event time.

use std::marker::PhantomData;

use serde::{Deserialize, Serialize, de::DeserializeOwned};

use crate::{
    codec::{decode, encode},
    context::Context,
    error::{Error, Result},
    state::EntryKey,
};

/// A row per key whose older versions are kept: each is valid from its event time until that of
/// the next. A version without value is a delete: from then on nothing is valid.
///
/// State: a row per version, and one for where they begin. Timers: none. Cost: a lookup reads one
/// version, however many there are; a version that comes in order is 2 reads and 2 writes.
///
/// ```
/// use dovetail_sdk::{Context, Harness, Output, Plugin, Record, Result, Setup, join::VersionedTable};
///
/// /// Tells the price that was valid at an order's time.
/// struct Prices { prices: dovetail_sdk::Input, main: Output, versions: VersionedTable<String> }
///
/// # #[derive(serde::Deserialize)] struct Config {}
/// impl Plugin for Prices {
///     type Config = Config;
///
///     fn open(_: Config, setup: &mut Setup) -> Result<Self> {
///         let prices = setup.input("prices");
///         setup.input("orders");
///         let versions = setup.state("versions").versioned_table();
///         Ok(Self { prices, main: setup.output("main"), versions })
///     }
///
///     fn process_element(&mut self, record: Record<'_>, context: &mut Context<'_>) -> Result {
///         let time = record.time.unwrap_or(0);
///         if record.input == self.prices {
///             let price = record.value.map(|value| String::from_utf8_lossy(value).into_owned());
///             self.versions.put(context, time, price.as_ref())?;
///             return Ok(());
///         }
///         let version = self.versions.as_of(context, time)?;
///         let price = version.and_then(|version| version.value);
///         self.main.emit(context, price.unwrap_or_else(|| "none".to_owned()));
///         Ok(())
///     }
/// }
///
/// let mut harness = Harness::<Prices>::new("{}")?;
/// harness.record("prices").key("k").time(10).value("v2");
/// harness.record("prices").key("k").time(5).value("v1"); // late: sorted in
/// harness.record("prices").key("k").time(20).tombstone();
/// for time in [12, 7, 4, 25] {
///     harness.record("orders").key("k").time(time).value("order");
/// }
/// assert_eq!(harness.values("main"), ["v2", "v1", "none", "none"]);
/// # Ok::<(), dovetail_sdk::Error>(())
/// ```
#[derive(Debug)]
pub struct VersionedTable<T> {
    state: u32,
    of: PhantomData<fn() -> T>,
}

impl<T> Clone for VersionedTable<T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for VersionedTable<T> {}

/// A version of a row.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Version<T> {
    /// Its event time: it is valid from here, inclusive.
    pub time: i64,
    /// Until when it is valid, exclusive; `None` for the latest.
    pub valid_to: Option<i64>,
    /// The row; `None` says that there is none.
    pub value: Option<T>,
}

/// A version as it is kept.
#[derive(Serialize, Deserialize)]
struct Kept<T> {
    valid_to: Option<i64>,
    value: Option<T>,
}

/// Versions lie from the latest to the earliest: a scan ascends, and what is looked for is the
/// latest one up to a time.
fn entry(time: i64) -> Vec<u8> {
    (!time).to_entry()
}

impl<T> VersionedTable<T> {
    pub(crate) fn new(state: u32) -> Self {
        Self { state, of: PhantomData }
    }

    /// Returns the time of the earliest version; `None` where there are none.
    ///
    /// # Errors
    ///
    /// When what is stored is not a versioned table.
    pub fn earliest(&self, context: &mut Context<'_>) -> Result<Option<i64>> {
        context.host.get(self.state, &[]).map(|bytes| decode(&bytes)).transpose()
    }

    /// Forgets every version.
    pub fn clear(&self, context: &mut Context<'_>) {
        context.host.remove_range(self.state, &[], None);
    }

    fn begin_at(&self, context: &mut Context<'_>, time: i64) -> Result {
        context.host.put(self.state, &[], &encode(&time)?);
        Ok(())
    }
}

impl<T: Serialize + DeserializeOwned> VersionedTable<T> {
    /// Returns the version that is valid at a time.
    ///
    /// # Errors
    ///
    /// When what is stored is of another type.
    pub fn as_of(&self, context: &mut Context<'_>, time: i64) -> Result<Option<Version<T>>> {
        let (found, _) = context.host.scan(self.state, &entry(time), None, None, 1);
        let Some((key, bytes)) = found.into_iter().next() else {
            return Ok(None);
        };
        let time = i64::decode(&mut key.as_slice());
        let time = time.ok_or_else(|| Error::new("an entry of a versioned table is not a time"))?;
        let Kept { valid_to, value } = decode(&bytes)?;
        Ok(Some(Version { time: !time, valid_to, value }))
    }

    /// Returns the latest version.
    ///
    /// # Errors
    ///
    /// When what is stored is of another type.
    pub fn latest(&self, context: &mut Context<'_>) -> Result<Option<Version<T>>> {
        self.as_of(context, i64::MAX)
    }

    /// Sorts a version in, replacing one of the same time; returns until when it is valid, `None`
    /// for the latest.
    ///
    /// # Errors
    ///
    /// When the version cannot be written.
    pub fn put(
        &self,
        context: &mut Context<'_>,
        time: i64,
        value: Option<&T>,
    ) -> Result<Option<i64>> {
        let valid_to = match self.as_of(context, time)? {
            Some(same) if same.time == time => same.valid_to,
            Some(before) => {
                let ended = Kept { valid_to: Some(time), value: before.value };
                context.host.put(self.state, &entry(before.time), &encode(&ended)?);
                before.valid_to
            }
            None => {
                let next = self.earliest(context)?;
                self.begin_at(context, time)?;
                next
            }
        };
        let kept = encode(&Kept { valid_to, value })?;
        context.host.put(self.state, &entry(time), &kept);
        Ok(valid_to)
    }

    /// Forgets the versions that were over at a time: the one that is valid then is the earliest.
    /// Costs what is forgotten.
    ///
    /// # Errors
    ///
    /// When what is stored is of another type.
    pub fn forget_before(&self, context: &mut Context<'_>, time: i64) -> Result {
        let Some(valid) = self.as_of(context, time)? else { return Ok(()) };
        if self.earliest(context)?.is_none_or(|earliest| earliest >= valid.time) {
            return Ok(());
        }
        let Some(before) = valid.time.checked_sub(1) else { return Ok(()) };
        context.host.remove_range(self.state, &entry(before), None);
        self.begin_at(context, valid.time)
    }
}
