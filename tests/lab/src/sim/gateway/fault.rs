//! What can go wrong at a gateway, by name, written as the faults of a fleet are.

use std::fmt;
use std::str::FromStr;

use anyhow::{Context, Result, bail, ensure};

/// A fault with its parameters; replicas are those of every fleet behind the gateway.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum GatewayFault {
    /// Connections to the replica, or to all, are refused although the engines are well.
    BackendUnreachable {
        /// Index of the replica, `None` for all.
        replica: Option<usize>,
    },
    /// The replica, or each, computes so slowly that the gateway gives it up.
    BackendTimeout {
        /// Index of the replica, `None` for all.
        replica: Option<usize>,
        /// Multiple of the normal duration of a step.
        slowdown: f64,
    },
    /// Requests beyond `rpm` per minute are refused.
    RateLimited {
        /// Who counts.
        scope: LimitScope,
        /// Index of the key in scope `key`, `None` for each.
        key: Option<usize>,
        /// Requests per minute.
        rpm: u32,
    },
    /// `share` (0..1) of the requests name a model that the gateway does not know any more.
    GatewayMisroute {
        /// Share, 0..1.
        share: f64,
    },
    /// Requests with the key, or with any, are refused.
    AuthMisconfigured {
        /// Index of the key, `None` for all.
        key: Option<usize>,
        /// 401 or 403.
        status: u16,
    },
    /// Each request waits for a call to something else before it is routed, `slots` at a time.
    UpstreamBottleneck {
        /// Seconds that the call takes.
        seconds: f64,
        /// Calls at the same time.
        slots: usize,
    },
    /// The router does not see load: it sends `share` (0..1) of the requests to one replica.
    BlindScorer {
        /// Index of the replica.
        replica: usize,
        /// Share, 0..1.
        share: f64,
    },
    /// The gateway's own work per request takes `factor` times as long.
    GatewayOverload {
        /// Multiple of normal.
        factor: f64,
    },
}

/// Who counts requests per minute.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LimitScope {
    /// The gateway, per key.
    Key,
    /// Each backend, so that the gateway leaves it alone for a while.
    Deployments,
}

impl GatewayFault {
    /// Every fault with its default parameters.
    pub const ALL: [GatewayFault; 8] = [
        GatewayFault::BackendUnreachable { replica: None },
        GatewayFault::BackendTimeout { replica: None, slowdown: 60.0 },
        GatewayFault::RateLimited { scope: LimitScope::Key, key: Some(0), rpm: 60 },
        GatewayFault::GatewayMisroute { share: 1.0 },
        GatewayFault::AuthMisconfigured { key: Some(0), status: 401 },
        GatewayFault::UpstreamBottleneck { seconds: 3.0, slots: 8 },
        GatewayFault::BlindScorer { replica: 0, share: 0.85 },
        GatewayFault::GatewayOverload { factor: 40.0 },
    ];

