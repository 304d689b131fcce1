//! The log port without a broker: topics in a directory, NDJSON in and out.
