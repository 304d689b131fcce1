//! The routes of the API.

use std::{sync::Arc, time::Duration};

use axum::{
    Json, Router,
    body::{Bytes, HttpBody as _},
    extract::{
        DefaultBodyLimit, FromRequest as _, Query, Request, State, rejection::QueryRejection,
    },
    http::{StatusCode, header},
    middleware,
    response::{IntoResponse, Response},
    routing::{get, post},
};
use dovetail_runtime::{Handle, clock, reload::PushError};
use serde::Deserialize;
use tokio::time::timeout;

use crate::{
    guard,
    server::{Metrics, Push},
    view::{
        CheckpointTriggeredView, Failure, LanesView, PushedView, ReadyView, RevisionView,
        StatusView, TimerView,
    },
};

/// A lane's loop that has not turned for this long is stuck: longer than any call to the broker
/// may take, so that an outage does not look like a defect. In ms.
const STUCK_AFTER: i64 = 60_000;
/// How many timers are shown.
const TIMERS_DEFAULT: usize = 20;
const TIMERS_MAX: usize = 10_000;

/// What the routes reach.
#[derive(Clone)]
pub(crate) struct App {
    pub(crate) handle: Handle,
    pub(crate) token: Arc<str>,
    pub(crate) metrics: Metrics,
    pub(crate) push: Push,
    /// How large a pushed plugin may be, in bytes.
    pub(crate) push_bytes_max: usize,
    /// How long it may take to come.
    pub(crate) body_timeout: Duration,
    /// Whether only this machine can make requests.
    pub(crate) is_loopback: bool,
}

/// Returns the routes.
pub(crate) fn router(app: App) -> Router {
    let changes = Router::new()
        .route("/api/v1/plugin", post(push))
        .route("/api/v1/checkpoint", post(checkpoint))
        .route("/api/v1/stop", post(stop))
        .layer(DefaultBodyLimit::max(app.push_bytes_max))
        .route_layer(middleware::from_fn_with_state(app.clone(), guard::changes));
    Router::new()
        .route("/livez", get(livez))
        .route("/readyz", get(readyz))
        .route("/health", get(livez))
        .route("/ready", get(readyz))
        .route("/metrics", get(render_metrics))
        .route("/api/v1/status", get(status))
        .route("/api/v1/lanes", get(lanes))
        .route("/api/v1/timers", get(timers))
        .route("/api/v1/plugins", get(plugins))
        .merge(changes)
        .fallback(async || failure(StatusCode::NOT_FOUND, "no such path".to_owned()))
        .layer(middleware::from_fn_with_state(app.clone(), guard::reads))
        .with_state(app)
}

fn failure(status: StatusCode, error: String) -> Response {
    (status, Json(Failure { error })).into_response()
}

async fn livez(State(app): State<App>) -> Response {
    let slowest = app.handle.slowest_heartbeat();
    if slowest <= STUCK_AFTER {
        return "ok\n".into_response();
    }
    let message = format!("a lane's loop has not turned for {slowest} ms\n");
    (StatusCode::SERVICE_UNAVAILABLE, message).into_response()
}

async fn readyz(State(app): State<App>) -> Response {
    let view = ReadyView::from(app.handle.readiness());
    let status = if view.ready { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE };
    (status, Json(view)).into_response()
}

async fn render_metrics(State(app): State<App>) -> Response {
    (app.metrics.refresh)();
    app.metrics.handle.run_upkeep();
    let text = app.metrics.handle.render();
    ([(header::CONTENT_TYPE, "text/plain; version=0.0.4")], text).into_response()
}

async fn status(State(app): State<App>) -> Json<StatusView> {
    Json(StatusView::new(&app.handle, clock::now()))
}

async fn lanes(State(app): State<App>) -> Json<LanesView> {
    Json(LanesView::new(&app.handle))
}

