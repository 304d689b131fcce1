//! Emitting to outputs, within what their topics accept.

use super::{Context, ContextError, Subject};
use crate::{
    dead_letter::late_headers,
    key::Key,
    options::OutputOptions,
    output::{OutputRecord, Target},
    plugin::{CallFailure, FailureKind},
    record::{Header, Headers},
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

impl Context {
    /// Emits a record to the output of that place in `describe`.
    ///
    /// # Errors
    ///
    /// When the output is unknown, the call emits too much, or the topic would refuse the record.
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
        let target = self.check(output, key, value, headers)?;
        self.outputs.push(OutputRecord { target, key, value, headers, time });
        Ok(())
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
        let target = self.check(output, key, value, &headers)?;
        self.outputs.push(OutputRecord { target, key, value, headers: &headers, time });
        Ok(())
    }

    fn check(
        &mut self,
        output: u32,
        key: Option<&[u8]>,
        value: Option<&[u8]>,
        headers: &Headers,
    ) -> Result<Target, ContextError> {
        let declared = self.descriptor.outputs.len();
        let place = u16::try_from(output).unwrap_or(u16::MAX);
        let options = self.output_options.get(usize::from(place));
        let Some(options) = options.filter(|_| usize::from(place) < declared) else {
            return Err(ContextError::limit(format!(
                "output number {output} is unknown: `describe` names {declared} outputs"
            )));
        };
        let size = record_size(key, value, headers);
        if let Some(message) = refusal(options, key, size) {
            let kind = FailureKind::OutputRefused;
            return Err(ContextError::Refused(CallFailure { kind, message }));
        }
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
        Ok(Target::Output(place))
    }
}

/// What a header costs on the wire besides its bytes.
const HEADER_OVERHEAD_BYTES: usize = 10;

/// Returns the bytes that count against an output's limits.
pub(crate) fn record_size(key: Option<&[u8]>, value: Option<&[u8]>, headers: &Headers) -> usize {
    let headers = headers.as_slice().iter();
    let size = |header: &Header| {
        HEADER_OVERHEAD_BYTES
            + header.name.len()
            + header.value.as_ref().map_or(0, bytes::Bytes::len)
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
