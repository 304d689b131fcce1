//! One transaction of a lane, request by request, as the adapter on librdkafka makes it.

use std::sync::{MutexGuard, PoisonError};

use bytes::Bytes;
use dovetail_core::{
    log::Transaction,
    output::Target,
    record::{Record, Source},
};

use super::SimLog;
use crate::{
    bugs::Bug,
    faults::Point,
    history::place_of,
    job::DEAD_LETTERS,
    kafka::{Answer, OffsetEntry, Place, Request},
    world::Connection,
};

/// How often a request of a transaction is sent.
pub(crate) const SENDS_MAX: u32 = 3;

/// Why a transaction is not known to be committed.
pub(super) enum Failed {
    Fenced,
    Doubt(&'static str),
}

impl SimLog {
    /// Sends a request of the transaction; what is lost is sent again, as librdkafka does.
    fn send(&mut self, request: &Request) -> Result<Answer, Failed> {
        let mut sends = 0;
        let sends_max = if self.has(Bug::RetryOnSameProducer) { 1 } else { SENDS_MAX };
        let until = self.shared.now() + self.shared.knobs().transaction_timeout;
        while self.shared.now() < until && self.shared.is_alive(self.process) {
            match self.shared.call(self.process, &mut self.connection, request.clone()) {
                None => {
                    sends += 1;
                    if sends == sends_max {
                        break;
                    }
                    self.connection = Connection::default();
                    self.is_suspect = !self.has(Bug::SuspectUsedAgain);
                }
                Some(Answer::Away | Answer::Concurrent) => self.shared.sleep(self.process, 20),
                Some(Answer::Fenced) => return Err(Failed::Fenced),
                Some(Answer::Invalid) => return Err(Failed::Doubt("invalid transaction state")),
                Some(answer) => return Ok(answer),
            }
        }
        Err(Failed::Doubt("no answer"))
    }

    pub(super) fn reach(&self, point: Point) -> Result<(), Failed> {
        match self.shared.point(self.process, point) {
            true => Ok(()),
            false => Err(Failed::Doubt("this process is dead")),
        }
    }

    fn add(&mut self, epoch: u32, places: Vec<Place>) -> Result<(), Failed> {
        self.send(&Request::Add { lane: self.lane, epoch, places }).map(drop)
    }

    fn produce(&mut self, epoch: u32, place: Place, records: Vec<Record>) -> Result<i64, Failed> {
        self.sequence += 1;
        let calls = match place {
            Place::Journal(_) => std::mem::take(&mut *self.lock_calls()),
            Place::Input(..) | Place::Output(..) | Place::Offsets => Vec::new(),
        };
        let (lane, sequence) = (self.lane, self.sequence);
        let request = Request::Produce { lane, epoch, place, records, sequence, calls };
        match self.send(&request)? {
            Answer::Produced(first) => Ok(first),
            _ => Err(Failed::Doubt("an unexpected answer")),
        }
    }

    pub(super) fn lock_calls(&self) -> MutexGuard<'_, Vec<crate::job::Call>> {
        self.calls.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn end(&mut self, epoch: u32) -> Result<(), Failed> {
        self.send(&Request::End { lane: self.lane, epoch, is_commit: true }).map(drop)
    }

    fn offsets(&self, transaction: &Transaction<'_>) -> Vec<OffsetEntry> {
        let shift = i64::from(self.has(Bug::OffsetsOffByOne));
        let text = transaction.metadata.to_string();
        // Those of the broadcast input come last and are no offsets.
        let sources = self.keyed().zip(transaction.positions);
        let entry = |(source, position): (&Source, &i64)| {
            ((source.input.0, source.partition.0), position + shift, text.clone())
        };
        sources.map(entry).collect()
    }

