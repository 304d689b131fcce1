//! What a topic's settings say, in our terms.

use rdkafka::admin::{ConfigResource, OwnedResourceSpecifier};

use crate::options::TimestampBounds;

/// Who sets the timestamp of a record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TimestampType {
    /// Its producer.
    CreateTime,
    /// The broker; the producer's is lost.
    LogAppendTime,
}

/// A topic and those of its settings that matter to us.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TopicDescription {
    /// Its name.
    pub name: String,
    /// How many partitions it has.
    pub partitions: u16,
    /// `max.message.bytes`: the largest batch of records.
    pub max_message_bytes: usize,
    /// `cleanup.policy`.
    pub cleanup_policy: String,
    /// `message.timestamp.type`.
    pub timestamp_type: TimestampType,
    /// Which timestamps it takes.
    pub timestamps: TimestampBounds,
    /// `retention.ms`; −1 = for ever.
    pub retention_ms: i64,
    /// `retention.bytes` of a partition; −1 = no limit.
    pub retention_bytes: i64,
}

impl TopicDescription {
    /// Whether the topic refuses records without key.
    #[must_use]
    pub fn is_compacted(&self) -> bool {
        self.cleanup_policy.split(',').any(|policy| policy.trim() == "compact")
    }

    pub(super) fn read(name: &str, partitions: u16, resource: &ConfigResource) -> Self {
        // Brokers before Kafka 3.6 have one bound for both directions.
        let both = number(resource, "message.timestamp.difference.max.ms").unwrap_or(i64::MAX);
        let bound = |setting| number(resource, setting).unwrap_or(both);
        let bytes = number(resource, "max.message.bytes");
        Self {
            name: name.to_owned(),
            partitions,
            max_message_bytes: bytes.and_then(|n| usize::try_from(n).ok()).unwrap_or(1_048_588),
            cleanup_policy: text(resource, "cleanup.policy").unwrap_or("delete").to_owned(),
            timestamp_type: match text(resource, "message.timestamp.type") {
                Some("LogAppendTime") => TimestampType::LogAppendTime,
                Some(_) | None => TimestampType::CreateTime,
            },
            timestamps: TimestampBounds {
                before_ms: bound("message.timestamp.before.max.ms"),
                after_ms: bound("message.timestamp.after.max.ms"),
            },
            retention_ms: number(resource, "retention.ms").unwrap_or(-1),
            retention_bytes: number(resource, "retention.bytes").unwrap_or(-1),
        }
    }
}

pub(super) fn is_of(resource: &ConfigResource, name: &str) -> bool {
    matches!(&resource.specifier, OwnedResourceSpecifier::Topic(topic) if topic == name)
}

fn text<'a>(resource: &'a ConfigResource, setting: &str) -> Option<&'a str> {
    resource.entries.iter().find(|entry| entry.name == setting)?.value.as_deref()
}

pub(super) fn number(resource: &ConfigResource, setting: &str) -> Option<i64> {
    text(resource, setting)?.parse().ok()
}
