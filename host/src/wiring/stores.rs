//! Keyed state of a lane in `state.dir`.
//!
//! Keeps: a damaged database is moved aside and filled again from the journal, never repaired.

use dovetail_core::{
    checkpoint::Restoring,
    epoch::LaneId,
    state::{ExpiryTable, StateStore, StoreError},
};
use dovetail_runtime::setup::OpenStore;
use dovetail_state::{ExpirySetter, StateDirectory};

/// Opens one lane's database.
#[derive(Debug)]
pub struct LaneStores {
    directory: StateDirectory,
    lane: LaneId,
    open: Option<ExpirySetter>,
}

impl LaneStores {
    /// Returns the opener of a lane's database in a pipeline's directory.
    #[must_use]
    pub fn new(directory: StateDirectory, lane: LaneId) -> Self {
        Self { directory, lane, open: None }
    }
}

impl OpenStore for LaneStores {
    fn open(&mut self, expiry: &ExpiryTable) -> Result<Box<dyn StateStore>, StoreError> {
        let mut store = match self.directory.open_lane(self.lane) {
            Err(StoreError::Corrupt(what)) => {
                self.set_aside(&what)?;
                self.directory.open_lane(self.lane)?
            }
            opened => opened?,
        };
        store.set_expiry(expiry.clone());
        self.open = Some(store.expiry_setter());
        Ok(Box::new(store))
    }

    fn set_expiry(&mut self, expiry: &ExpiryTable) {
        if let Some(open) = &self.open {
            open.set(expiry.clone());
        }
    }

    fn restore(&mut self) -> Result<Box<dyn Restoring + '_>, StoreError> {
        self.directory.restore_lane(self.lane).map(|restoring| restoring as Box<dyn Restoring>)
    }

    fn set_aside(&mut self, why: &str) -> Result<(), StoreError> {
        self.open = None;
        if !self.directory.lane_path(self.lane).exists() {
            return Ok(());
        }
        let aside = self
            .directory
            .quarantine(self.lane)
            .map_err(|error| StoreError::Unavailable(error.to_string()))?;
        tracing::warn!(
            lane = self.lane.0,
            "keyed state is not used any more ({why}): moved to {}",
            aside.display()
        );
        Ok(())
    }
}
