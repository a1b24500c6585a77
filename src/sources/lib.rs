//! The sources that are queried beside Prometheus: exporters, engines, Kubernetes, Loki, Alertmanager.

pub mod alertmanager;
pub mod endpoint;
pub mod exporter;
pub mod kubernetes;
pub mod loki;
