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
    /// Questions are numbered from 1 on.
    asked: u64,
    /// The last question that is answered, and with it all before.
    proven: u64,
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
    /// Asks lane 0 for a proof; returns the question's number.
    pub(crate) fn ask(&self) -> u64 {
        let mut state = lock(&self.0);
        state.asked += 1;
        state.asked
    }

    /// Returns what has become of a question.
    pub(crate) fn answer(&self, question: u64) -> Answer {
        let state = lock(&self.0);
        match state.proven >= question {
            true => Answer::Ours,
            false if state.has_ended => Answer::Ended,
            false => Answer::Wait,
        }
    }

    /// Returns the newest question, where it has no answer: lane 0's next commit is one.
    pub(crate) fn question(&self) -> Option<u64> {
        let state = lock(&self.0);
        (state.asked > state.proven).then_some(state.asked)
    }

    /// Lane 0 has committed what began after a question.
    pub(crate) fn prove(&self, question: u64) {
        lock(&self.0).proven = question;
    }

    /// Lane 0 has ended.
    pub(crate) fn end(&self) {
        lock(&self.0).has_ended = true;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_question_that_comes_while_another_is_proven_waits_for_the_next_commit() {
        let claim = Claim::default();
        let first = claim.ask();
        let proving = claim.question();
        assert_eq!(proving, Some(first));
        let second = claim.ask();
        claim.prove(first);
        assert_eq!((claim.answer(first), claim.answer(second)), (Answer::Ours, Answer::Wait));
        assert_eq!(claim.question(), Some(second));
        claim.prove(second);
        assert_eq!((claim.answer(second), claim.question()), (Answer::Ours, None));
    }

    #[test]
    fn what_lane_0_has_not_proven_when_it_ends_stays_without_proof() {
        let claim = Claim::default();
        let (first, second) = (claim.ask(), claim.ask());
        claim.prove(first);
        claim.end();
        assert_eq!((claim.answer(first), claim.answer(second)), (Answer::Ours, Answer::Ended));
    }
}
