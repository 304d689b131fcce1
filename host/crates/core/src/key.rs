//! Join keys as canonical bytes, and where a key belongs.
//!
//! Keys are compared as bytes after decoding, so that `603` written as an int32 and as a string
//! meet when both are read with the same key type.

use bytes::Bytes;

/// The decoded join key of a record, as canonical bytes.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Key(pub Bytes);

impl Key {
    /// Returns a key of these canonical bytes.
    pub fn new(bytes: impl Into<Bytes>) -> Self {
        Self(bytes.into())
    }

    /// Returns the canonical bytes.
    #[must_use]
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }
}

/// How keys are compared; equal on all keyed inputs of a pipeline.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum KeyType {
    /// UTF-8 text.
    #[default]
    String,
    /// Any integral number, in canonical decimal.
    Integer,
    /// Raw bytes.
    Bytes,
}

impl KeyType {
    /// Returns the name used in configuration and in the identity.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::String => "string",
            Self::Integer => "integer",
            Self::Bytes => "bytes",
        }
    }
}

/// Returns Kafka's murmur2 hash of a key, as the Java clients compute it.
#[must_use]
pub fn murmur2(key: &[u8]) -> u32 {
    const M: u32 = 0x5bd1_e995;
    let length = u32::try_from(key.len()).unwrap_or(u32::MAX);
    let mut hash = 0x9747_b28c ^ length;
    let mut chunks = key.chunks_exact(4);
    for chunk in &mut chunks {
        let mut k = u32::from_le_bytes([chunk[0], chunk[1], chunk[2], chunk[3]]);
        k = k.wrapping_mul(M);
        k ^= k >> 24;
        k = k.wrapping_mul(M);
        hash = hash.wrapping_mul(M) ^ k;
    }
    let rest = chunks.remainder();
    for (at, byte) in rest.iter().enumerate().rev() {
        hash ^= u32::from(*byte) << (8 * at);
        if at == 0 {
            hash = hash.wrapping_mul(M);
        }
    }
    hash ^= hash >> 13;
    hash = hash.wrapping_mul(M);
    hash ^ (hash >> 15)
}

/// Returns the partition that Kafka's Java clients, and librdkafka's `murmur2_random`, give a key.
///
/// # Panics
///
/// When `partitions` is 0.
#[must_use]
pub fn murmur2_partition(key: &[u8], partitions: u16) -> u16 {
    assert!(partitions > 0, "a topic has at least one partition");
    let positive = murmur2(key) & 0x7fff_ffff;
    u16::try_from(positive % u32::from(partitions)).expect("a remainder is below its divisor")
}

#[cfg(test)]
mod tests {
    //! Vectors published for Kafka's murmur2 partitioner, six partitions.
    use super::*;

    #[test]
    fn keys_lie_where_the_java_clients_put_them() {
        let expected = [
            ("o-1001", 1),
            ("o-1002", 1),
            ("o-1003", 5),
            ("o-1004", 5),
            ("603", 0),
            ("cust-42", 2),
        ];
        for (key, partition) in expected {
            assert_eq!(murmur2_partition(key.as_bytes(), 6), partition, "{key}");
        }
    }
}
