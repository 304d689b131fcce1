//! Reads a few of a topic's newest records, for people.

use std::time::{Duration, Instant};

use bytes::Bytes;
use dovetail_core::record::{Header, Headers, Partition, Record};
use rdkafka::{
    Message as _, Offset, TopicPartitionList,
    consumer::{BaseConsumer, Consumer as _},
    error::KafkaError,
    message::{BorrowedMessage, Headers as _},
};

use super::{ANSWER_TIMEOUT, Cluster, ClusterError, connect::Listener, request};

const POLL_STEP: Duration = Duration::from_millis(50);

impl Cluster {
    /// Returns about `count` of the newest committed records of a topic, by partition and offset;
    /// fewer when there are fewer.
    ///
    /// # Errors
    ///
    /// When the cluster does not answer or does not let us read.
    pub fn sample(
        &self,
        topic: &str,
        count: u32,
    ) -> Result<Vec<(Partition, Record)>, ClusterError> {
        let doing = format!("reading a sample of `{topic}`");
        let Some(partitions) = self.partitions(topic)? else {
            return Err(request(&doing, "the topic does not exist"));
        };
        let (consumer, _) = super::connect::connect(&self.connection)?;
        let each = i64::from(count.div_ceil(u32::from(partitions.max(1))));
        let mut list = TopicPartitionList::new();
        for partition in 0..i32::from(partitions) {
            let (low, high) = consumer
                .fetch_watermarks(topic, partition, ANSWER_TIMEOUT)
                .map_err(|error| request(&doing, error))?;
            if low < high {
                list.add_partition_offset(topic, partition, Offset::Offset(low.max(high - each)))
                    .map_err(|error| request(&doing, error))?;
            }
        }
        let limit = usize::try_from(count).unwrap_or(usize::MAX);
        let mut records = read(&consumer, &list, limit, &doing)?;
        records.sort_by_key(|(partition, record)| (*partition, record.offset));
        Ok(records)
    }
}

fn read(
    consumer: &BaseConsumer<Listener>,
    list: &TopicPartitionList,
    limit: usize,
    doing: &str,
) -> Result<Vec<(Partition, Record)>, ClusterError> {
    let mut open = list.count();
    let mut records = Vec::new();
    consumer.assign(list).map_err(|error| request(doing, error))?;
    let deadline = Instant::now() + ANSWER_TIMEOUT;
    while open > 0 && records.len() < limit && Instant::now() < deadline {
        match consumer.poll(POLL_STEP) {
            Some(Ok(message)) => {
                let partition = u16::try_from(message.partition()).unwrap_or(u16::MAX);
                records.push((Partition(partition), record(&message)));
            }
            Some(Err(KafkaError::PartitionEOF(_))) => open -= 1,
            Some(Err(error)) => return Err(request(doing, error)),
            None => {}
        }
    }
    Ok(records)
}

fn record(message: &BorrowedMessage<'_>) -> Record {
    let headers = message.headers().map(|headers| {
        let headers = headers.iter().map(|header| Header {
            name: header.key.to_owned(),
            value: header.value.map(Bytes::copy_from_slice),
        });
        Headers::new(headers.collect())
    });
    Record {
        offset: message.offset(),
        timestamp: message.timestamp().to_millis(),
        key: message.key().map(Bytes::copy_from_slice),
        value: message.payload().map(Bytes::copy_from_slice),
        headers: headers.unwrap_or_default(),
    }
}
