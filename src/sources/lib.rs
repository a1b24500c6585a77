//! The sources that are queried: Prometheus, exporters, engines, Kubernetes, Loki, Alertmanager, logs; and redaction.

pub mod alertmanager;
pub mod body;
pub mod endpoint;
pub mod exporter;
pub mod kubernetes;
pub mod logs;
pub mod loki;
pub mod prom;
pub mod redact;
