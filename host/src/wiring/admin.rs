//! The admin server and the signals of a running pipeline.

use std::{net::TcpListener, sync::Arc};

use dovetail_admin::{Admin, AdminParts, signals};
use dovetail_runtime::{Handle, reload::Reloader};
use metrics_exporter_prometheus::{PrometheusBuilder, PrometheusHandle};

use crate::{config::Config, failure::Failure};

/// The exit code after a second signal: as a shell reports SIGTERM.
const EXIT_AT_ONCE: i32 = 143;

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

/// Ends the pipeline at the first SIGTERM or SIGINT, the process at the second.
pub(super) fn stop_on_signals(handle: Handle) -> Result<(), Failure> {
    let first = move || {
        tracing::info!("stopping: ending the epochs; a second signal exits at once");
        handle.stop();
    };
    signals::on_termination(first, exit_at_once).map_err(Into::into)
}

fn exit_at_once() {
    // Not `process::exit`: that runs the destructors of C++ libraries whose threads still work.
    signal_hook::low_level::exit(EXIT_AT_ONCE);
}
