//! Which of two processes owns a pipeline: the one that owns lane 0.
//!
//! Processes that start at once, or one that starts while another still acquires, can take lanes
//! from each other; left to decide for itself, each of their lanes would find the other process and
//! stop its own. So a lane that was fenced asks lane 0 of its process, which commits an epoch: if
//! that goes through, the process owns the pipeline and the lane is acquired again; if lane 0 has
//! been taken, the process stops by lane 0's finding. Of two processes that claim lane 0 the log
//! lets only the later one commit, so exactly one goes on.
//!
//! Invariant: a proof is a commit of lane 0 that began after it was asked for.

use std::sync::Mutex;

use crate::handle::lock;

#[derive(Debug, Default)]
struct State {
    is_asked: bool,
    proofs: u64,
    has_ended: bool,
}

/// What the lanes of one process share about lane 0.
#[derive(Debug, Default)]
pub struct Claim(Mutex<State>);

/// What a lane that was fenced may do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Answer {
    /// Lane 0 has not committed since.
    Wait,
    /// The pipeline is this process'.
    Ours,
    /// Lane 0 has come to its end and commits no more.
    Ended,
}

impl Claim {
    /// Asks lane 0 for a proof; returns what [`Self::answer`] wants to know.
    pub(crate) fn ask(&self) -> u64 {
        let mut state = lock(&self.0);
        state.is_asked = true;
        state.proofs
    }

    /// Returns what has become of a question.
    pub(crate) fn answer(&self, asked: u64) -> Answer {
        let state = lock(&self.0);
        match state.proofs > asked {
            true => Answer::Ours,
            false if state.has_ended => Answer::Ended,
            false => Answer::Wait,
        }
    }

    /// Returns whether a lane waits for a proof. Lane 0 begins one with its next commit.
    pub(crate) fn take_question(&self) -> bool {
        std::mem::take(&mut lock(&self.0).is_asked)
    }

    /// Lane 0 has committed what began after the question.
    pub(crate) fn prove(&self) {
        lock(&self.0).proofs += 1;
    }

    /// Lane 0 has ended.
    pub(crate) fn end(&self) {
        lock(&self.0).has_ended = true;
    }
}
