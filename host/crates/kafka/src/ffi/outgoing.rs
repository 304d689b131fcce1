//! Records on their way out.

use std::{
    mem::ManuallyDrop,
    ptr::{self, NonNull},
    sync::Arc,
};

use rdkafka_sys as sys;

use super::{Failure, Handle, check_error};

/// A record to be written.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Outgoing<'a> {
    /// The partition; −1: by the key.
    pub(crate) partition: i32,
    /// The key; `None` is null.
    pub(crate) key: Option<&'a [u8]>,
    /// The value; `None` is null.
    pub(crate) value: Option<&'a [u8]>,
    /// The timestamp in ms; 0: the clock.
    pub(crate) timestamp: i64,
}

/// Headers of a record to be written.
#[derive(Debug)]
pub(crate) struct OutgoingHeaders(NonNull<sys::rd_kafka_headers_t>);

impl OutgoingHeaders {
    /// Makes an empty list.
    pub(crate) fn with_room(count: usize) -> Option<Self> {
        // SAFETY: makes an object of ours.
        NonNull::new(unsafe { sys::rd_kafka_headers_new(count) }).map(Self)
    }

    /// Adds a header.
    pub(crate) fn add(&mut self, name: &str, value: Option<&[u8]>) {
        let (start, size) =
            value.map_or((ptr::null(), 0), |value| (value.as_ptr().cast(), value.len()));
        // SAFETY: name and value are as long as said and copied by the call.
        unsafe {
            sys::rd_kafka_header_add(
                self.0.as_ptr(),
                name.as_ptr().cast(),
                size_of_c(name.len()),
                start,
                size_of_c(size),
            );
        }
    }
}

impl Drop for OutgoingHeaders {
    fn drop(&mut self) {
        // SAFETY: no record has taken them over: then they would have been forgotten.
        unsafe { sys::rd_kafka_headers_destroy(self.0.as_ptr()) }
    }
}

/// No allocation is larger than `isize::MAX`.
fn size_of_c(size: usize) -> isize {
    isize::try_from(size).unwrap_or(isize::MAX)
}

/// A topic to write to.
#[derive(Debug)]
pub(crate) struct Topic {
    pub(super) raw: NonNull<sys::rd_kafka_topic_t>,
    pub(super) handle: Arc<Handle>,
}

// SAFETY: librdkafka's topics may be used from any thread.
unsafe impl Send for Topic {}

impl Topic {
    /// Queues a record; its bytes are copied. Headers come back when it is not taken.
    pub(crate) fn produce(
        &self,
        record: Outgoing<'_>,
        headers: Option<OutgoingHeaders>,
    ) -> Result<(), (Failure, Option<OutgoingHeaders>)> {
        use sys::{rd_kafka_vtype_t as vtype, rd_kafka_vu_s__bindgen_ty_1 as Value};
        let vu = |vtype, u| sys::rd_kafka_vu_t { vtype, u };
        let memory = |bytes: Option<&[u8]>| sys::rd_kafka_vu_s__bindgen_ty_1__bindgen_ty_1 {
            ptr: bytes.map_or(ptr::null_mut(), |bytes| bytes.as_ptr().cast_mut().cast()),
            size: bytes.map_or(0, <[u8]>::len),
        };
        let list = headers.as_ref().map_or(ptr::null_mut(), |headers| headers.0.as_ptr());
        let values = [
            vu(vtype::RD_KAFKA_VTYPE_RKT, Value { rkt: self.raw.as_ptr() }),
            vu(vtype::RD_KAFKA_VTYPE_MSGFLAGS, Value { i: sys::RD_KAFKA_MSG_F_COPY }),
            vu(vtype::RD_KAFKA_VTYPE_PARTITION, Value { i32_: record.partition }),
            vu(vtype::RD_KAFKA_VTYPE_KEY, Value { mem: memory(record.key) }),
            vu(vtype::RD_KAFKA_VTYPE_VALUE, Value { mem: memory(record.value) }),
            vu(vtype::RD_KAFKA_VTYPE_TIMESTAMP, Value { i64_: record.timestamp }),
            vu(vtype::RD_KAFKA_VTYPE_HEADERS, Value { headers: list }),
        ];
        let count = if headers.is_some() { values.len() } else { values.len() - 1 };
        // SAFETY: each value has the member that its type says; key and value are copied by the
        // call; the headers go over to the record exactly when it is taken.
        let result = check_error(unsafe {
            sys::rd_kafka_produceva(self.handle.0.as_ptr(), values.as_ptr(), count)
        });
        match result {
            Ok(()) => {
                _ = ManuallyDrop::new(headers);
                Ok(())
            }
            Err(failure) => Err((failure, headers)),
        }
    }
}

impl Drop for Topic {
    fn drop(&mut self) {
        // SAFETY: the topic is ours and not used any more; its client lives until after this.
        unsafe { sys::rd_kafka_topic_destroy(self.raw.as_ptr()) }
    }
}
