//! What librdkafka says of itself: the few numbers of its JSON that tell an operator something.
//!
//! Keeps: what is not there or not understood is left out; statistics never fail anything.

use std::collections::HashMap;

use dovetail_core::log::ClientStatistics;
use serde::Deserialize;

/// What is read of a client's statistics.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct Statistics {
    /// Records waiting in a producer.
    msg_cnt: u64,
    msg_size: u64,
    brokers: HashMap<String, Broker>,
    topics: HashMap<String, Topic>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Broker {
    outbuf_cnt: i64,
    waitresp_cnt: i64,
    req_timeouts: u64,
    connects: u64,
    rtt: Window,
}

/// A distribution, in µs.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Window {
    avg: i64,
    cnt: i64,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Topic {
    partitions: HashMap<String, Partition>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Partition {
    fetchq_cnt: u64,
    fetchq_size: u64,
    /// The end of what is committed; negative while it is not known.
    ls_offset: Option<i64>,
}

impl Statistics {
    /// Reads what a client has said last.
    pub(crate) fn read(json: &str) -> Self {
        serde_json::from_str(json).unwrap_or_default()
    }

    /// Returns the end of a partition, as the last fetch told it.
    pub(crate) fn end_of(&self, topic: &str, partition: i32) -> Option<i64> {
        let partitions = &self.topics.get(topic)?.partitions;
        partitions.get(&partition.to_string())?.ls_offset.filter(|offset| *offset >= 0)
    }

    /// Returns the numbers of a client, summed over brokers and partitions.
    pub(crate) fn of_client(&self, client: &'static str) -> ClientStatistics {
        let partitions = || self.topics.values().flat_map(|topic| topic.partitions.values());
        let brokers = || self.brokers.values();
        let in_flight: i64 =
            brokers().map(|broker| broker.outbuf_cnt.max(0) + broker.waitresp_cnt.max(0)).sum();
        let measured = brokers().filter(|broker| broker.rtt.cnt > 0);
        ClientStatistics {
            client,
            queued_records: self.msg_cnt + partitions().map(|each| each.fetchq_cnt).sum::<u64>(),
            queued_bytes: self.msg_size + partitions().map(|each| each.fetchq_size).sum::<u64>(),
            requests_in_flight: in_flight.unsigned_abs(),
            request_timeouts: brokers().map(|broker| broker.req_timeouts).sum(),
            connects: brokers().map(|broker| broker.connects).sum(),
            // The slowest of them is the one to look at.
            round_trip_us: measured.map(|broker| broker.rtt.avg).max(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_summed_and_the_slowest_broker_is_told() {
        let read = Statistics::read(
            r#"{"name":"x","msg_cnt":2,"msg_size":30,
                "brokers":{"a":{"outbuf_cnt":1,"waitresp_cnt":2,"req_timeouts":3,"connects":4,
                                "rtt":{"avg":500,"cnt":7,"p99":9}},
                           "b":{"outbuf_cnt":-1,"rtt":{"avg":900,"cnt":1}},
                           "c":{"rtt":{"avg":9999,"cnt":0}}},
                "topics":{"t":{"partitions":{"0":{"fetchq_cnt":5,"fetchq_size":50,"ls_offset":17},
                                             "-1":{"fetchq_cnt":0,"ls_offset":-1001}}}}}"#,
        );
        let expected = ClientStatistics {
            client: "consumer",
            queued_records: 7,
            queued_bytes: 80,
            requests_in_flight: 3,
            request_timeouts: 3,
            connects: 4,
            round_trip_us: Some(900),
        };
        assert_eq!(read.of_client("consumer"), expected);
        assert_eq!(
            (read.end_of("t", 0), read.end_of("t", -1), read.end_of("u", 0)),
            (Some(17), None, None)
        );
    }

    #[test]
    fn what_cannot_be_read_says_nothing() {
        let nothing = Statistics::read("");
        assert_eq!(nothing.of_client("producer").round_trip_us, None);
        assert_eq!(nothing.end_of("t", 0), None);
    }
}
