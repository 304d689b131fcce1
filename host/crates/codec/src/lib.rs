//! Bytes to key and event time.
