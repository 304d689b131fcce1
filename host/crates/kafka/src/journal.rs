//! Reads a lane's journal partition, with a client of its own.
//!
//! Needs no ownership: a lane that was fenced looks here for its successor. Invariant: what is
//! visited is committed, in order, and reaches the end known at the start.

use std::{
    ops::ControlFlow,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, Instant},
};

use bytes::Bytes;
use dovetail_core::log::LogError;
use rdkafka_sys::types::RDKafkaErrorCode as Code;

use crate::{
    failure::of_call,
    ffi::{Batch, Client, ClientEvent, Kind, Offsets, Signal, c_text},
    offsets,
    options::LaneLogOptions,
    producer::log_line,
    settings::{self, REQUEST_TIMEOUT},
};

/// How long nothing may come before the read is given up.
const PATIENCE: Duration = Duration::from_secs(30);

/// How long the end may lie before the wanted offset: a new leader learns of it late.
const END_PATIENCE: Duration = Duration::from_secs(3);

const WAIT_STEP: Duration = Duration::from_millis(50);
const BATCH_RECORDS: usize = 100;

/// Visits the records from `from` on; returns the end. Gives up when the lane is to stop.
pub(crate) fn read(
    options: &LaneLogOptions,
    stopping: &AtomicBool,
    from: i64,
    visit: &mut dyn FnMut(i64, Bytes) -> ControlFlow<()>,
) -> Result<i64, LogError> {
    let signal = Signal::new().map_err(|error| LogError::Doubt(error.to_string()))?;
    let signal = Arc::new(signal);
    let mut client =
        Client::new(Kind::Consumer, &settings::journal(options)).map_err(LogError::Config)?;
    client.signal_to(&signal);
    let topic = c_text(&options.journal_topic).map_err(LogError::Config)?;
    let partition = i32::from(options.lane.0);
    let deadline = Instant::now() + END_PATIENCE;
    let (low, end) = loop {
        let (low, end) = offsets::watermarks(&client, &topic, partition)
            .map_err(|f| of_call("asking for the end of the journal", &f))?;
        if end >= from || Instant::now() >= deadline {
            break (low, end);
        }
        signal.wait(WAIT_STEP);
    };
    let start = from.max(low);
    if start >= end {
        return Ok(end);
    }
    let mut queue = client
        .partition_queue(&topic, partition)
        .ok_or_else(|| LogError::Doubt("librdkafka gave no queue for the journal".to_owned()))?;
    queue.signal_to(&signal);
    // Who leads the partition: librdkafka would ask within a second.
    client.fetch_metadata(REQUEST_TIMEOUT).map_err(|f| of_call("looking for the journal", &f))?;
    let mut list = Offsets::with_room(1).map_err(LogError::Doubt)?;
    list.add(&topic, partition, start, "");
    client.assign(&list).map_err(|f| of_call("assigning the journal", &f))?;
    let mut batch = Batch::with_room(BATCH_RECORDS);
    let mut deadline = Instant::now() + PATIENCE;
    let mut outage = String::new();
    loop {
        if stopping.load(Ordering::Relaxed) {
            let what = "the lane is to stop while its journal is read";
            return Err(LogError::Doubt(what.to_owned()));
        }
        if queue.take_batch(&mut batch) > 0 {
            deadline = Instant::now() + PATIENCE;
            if visit_batch(&batch, end, visit)?.is_break() {
                return Ok(end);
            }
            continue;
        }
        client.events(Duration::ZERO, &mut |event| match event {
            ClientEvent::Log { level, facility, text } => log_line(level, &facility, &text),
            ClientEvent::Error { text, .. } => outage = text,
            ClientEvent::Undelivered { .. } => {}
        });
        if Instant::now() >= deadline {
            return Err(LogError::Doubt(format!(
                "{}[{partition}] brought nothing for {} s before its end {end} {outage}",
                options.journal_topic,
                PATIENCE.as_secs()
            )));
        }
        signal.wait(WAIT_STEP);
    }
}

/// Returns `Break` when the end is reached or nothing more is wanted.
fn visit_batch(
    batch: &Batch,
    end: i64,
    visit: &mut dyn FnMut(i64, Bytes) -> ControlFlow<()>,
) -> Result<ControlFlow<()>, LogError> {
    for message in batch.iter() {
        let offset = message.offset();
        match message.error() {
            None => {
                if offset >= end {
                    return Ok(ControlFlow::Break(()));
                }
                let value = Bytes::copy_from_slice(message.value().unwrap_or_default());
                if visit(offset, value).is_break() || offset + 1 >= end {
                    return Ok(ControlFlow::Break(()));
                }
            }
            // The end may lie behind control markers, which are no records.
            Some(Code::PartitionEOF) if offset >= end => return Ok(ControlFlow::Break(())),
            Some(Code::PartitionEOF) => {}
            Some(code) => {
                let text = message.error_text();
                return Err(LogError::Doubt(format!("reading the journal: {text} ({code:?})")));
            }
        }
    }
    Ok(ControlFlow::Continue(()))
}
