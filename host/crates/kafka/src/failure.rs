//! What librdkafka's errors mean to a lane.
//!
//! Invariant: only what trying again cannot change is `Refused` or `Config`; everything else that
//! is not plainly fencing is `Doubt`.

use dovetail_core::log::LogError;
use rdkafka_sys::types::RDKafkaErrorCode as Code;

use crate::ffi::Failure;

/// Whether our producer's epoch is old.
pub(crate) fn is_fencing(code: Code) -> bool {
    matches!(code, Code::Fenced | Code::InvalidProducerEpoch | Code::ProducerFenced)
}

/// Whether a connection or broker is lost, for now.
pub(crate) fn is_outage(code: Code) -> bool {
    matches!(
        code,
        Code::BrokerTransportFailure
            | Code::AllBrokersDown
            | Code::Resolve
            | Code::OperationTimedOut
            | Code::SSL
            | Code::Authentication
    )
}

/// Whether a partition refuses a record whenever it is sent.
pub(crate) fn is_refusal(code: Code) -> bool {
    matches!(
        code,
        Code::MessageSizeTooLarge
            | Code::InvalidMessageSize
            | Code::MessageBatchTooLarge
            | Code::InvalidMessage
            | Code::InvalidRecord
            | Code::InvalidTimestamp
            | Code::TopicAuthorizationFailed
            | Code::PolicyViolation
            | Code::UnknownTopic
            | Code::UnknownPartition
            | Code::UnknownTopicOrPartition
            | Code::InvalidTopic
            | Code::UnsupportedForMessageFormat
            | Code::InvalidRequiredAcks
    )
}

/// Whether a partition refuses a record because it is too large.
pub(crate) fn is_too_large(code: Code) -> bool {
    matches!(
        code,
        Code::MessageSizeTooLarge | Code::InvalidMessageSize | Code::MessageBatchTooLarge
    )
}

/// Maps an error of a call that concerns no single partition. `doing` says what was tried.
pub(crate) fn of_call(doing: &str, failure: &Failure) -> LogError {
    let text = format!("{doing}: {failure}");
    match failure.code {
        code if is_fencing(code) => LogError::Fenced(failure.to_string()),
        Code::TransactionalIdAuthorizationFailed => LogError::Config(format!(
            "{text}; the user needs WRITE and DESCRIBE on the transactional id"
        )),
        Code::GroupAuthorizationFailed => {
            LogError::Config(format!("{text}; the user needs READ on the group"))
        }
        Code::TopicAuthorizationFailed => {
            LogError::Config(format!("{text}; the user needs READ on the topic"))
        }
        Code::ClusterAuthorizationFailed
        | Code::UnsupportedFeature
        | Code::UnsupportedVersion
        | Code::OffsetMetadataTooLarge => LogError::Config(text),
        _ => LogError::Doubt(text),
    }
}

/// Maps an error of one record.
pub(crate) fn of_record(topic: &str, partition: i32, code: Code, text: &str) -> LogError {
    if is_fencing(code) {
        LogError::Fenced(text.to_owned())
    } else if is_refusal(code) {
        LogError::Refused {
            topic: topic.to_owned(),
            partition,
            message: format!("{text} ({code:?})"),
        }
    } else {
        LogError::Doubt(format!("{topic}[{partition}] did not take a record: {text} ({code:?})"))
    }
}

/// The message for a transaction timeout that the broker does not allow.
pub(crate) fn transaction_timeout_too_long(ours_ms: u128, broker_ms: Option<i64>) -> LogError {
    let (broker, working) = match broker_ms {
        Some(ms) => (format!("{ms} ms"), format!("{ms}ms or less")),
        None => ("less than that".to_owned(), "20s".to_owned()),
    };
    LogError::Config(format!(
        "`kafka.transaction_timeout` is {ours_ms} ms, and the broker's \
         `transaction.max.timeout.ms` is {broker}: set `kafka.transaction_timeout: {working}`, or \
         raise the broker's setting"
    ))
}
