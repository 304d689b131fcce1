//! Dovetail's deterministic simulator.
//!
//! The production core and the runtime's lane loop run, in one thread and in virtual time, against
//! models of Kafka ([`kafka`]), disks ([`disk`]), a checkpoint store ([`objects`]), processes ([`machine`]) and a network
//! ([`world`]). A seed decides everything ([`faults::Plan`]): knobs, inputs, faults and their
//! times. What is committed is judged while it happens and at the end ([`history`], [`run`]).
//!
//! [`rules`] lists what a run is judged by. A commit is judged in [`history`] when its transaction
//! is decided, a store when it applies, a checkpoint in [`world`] when it is published, restored,
//! trimmed behind or collected, everything once more at the end in [`run`].
//!
//! May not know: librdkafka, RocksDB, Wasm; those are tested against the ports they implement.

pub mod bugs;
pub mod case;
pub mod disk;
pub mod faults;
pub mod history;
pub mod job;
pub mod kafka;
pub mod log;
pub mod machine;
mod mishap;
pub mod objects;
pub mod rng;
pub mod rows;
pub mod rules;
pub mod run;
pub mod shrink;
pub mod trace;
pub mod workload;
pub mod world;
