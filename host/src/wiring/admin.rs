//! The admin server of a running pipeline.

use std::{net::TcpListener, sync::Arc};

use dovetail_admin::{Admin, AdminParts, Bounds, Metrics};
use dovetail_runtime::{Handle, reload::Reloader, telemetry};
use metrics_exporter_prometheus::{Matcher, PrometheusBuilder, PrometheusHandle};

use crate::{config::Config, failure::Failure};

/// The bounds of the buckets for calls of the plugin, s: from what one costs to its deadline.
const CALL_SECONDS: [f64; 12] =
    [1e-6, 2e-6, 5e-6, 1e-5, 2e-5, 5e-5, 1e-4, 1e-3, 1e-2, 1e-1, 1.0, 10.0];

/// Starts recording metrics; before the first lane publishes any.
pub(super) fn record_metrics() -> Result<PrometheusHandle, Failure> {
    let call = Matcher::Full(telemetry::PLUGIN_CALL.to_owned());
    PrometheusBuilder::new()
        .set_buckets_for_metric(call, &CALL_SECONDS)
        .and_then(PrometheusBuilder::install_recorder)
        .map_err(|error| Failure::internal(error.to_string()))
}

/// Starts the admin server.
pub(super) fn serve(
    config: &Config,
    listener: TcpListener,
    handle: Handle,
    reloader: &Reloader,
    token: String,
    metrics: Metrics,
) -> Result<Admin, Failure> {
    let parts = AdminParts {
        listener,
        handle,
        token,
        metrics,
        push: Arc::new(reloader.pusher()),
        push_bytes_max: usize::try_from(config.plugin.limits.component_bytes).unwrap_or(usize::MAX),
        bounds: Bounds::default(),
    };
    Admin::start(parts).map_err(|error| Failure::internal(error.to_string()))
}