async fn plugins(State(app): State<App>) -> Json<Vec<RevisionView>> {
    Json(app.handle.revisions().into_iter().map(RevisionView::from).collect())
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct TimersQuery {
    n: Option<usize>,
}

async fn timers(
    State(app): State<App>,
    query: Result<Query<TimersQuery>, QueryRejection>,
) -> Response {
    let limit = match query.map(|Query(query)| query.n.unwrap_or(TIMERS_DEFAULT)) {
        Ok(limit) if (1..=TIMERS_MAX).contains(&limit) => limit,
        refused => {
            let found = refused.map_or_else(|error| error.body_text(), |n| format!("n: {n}"));
            let error = format!(
                "expected `n`, how many timers, from 1 to {TIMERS_MAX}, or nothing; found: {found}"
            );
            return failure(StatusCode::BAD_REQUEST, error);
        }
    };
    off_the_loop(move || {
        let timers = app.handle.timers_next(limit);
        let (names, lanes) = (app.handle.names(), app.handle.lanes());
        let view = |(lane, domain, timer)| {
            let of_lane = lanes.iter().find(|view| view.lane == lane);
            TimerView::new(names, of_lane, (lane, domain, &timer))
        };
        Json(timers.into_iter().map(view).collect::<Vec<_>>()).into_response()
    })
    .await
}

async fn push(State(app): State<App>, request: Request) -> Response {
    let body = match plugin_of(&app, request).await {
        Ok(body) => body,
        Err(refusal) => return refusal,
    };
    off_the_loop(move || match (app.push)(&body) {
        Ok(digest) => Json(PushedView { digest }).into_response(),
        Err(error) => {
            let status = match &error {
                PushError::Refused { .. } => StatusCode::UNPROCESSABLE_ENTITY,
                PushError::Swap(_) => StatusCode::CONFLICT,
                PushError::File { .. } => StatusCode::INTERNAL_SERVER_ERROR,
            };
            failure(status, error.to_string())
        }
    })
    .await
}

/// Reads a pushed plugin; one that says that it is too large is not waited for.
async fn plugin_of(app: &App, request: Request) -> Result<Bytes, Response> {
    let (size, max) = (request.body().size_hint().lower(), app.push_bytes_max);
    let too_large = |found: &str| {
        let error = format!(
            "the plugin has {found} bytes, it may have {max}: make it smaller, or raise \
             `plugin.limits.component_bytes`"
        );
        failure(StatusCode::PAYLOAD_TOO_LARGE, error)
    };
    if usize::try_from(size).is_ok_and(|size| size > max) {
        return Err(too_large(&size.to_string()));
    }
    match timeout(app.body_timeout, Bytes::from_request(request, &())).await {
        Ok(Ok(body)) => Ok(body),
        Ok(Err(error)) if error.status() == StatusCode::PAYLOAD_TOO_LARGE => Err(too_large("more")),
        Ok(Err(error)) => Err(failure(error.status(), error.body_text())),
        Err(_) => {
            let waited = app.body_timeout.as_secs();
            let error = format!("the plugin has not come within {waited} s: push it again");
            Err(failure(StatusCode::REQUEST_TIMEOUT, error))
        }
    }
}

async fn checkpoint(State(app): State<App>) -> Response {
    off_the_loop(move || {
        let taken = app.handle.checkpoint().into_iter().map(CheckpointTriggeredView::from);
        Json(taken.collect::<Vec<_>>()).into_response()
    })
    .await
}

async fn stop(State(app): State<App>) -> Response {
    off_the_loop(move || {
        app.handle.stop();
        (StatusCode::ACCEPTED, Json(ReadyView::from(app.handle.readiness()))).into_response()
    })
    .await
}

/// Runs what waits for lanes or compiles outside of the event loop, which goes on answering.
async fn off_the_loop(work: impl FnOnce() -> Response + Send + 'static) -> Response {
    match tokio::task::spawn_blocking(work).await {
        Ok(response) => response,
        Err(error) => failure(StatusCode::INTERNAL_SERVER_ERROR, format!("a defect: {error}")),
    }
}
