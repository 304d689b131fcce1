//! librdkafka's C interface, made safe: the one place of this crate with unsafe code.
//!
//! Why not the safe binding alone: batches out of one queue per partition, waiting for many queues
//! with one file descriptor and a drain without fixed steps decide between a third and the whole of
//! the transport's speed, and the binding offers none of them.
//!
//! Knows nothing of lanes, epochs or settings. Kept true here: a client outlives every queue and
//! topic of it (each holds a reference); every message, event, list and error that librdkafka hands
//! over is given back exactly once; no callback is registered, everything arrives by polling.
#![expect(unsafe_code, reason = "librdkafka is a C library; this module is its safe face")]

mod message;
mod offsets;
mod outgoing;
mod signal;

use std::{
    cell::{Ref, RefCell},
    ffi::{CStr, CString, c_char, c_int, c_void},
    fmt,
    mem::ManuallyDrop,
    os::fd::AsRawFd as _,
    ptr::{self, NonNull},
    slice,
    sync::Arc,
    time::Duration,
};

use rdkafka_sys as sys;
use rdkafka_sys::types::{RDKafkaErrorCode, RDKafkaRespErr};

use self::signal::SIGNAL_ONE;
pub(crate) use self::{
    message::{Batch, Message},
    offsets::Offsets,
    outgoing::{Outgoing, OutgoingHeaders, Topic},
    signal::Signal,
};
use crate::statistics::Statistics;

/// Length of the buffers for error texts.
const TEXT_BYTES: usize = 512;

/// What kind of client.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Reads.
    Consumer,
    /// Writes.
    Producer,
}

/// An error of librdkafka.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Failure {
    /// The code.
    pub(crate) code: RDKafkaErrorCode,
    /// What librdkafka says.
    pub(crate) text: String,
    /// The client is of no use any more.
    pub(crate) is_fatal: bool,
    /// The same call may be tried again.
    pub(crate) is_retriable: bool,
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({:?})", self.text, self.code)
    }
}

impl Failure {
    fn from_code(code: RDKafkaRespErr) -> Self {
        // SAFETY: takes a plain code and returns a pointer to a static text.
        let text = unsafe { text_of(sys::rd_kafka_err2str(code)) };
        Self { code: code.into(), text, is_fatal: false, is_retriable: false }
    }
}

fn check(code: RDKafkaRespErr) -> Result<(), Failure> {
    if code == RDKafkaRespErr::RD_KAFKA_RESP_ERR_NO_ERROR {
        Ok(())
    } else {
        Err(Failure::from_code(code))
    }
}

/// Takes an error object over.
fn check_error(error: *mut sys::rd_kafka_error_t) -> Result<(), Failure> {
    if error.is_null() {
        return Ok(());
    }
    // SAFETY: `error` is not null and ours; it is read before it is given back, once.
    unsafe {
        let failure = Failure {
            code: sys::rd_kafka_error_code(error).into(),
            text: text_of(sys::rd_kafka_error_string(error)),
            is_fatal: sys::rd_kafka_error_is_fatal(error) != 0,
            is_retriable: sys::rd_kafka_error_is_retriable(error) != 0,
        };
        sys::rd_kafka_error_destroy(error);
        Err(failure)
    }
}

/// Copies a C text; a null pointer is the empty text.
///
/// # Safety
///
/// `text` is null or points to a NUL-terminated string that lives during the call.
unsafe fn text_of(text: *const c_char) -> String {
    if text.is_null() {
        return String::new();
    }
    // SAFETY: the caller's promise.
    unsafe { CStr::from_ptr(text) }.to_string_lossy().into_owned()
}

fn millis(time: Duration) -> c_int {
    c_int::try_from(time.as_millis()).unwrap_or(c_int::MAX)
}

/// What a client reports beside messages.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum ClientEvent {
    /// A line of librdkafka's log; `level` is that of syslog.
    Log {
        /// 0 (emergency) to 7 (debug).
        level: i32,
        /// Which part of librdkafka.
        facility: String,
        /// The line.
        text: String,
    },
    /// Something failed in the background.
    Error {
        /// The code.
        code: RDKafkaErrorCode,
        /// What librdkafka says.
        text: String,
        /// The client is of no use any more.
        is_fatal: bool,
    },
    /// A record was not delivered.
    Undelivered {
        /// The topic.
        topic: String,
        /// The partition; −1 where none was chosen.
        partition: i32,
        /// The code.
        code: RDKafkaErrorCode,
        /// What librdkafka says.
        text: String,
    },
}

