//! What a pipeline reads from and writes to, seen alike for a cluster and for the embedded log.

use dovetail_core::{epoch::LaneId, log::Log, options::OutputOptions, record::Source};
use dovetail_runtime::partition_watch::CountPartitions;

use super::{lanes::Beginning, options::InputFacts, roles::Fit, sample::Sampled};
use crate::{
    config::{Loaded, model::InputConfig, report::Problem},
    failure::Failure,
};

/// What the log says before anything is read.
#[derive(Debug, Clone, Default)]
pub struct Ground {
    /// The cluster's id, or the embedded log's.
    pub cluster_id: String,
    /// How many partitions every keyed input has.
    pub partitions: u16,
    /// About each input.
    pub inputs: Vec<InputFacts>,
    /// What each configured output takes.
    pub outputs: Vec<OutputOptions>,
    /// What may hurt.
    pub warnings: Vec<String>,
}

/// A cluster, or the embedded log.
pub trait Backend {
    /// Looks at everything that is named and changes nothing.
    ///
    /// # Errors
    ///
    /// Everything that is missing or contradicts itself.
    fn survey(&mut self, loaded: &Loaded) -> Result<Ground, SurveyError>;

    /// Returns how the journal of the first lane begins: it holds the identity that was committed at
    /// the first start.
    ///
    /// # Errors
    ///
    /// When the journal cannot be read.
    fn beginning(&mut self) -> Result<Beginning, Failure>;

    /// Returns how many lanes the journal has, where its topic says it.
    ///
    /// # Errors
    ///
    /// When it cannot be asked.
    fn journal_lanes(&mut self) -> Result<Option<u16>, Failure> {
        Ok(None)
    }

    /// Makes what may be made: topics with `create: true`, the journal.
    ///
    /// # Errors
    ///
    /// When it cannot be made, or exists and differs.
    fn prepare(&mut self, loaded: &Loaded, ground: &Ground, lanes: u16) -> Result<(), Failure>;

    /// Makes the log of a lane.
    ///
    /// # Errors
    ///
    /// When it cannot be made.
    fn lane_log(
        &mut self,
        lane: LaneId,
        lanes: u16,
        sources: &[Source],
        fit: &Fit,
    ) -> Result<Box<dyn Log>, Failure>;

    /// Returns what asks how many partitions each input has; `None` where that cannot change.
    fn partition_counter(&self) -> Option<CountPartitions> {
        None
    }

    /// Reads a few of an input's newest records.
    ///
    /// # Errors
    ///
    /// When they cannot be read.
    fn sample(&mut self, input: &InputConfig, count: u32) -> Result<Sampled, Failure>;
}

/// Why the log cannot be used as configured.
#[derive(Debug)]
pub enum SurveyError {
    /// What is configured does not fit what is there.
    Problems(Vec<Problem>),
    /// It could not be asked.
    Failure(Failure),
}

impl From<Failure> for SurveyError {
    fn from(failure: Failure) -> Self {
        Self::Failure(failure)
    }
}
