//! librdkafka's C interface, made safe: the one place of this crate with unsafe code.
//!
//! Why not the safe binding alone: batches out of one queue per partition, waiting for many queues
//! with one file descriptor and a drain without fixed steps decide between a third and the whole of
//! the transport's speed, and the binding offers none of them.
//!
//! Knows nothing of lanes, epochs or settings. Kept true here: a client outlives every queue and
//! topic of it (each holds a reference); every message, event, list and error that librdkafka hands
//! over is given back exactly once; no callback is registered, everything arrives by polling.
#![expect(
    unsafe_code,
    reason = "librdkafka is a C library; this module is its safe face"
)]

use std::{
    ffi::{CStr, CString, c_char, c_int, c_void},
    fmt,
    fs::File,
    io::{Read as _, Write as _},
    mem::ManuallyDrop,
    os::fd::{AsRawFd as _, FromRawFd as _, OwnedFd},
    ptr::{self, NonNull},
    slice,
    sync::Arc,
    time::Duration,
};

use rdkafka_sys as sys;
use rdkafka_sys::types::{RDKafkaErrorCode, RDKafkaRespErr};

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
        Self {
            code: code.into(),
            text,
            is_fatal: false,
            is_retriable: false,
        }
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
    unsafe { CStr::from_ptr(text) }
        .to_string_lossy()
        .into_owned()
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
        Ok(Self { main, handle })
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
        let failure = Failure {
            text,
            is_fatal: true,
            ..Failure::from_code(code)
        };
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

    /// Replaces the times in the list's offsets with the first offset of that time or later.
    pub(crate) fn offsets_for_times(
        &self,
        list: &mut Offsets,
        wait: Duration,
    ) -> Result<(), Failure> {
        // SAFETY: the list is ours and lives during the call.
        check(unsafe { sys::rd_kafka_offsets_for_times(self.raw(), list.raw(), millis(wait)) })
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
            Some(raw) => Ok(Topic {
                raw,
                handle: Arc::clone(&self.handle),
            }),
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
                take(ClientEvent::Log {
                    level,
                    facility,
                    text,
                });
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
            let events =
                sys::RD_KAFKA_EVENT_DR | sys::RD_KAFKA_EVENT_LOG | sys::RD_KAFKA_EVENT_ERROR;
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
        Some(Self {
            raw,
            signal: None,
            _handle: Arc::clone(handle),
        })
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

static SIGNAL_ONE: [u8; 8] = 1_u64.to_ne_bytes();

/// A file descriptor to wait on, which queues and other threads signal.
#[derive(Debug)]
pub(crate) struct Signal(File);

impl Signal {
    /// Makes one.
    pub(crate) fn new() -> std::io::Result<Self> {
        // SAFETY: takes plain numbers; the descriptor returned is new and ours.
        let file = unsafe {
            let fd = libc::eventfd(0, libc::EFD_NONBLOCK | libc::EFD_CLOEXEC);
            if fd < 0 {
                return Err(std::io::Error::last_os_error());
            }
            File::from(OwnedFd::from_raw_fd(fd))
        };
        Ok(Self(file))
    }

    /// Ends a wait, now or the next one.
    pub(crate) fn raise(&self) {
        // It fails only when the counter is full: then it is raised already.
        drop((&self.0).write(&SIGNAL_ONE));
    }

    /// Waits until it is raised or the time is over, and takes it back.
    pub(crate) fn wait(&self, at_most: Duration) {
        let at_most = c_int::try_from(at_most.as_micros().div_ceil(1000)).unwrap_or(c_int::MAX);
        let mut poll = libc::pollfd {
            fd: self.0.as_raw_fd(),
            events: libc::POLLIN,
            revents: 0,
        };
        // SAFETY: one structure of ours, as said; the descriptor is open.
        let ready = unsafe { libc::poll(&raw mut poll, 1, at_most) };
        if ready > 0 {
            // Nothing to read means that another wait took it.
            drop((&self.0).read(&mut [0; 8]));
        }
    }
}

/// Messages taken from a queue at once.
#[derive(Debug)]
pub(crate) struct Batch {
    messages: Vec<*mut sys::rd_kafka_message_t>,
}

// SAFETY: messages may be read and destroyed from any thread.
unsafe impl Send for Batch {}

impl Batch {
    /// Makes one with room for `size` messages.
    pub(crate) fn with_room(size: usize) -> Self {
        Self {
            messages: Vec::with_capacity(size),
        }
    }

    /// Returns for how many messages there is room.
    pub(crate) fn room(&self) -> usize {
        self.messages.capacity()
    }

    /// Returns the messages in order.
    pub(crate) fn iter(&self) -> impl Iterator<Item = Message<'_>> {
        // SAFETY: each pointer is valid until `clear`, which needs the batch for itself.
        self.messages
            .iter()
            .map(|&message| Message(unsafe { &*message }))
    }

    /// Gives the messages back.
    pub(crate) fn clear(&mut self) {
        for message in self.messages.drain(..) {
            // SAFETY: each is ours and given back once.
            unsafe { sys::rd_kafka_message_destroy(message) }
        }
    }
}

