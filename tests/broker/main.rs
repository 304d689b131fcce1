//! One binary for all tests that need a real broker, so that the host is linked once.
//!
//! Goal: what only a real broker shows (transactions, fencing, security, takeover) holds. Method:
//! the fixture of `dovetail_tests::broker`; each test has topics of its own, and a broker of its
//! own only where it stops it or needs other settings.

#[cfg(test)]
mod fixture;
#[cfg(test)]
mod host_admin;
mod host_bootstrap;
#[cfg(test)]
mod host_broadcast;
#[cfg(test)]
mod host_checkpoints;
#[cfg(test)]
mod host_clock;
#[cfg(test)]
mod host_contest;
#[cfg(test)]
mod host_dead_letters;
#[cfg(test)]
mod host_disk;
#[cfg(test)]
mod host_gaps;
#[cfg(test)]
mod host_keys;
#[cfg(test)]
mod host_kills;
#[cfg(test)]
mod host_lanes;
#[cfg(test)]
mod host_large_key;
#[cfg(test)]
mod host_outage;
#[cfg(test)]
mod host_pains;
#[cfg(test)]
mod host_process;
#[cfg(test)]
mod host_refusals;
#[cfg(test)]
mod host_replay;
#[cfg(test)]
mod host_resolve;
#[cfg(test)]
mod host_revisions;
#[cfg(test)]
mod host_run;
#[cfg(test)]
mod host_secure;
#[cfg(test)]
mod host_standstill;
#[cfg(test)]
mod host_steps;
#[cfg(test)]
mod host_stop;
#[cfg(test)]
mod host_stream;
#[cfg(test)]
mod host_takeover;
#[cfg(test)]
mod kafka_admin;
#[cfg(test)]
mod kafka_lane;
#[cfg(test)]
mod kafka_log;
#[cfg(test)]
mod kafka_outage;