#[derive(Debug)]
struct Handle(NonNull<sys::rd_kafka_t>);

// SAFETY: librdkafka's clients may be used from any thread, also at the same time.
unsafe impl Send for Handle {}
// SAFETY: as above.
unsafe impl Sync for Handle {}

impl Drop for Handle {
    fn drop(&mut self) {
        // SAFETY: this is the last reference: every queue and topic of it is gone. Closing the
        // consumer is left out because it is no member of a group.
        unsafe {
            sys::rd_kafka_destroy_flags(self.0.as_ptr(), sys::RD_KAFKA_DESTROY_F_NO_CONSUMER_CLOSE);
        }
    }
}

/// A client: a consumer or a producer.
#[derive(Debug)]
pub(crate) struct Client {
    // Before `handle`: dropped first.
    main: Queue,
    /// What it last said of itself.
    statistics: RefCell<Statistics>,
    handle: Arc<Handle>,
}

impl Client {
    /// Makes a client from settings; nothing is connected yet.
    pub(crate) fn new(kind: Kind, settings: &[(String, String)]) -> Result<Self, String> {
        let conf = Conf::new(settings)?;
        let mut text = [0 as c_char; TEXT_BYTES];
        let kind = match kind {
            Kind::Consumer => sys::rd_kafka_type_t::RD_KAFKA_CONSUMER,
            Kind::Producer => sys::rd_kafka_type_t::RD_KAFKA_PRODUCER,
        };
        // SAFETY: the configuration is ours and goes over to the client when one is made; the
        // buffer is as long as said and NUL-terminated by the call.
        let raw = unsafe {
            let raw = sys::rd_kafka_new(kind, conf.0.as_ptr(), text.as_mut_ptr(), TEXT_BYTES);
            NonNull::new(raw).ok_or_else(|| text_of(text.as_ptr()))?
        };
        _ = ManuallyDrop::new(conf);
        let handle = Arc::new(Handle(raw));
        // SAFETY: the client lives; a main queue always exists, and the log goes to it.
        let main = unsafe {
            let main = sys::rd_kafka_queue_get_main(raw.as_ptr());
            sys::rd_kafka_set_log_queue(raw.as_ptr(), main);
            Queue::new(&handle, main).ok_or("librdkafka gave no main queue")?
        };
        Ok(Self { main, statistics: RefCell::default(), handle })
    }

