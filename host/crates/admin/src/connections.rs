//! Connections: how many there are at once, and how long each may take.
//!
//! A connection costs a file descriptor of the process that the store and the log live from too.
//! Whoever connects often or talks slowly may keep others from this port, never a lane from its
//! work.

use std::{io, pin::pin, sync::Arc, time::Duration};

use axum::{Router, serve::Listener};
use hyper::server::conn::http1;
use hyper_util::{
    rt::{TokioIo, TokioTimer},
    service::TowerToHyperService,
};
use tokio::{
    net::{TcpListener, TcpStream},
    sync::{Semaphore, oneshot, watch},
    time::{sleep, timeout},
};

/// What the connections of a server may take.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Bounds {
    /// How many there are at once; more wait until one of them ends.
    pub connections: u16,
    /// How long the head of a request may take to come, and a connection be idle before it.
    pub head: Duration,
    /// How long the body of a request may take to come.
    pub body: Duration,
    /// How long a connection takes new requests.
    pub life: Duration,
    /// How long its last request may take after that, until the answer has been read.
    pub last: Duration,
}

impl Default for Bounds {
    fn default() -> Self {
        Self {
            connections: 64,
            head: Duration::from_secs(10),
            body: Duration::from_secs(60),
            life: Duration::from_secs(60),
            last: Duration::from_secs(120),
        }
    }
}

/// Answers until it is told to stop; then requests in progress have the grace to end.
pub(crate) async fn serve(
    listener: std::net::TcpListener,
    routes: Router,
    bounds: Bounds,
    stopped: oneshot::Receiver<()>,
    grace: Duration,
) -> io::Result<()> {
    let mut listener = TcpListener::from_std(listener)?;
    let slots = Arc::new(Semaphore::new(bounds.connections.into()));
    let (going, ending) = watch::channel(());
    let accept = async {
        // A semaphore that nobody closes always gives.
        while let Ok(slot) = Arc::clone(&slots).acquire_owned().await {
            // Axum's own tries again where the process has no file descriptor left.
            let (stream, _) = Listener::accept(&mut listener).await;
            let (routes, ending) = (routes.clone(), ending.clone());
            tokio::spawn(async move {
                answer(stream, routes, bounds, ending).await;
                drop(slot);
            });
        }
    };
    tokio::select! {
        () = accept => {}
        // Either answer means that it is time.
        _ = stopped => {}
    }
    drop(listener);
    drop(going);
    let all = slots.acquire_many(bounds.connections.into());
    let _ended_or_cut = timeout(grace, all).await;
    Ok(())
}

/// Answers the requests of one connection.
async fn answer(
    stream: TcpStream,
    routes: Router,
    bounds: Bounds,
    mut ending: watch::Receiver<()>,
) {
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(bounds.head)
        .serve_connection(TokioIo::new(stream), TowerToHyperService::new(routes));
    let mut connection = pin!(connection);
    let result = tokio::select! {
        result = connection.as_mut() => Ok(result),
        () = async {
            tokio::select! {
                () = sleep(bounds.life) => {}
                // It fails when the server ends.
                _ = ending.changed() => {}
            }
        } => {
            connection.as_mut().graceful_shutdown();
            timeout(bounds.last, connection).await
        }
    };
    match result {
        Ok(Ok(())) => {}
        Ok(Err(error)) => tracing::debug!("a connection of the admin port has ended: {error}"),
        Err(_) => tracing::debug!("a connection of the admin port took too long and was cut"),
    }
}
