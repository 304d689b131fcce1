//! Asks where a partition begins and ends, through a change of its leader.

use std::{
    ffi::CStr,
    time::{Duration, Instant},
};

use rdkafka_sys::types::RDKafkaErrorCode as Code;

use crate::{
    ffi::{Client, Failure, Signal},
    settings::REQUEST_TIMEOUT,
};

const RETRY_STEP: Duration = Duration::from_millis(20);

/// Returns the first offset and the one behind the last that a committed reader sees.
pub(crate) fn watermarks(
    client: &Client,
    topic: &CStr,
    partition: i32,
) -> Result<(i64, i64), Failure> {
    let deadline = Instant::now() + REQUEST_TIMEOUT;
    loop {
        let left = deadline.saturating_duration_since(Instant::now());
        let failure = match client.watermarks(topic, partition, left) {
            Ok(watermarks) => return Ok(watermarks),
            Err(failure) => failure,
        };
        // A partition made a moment ago, or one whose leader has just gone.
        let may_pass = matches!(
            failure.code,
            Code::NotLeaderForPartition
                | Code::LeaderNotAvailable
                | Code::UnknownPartition
                | Code::UnknownTopicOrPartition
                | Code::BrokerTransportFailure
        );
        let Ok(pause) = Signal::new() else { return Err(failure) };
        if !may_pass || Instant::now() + RETRY_STEP >= deadline {
            return Err(failure);
        }
        pause.wait(RETRY_STEP);
    }
}