    /// Returns what the client last said of itself; zeros before the first.
    pub(crate) fn statistics(&self) -> Ref<'_, Statistics> {
        self.statistics.borrow()
    }

    fn raw(&self) -> *mut sys::rd_kafka_t {
        self.handle.0.as_ptr()
    }

    /// Lets the arrival of an event signal.
    pub(crate) fn signal_to(&mut self, signal: &Arc<Signal>) {
        self.main.signal_to(signal);
    }

    /// Hands over the events that have arrived, waiting at most `wait` for the first.
    pub(crate) fn events(&self, wait: Duration, take: &mut dyn FnMut(ClientEvent)) {
        let mut wait = millis(wait);
        loop {
            // SAFETY: the queue lives; an event is ours until it is destroyed, after its last use.
            unsafe {
                let event = sys::rd_kafka_queue_poll(self.main.raw.as_ptr(), wait);
                if event.is_null() {
                    return;
                }
                if sys::rd_kafka_event_type(event) == sys::RD_KAFKA_EVENT_STATS {
                    let said = text_of(sys::rd_kafka_event_stats(event));
                    self.statistics.replace(Statistics::read(&said));
                }
                read_event(event, take);
                sys::rd_kafka_event_destroy(event);
            }
            wait = 0;
        }
    }

    /// Returns the error that has made the client useless, if there is one.
    pub(crate) fn fatal_error(&self) -> Option<Failure> {
        let mut text = [0 as c_char; TEXT_BYTES];
        // SAFETY: the buffer is as long as said and NUL-terminated by the call.
        let (code, text) = unsafe {
            let code = sys::rd_kafka_fatal_error(self.raw(), text.as_mut_ptr(), TEXT_BYTES);
            (code, text_of(text.as_ptr()))
        };
        let failure = Failure { text, is_fatal: true, ..Failure::from_code(code) };
        (code != RDKafkaRespErr::RD_KAFKA_RESP_ERR_NO_ERROR).then_some(failure)
    }

    /// Fetches the metadata of the topics that this client knows; returns whether an answer came.
    pub(crate) fn fetch_metadata(&self, wait: Duration) -> Result<(), Failure> {
        let mut metadata: *const sys::rd_kafka_metadata = ptr::null();
        // SAFETY: no topic is given; what is returned is given back at once.
        unsafe {
            check(sys::rd_kafka_metadata(
                self.raw(),
                0,
                ptr::null_mut(),
                &raw mut metadata,
                millis(wait),
            ))?;
            sys::rd_kafka_metadata_destroy(metadata);
        }
        Ok(())
    }

    /// Asks for the first offset of a partition and the one behind its last.
    pub(crate) fn watermarks(
        &self,
        topic: &CStr,
        partition: i32,
        wait: Duration,
    ) -> Result<(i64, i64), Failure> {
        let (mut low, mut high) = (0, 0);
        // SAFETY: the topic is NUL-terminated; both results are plain integers of ours.
        check(unsafe {
            sys::rd_kafka_query_watermark_offsets(
                self.raw(),
                topic.as_ptr(),
                partition,
                &raw mut low,
                &raw mut high,
                millis(wait),
            )
        })?;
        Ok((low, high))
    }

    /// Fills in what the group has committed.
    pub(crate) fn committed(&self, list: &mut Offsets, wait: Duration) -> Result<(), Failure> {
        // SAFETY: the list is ours and lives during the call.
        check(unsafe { sys::rd_kafka_committed(self.raw(), list.raw(), millis(wait)) })
    }

    /// Starts reading at the list's offsets.
    pub(crate) fn assign(&self, list: &Offsets) -> Result<(), Failure> {
        // SAFETY: the list is copied by the call.
        check(unsafe { sys::rd_kafka_assign(self.raw(), list.raw()) })
    }

    /// Goes on reading at the list's offsets; an element's own error is in the list.
    pub(crate) fn seek(&self, list: &mut Offsets, wait: Duration) -> Result<(), Failure> {
        // SAFETY: the list is ours and lives during the call.
        check_error(unsafe { sys::rd_kafka_seek_partitions(self.raw(), list.raw(), millis(wait)) })
    }

    /// Returns the queue of one partition, cut off from the common one.
    pub(crate) fn partition_queue(&self, topic: &CStr, partition: i32) -> Option<Queue> {
        // SAFETY: the topic is NUL-terminated; the queue is ours; forwarding it nowhere makes its
        // messages stay in it.
        unsafe {
            let raw = sys::rd_kafka_queue_get_partition(self.raw(), topic.as_ptr(), partition);
            let queue = Queue::new(&self.handle, raw)?;
            sys::rd_kafka_queue_forward(queue.raw.as_ptr(), ptr::null_mut());
            Some(queue)
        }
    }

    /// Returns the consumer's common queue.
    pub(crate) fn consumer_queue(&self) -> Option<Queue> {
        // SAFETY: the client lives; the queue, if there is one, is ours.
        unsafe { Queue::new(&self.handle, sys::rd_kafka_queue_get_consumer(self.raw())) }
    }

    /// Returns a topic to write to.
    pub(crate) fn topic(&self, name: &CStr) -> Result<Topic, Failure> {
        // SAFETY: the name is NUL-terminated; no configuration is given; the topic is ours.
        let raw = unsafe { sys::rd_kafka_topic_new(self.raw(), name.as_ptr(), ptr::null_mut()) };
        match NonNull::new(raw) {
            Some(raw) => Ok(Topic { raw, handle: Arc::clone(&self.handle) }),
            // SAFETY: reads a thread-local code.
            None => Err(Failure::from_code(unsafe { sys::rd_kafka_last_error() })),
        }
    }

    /// Ends transactions of earlier producers of the same name and shuts those out.
    pub(crate) fn init_transactions(&self, wait: Duration) -> Result<(), Failure> {
        // SAFETY: the client lives.
        check_error(unsafe { sys::rd_kafka_init_transactions(self.raw(), millis(wait)) })
    }

    /// Begins a transaction.
    pub(crate) fn begin_transaction(&self) -> Result<(), Failure> {
        // SAFETY: the client lives.
        check_error(unsafe { sys::rd_kafka_begin_transaction(self.raw()) })
    }

    /// Adds offsets of a group without members to the transaction.
    pub(crate) fn send_offsets(
        &self,
        list: &Offsets,
        group: &CStr,
        wait: Duration,
    ) -> Result<(), Failure> {
        // SAFETY: the group's name is NUL-terminated; its description is given back after the
        // call, which copies it and the list.
        check_error(unsafe {
            let group = sys::rd_kafka_consumer_group_metadata_new(group.as_ptr());
            let error = sys::rd_kafka_send_offsets_to_transaction(
                self.raw(),
                list.raw(),
                group,
                millis(wait),
            );
            sys::rd_kafka_consumer_group_metadata_destroy(group);
            error
        })
    }

    /// Commits the transaction, within what is left of its time.
    pub(crate) fn commit_transaction(&self) -> Result<(), Failure> {
        // SAFETY: the client lives.
        check_error(unsafe { sys::rd_kafka_commit_transaction(self.raw(), -1) })
    }

    /// Sends what is queued and waits for the reports; returns whether all have come.
    pub(crate) fn flush(&self, wait: Duration) -> bool {
        // SAFETY: the client lives.
        let code = unsafe { sys::rd_kafka_flush(self.raw(), millis(wait)) };
        code == RDKafkaRespErr::RD_KAFKA_RESP_ERR_NO_ERROR
    }

    /// Drops everything not delivered, so that the client can be destroyed at once.
    pub(crate) fn purge(&self) {
        const QUEUE_INFLIGHT_WITHOUT_WAITING: c_int = 0x1 | 0x2 | 0x4;
        // SAFETY: the client lives.
        unsafe {
            sys::rd_kafka_purge(self.raw(), QUEUE_INFLIGHT_WITHOUT_WAITING);
        }
    }
}

