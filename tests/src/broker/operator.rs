//! What an operator does to a cluster from outside of any pipeline.

use anyhow::{Context as _, Result, bail};
use rdkafka::admin::{AdminClient, AdminOptions, NewPartitions};
use rdkafka::client::DefaultClientContext;
use rdkafka::consumer::{BaseConsumer, CommitMode, Consumer as _};
use rdkafka::topic_partition_list::{Offset, TopicPartitionList};
use rdkafka::types::RDKafkaErrorCode;

use std::time::{Duration, Instant};

use super::client::{Client, REQUEST_LIMIT, block_on};

impl Client {
    fn admin(&self) -> Result<(AdminClient<DefaultClientContext>, AdminOptions)> {
        let options = AdminOptions::new()
            .request_timeout(Some(REQUEST_LIMIT))
            .operation_timeout(Some(REQUEST_LIMIT));
        Ok((self.config().create()?, options))
    }

    /// Sets a group's committed offset, as `kafka-consumer-groups --reset-offsets` does: without
    /// metadata.
    ///
    /// # Errors
    /// The broker refused, or did not answer.
    pub fn set_offset(&self, group: &str, topic: &str, partition: i32, offset: i64) -> Result<()> {
        let mut config = self.config().clone();
        let consumer: BaseConsumer = config.set("group.id", group).create()?;
        let mut list = TopicPartitionList::new();
        list.add_partition_offset(topic, partition, Offset::Offset(offset))?;
        consumer.commit(&list, CommitMode::Sync).context("commit an offset")
    }

    /// Returns a group's committed offset; `None` = it has none.
    ///
    /// # Errors
    /// The broker refused, or did not answer.
    pub fn committed_offset(
        &self,
        group: &str,
        topic: &str,
        partition: i32,
    ) -> Result<Option<i64>> {
        let mut config = self.config().clone();
        let consumer: BaseConsumer = config.set("group.id", group).create()?;
        let mut list = TopicPartitionList::new();
        list.add_partition(topic, partition);
        let found = consumer.committed_offsets(list, REQUEST_LIMIT).context("read an offset")?;
        let offset = found.find_partition(topic, partition).map(|found| found.offset());
        Ok(offset.and_then(|offset| offset.to_raw()).filter(|offset| *offset >= 0))
    }

    /// Deletes a group with all that it has committed.
    ///
    /// # Errors
    /// The broker refused, or did not answer.
    pub fn delete_group(&self, group: &str) -> Result<()> {
        let (admin, options) = self.admin()?;
        check(block_on(admin.delete_groups(&[group], &options))?)
    }

    /// Deletes a topic.
    ///
    /// # Errors
    /// The broker refused, or did not answer.
    pub fn delete_topic(&self, topic: &str) -> Result<()> {
        let (admin, options) = self.admin()?;
        check(block_on(admin.delete_topics(&[topic], &options))?)
    }

    /// Creates a topic of the name of one that is being deleted.
    ///
    /// # Errors
    /// The old one has not gone within its time, or the broker refused.
    pub fn create_topic_again(&self, topic: &str, partitions: i32) -> Result<()> {
        let begin = Instant::now();
        loop {
            match self.create_topic(topic, partitions, &[]) {
                Err(error) if begin.elapsed() < REQUEST_LIMIT => {
                    drop(error);
                    std::thread::park_timeout(Duration::from_millis(100));
                }
                result => return result,
            }
        }
    }

    /// Waits until a topic that was deleted has gone.
    ///
    /// # Errors
    /// It has not gone within its time.
    pub fn wait_for_deletion(&self, topic: &str) -> Result<()> {
        let consumer: BaseConsumer = self.config().create()?;
        let begin = Instant::now();
        while begin.elapsed() < REQUEST_LIMIT {
            let metadata = consumer.fetch_metadata(None, REQUEST_LIMIT)?;
            if metadata.topics().iter().all(|found| found.name() != topic) {
                return Ok(());
            }
            std::thread::park_timeout(Duration::from_millis(50));
        }
        bail!("{topic} is still there")
    }

    /// Gives a topic more partitions.
    ///
    /// # Errors
    /// The broker refused, or did not answer.
    pub fn grow_topic(&self, topic: &str, partitions: usize) -> Result<()> {
        let (admin, options) = self.admin()?;
        let grown = NewPartitions::new(topic, partitions);
        check(block_on(admin.create_partitions([&grown], &options))?)
    }

    /// Deletes the records of a partition before an offset, as retention does.
    ///
    /// # Errors
    /// The broker refused, or did not answer.
    pub fn delete_records(&self, topic: &str, partition: i32, before: i64) -> Result<()> {
        let (admin, options) = self.admin()?;
        let mut list = TopicPartitionList::new();
        list.add_partition_offset(topic, partition, Offset::Offset(before))?;
        let answer = block_on(admin.delete_records(&list, &options))?;
        answer.elements().iter().try_for_each(|element| element.error()).context("delete records")
    }
}

fn check(results: Vec<std::result::Result<String, (String, RDKafkaErrorCode)>>) -> Result<()> {
    match results.into_iter().find_map(Result::err) {
        Some((name, code)) => bail!("{name}: {code}"),
        None => Ok(()),
    }
}
