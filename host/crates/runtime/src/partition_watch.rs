//! Watches how many partitions the inputs have while a pipeline runs.
//!
//! Whoever writes to a topic that got more partitions puts keys elsewhere than before, where other
//! lanes hold what they join with: nothing that is read from then on can be trusted to meet. So the
//! pipeline stops, by the number that the genesis record holds, and says both.
//!
//! Invariant: a topic that cannot be asked about changes nothing.

use std::{io, thread::JoinHandle, time::Duration};

use crossbeam_channel::{Receiver, RecvTimeoutError, Sender, bounded};
use dovetail_core::identity::Identity;

use crate::{
    fatal::{FatalCause, FatalKind},
    handle::Handle,
};

/// How often it looks: while the cluster answers, a change is noticed within ten seconds.
const LOOK_EVERY: Duration = Duration::from_secs(5);

/// Asks how many partitions each input has, in the order of the identity; `None` = not known.
pub type CountPartitions = Box<dyn FnMut() -> Vec<Option<u16>> + Send>;

/// A running watch; dropping it ends it.
#[derive(Debug)]
pub struct PartitionWatch {
    ends: Option<Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl PartitionWatch {
    /// Starts to watch.
    ///
    /// # Errors
    ///
    /// When the system gives no thread.
    pub fn spawn(handle: Handle, count: CountPartitions) -> io::Result<Self> {
        let (ends, end) = bounded(0);
        let thread = std::thread::Builder::new()
            .name("partitions".to_owned())
            .spawn(move || watch(&handle, count, &end))?;
        Ok(Self { ends: Some(ends), thread: Some(thread) })
    }
}

impl Drop for PartitionWatch {
    fn drop(&mut self) {
        drop(self.ends.take());
        if let Some(thread) = self.thread.take()
            && thread.join().is_err()
        {
            tracing::error!("the watch over partitions ended without saying why");
        }
    }
}

fn watch(handle: &Handle, mut count: CountPartitions, end: &Receiver<()>) {
    while end.recv_timeout(LOOK_EVERY) == Err(RecvTimeoutError::Timeout) {
        if let Some(message) = changed(handle.identity(), &count()) {
            handle.fail(FatalCause { lane: None, kind: FatalKind::Rule, message });
            return;
        }
    }
}

/// Says which input has another number of partitions than at the first start.
fn changed(identity: &Identity, found: &[Option<u16>]) -> Option<String> {
    let mut inputs = identity.inputs.iter().zip(found);
    let (input, found) = inputs
        .find_map(|(input, found)| Some((input, (*found)?)).filter(|it| it.1 != it.0.partitions))?;
    if input.is_broadcast() {
        return Some(format!(
            "the topic `{}` of the broadcast input `{}` has {found} partitions now and had {} when \
             the pipeline was first started: what is written into the others reaches no lane. Ways \
             out: move its records into a new topic with {} partitions and make this one anew from \
             it; or start under another name and `state.dir`",
            input.topic, input.name, input.partitions, input.partitions
        ));
    }
    Some(format!(
        "the topic `{}` of input `{}` has {found} partitions now and had {} when the pipeline was \
         first started: keys written since lie in other partitions than before and do not meet what \
         they join with. Ways out: move the records of every input into new topics with as many \
         partitions each, keyed by the join key, and start on those under another name and \
         `state.dir`; or, where nothing was written since, make the topic anew with {} partitions \
         from a copy and start this pipeline again",
        input.topic, input.name, input.partitions, input.partitions
    ))
}

#[cfg(test)]
mod tests {
    use dovetail_core::identity::InputIdentity;

    use super::*;

    fn identity() -> Identity {
        let input = |name: &str| InputIdentity {
            name: name.to_owned(),
            topic: format!("topic-of-{name}"),
            partitions: 4,
            key_type: "string".to_owned(),
        };
        Identity {
            pipeline: "p".to_owned(),
            cluster_id: "c".to_owned(),
            lanes: 2,
            inputs: vec![input("orders"), input("payments")],
            states: Vec::new(),
        }
    }

    #[test]
    fn another_number_of_partitions_is_told_with_both_and_an_unknown_one_is_not() {
        assert_eq!(changed(&identity(), &[Some(4), Some(4)]), None);
        assert_eq!(changed(&identity(), &[Some(4), None]), None);
        for found in [2, 6] {
            let told = changed(&identity(), &[None, Some(found)]).unwrap_or_default();
            assert!(told.contains("`topic-of-payments` of input `payments`"), "{told}");
            assert!(told.contains(&format!("has {found} partitions now and had 4")), "{told}");
        }
    }
}
