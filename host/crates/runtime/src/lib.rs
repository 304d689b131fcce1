//! Drives lanes: the loop, executing effects, reloading, supervision.
