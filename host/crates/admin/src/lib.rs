//! HTTP API, health and metrics.
