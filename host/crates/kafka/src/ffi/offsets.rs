//! Lists of partitions with offsets.

use std::{
    ffi::{CStr, c_int},
    ptr::{self, NonNull},
};

use rdkafka_sys as sys;

use super::{Failure, bytes_of, check};

/// A list of partitions, each with an offset.
#[derive(Debug)]
pub(crate) struct Offsets(NonNull<sys::rd_kafka_topic_partition_list_t>);

/// What a list says about a partition.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct OffsetEntry {
    /// The offset; negative where there is none.
    pub(crate) offset: i64,
    /// The bytes committed beside it.
    pub(crate) metadata: Vec<u8>,
    /// What went wrong with this partition.
    pub(crate) failure: Option<Failure>,
}

impl Offsets {
    /// Makes an empty list.
    pub(crate) fn with_room(count: usize) -> Result<Self, String> {
        // SAFETY: makes an object of ours.
        let raw =
            unsafe { sys::rd_kafka_topic_partition_list_new(c_int::try_from(count).unwrap_or(0)) };
        NonNull::new(raw).map(Self).ok_or_else(|| "out of memory".to_owned())
    }

    pub(super) fn raw(&self) -> *mut sys::rd_kafka_topic_partition_list_t {
        self.0.as_ptr()
    }

    /// Adds a partition.
    pub(crate) fn add(&mut self, topic: &CStr, partition: i32, offset: i64, metadata: &str) {
        // SAFETY: the entry returned belongs to the list and is used at once; its metadata comes
        // from librdkafka's allocator, which frees it, and is as long as said.
        unsafe {
            let entry =
                sys::rd_kafka_topic_partition_list_add(self.raw(), topic.as_ptr(), partition);
            (*entry).offset = offset;
            if metadata.is_empty() {
                return;
            }
            let copy = sys::rd_kafka_mem_malloc(ptr::null_mut(), metadata.len());
            if !copy.is_null() {
                ptr::copy_nonoverlapping(metadata.as_ptr(), copy.cast(), metadata.len());
                (*entry).metadata = copy;
                (*entry).metadata_size = metadata.len();
            }
        }
    }

    /// Returns what the list says about a partition.
    pub(crate) fn get(&self, topic: &CStr, partition: i32) -> Option<OffsetEntry> {
        // SAFETY: the entry returned belongs to the list and is copied from at once.
        unsafe {
            let entry =
                sys::rd_kafka_topic_partition_list_find(self.raw(), topic.as_ptr(), partition)
                    .as_ref()?;
            Some(OffsetEntry {
                offset: entry.offset,
                metadata: bytes_of(entry.metadata, entry.metadata_size)
                    .unwrap_or_default()
                    .to_vec(),
                failure: check(entry.err).err(),
            })
        }
    }
}

impl Drop for Offsets {
    fn drop(&mut self) {
        // SAFETY: the list is ours and not used any more.
        unsafe { sys::rd_kafka_topic_partition_list_destroy(self.raw()) }
    }
}
