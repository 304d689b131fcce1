//! Fixtures shared by the tests of the whole workspace.
//!
//! Reading order: `broker` (a real Kafka broker for a test), `workspace` (the files of this
//! repository, for the tests about the code itself). Nothing here is part of the product.

pub mod broker;
pub mod workspace;