    /// The name without parameters, in kebab case.
    pub fn name(&self) -> &'static str {
        match self {
            GatewayFault::BackendUnreachable { .. } => "backend-unreachable",
            GatewayFault::BackendTimeout { .. } => "backend-timeout",
            GatewayFault::RateLimited { .. } => "rate-limited",
            GatewayFault::GatewayMisroute { .. } => "gateway-misroute",
            GatewayFault::AuthMisconfigured { .. } => "auth-misconfigured",
            GatewayFault::UpstreamBottleneck { .. } => "upstream-bottleneck",
            GatewayFault::BlindScorer { .. } => "blind-scorer",
            GatewayFault::GatewayOverload { .. } => "gateway-overload",
        }
    }

    fn set(&mut self, name: &str, value: &str) -> Result<()> {
        match (self, name) {
            (
                GatewayFault::BackendUnreachable { replica } | GatewayFault::BackendTimeout { replica, .. },
                "replica",
            ) => {
                *replica = one_or_all(value)?;
            }
            (GatewayFault::RateLimited { key, .. } | GatewayFault::AuthMisconfigured { key, .. }, "key") => {
                *key = one_or_all(value)?;
            }
            (GatewayFault::BackendTimeout { slowdown, .. }, "slowdown") => *slowdown = within(value, 1.0, 1000.0)?,
            (GatewayFault::GatewayOverload { factor }, "factor") => *factor = within(value, 1.0, 1000.0)?,
            (GatewayFault::GatewayMisroute { share } | GatewayFault::BlindScorer { share, .. }, "share") => {
                *share = within(value, 0.0, 1.0)?;
            }
            (GatewayFault::UpstreamBottleneck { seconds, .. }, "seconds") => *seconds = within(value, 0.001, 600.0)?,
            (GatewayFault::UpstreamBottleneck { slots, .. }, "slots") => {
                *slots = value.parse().context("expected a number of calls")?;
                ensure!(*slots > 0, "expected at least 1");
            }
            (GatewayFault::BlindScorer { replica, .. }, "replica") => {
                *replica = value.parse().context("expected the index of a replica")?;
            }
            (GatewayFault::RateLimited { rpm, .. }, "rpm") => {
                *rpm = value.parse().context("expected requests per minute")?;
            }
            (GatewayFault::RateLimited { scope, .. }, "scope") => {
                *scope = match value {
                    "key" => LimitScope::Key,
                    "deployments" => LimitScope::Deployments,
                    _ => bail!("expected `key` or `deployments`"),
                };
            }
            (GatewayFault::AuthMisconfigured { status, .. }, "status") => {
                *status = match value {
                    "401" => 401,
                    "403" => 403,
                    _ => bail!("expected `401` or `403`"),
                };
            }
            (_, _) => bail!("no such parameter"),
        }
        Ok(())
    }
}

impl FromStr for GatewayFault {
    type Err = anyhow::Error;

    fn from_str(text: &str) -> Result<Self> {
        let (name, parameters) = text.split_once(':').unwrap_or((text, ""));
        let mut fault = *GatewayFault::ALL.iter().find(|fault| fault.name() == name).with_context(|| {
            let names: Vec<_> = GatewayFault::ALL.iter().map(GatewayFault::name).collect();
            format!("unknown gateway fault `{name}`, expected one of {}", names.join(", "))
        })?;
        for parameter in parameters.split(',').filter(|parameter| !parameter.is_empty()) {
            let (key, value) = parameter
                .split_once('=')
                .with_context(|| format!("gateway fault `{name}`: `{parameter}`: expected key=value"))?;
            fault.set(key, value).with_context(|| format!("gateway fault `{name}`: parameter `{parameter}`"))?;
        }
        Ok(fault)
    }
}

impl fmt::Display for GatewayFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let which = |index: &Option<usize>| index.map_or_else(|| "all".to_owned(), |index| index.to_string());
        write!(f, "{}:", self.name())?;
        match self {
            GatewayFault::BackendUnreachable { replica } => write!(f, "replica={}", which(replica)),
            GatewayFault::BackendTimeout { replica, slowdown } => {
                write!(f, "replica={},slowdown={slowdown}", which(replica))
            }
            GatewayFault::RateLimited { scope, key, rpm } => {
                let scope = match scope {
                    LimitScope::Key => "key",
                    LimitScope::Deployments => "deployments",
                };
                write!(f, "scope={scope},key={},rpm={rpm}", which(key))
            }
            GatewayFault::GatewayMisroute { share } => write!(f, "share={share}"),
            GatewayFault::AuthMisconfigured { key, status } => write!(f, "key={},status={status}", which(key)),
            GatewayFault::UpstreamBottleneck { seconds, slots } => write!(f, "seconds={seconds},slots={slots}"),
            GatewayFault::BlindScorer { replica, share } => write!(f, "replica={replica},share={share}"),
            GatewayFault::GatewayOverload { factor } => write!(f, "factor={factor}"),
        }
    }
}

fn one_or_all(value: &str) -> Result<Option<usize>> {
    match value {
        "all" => Ok(None),
        index => Ok(Some(index.parse().context("expected `all` or an index")?)),
    }
}

fn within(value: &str, least: f64, most: f64) -> Result<f64> {
    let number: f64 = value.parse().context("expected a number")?;
    ensure!((least..=most).contains(&number), "expected {least} to {most}");
    Ok(number)
}