impl Drop for Batch {
    fn drop(&mut self) {
        self.clear();
    }
}

/// A message or an error about a partition.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Message<'a>(&'a sys::rd_kafka_message_t);

impl<'a> Message<'a> {
    /// Returns the error, if this is one.
    pub(crate) fn error(&self) -> Option<RDKafkaErrorCode> {
        (self.0.err != RDKafkaRespErr::RD_KAFKA_RESP_ERR_NO_ERROR).then(|| self.0.err.into())
    }

    /// Returns what an error says.
    pub(crate) fn error_text(&self) -> String {
        // SAFETY: the message lives; the text belongs to it.
        unsafe { text_of(sys::rd_kafka_message_errstr(self.0)) }
    }

    /// Returns the topic; empty where there is none.
    pub(crate) fn topic(&self) -> String {
        if self.0.rkt.is_null() {
            return String::new();
        }
        // SAFETY: the topic lives as long as the message.
        unsafe { text_of(sys::rd_kafka_topic_name(self.0.rkt)) }
    }

    /// Returns the partition.
    pub(crate) fn partition(&self) -> i32 {
        self.0.partition
    }

    /// Returns the offset.
    pub(crate) fn offset(&self) -> i64 {
        self.0.offset
    }

    /// Returns the key; `None` is null.
    pub(crate) fn key(&self) -> Option<&'a [u8]> {
        // SAFETY: key and length belong together and live as long as the message.
        unsafe { bytes_of(self.0.key, self.0.key_len) }
    }

    /// Returns the value; `None` is null.
    pub(crate) fn value(&self) -> Option<&'a [u8]> {
        // SAFETY: value and length belong together and live as long as the message.
        unsafe { bytes_of(self.0.payload, self.0.len) }
    }

    /// Returns the timestamp in ms, where there is one.
    pub(crate) fn timestamp(&self) -> Option<i64> {
        let mut kind = sys::rd_kafka_timestamp_type_t::RD_KAFKA_TIMESTAMP_NOT_AVAILABLE;
        // SAFETY: the message lives.
        let time = unsafe { sys::rd_kafka_message_timestamp(self.0, &raw mut kind) };
        (kind != sys::rd_kafka_timestamp_type_t::RD_KAFKA_TIMESTAMP_NOT_AVAILABLE).then_some(time)
    }

    /// Visits the headers in order.
    pub(crate) fn each_header(&self, visit: &mut dyn FnMut(String, Option<&[u8]>)) {
        let mut headers = ptr::null_mut();
        // SAFETY: the headers belong to the message, their names and values to them.
        unsafe {
            let found = sys::rd_kafka_message_headers(self.0, &raw mut headers);
            if found != RDKafkaRespErr::RD_KAFKA_RESP_ERR_NO_ERROR {
                return;
            }
            for index in 0.. {
                let (mut name, mut value, mut size) = (ptr::null(), ptr::null(), 0);
                let found = sys::rd_kafka_header_get_all(
                    headers,
                    index,
                    &raw mut name,
                    &raw mut value,
                    &raw mut size,
                );
                if found != RDKafkaRespErr::RD_KAFKA_RESP_ERR_NO_ERROR {
                    return;
                }
                visit(text_of(name), bytes_of(value, size));
            }
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
        let (start, size) = value.map_or((ptr::null(), 0), |value| {
            (value.as_ptr().cast(), value.len())
        });
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
    raw: NonNull<sys::rd_kafka_topic_t>,
    handle: Arc<Handle>,
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
        let list = headers
            .as_ref()
            .map_or(ptr::null_mut(), |headers| headers.0.as_ptr());
        let values = [
            vu(
                vtype::RD_KAFKA_VTYPE_RKT,
                Value {
                    rkt: self.raw.as_ptr(),
                },
            ),
            vu(
                vtype::RD_KAFKA_VTYPE_MSGFLAGS,
                Value {
                    i: sys::RD_KAFKA_MSG_F_COPY,
                },
            ),
            vu(
                vtype::RD_KAFKA_VTYPE_PARTITION,
                Value {
                    i32_: record.partition,
                },
            ),
            vu(
                vtype::RD_KAFKA_VTYPE_KEY,
                Value {
                    mem: memory(record.key),
                },
            ),
            vu(
                vtype::RD_KAFKA_VTYPE_VALUE,
                Value {
                    mem: memory(record.value),
                },
            ),
            vu(
                vtype::RD_KAFKA_VTYPE_TIMESTAMP,
                Value {
                    i64_: record.timestamp,
                },
            ),
            vu(vtype::RD_KAFKA_VTYPE_HEADERS, Value { headers: list }),
        ];
        let count = if headers.is_some() {
            values.len()
        } else {
            values.len() - 1
        };
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
        NonNull::new(raw)
            .map(Self)
            .ok_or_else(|| "out of memory".to_owned())
    }

    fn raw(&self) -> *mut sys::rd_kafka_topic_partition_list_t {
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
