//! How many lanes there are, and what belongs to which.
//!
//! Keeps: partition p belongs to lane p mod lanes, for every keyed input, so that equal partition
//! numbers meet in one lane. The number is fixed at the first start: the genesis record says it.

use std::ops::ControlFlow;

use bytes::Bytes;
use dovetail_core::{
    epoch::{Epoch, EpochRecord, LaneId, chunk::Assembler, codec},
    identity::Identity,
    log::LogError,
    record::{InputIndex, Partition, Source},
};

/// The most lanes that are chosen without being asked for.
const LANES_MAX: usize = 16;

/// Returns how many lanes a new pipeline gets.
#[must_use]
pub fn count(configured: Option<u16>, partitions: u16, cores: usize) -> u16 {
    let chosen = configured.map_or_else(|| (2 * cores).min(LANES_MAX), usize::from);
    u16::try_from(chosen.min(usize::from(partitions)).max(1)).unwrap_or(u16::MAX)
}

/// Returns a lane's sources: by input, then partition.
#[must_use]
pub fn sources(lane: LaneId, lanes: u16, inputs: usize, partitions: u16) -> Vec<Source> {
    let mine = || (0..partitions).filter(|partition| partition % lanes == lane.0);
    (0..inputs)
        .flat_map(|input| {
            let input = InputIndex(u16::try_from(input).unwrap_or(u16::MAX));
            mine().map(move |partition| Source { input, partition: Partition(partition) })
        })
        .collect()
}

/// How a lane's journal begins.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Beginning {
    /// It is empty: the pipeline has never run.
    Nothing,
    /// With the genesis record, which holds the identity.
    Genesis(Identity),
    /// With a later epoch: what was before is trimmed.
    Trimmed(Epoch),
}

/// Finds out how a journal begins, from its first records.
#[derive(Debug, Default)]
pub struct BeginningReader {
    assembler: Assembler,
    found: Option<Result<Beginning, LogError>>,
}

impl BeginningReader {
    /// Takes the next journal record; breaks when it has seen enough.
    pub fn take(&mut self, offset: i64, chunk: &Bytes) -> ControlFlow<()> {
        let damaged = |what: String| {
            Err(LogError::Corrupt(format!("the journal at offset {offset}: {what}")))
        };
        self.found = match self.assembler.add(chunk) {
            Ok(None) => return ControlFlow::Continue(()),
            Ok(Some(bytes)) => Some(match codec::decode(&bytes).map(|epoch| epoch.record) {
                Ok(EpochRecord { identity: Some(identity), .. }) => {
                    Ok(Beginning::Genesis(identity))
                }
                Ok(record) => Ok(Beginning::Trimmed(record.epoch)),
                Err(error) => damaged(error.to_string()),
            }),
            Err(error) => Some(damaged(error.to_string())),
        };
        ControlFlow::Break(())
    }

    /// Returns what was found.
    ///
    /// # Errors
    ///
    /// When the journal cannot be understood.
    pub fn finish(self) -> Result<Beginning, LogError> {
        self.found.unwrap_or(Ok(Beginning::Nothing))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lanes_are_bounded_by_partitions_cores_and_sixteen() {
        assert_eq!(count(None, 4, 8), 4);
        assert_eq!(count(None, 100, 2), 4);
        assert_eq!(count(None, 100, 64), 16);
        assert_eq!(count(Some(32), 100, 2), 32);
        assert_eq!(count(Some(32), 6, 2), 6);
        assert_eq!(count(None, 0, 2), 1);
    }

    #[test]
    fn equal_partition_numbers_of_all_inputs_meet_in_one_lane() {
        let of = |lane| {
            let sources = sources(LaneId(lane), 2, 2, 3);
            sources.iter().map(|source| (source.input.0, source.partition.0)).collect::<Vec<_>>()
        };
        assert_eq!(of(0), [(0, 0), (0, 2), (1, 0), (1, 2)]);
        assert_eq!(of(1), [(0, 1), (1, 1)]);
    }
}
