//! How many lanes there are, and what belongs to which.
//!
//! Keeps: partition p belongs to lane p mod lanes, for every keyed input, so that equal partition
//! numbers meet in one lane; every partition of a broadcast input belongs to every lane. The number is fixed at the first start: the genesis record says it.

use std::ops::ControlFlow;

use bytes::Bytes;
use dovetail_core::{
    epoch::{Epoch, EpochRecord, LaneId, chunk::Assembler, codec},
    identity::{Identity, InputIdentity},
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

/// Returns a lane's sources: those of keyed inputs by input, then partition, and behind them those of
/// broadcast inputs alike.
#[must_use]
pub fn sources(lane: LaneId, lanes: u16, inputs: &[InputIdentity]) -> Vec<Source> {
    let of = |is_broadcast: bool| {
        let inputs = (0..).map(InputIndex).zip(inputs);
        let inputs = inputs.filter(move |(_, input)| input.is_broadcast() == is_broadcast);
        inputs.flat_map(move |(index, input)| {
            let is_mine = move |partition: &u16| is_broadcast || partition % lanes == lane.0;
            let mine = (0..input.partitions).filter(is_mine);
            mine.map(move |partition| Source { input: index, partition: Partition(partition) })
        })
    };
    of(false).chain(of(true)).collect()
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
    use dovetail_core::identity::BROADCAST;

    use super::*;

    fn input(partitions: u16, key_type: &str) -> InputIdentity {
        let (name, topic) = (String::new(), String::new());
        InputIdentity { name, topic, partitions, key_type: key_type.to_owned() }
    }

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
            let sources = sources(LaneId(lane), 2, &[input(3, "string"), input(3, "string")]);
            sources.iter().map(|source| (source.input.0, source.partition.0)).collect::<Vec<_>>()
        };
        assert_eq!(of(0), [(0, 0), (0, 2), (1, 0), (1, 2)]);
        assert_eq!(of(1), [(0, 1), (1, 1)]);
    }

    #[test]
    fn every_lane_has_all_of_a_broadcast_input_behind_its_share_of_the_others() {
        let inputs = [input(3, BROADCAST), input(2, "string")];
        for (lane, mine) in [(0, (1, 0)), (1, (1, 1))] {
            let sources = sources(LaneId(lane), 2, &inputs);
            let found: Vec<_> =
                sources.iter().map(|source| (source.input.0, source.partition.0)).collect();
            assert_eq!(found, [mine, (0, 0), (0, 1), (0, 2)]);
        }
    }
}
