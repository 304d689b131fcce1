//! What a sample of records says about `time.unit`, for `validate --sample`.
//!
//! A wrong unit turns every event time into 1970 or the year 58000; a handful of records shows it
//! before anything runs.

use std::fmt;

use dovetail_core::record::Record;

use crate::{
    decoder::Decoder,
    format::{TimeSource, TimeUnit},
    time::{self, RawTime, Reading},
};

/// That the times of an input look like another unit than the configured one.
///
/// Displays as "$.ts looks like seconds: set `time.unit: s`"; put the input's name before it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TimeHint {
    /// Where the time is.
    pub from: TimeSource,
    /// The unit that fits.
    pub unit: TimeUnit,
    /// How many sampled times fit it.
    pub fitting: usize,
    /// How many sampled times fit the configured unit.
    pub fitting_configured: usize,
}

impl fmt::Display for TimeHint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { from, unit, .. } = self;
        write!(f, "{from} looks like {}: set `time.unit: {}`", unit.words(), unit.name())
    }
}

/// Collects how well the times of sampled records fit each unit.
#[derive(Debug, Clone)]
pub struct TimeSamples<'a> {
    decoder: &'a Decoder,
    /// How many fit each of [`TimeUnit::ALL`].
    fitting: [usize; TimeUnit::ALL.len()],
}

impl<'a> TimeSamples<'a> {
    /// Returns an empty collection for an input.
    #[must_use]
    pub fn new(decoder: &'a Decoder) -> Self {
        Self { decoder, fitting: [0; TimeUnit::ALL.len()] }
    }

    /// Adds a record. Tombstones and records without a readable time say nothing.
    pub fn add(&mut self, record: &Record) {
        let Some(format) = &self.decoder.format().time else {
            return;
        };
        let Some(value) = &record.value else { return };
        let Ok([_, found]) = self.decoder.found(value) else {
            return;
        };
        let RawTime::Text(text) = time::raw(&format.from, record, found) else {
            return;
        };
        for (unit, count) in TimeUnit::ALL.into_iter().zip(&mut self.fitting) {
            match time::in_unit(&text, unit) {
                Reading::Time(time) if format.valid.contains(&time) => *count += 1,
                Reading::Time(_) | Reading::OutOfBits | Reading::Unreadable => {}
            }
        }
    }

    /// Returns a hint when another unit fits more of the records than the configured one.
    #[must_use]
    pub fn hint(&self) -> Option<TimeHint> {
        let format = self.decoder.format().time.as_ref()?;
        let counted = || TimeUnit::ALL.into_iter().zip(self.fitting);
        let fitting_configured =
            counted().find(|(unit, _)| *unit == format.unit).map_or(0, |(_, count)| count);
        let (unit, fitting) = counted().max_by_key(|(_, count)| *count)?;
        (fitting > fitting_configured).then(|| TimeHint {
            from: format.from.clone(),
            unit,
            fitting,
            fitting_configured,
        })
    }
}
