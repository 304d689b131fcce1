//! Emitting to outputs, within what their topics accept.

use bytes::Bytes;

use super::{Context, ContextError, Subject};
use crate::{
    dead_letter::late_headers,
    key::Key,
    options::OutputOptions,
    output::{OutputRecord, Target},
    plugin::{CallFailure, FailureKind},
    record::{Header, Headers, Record},
    time::EventTime,
};

/// The key of an emitted record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OutputKey<'a> {
    /// The current key.
    Current,
    /// These bytes.
    Bytes(&'a [u8]),
}

/// A result of a timer that its topic would refuse.
#[derive(Debug)]
pub(crate) struct Refused {
    /// The result: key, value and headers.
    pub(crate) result: Record,
    /// Its event time.
    pub(crate) time: Option<EventTime>,
    /// Why it is refused.
    pub(crate) message: String,
}

impl Context {
    /// Emits a record to the output of that place in `describe`.
    ///
    /// One that the topic would refuse fails the call of a record, which is kept for it. A timer is
    /// consumed, and what it works through is often not stored again: there the refused result
    /// itself is kept, and the call goes on.
    ///
    /// # Errors
    ///
    /// When the output is unknown, the call emits too much, or the topic would refuse a result of a
    /// record.
    pub fn emit(
        &mut self,
        output: u32,
        key: OutputKey<'_>,
        value: Option<&[u8]>,
        headers: &Headers,
        time: Option<EventTime>,
    ) -> Result<(), ContextError> {
        let current;
        let key = match key {
            OutputKey::Current => {
                current = self.current.key.clone();
                current.as_ref().map(Key::as_bytes)
            }
            OutputKey::Bytes(bytes) => Some(bytes),
        };
        let (target, refused) = self.check(output, key, value, headers)?;
        match refused {
            None => self.outputs.push(OutputRecord { target, key, value, headers, time }),
            Some(message) if matches!(self.current.subject, Subject::Timer { .. }) => {
                let result = Record {
                    offset: -1,
                    timestamp: None,
                    key: key.map(Bytes::copy_from_slice),
                    value: value.map(Bytes::copy_from_slice),
                    headers: headers.clone(),
                };
                self.call_refused.push(Refused { result, time, message });
            }
            Some(message) => return Err(output_refused(message)),
        }
        Ok(())
    }

    /// Returns the results that their topics would refuse, of a call that is over.
    pub(crate) fn take_refused(&mut self) -> Vec<Refused> {
        std::mem::take(&mut self.call_refused)
    }

    /// Emits the current record unchanged: original key, value and headers, its own event time.
    /// Forwarded to the output `late` while late, it carries the host's headers about lateness.
    ///
    /// # Errors
    ///
    /// As [`Context::emit`]; also when a timer is handled, since there is no record.
    pub fn forward(&mut self, output: u32) -> Result<(), ContextError> {
        let Subject::Record { input, record, time, is_late, .. } = &self.current.subject else {
            return Err(ContextError::limit("only a record can be forwarded, not a timer"));
        };
        let (record, time) = (record.clone(), *time);
        let is_late_output = self.late_output.is_some_and(|late| u32::from(late) == output);
        let headers = match time {
            Some(time) if is_late_output && *is_late => {
                let input = self.input_names.get(usize::from(input.0)).map_or("", String::as_str);
                late_headers(&record, input, time, self.clocks.watermark)
            }
            Some(_) | None => record.headers.clone(),
        };
        let (key, value) = (record.key.as_deref(), record.value.as_deref());
        let (target, refused) = self.check(output, key, value, &headers)?;
        if let Some(message) = refused {
            return Err(output_refused(message));
        }
        self.outputs.push(OutputRecord { target, key, value, headers: &headers, time });
        Ok(())
    }

    /// Counts a record against the call's limits; returns where it goes, and why that would refuse
    /// it.
    fn check(
        &mut self,
        output: u32,
        key: Option<&[u8]>,
        value: Option<&[u8]>,
        headers: &Headers,
    ) -> Result<(Target, Option<String>), ContextError> {
        let declared = self.descriptor.outputs.len();
        let place = u16::try_from(output).unwrap_or(u16::MAX);
        let options = self.output_options.get(usize::from(place));
        let Some(options) = options.filter(|_| usize::from(place) < declared) else {
            return Err(ContextError::limit(format!(
                "output number {output} is unknown: `describe` names {declared} outputs"
            )));
        };
        let size = record_size(key, value, headers);
        let refused = refusal(options, key, size);
        self.call.outputs += 1;
        self.call.output_bytes += size as u64;
        if self.call.outputs > self.limits.outputs_max {
            let max = self.limits.outputs_max;
            return Err(ContextError::limit(format!("a call may emit {max} records")));
        }
        if self.call.output_bytes > self.limits.output_bytes_max {
            let max = self.limits.output_bytes_max;
            return Err(ContextError::limit(format!("a call may emit {max} bytes")));
        }
        Ok((Target::Output(place), refused))
    }
}

fn output_refused(message: String) -> ContextError {
    ContextError::Refused(CallFailure { kind: FailureKind::OutputRefused, message })
}

/// What a header costs on the wire besides its bytes.
const HEADER_OVERHEAD_BYTES: usize = 10;

/// Returns the bytes that count against an output's limits.
pub(crate) fn record_size(key: Option<&[u8]>, value: Option<&[u8]>, headers: &Headers) -> usize {
    let headers = headers.as_slice().iter();
    let size = |header: &Header| {
        HEADER_OVERHEAD_BYTES + header.name.len() + header.value.as_ref().map_or(0, Bytes::len)
    };
    key.map_or(0, <[u8]>::len) + value.map_or(0, <[u8]>::len) + headers.map(size).sum::<usize>()
}

/// Returns why the topic behind an output would refuse a record.
pub(crate) fn refusal(options: &OutputOptions, key: Option<&[u8]>, size: usize) -> Option<String> {
    if size > options.max_record_bytes {
        return Some(format!(
            "output `{}`: a record of {size} bytes is larger than topic {} takes ({} bytes)",
            options.name, options.topic, options.max_record_bytes
        ));
    }
    (options.requires_key && key.is_none()).then(|| {
        format!(
            "output `{}`: topic {} is compacted and takes no record without key",
            options.name, options.topic
        )
    })
}
