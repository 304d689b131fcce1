//! `verify`: reads everything that is committed and compares count and checksum.

use crate::broker::{assign_from_beginning, consumer, member};
use crate::expectation::checksum;
use anyhow::Result;
use rdkafka::message::Message;
use std::collections::HashMap;
use std::time::{Duration, Instant};

/// Reads until nothing has come for two seconds; prints what was found and whether it is right.
pub(crate) fn verify(
    partitions: u16,
    brokers: &str,
    output: &str,
    expected_count: u64,
    expected_sum: &str,
) -> Result<()> {
    let consumer = consumer(brokers, "read_committed")?;
    assign_from_beginning(&consumer, output, partitions)?;
    let (mut outputs, mut timeouts, mut sum) = (0_u64, 0_u64, 0_u64);
    let mut times_seen: HashMap<u64, u32> = HashMap::new();
    let mut last = Instant::now();
    while last.elapsed() < Duration::from_secs(2) {
        let Some(Ok(message)) = consumer.poll(Duration::from_millis(100)) else {
            continue;
        };
        let json = std::str::from_utf8(message.payload().unwrap_or_default()).unwrap_or("");
        let (status, event) = (member(json, "\"status\""), member(json, "\"event_id\""));
        let (user, campaign) = (member(json, "\"user_id\""), member(json, "\"campaign\""));
        timeouts += u64::from(status == "TIMEOUT");
        outputs += 1;
        sum = sum.wrapping_add(checksum(user, event, status, campaign));
        let id = event.get(1..).and_then(|v| v.parse().ok()).unwrap_or(0);
        *times_seen.entry(id).or_default() += 1;
        last = Instant::now();
    }
    let distinct = times_seen.len();
    let duplicates: u64 = times_seen.values().map(|times| u64::from(*times) - 1).sum();
    let sum = format!("{sum:016x}");
    println!(
        "{{\"outputs\":{outputs},\"distinct\":{distinct},\"duplicates\":{duplicates},\
         \"missing\":{},\"timeouts\":{timeouts},\"checksum\":\"{sum}\",\"equal\":{}}}",
        expected_count as i64 - distinct as i64,
        outputs == expected_count && sum == expected_sum
    );
    Ok(())
}
