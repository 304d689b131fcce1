//! What a correct join makes of the stream: counts, and a checksum that does not depend on order.

use crate::stream::{Event, Workload, campaign};

/// Sums over the events generated so far.
#[derive(Default)]
pub(crate) struct Expectation {
    dimensions: u64,
    behaviours: u64,
    timeouts: u64,
    sum: u64,
}

impl Expectation {
    pub(crate) fn add(&mut self, workload: &Workload, event: &Event) {
        match event {
            Event::Dimension { .. } => self.dimensions += 1,
            Event::Behaviour { key, id, .. } => {
                self.behaviours += 1;
                let (status, campaign) = if workload.never_has_dimension(*key) {
                    self.timeouts += 1;
                    ("TIMEOUT", String::new())
                } else {
                    ("OK", campaign(*key))
                };
                let (user, event) = (format!("u{key:08}"), format!("e{id:010}"));
                self.sum = self.sum.wrapping_add(checksum(&user, &event, status, &campaign));
            }
        }
    }

    /// The members of a JSON object, without its braces.
    pub(crate) fn json_members(&self) -> String {
        format!(
            "\"dims\":{},\"behaviours\":{},\"expected_outputs\":{},\"expected_timeouts\":{},\
             \"checksum\":\"{:016x}\"",
            self.dimensions, self.behaviours, self.behaviours, self.timeouts, self.sum
        )
    }
}

/// One output's share of the checksum: FNV-1a 64 over its fields, then one mixing step.
pub(crate) fn checksum(user: &str, event: &str, status: &str, campaign: &str) -> u64 {
    let mut h = 0xcbf2_9ce4_8422_2325_u64;
    for part in [user, "|", event, "|", status, "|", campaign] {
        for byte in part.bytes() {
            h = (h ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3);
        }
    }
    h ^= h >> 32;
    h = h.wrapping_mul(0x9E37_79B9_7F4A_7C15);
    h ^ (h >> 29)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stream::Stream;

    #[test]
    fn published_figures_and_this_generator_agree_on_the_expected_output() {
        let mut expectation = Expectation::default();
        let workload = Workload::default();
        for event in Stream::new(workload, 42, 5_000_000, 7_200_000) {
            expectation.add(&workload, &event);
        }
        assert_eq!(
            expectation.json_members(),
            "\"dims\":1385263,\"behaviours\":3614745,\"expected_outputs\":3614745,\
             \"expected_timeouts\":23748,\"checksum\":\"70fd3347f4b227eb\""
        );
    }
}