    fn commit_once(&mut self, transaction: &Transaction<'_>) -> Result<i64, Failed> {
        let epoch = self.epoch.ok_or(Failed::Doubt("not acquired"))?;
        if self.is_suspect {
            return Err(Failed::Doubt("a connection was lost"));
        }
        let outputs = outputs(transaction);
        if outputs.is_empty() && self.has(Bug::EmptyCommitTaken) {
            return Ok(self.shared.journal_end(self.lane));
        }
        if !outputs.is_empty() {
            self.add(epoch, outputs.iter().map(|(place, _)| *place).collect())?;
        }
        self.reach(Point::Begun)?;
        let are_lost = self.has(Bug::EmptyOutputs);
        for (place, records) in outputs.clone().into_iter().filter(|_| !are_lost) {
            self.produce(epoch, place, records)?;
        }
        self.reach(Point::Produced)?;
        if self.has(Bug::OutputsWithoutOffsets) && !outputs.is_empty() {
            self.end(epoch)?;
        }
        let journal = Place::Journal(self.lane);
        self.add(epoch, vec![journal, Place::Offsets])?;
        let chunk = |chunk: &Vec<u8>| Record {
            value: Some(Bytes::copy_from_slice(chunk)),
            ..Record::default()
        };
        let chunks: Vec<Record> = transaction.chunks.iter().map(chunk).collect();
        let count = i64::try_from(chunks.len()).unwrap_or(0);
        let first = self.produce(epoch, journal, chunks)?;
        self.reach(Point::Journaled)?;
        if !self.has(Bug::OffsetsLeftOut) {
            let offsets = self.offsets(transaction);
            self.send(&Request::Offsets { lane: self.lane, epoch, offsets })?;
        }
        self.reach(Point::OffsetsSent)?;
        self.end(epoch)?;
        if self.has(Bug::OpenAcrossTurns) {
            self.add(epoch, vec![Place::Journal(self.lane)])?;
        }
        self.reach(Point::Committed)?;
        Ok(first + count)
    }

    pub(super) fn commit_with_bugs(
        &mut self,
        transaction: &Transaction<'_>,
    ) -> Result<i64, Failed> {
        if self.has(Bug::ApplyBeforeCommit) {
            self.shared.apply_early(self.process, self.lane, transaction.chunks);
        }
        if self.has(Bug::ExpiredByOpenEpoch) {
            self.shared.compact_early(self.process, self.lane, transaction.chunks);
        }
        let calls = self.lock_calls().clone();
        let result = self.commit_once(transaction);
        match result {
            Err(Failed::Doubt(_)) if self.has(Bug::RetryOnSameProducer) && self.epoch.is_some() => {
                *self.lock_calls() = calls;
                self.is_suspect = false;
                let epoch = self.epoch.unwrap_or(0);
                let request = Request::End { lane: self.lane, epoch, is_commit: false };
                drop(self.send(&request));
                self.is_suspect = false;
                self.commit_once(transaction)
            }
            Err(Failed::Doubt(_)) if self.has(Bug::DoubtTakenAsCommitted) => {
                Ok(self.shared.journal_end(self.lane))
            }
            result => result,
        }
    }
}

/// Outputs by place, in order.
fn outputs(transaction: &Transaction<'_>) -> Vec<(Place, Vec<Record>)> {
    let mut outputs: Vec<(Place, Vec<Record>)> = Vec::new();
    for record in transaction.outputs.iter() {
        let output = match record.target {
            Target::Output(output) => output,
            Target::DeadLetters => DEAD_LETTERS,
        };
        let place = place_of(output, record.key.unwrap_or_default());
        let copy = Record {
            offset: 0,
            timestamp: record.time,
            key: record.key.map(Bytes::copy_from_slice),
            value: record.value.map(Bytes::copy_from_slice),
            headers: record.headers.clone(),
        };
        match outputs.iter_mut().find(|(other, _)| *other == place) {
            Some((_, records)) => records.push(copy),
            None => outputs.push((place, vec![copy])),
        }
    }
    outputs
}
