//! What the open epoch has done, for the report that is published when it commits.

use super::{EpochReport, InputCounts};
use crate::{copartition::KeySample, dead_letter::Reason};

/// Sampled keys kept per epoch.
pub(super) const SAMPLES_MAX: usize = 256;

#[derive(Debug, Default)]
pub(super) struct Counts {
    pub(super) inputs: Vec<InputCounts>,
    pub(super) timer_dead_letters: Vec<(Reason, u64)>,
    pub(super) dead_letter_messages: Vec<(Reason, String)>,
    pub(super) timers_fired: u64,
    /// Steps of calls that continue.
    pub(super) continuations: u64,
    pub(super) calls: u64,
    pub(super) failures: Vec<(Reason, u64)>,
    pub(super) samples: Vec<KeySample>,
    pub(super) records: u32,
    outputs: usize,
}

impl Counts {
    pub(super) fn new(inputs: usize, outputs: usize) -> Self {
        Self { inputs: vec![InputCounts::default(); inputs], outputs, ..Self::default() }
    }

    /// Returns how much work the epoch holds: records, firings and steps.
    pub(super) fn work(&self) -> u64 {
        u64::from(self.records) + self.timers_fired + self.continuations
    }

    pub(super) fn failure(&mut self, reason: Reason) {
        add(&mut self.failures, reason);
    }

    pub(super) fn dead_letter(&mut self, input: usize, reason: Reason) {
        add(&mut self.inputs[input].dead_letters, reason);
    }

    /// Keeps the last message of each reason.
    pub(super) fn dead_letter_message(&mut self, reason: Reason, message: &str) {
        match self.dead_letter_messages.iter_mut().find(|(known, _)| *known == reason) {
            Some((_, last)) => message.clone_into(last),
            None => self.dead_letter_messages.push((reason, message.to_owned())),
        }
    }

    /// Takes the counts and starts anew.
    pub(super) fn take_report(&mut self) -> EpochReport {
        let next = Self::new(self.inputs.len(), self.outputs);
        let counts = std::mem::replace(self, next);
        EpochReport {
            inputs: counts.inputs,
            outputs: vec![0; counts.outputs],
            output_bytes: vec![0; counts.outputs],
            timer_dead_letters: counts.timer_dead_letters,
            dead_letter_messages: counts.dead_letter_messages,
            timers_fired: counts.timers_fired,
            calls: counts.calls,
            failures: counts.failures,
            key_samples: counts.samples,
            ..EpochReport::default()
        }
    }
}

fn add(counts: &mut Vec<(Reason, u64)>, reason: Reason) {
    match counts.iter_mut().find(|(known, _)| *known == reason) {
        Some((_, count)) => *count += 1,
        None => counts.push((reason, 1)),
    }
}
