//! Watermarks: of one source from its records, of a lane from its sources.
//!
//! Knows nothing of Kafka or of clocks: where time is needed, it is told.

pub mod combiner;
pub mod idleness;
pub mod source;

pub use self::{combiner::Combiner, idleness::Idleness, source::SourceWatermark};