/// Reads an event.
///
/// # Safety
///
/// `event` is a live event.
unsafe fn read_event(event: *mut sys::rd_kafka_event_t, take: &mut dyn FnMut(ClientEvent)) {
    // SAFETY: the caller's promise; every pointer read here belongs to the event.
    unsafe {
        match sys::rd_kafka_event_type(event) {
            sys::RD_KAFKA_EVENT_LOG => {
                let (mut facility, mut text, mut level) = (ptr::null(), ptr::null(), 0);
                sys::rd_kafka_event_log(event, &raw mut facility, &raw mut text, &raw mut level);
                let (facility, text) = (text_of(facility), text_of(text));
                take(ClientEvent::Log { level, facility, text });
            }
            sys::RD_KAFKA_EVENT_ERROR => take(ClientEvent::Error {
                code: sys::rd_kafka_event_error(event).into(),
                text: text_of(sys::rd_kafka_event_error_string(event)),
                is_fatal: sys::rd_kafka_event_error_is_fatal(event) != 0,
            }),
            sys::RD_KAFKA_EVENT_DR => loop {
                let message = sys::rd_kafka_event_message_next(event);
                let Some(message) = message.as_ref().map(Message) else {
                    break;
                };
                if let Some(code) = message.error() {
                    take(ClientEvent::Undelivered {
                        topic: message.topic(),
                        partition: message.partition(),
                        code,
                        text: Failure::from_code(message.0.err).text,
                    });
                }
            },
            _ => {}
        }
    }
}

struct Conf(NonNull<sys::rd_kafka_conf_t>);

impl Conf {
    fn new(settings: &[(String, String)]) -> Result<Self, String> {
        // SAFETY: makes an object of ours; events are asked for instead of callbacks.
        let conf = unsafe {
            let conf = Self(NonNull::new(sys::rd_kafka_conf_new()).ok_or("out of memory")?);
            let events = sys::RD_KAFKA_EVENT_DR
                | sys::RD_KAFKA_EVENT_LOG
                | sys::RD_KAFKA_EVENT_ERROR
                | sys::RD_KAFKA_EVENT_STATS;
            sys::rd_kafka_conf_set_events(conf.0.as_ptr(), events);
            conf
        };
        conf.set("log.queue", "true")?;
        for (name, value) in settings {
            conf.set(name, value)?;
        }
        Ok(conf)
    }

