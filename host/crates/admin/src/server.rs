//! The server: one thread, one event loop, one listening socket.

use std::{
    fmt, io,
    net::{SocketAddr, TcpListener},
    sync::Arc,
    thread::JoinHandle,
    time::Duration,
};

use dovetail_runtime::{Handle, reload::PushError};
use metrics_exporter_prometheus::PrometheusHandle;
use tokio::sync::oneshot;

use crate::{
    connections::{self, Bounds},
    routes::{App, router},
};

/// Takes a pushed plugin through the gate and lets every lane take it over; returns its digest.
pub type Push = Arc<dyn Fn(&[u8]) -> Result<String, PushError> + Send + Sync>;

/// What `/metrics` answers with.
#[derive(Clone)]
pub struct Metrics {
    /// The recorder's handle.
    pub handle: PrometheusHandle,
    /// Publishes what nothing publishes by itself; called before each answer.
    pub refresh: Arc<dyn Fn() + Send + Sync>,
}

impl fmt::Debug for Metrics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Metrics").finish_non_exhaustive()
    }
}

/// How long requests in progress may go on when the server ends.
const GRACE: Duration = Duration::from_secs(2);

/// What the server needs.
pub struct AdminParts {
    /// Where it listens: what [`bind`] has returned.
    pub listener: TcpListener,
    /// The pipeline.
    pub handle: Handle,
    /// What a change must bring along; an empty one lets no change through.
    pub token: String,
    /// The metrics.
    pub metrics: Metrics,
    /// Takes a pushed plugin.
    pub push: Push,
    /// How large a pushed plugin may be, in bytes.
    pub push_bytes_max: usize,
    /// What its connections may take.
    pub bounds: Bounds,
}

impl fmt::Debug for AdminParts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AdminParts").field("listener", &self.listener).finish_non_exhaustive()
    }
}

/// Why the server could not start.
#[derive(Debug, thiserror::Error)]
pub enum AdminError {
    /// The address cannot be listened on.
    #[error("cannot listen on {listen}: {error}; say another address in `admin.listen`")]
    Listen {
        /// The address.
        listen: SocketAddr,
        /// The system's reason.
        error: io::Error,
    },
    /// The system gave no thread or event loop.
    #[error("cannot start the admin server: {0}")]
    Start(#[from] io::Error),
}

/// A running server; dropping it ends it.
#[derive(Debug)]
pub struct Admin {
    address: SocketAddr,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

/// Takes an address, so that nothing has been made or acquired when it is refused; port 0 takes a
/// free one. Requests wait until the server starts.
///
/// # Errors
///
/// When the address is taken or not ours.
pub fn bind(listen: SocketAddr) -> Result<TcpListener, AdminError> {
    TcpListener::bind(listen).map_err(|error| AdminError::Listen { listen, error })
}

impl Admin {
    /// Starts answering.
    ///
    /// # Errors
    ///
    /// When the system gives no thread or event loop.
    pub fn start(parts: AdminParts) -> Result<Self, AdminError> {
        let listener = parts.listener;
        listener.set_nonblocking(true)?;
        let address = listener.local_addr()?;
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let (stop, stopped) = oneshot::channel();
        let app = App {
            handle: parts.handle,
            token: parts.token.into(),
            metrics: parts.metrics,
            push: parts.push,
            push_bytes_max: parts.push_bytes_max,
            body_timeout: parts.bounds.body,
            is_loopback: address.ip().is_loopback(),
        };
        let serve = connections::serve(listener, router(app), parts.bounds, stopped, GRACE);
        let thread = std::thread::Builder::new().name("admin".to_owned()).spawn(move || {
            if let Err(error) = runtime.block_on(serve) {
                tracing::error!("the admin server has ended: {error}");
            }
            runtime.shutdown_timeout(GRACE);
        })?;
        tracing::info!("health, metrics and status on http://{address}");
        Ok(Self { address, stop: Some(stop), thread: Some(thread) })
    }

    /// Returns where the server listens.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }
}

impl Drop for Admin {
    fn drop(&mut self) {
        // The server ends when the sender is gone.
        drop(self.stop.take());
        if let Some(thread) = self.thread.take()
            && thread.join().is_err()
        {
            tracing::error!("the admin server has panicked");
        }
    }
}
