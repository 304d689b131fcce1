//! Handling records: judging them, calling the plugin, keeping what failed.

use std::hash::BuildHasher;

use foldhash::fast::FixedState;

use super::{Effects, Lane, StopCause, counts::SAMPLES_MAX, fire::timer_record};
use crate::{
    context::{
        Context, Current, Subject,
        emit::{Refused, record_size, refusal},
    },
    copartition::{KeySample, SAMPLE_ONE_IN},
    dead_letter::{self, Origin, Reason},
    epoch::Continuation,
    key::Key,
    options::{LatePolicy, NullKeyPolicy},
    output::{OutputRecord, Target},
    plugin::{CallFailure, CallResult},
    record::{DecodedRecord, Decoding, InputIndex, Record, Source},
    time::EventTime,
};

impl Lane {
    /// Handles a record that was taken.
    pub(super) fn handle(
        &mut self,
        source: Source,
        decoded: DecodedRecord,
        is_skewed: bool,
        effects: &mut Effects,
    ) {
        let now = self.now();
        let input = usize::from(source.input.0);
        let size = decoded.size_bytes();
        let counts = &mut self.counts.inputs[input];
        counts.records += 1;
        counts.bytes += size as u64;
        counts.skew_ignored += u64::from(is_skewed);
        self.counts.records += 1;
        self.flood.record(now);
        let DecodedRecord { record, decoding } = decoded;
        match decoding {
            Decoding::Rejected { reason, message } => {
                self.reject(source, &record, None, reason, &message, effects);
            }
            Decoding::Ready { key, time } if self.options.inputs[input].is_broadcast => {
                self.process(source, record, key, (time, None), effects);
            }
            Decoding::Ready { key: Some(key), time } => {
                self.sample(source, &key);
                self.judge(source, record, Some(key), time, effects);
            }
            Decoding::Ready { key: None, time } => match self.options.inputs[input].null_key {
                NullKeyPolicy::DeadLetter => {
                    let message = "expected a key, found null: a null key equals nothing \
                                   (`null_key: drop` or `process` takes it otherwise)";
                    self.reject(source, &record, time, Reason::NullKey, message, effects);
                }
                NullKeyPolicy::Drop => self.counts.inputs[input].dropped_null_key += 1,
                NullKeyPolicy::Process => self.judge(source, record, None, time, effects),
            },
        }
    }

    fn sample(&mut self, source: Source, key: &Key) {
        let hash = FixedState::default().hash_one(key.as_bytes());
        if hash.is_multiple_of(SAMPLE_ONE_IN) && self.counts.samples.len() < SAMPLES_MAX {
            let (input, partition) = (source.input, source.partition);
            // A copy: the key itself holds the whole batch that it came in.
            let key = Key::new(bytes::Bytes::copy_from_slice(key.as_bytes()));
            self.counts.samples.push(KeySample { input, partition, key });
        }
    }

    /// Late or not, then what the input's options say.
    fn judge(
        &mut self,
        source: Source,
        record: Record,
        key: Option<Key>,
        time: Option<EventTime>,
        effects: &mut Effects,
    ) {
        let input = usize::from(source.input.0);
        let watermark = self.context().clocks.watermark;
        let late_by = time.filter(|time| *time <= watermark);
        if let Some(time) = late_by {
            self.counts.inputs[input].late += 1;
            match self.options.inputs[input].late {
                LatePolicy::Process => {}
                LatePolicy::Drop => {
                    self.counts.inputs[input].dropped_late += 1;
                    return;
                }
                LatePolicy::SideOutput => {
                    self.divert_late(source, record, time, watermark, effects);
                    return;
                }
            }
        }
        self.process(source, record, key, (time, late_by), effects);
    }

    /// Hands a record to the plugin.
    fn process(
        &mut self,
        source: Source,
        record: Record,
        key: Option<Key>,
        (time, late_by): (Option<EventTime>, Option<EventTime>),
        effects: &mut Effects,
    ) {
        let input = usize::from(source.input.0);
        let current = Current {
            subject: Subject::Record {
                input: source.input,
                role: self.options.roles[input],
                record,
                time,
                is_late: late_by.is_some(),
                is_broadcast: self.options.inputs[input].is_broadcast,
            },
            key,
            partition: source.partition,
            event_time: time,
        };
        self.call(current, effects);
    }

    fn divert_late(
        &mut self,
        source: Source,
        record: Record,
        time: EventTime,
        watermark: EventTime,
        effects: &mut Effects,
    ) {
        let Some(late) = self.options.late_output else { return };
        let name = &self.options.inputs[usize::from(source.input.0)].name;
        let headers = dead_letter::late_headers(&record, name, time, watermark);
        let (key, value) = (record.key.as_deref(), record.value.as_deref());
        let size = record_size(key, value, &headers);
        if let Some(message) = refusal(&self.options.outputs[usize::from(late)], key, size) {
            self.reject(source, &record, Some(time), Reason::OutputRefused, &message, effects);
            return;
        }
        let target = Target::Output(late);
        let time = Some(time);
        let outputs = &mut self.context_mut().outputs;
        outputs.push(OutputRecord { target, key, value, headers: &headers, time });
    }

