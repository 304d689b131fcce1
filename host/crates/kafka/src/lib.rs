//! The log port on Kafka: inputs, transactional outputs, journal.
