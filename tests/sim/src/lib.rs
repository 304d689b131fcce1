//! Dovetail's deterministic simulator.
//!
//! The production core and the runtime's lane loop run, in one thread and in virtual time, against
//! models of Kafka ([`kafka`]), disks ([`disk`]), processes ([`machine`]) and a network
//! ([`world`]). A seed decides everything ([`faults::Plan`]): knobs, inputs, faults and their
//! times. What is committed is judged while it happens and at the end ([`history`], [`run`]).
//!
//! Oracles, in the numbering of the reference: I1, I2, I5 and I6 in [`history`] when a transaction
//! is decided, I2 again at the end over what a reader sees; I3 and I4 in [`history`] when a store
//! applies; I8 in [`world`] when a lane acquires or works; I10 in [`run`]. I7 and I9 are about
//! checkpoints, which are not simulated.
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
pub mod rng;
pub mod rows;
pub mod run;
pub mod shrink;
pub mod trace;
pub mod workload;
pub mod world;
