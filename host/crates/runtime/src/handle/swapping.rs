//! Swapping the plugin's revision on every lane, and remembering which were seen.
//!
//! Invariant: one swap at a time; a revision is active only when every lane runs it.

use std::{sync::Arc, time::Duration};

use dovetail_core::{
    identity::Difference, lane::PluginSwitch, plugin::PluginDescriptor, state::StateId,
    time::ProcessingTime,
};

use super::{Handle, LaneCommand, LanePort, lock};
use crate::{
    clock,
    revisions::{RevisionEntry, RevisionOrigin, RevisionState, SwapError, numbers, short},
    setup::Revision,
    swap::Swap,
    telemetry,
};

/// How long all lanes may take to switch to another revision.
const SWITCH_TIMEOUT: Duration = Duration::from_secs(60);
/// How many revisions are remembered.
const REVISIONS_KEPT: usize = 100;

impl Handle {
    /// Lets every lane take over a revision between two of its epochs, with its state, and waits
    /// until all have. An instance for every lane is made before the first lane switches;
    /// `before_switch` runs in between and can prevent it.
    ///
    /// # Errors
    ///
    /// When the revision declares other states or cannot be opened (the running one goes on), or
    /// when lanes are slow (they switch later).
    pub fn swap(
        &self,
        revision: &Arc<dyn Revision>,
        origin: RevisionOrigin,
        before_switch: impl FnOnce() -> Result<(), String>,
    ) -> Result<(), SwapError> {
        self.swap_within(SWITCH_TIMEOUT, revision, origin, before_switch)
    }

    /// Like [`Self::swap`], waiting for at most that long.
    ///
    /// # Errors
    ///
    /// As [`Self::swap`].
    pub fn swap_within(
        &self,
        at_most: Duration,
        revision: &Arc<dyn Revision>,
        origin: RevisionOrigin,
        before_switch: impl FnOnce() -> Result<(), String>,
    ) -> Result<(), SwapError> {
        let _one_at_a_time = lock(&self.0.swapping);
        let digest = revision.digest().to_owned();
        let switches = match self.instantiate(revision.as_ref()) {
            Ok(switches) => switches,
            Err(error) => {
                self.refuse(&digest, origin, error.to_string());
                return Err(error);
            }
        };
        if let Err(reason) = before_switch() {
            self.refuse(&digest, origin, reason.clone());
            return Err(SwapError::Prevented { digest, reason });
        }
        let waiting = self.hand_out(revision, origin, switches).wait(at_most);
        if waiting.is_empty() {
            return Ok(());
        }
        tracing::warn!(digest, "lanes {} have not switched yet", numbers(&waiting));
        Err(SwapError::Slow { digest, lanes: waiting })
    }

    fn instantiate(
        &self,
        revision: &dyn Revision,
    ) -> Result<Vec<(Arc<LanePort>, PluginSwitch)>, SwapError> {
        let digest = || revision.digest().to_owned();
        if self.is_draining() {
            return Err(SwapError::Stopping { digest: digest() });
        }
        let mut switches = Vec::new();
        for port in self.0.lanes.iter().filter(|port| !port.has_ended()) {
            let state_ids = self
                .state_ids(port, revision.descriptor())
                .map_err(|differences| SwapError::States { digest: digest(), differences })?;
            let switch = revision
                .instantiate(port.lane, state_ids)
                .map_err(|reason| SwapError::Open { digest: digest(), lane: port.lane, reason })?;
            switches.push((Arc::clone(port), switch));
        }
        Ok(switches)
    }

    fn state_ids(
        &self,
        port: &LanePort,
        descriptor: &PluginDescriptor,
    ) -> Result<Vec<StateId>, Vec<Difference>> {
        let committed = lock(&port.identity);
        committed.as_ref().unwrap_or(&self.0.identity).state_ids(descriptor)
    }

    /// Tells the lanes to switch, each at the end of its epoch.
    fn hand_out(
        &self,
        revision: &Arc<dyn Revision>,
        origin: RevisionOrigin,
        switches: Vec<(Arc<LanePort>, PluginSwitch)>,
    ) -> Arc<Swap> {
        self.supersede();
        let digest = revision.digest().to_owned();
        let place = self.note(&digest, origin, RevisionState::Switching);
        // A lane that holds a share longer than the pipeline lives settles nothing.
        let shared = Arc::downgrade(&self.0);
        let lanes = switches.iter().map(|(port, _)| port.lane).collect();
        let swap = Swap::new(lanes, move || {
            if let Some(shared) = shared.upgrade() {
                Self(shared).settle(place, &digest);
            }
        });
        for (port, switch) in switches {
            let command = LaneCommand::Switch {
                revision: Arc::clone(revision),
                switch: Box::new(switch),
                share: swap.share(port.lane),
            };
            port.ask(command);
        }
        swap
    }

    pub(super) fn note(
        &self,
        digest: &str,
        origin: RevisionOrigin,
        state: RevisionState,
    ) -> ProcessingTime {
        let at = clock::now();
        let mut revisions = lock(&self.0.revisions);
        revisions.push(RevisionEntry { digest: digest.to_owned(), at, origin, state });
        if revisions.len() > REVISIONS_KEPT {
            let oldest = revisions.iter().position(|entry| entry.state != RevisionState::Active);
            revisions.remove(oldest.unwrap_or(0));
        }
        at
    }

    /// What is still being taken over will not be: a later revision has come.
    fn supersede(&self) {
        for entry in lock(&self.0.revisions).iter_mut() {
            if entry.state == RevisionState::Switching {
                entry.state = RevisionState::Replaced;
            }
        }
    }

    /// Every lane runs the revision that was noted then, unless a later one has come.
    fn settle(&self, place: ProcessingTime, digest: &str) {
        let mut revisions = lock(&self.0.revisions);
        let is_it = |entry: &RevisionEntry| {
            let is_switching = entry.state == RevisionState::Switching;
            is_switching && entry.at == place && entry.digest == digest
        };
        let Some(at) = revisions.iter().position(is_it) else { return };
        let mut before = String::new();
        for entry in revisions.iter_mut().filter(|entry| entry.state == RevisionState::Active) {
            entry.state = RevisionState::Replaced;
            before.clone_from(&entry.digest);
        }
        revisions[at].state = RevisionState::Active;
        drop(revisions);
        telemetry::publish_reload(&self.0.names, "switched", digest, &before);
        tracing::info!(
            pipeline = self.0.names.pipeline,
            digest,
            "every lane has switched to the plugin revision, from {}",
            short(&before)
        );
    }
}