    /// Calls the plugin about `current`: once, or twice after a failure that is retried.
    pub(super) fn call(&mut self, current: Current, effects: &mut Effects) {
        let mut current = current;
        let mut attempt = 1;
        loop {
            let result = self.call_once(current);
            if let Some(error) = self.context_mut().take_store_failure() {
                self.stop(StopCause::Store(error), effects);
                return;
            }
            current = std::mem::replace(&mut self.context_mut().current, Current::none());
            let Err(failure) = result else { break };
            self.counts.failure(failure.kind.reason());
            if failure.kind.is_retried() && attempt == 1 {
                self.function.renew();
                attempt += 1;
                continue;
            }
            self.give_up(&current, &failure, attempt, effects);
            return;
        }
        let refused = self.context_mut().take_refused();
        for result in &refused {
            self.keep_refused(&current, result, attempt);
        }
        // However many one call has refused, a flood is about calls: else a single timer could stop
        // the pipeline, and again after each restart.
        if let Some(first) = refused.first() {
            self.watch_flood(Reason::OutputRefused, &first.message, effects);
        }
        if let Some(tag) = self.context_mut().take_continuation()
            && let Some(key) = current.key
        {
            let (partition, event_time) = (current.partition, current.event_time);
            self.continuation = Some(Continuation { key, partition, tag, event_time });
        }
    }

    fn call_once(&mut self, current: Current) -> CallResult {
        self.counts.calls += 1;
        let mut context = self.context.take().expect("calls do not nest");
        context.begin_call(current);
        let function = &mut self.function;
        let (context, result): (Box<Context>, CallResult) = match context.current().subject {
            Subject::Record { is_broadcast: true, .. } => function.process_broadcast(context),
            Subject::Record { .. } => function.process_element(context),
            Subject::Timer { .. } | Subject::None => function.on_timer(context),
        };
        self.context = Some(context);
        if result.is_err() {
            self.context_mut().undo_call();
        }
        result
    }

    /// Keeps a result that its topic would refuse: whole, and by itself.
    fn keep_refused(&mut self, current: &Current, refused: &Refused, attempt: u32) {
        let Refused { result, time, message } = refused;
        let current = Current { event_time: *time, ..current.clone() };
        let reason = Reason::OutputRefused;
        self.timer_dead_letter(&current, result, reason, message, attempt);
    }

    fn give_up(
        &mut self,
        current: &Current,
        failure: &CallFailure,
        attempt: u32,
        effects: &mut Effects,
    ) {
        let reason = failure.kind.reason();
        let Subject::Record { input, record, .. } = &current.subject else {
            let timer = timer_record(current);
            self.timer_dead_letter(current, &timer, reason, &failure.message, attempt);
            self.watch_flood(reason, &failure.message, effects);
            return;
        };
        self.counts.dead_letter(usize::from(input.0), reason);
        let (record, input) = (record.clone(), *input);
        let message = &failure.message;
        self.push_dead_letter(&record, current, Some(input), reason, message, attempt);
        self.watch_flood(reason, message, effects);
    }

    /// Keeps a record that never reached the plugin.
    fn reject(
        &mut self,
        source: Source,
        record: &Record,
        time: Option<EventTime>,
        reason: Reason,
        message: &str,
        effects: &mut Effects,
    ) {
        self.counts.dead_letter(usize::from(source.input.0), reason);
        let current = Current { partition: source.partition, event_time: time, ..Current::none() };
        let input = Some(source.input);
        self.push_dead_letter(record, &current, input, reason, message, 0);
        self.watch_flood(reason, message, effects);
    }

    pub(super) fn push_dead_letter(
        &mut self,
        record: &Record,
        current: &Current,
        input: Option<InputIndex>,
        reason: Reason,
        message: &str,
        attempt: u32,
    ) {
        let input = input.map(|input| &self.options.inputs[usize::from(input.0)]);
        let origin = Origin {
            pipeline: &self.options.pipeline,
            input: input.map_or("", |input| &input.name),
            topic: input.map_or("", |input| &input.topic),
            partition: current.partition,
            event_time: current.event_time,
            watermark: self.context().clocks.watermark,
            plugin_digest: &self.revision,
            attempt,
        };
        let headers = dead_letter::headers(record, reason, message, &origin);
        let time = current.event_time;
        self.context_mut().outputs.push(OutputRecord {
            target: Target::DeadLetters,
            key: record.key.as_deref(),
            value: record.value.as_deref(),
            headers: &headers,
            time,
        });
        self.counts.dead_letter_message(reason, message);
    }

    /// Counts what became a dead letter, and stops the pipeline when too much does.
    pub(super) fn watch_flood(&mut self, reason: Reason, message: &str, effects: &mut Effects) {
        let now = self.now();
        if let Some(cause) = self.flood.dead_letter(now, reason, message) {
            self.stop(cause, effects);
        }
    }
}