    fn set(&self, name: &str, value: &str) -> Result<(), String> {
        let mut text = [0 as c_char; TEXT_BYTES];
        let c_name = c_text(name)?;
        // The value may be a secret: it is in no message.
        let c_value =
            CString::new(value).map_err(|_nul| format!("`{name}` contains a zero byte"))?;
        // SAFETY: both texts are NUL-terminated; the buffer is as long as said.
        let (result, text) = unsafe {
            let result = sys::rd_kafka_conf_set(
                self.0.as_ptr(),
                c_name.as_ptr(),
                c_value.as_ptr(),
                text.as_mut_ptr(),
                TEXT_BYTES,
            );
            (result, text_of(text.as_ptr()))
        };
        match result {
            sys::rd_kafka_conf_res_t::RD_KAFKA_CONF_OK => Ok(()),
            sys::rd_kafka_conf_res_t::RD_KAFKA_CONF_UNKNOWN => {
                Err(format!("librdkafka knows no setting `{name}`"))
            }
            sys::rd_kafka_conf_res_t::RD_KAFKA_CONF_INVALID => Err(text),
        }
    }
}

impl Drop for Conf {
    fn drop(&mut self) {
        // SAFETY: no client has taken it over: then it would have been forgotten.
        unsafe { sys::rd_kafka_conf_destroy(self.0.as_ptr()) }
    }
}

/// Makes a C text.
pub(crate) fn c_text(text: &str) -> Result<CString, String> {
    CString::new(text).map_err(|_nul| format!("{text:?} contains a zero byte"))
}

/// Where messages or events arrive.
#[derive(Debug)]
pub(crate) struct Queue {
    raw: NonNull<sys::rd_kafka_queue_t>,
    signal: Option<Arc<Signal>>,
    // After `raw` is destroyed in `drop`, the client may go.
    _handle: Arc<Handle>,
}

// SAFETY: librdkafka's queues may be used from any thread.
unsafe impl Send for Queue {}

impl Queue {
    /// Takes a queue over; null is none.
    ///
    /// # Safety
    ///
    /// `raw` is null or a queue of that client, and ours.
    unsafe fn new(handle: &Arc<Handle>, raw: *mut sys::rd_kafka_queue_t) -> Option<Self> {
        let raw = NonNull::new(raw)?;
        Some(Self { raw, signal: None, _handle: Arc::clone(handle) })
    }

    /// Lets the queue signal whenever it has been empty and no longer is.
    pub(crate) fn signal_to(&mut self, signal: &Arc<Signal>) {
        // SAFETY: the descriptor stays open until `drop` has disabled it: we hold a reference. The
        // payload is copied by the call.
        unsafe {
            sys::rd_kafka_queue_io_event_enable(
                self.raw.as_ptr(),
                signal.0.as_raw_fd(),
                (&raw const SIGNAL_ONE).cast(),
                SIGNAL_ONE.len(),
            );
        }
        self.signal = Some(Arc::clone(signal));
    }

    /// Puts what has arrived into an empty batch, without waiting; returns how many messages.
    pub(crate) fn take_batch(&self, batch: &mut Batch) -> usize {
        batch.clear();
        let room = batch.messages.capacity();
        // SAFETY: the vector has room for as many pointers; those returned are valid and ours.
        unsafe {
            let count = sys::rd_kafka_consume_batch_queue(
                self.raw.as_ptr(),
                0,
                batch.messages.as_mut_ptr(),
                room,
            );
            let count = usize::try_from(count).unwrap_or(0);
            batch.messages.set_len(count);
            count
        }
    }
}

impl Drop for Queue {
    fn drop(&mut self) {
        // SAFETY: the queue is ours and not used any more; signals end before the descriptor can
        // be closed.
        unsafe {
            if self.signal.is_some() {
                sys::rd_kafka_queue_io_event_enable(self.raw.as_ptr(), -1, ptr::null(), 0);
            }
            sys::rd_kafka_queue_destroy(self.raw.as_ptr());
        }
    }
}

/// Returns bytes; null is none.
///
/// # Safety
///
/// `start` is null or the start of `size` bytes that live for `'a`.
unsafe fn bytes_of<'a>(start: *const c_void, size: usize) -> Option<&'a [u8]> {
    let start = NonNull::new(start.cast_mut())?;
    // SAFETY: the caller's promise.
    Some(unsafe { slice::from_raw_parts(start.as_ptr().cast::<u8>(), size) })
}
