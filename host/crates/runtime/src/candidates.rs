//! The checkpoints of a lane while it is acquired: which are there, and which one comes next.
//!
//! Decides nothing: [`dovetail_core::recovery::decide`] says whether the next one is restored or
//! passed over.

use std::sync::Arc;

use dovetail_core::{
    checkpoint::{CheckpointError, CheckpointId, CheckpointStore, Manifest},
    epoch::{Epoch, LaneId},
    identity::Identity,
    recovery::CheckpointFacts,
    state::StoreError,
};

use crate::{
    checkpoint::{RestoreError, restore},
    setup::{CheckpointSetup, OpenStore},
};

/// What is known of a lane's checkpoints.
pub(crate) struct Candidates {
    store: Option<Arc<dyn CheckpointStore>>,
    lane: LaneId,
    /// Why the store could not be asked.
    pub(crate) unknown: Option<CheckpointError>,
    newest: Option<Epoch>,
    /// Those behind the current one, oldest first.
    rest: Vec<CheckpointId>,
    current: Option<Manifest>,
}

impl Candidates {
    /// Looks for the checkpoints of a lane.
    pub(crate) fn look(setup: Option<&CheckpointSetup>, lane: LaneId) -> Self {
        let store = setup.map(|setup| Arc::clone(&setup.store));
        let mut found =
            Self { store, lane, unknown: None, newest: None, rest: Vec::new(), current: None };
        let Some(store) = found.store.clone() else { return found };
        match store.list(lane) {
            Ok(ids) => {
                found.newest = ids.first().map(|id| id.epoch);
                found.rest = ids.into_iter().rev().collect();
                found.next(store.as_ref());
            }
            Err(error) => found.unknown = Some(error),
        }
        found
    }

    pub(crate) fn facts(&self) -> CheckpointFacts {
        CheckpointFacts {
            is_unknown: self.unknown.is_some(),
            newest: self.newest,
            candidate: self.current.as_ref().map(Manifest::fact),
        }
    }

    /// Returns where the journal goes on behind the current one.
    pub(crate) fn journal_next(&self) -> Option<i64> {
        self.current.as_ref().map(|manifest| manifest.journal_next)
    }

    /// Returns the pipeline's identity, as the newest one that can be read says.
    pub(crate) fn identity(&self) -> Option<&Identity> {
        self.current.as_ref().map(|manifest| &manifest.identity)
    }

    /// Returns the current one.
    pub(crate) fn current(&self) -> Option<&Manifest> {
        self.current.as_ref()
    }

    /// Returns the current one.
    pub(crate) fn into_current(self) -> Option<Manifest> {
        self.current
    }

    /// Goes on to the one of that name; returns whether it is there and can be read.
    pub(crate) fn choose(&mut self, name: &str) -> bool {
        while self.current.as_ref().is_some_and(|manifest| manifest.id.to_string() != name) {
            self.pass_over("another one was chosen");
        }
        self.current.is_some()
    }

    /// Goes on to the one before.
    pub(crate) fn pass_over(&mut self, why: &str) {
        let name = self.current.take().map(|manifest| manifest.id.to_string());
        let name = name.unwrap_or_default();
        tracing::warn!(lane = self.lane.0, "checkpoint {name} is not restored: {why}");
        if let Some(store) = self.store.clone() {
            self.next(store.as_ref());
        }
    }

    fn next(&mut self, store: &dyn CheckpointStore) {
        while let Some(id) = self.rest.pop() {
            match store.manifest(id) {
                Ok(manifest) => {
                    self.current = Some(manifest);
                    return;
                }
                Err(error @ CheckpointError::Unavailable { .. }) => {
                    self.unknown = Some(error);
                    return;
                }
                Err(error) => {
                    tracing::warn!(lane = self.lane.0, "checkpoint {id} cannot be used: {error}");
                }
            }
        }
    }

    /// Brings the current one back into the place of the lane's closed store. Returns why it must
    /// be passed over, where it is damaged.
    ///
    /// # Errors
    ///
    /// When the store or the disk fails, which may pass.
    pub(crate) fn restore(
        &self,
        stores: &mut dyn OpenStore,
        progress: &mut dyn FnMut(),
    ) -> Result<Option<String>, RestoreError> {
        let (Some(store), Some(manifest)) = (&self.store, &self.current) else {
            let what = "there is no checkpoint to restore".to_owned();
            return Err(StoreError::Unavailable(what).into());
        };
        tracing::info!(
            lane = self.lane.0,
            epoch = manifest.id.epoch.0,
            bytes = manifest.bytes(),
            "restoring from the checkpoint store {}",
            store.place()
        );
        match restore(store.as_ref(), manifest, stores.restore()?, progress) {
            Ok(()) => Ok(None),
            Err(RestoreError::Store(
                error @ (CheckpointError::Corrupt { .. } | CheckpointError::Missing { .. }),
            )) => Ok(Some(error.to_string())),
            Err(error) => Err(error),
        }
    }
}
