//! The admin server of a running pipeline.

use std::{net::TcpListener, sync::Arc};

use dovetail_admin::{Admin, AdminParts};
use dovetail_runtime::{Handle, reload::Reloader};
use metrics_exporter_prometheus::{PrometheusBuilder, PrometheusHandle};

use crate::{config::Config, failure::Failure};

/// Starts recording metrics; before the first lane publishes any.
pub(super) fn record_metrics() -> Result<PrometheusHandle, Failure> {
    PrometheusBuilder::new()
        .install_recorder()
        .map_err(|error| Failure::internal(error.to_string()))
}

/// Starts the admin server.
pub(super) fn serve(
    config: &Config,
    listener: TcpListener,
    handle: Handle,
    reloader: &Reloader,
    token: String,
    metrics: PrometheusHandle,
) -> Result<Admin, Failure> {
    let parts = AdminParts {
        listener,
        handle,
        token,
        metrics,
        push: Arc::new(reloader.pusher()),
        push_bytes_max: usize::try_from(config.plugin.limits.component_bytes).unwrap_or(usize::MAX),
    };
    Admin::start(parts).map_err(|error| Failure::internal(error.to_string()))
}
