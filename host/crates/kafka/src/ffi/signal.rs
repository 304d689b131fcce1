//! Waiting for many queues at once.

use std::{
    ffi::c_int,
    fs::File,
    io::{Read as _, Write as _},
    os::fd::{AsRawFd as _, FromRawFd as _, OwnedFd},
    time::Duration,
};

/// What a queue writes.
pub(super) static SIGNAL_ONE: [u8; 8] = 1_u64.to_ne_bytes();

/// A file descriptor to wait on, which queues and other threads signal.
#[derive(Debug)]
pub(crate) struct Signal(pub(super) File);

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
        let mut poll = libc::pollfd { fd: self.0.as_raw_fd(), events: libc::POLLIN, revents: 0 };
        // SAFETY: one structure of ours, as said; the descriptor is open.
        let ready = unsafe { libc::poll(&raw mut poll, 1, at_most) };
        if ready > 0 {
            // Nothing to read means that another wait took it.
            drop((&self.0).read(&mut [0; 8]));
        }
    }
}
