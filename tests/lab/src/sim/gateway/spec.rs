//! What a simulated gateway is: its kind, its clients' keys, its limits and costs.

use anyhow::{Result, ensure};

/// A gateway in front of one or more fleets.
#[derive(Debug, Clone)]
pub struct GatewaySpec {
    /// Which program it is.
    pub kind: GatewayKind,
    /// Kubernetes namespace of its pod.
    pub namespace: String,
    /// The clients' keys; only LiteLLM shows them.
    pub keys: Vec<ApiKey>,
    /// Seconds without a token after which it gives a backend up.
    pub timeout_seconds: f64,
    /// Further tries after a failed one, if there is another backend.
    pub retries: u32,
    /// Seconds for which LiteLLM leaves a failing deployment alone.
    pub cooldown_seconds: f64,
    /// Seconds after which Dynamo forgets a worker that is gone.
    pub lease_seconds: f64,
    /// Requests it works on at the same time.
    pub cpu_slots: usize,
    /// Seconds of own work per request.
    pub cpu_seconds: f64,
    /// Seconds of waiting for itself from which on it turns requests away; `None` lets them wait.
    pub most_queue_seconds: Option<f64>,
}

/// Gateways that are simulated.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum GatewayKind {
    /// LiteLLM proxy 1.106: one deployment per replica, chosen at random.
    LiteLlm,
    /// Dynamo 1.6 frontend in KV mode; the serving pods show a worker's metrics too.
    Dynamo,
    /// The endpoint picker of llm-d from 0.9 on: `llm_d_epp_*` and, deprecated, the names before.
    Epp,
    /// The endpoint picker of the inference extension 1.1 to 1.5: `inference_objective_*`.
    EppObjective,
    /// The SGLang router in HTTP mode: `smg_*`.
    Smg,
}

/// A key that clients authenticate with.
#[derive(Debug, Clone)]
pub struct ApiKey {
    /// Label `api_key_alias`.
    pub alias: String,
    /// Labels `team_alias` and, with a prefix, `team`.
    pub team: String,
    /// Weight of its share in the traffic.
    pub share: f64,
}

impl GatewaySpec {
    /// A gateway of `kind` with its own defaults where it has some.
    pub fn new(kind: GatewayKind) -> Self {
        let key = |alias: &str, team: &str, share| ApiKey { alias: alias.to_owned(), team: team.to_owned(), share };
        Self {
            kind,
            namespace: "llm-gateway".to_owned(),
            keys: vec![key("alpha-key", "alpha", 0.7), key("beta-key", "beta", 0.3)],
            timeout_seconds: 15.0,
            retries: if kind == GatewayKind::LiteLlm { 2 } else { 0 },
            cooldown_seconds: 5.0,
            lease_seconds: 12.0,
            cpu_slots: 2,
            cpu_seconds: 0.008,
            most_queue_seconds: None,
        }
    }

    /// Errors on a spec that no gateway could start with.
    pub fn validate(&self) -> Result<()> {
        ensure!(!self.keys.is_empty(), "a gateway needs at least one key");
        ensure!(self.keys.iter().all(|key| key.share > 0.0), "each key needs a positive share of the traffic");
        ensure!(self.timeout_seconds > 0.0, "the timeout of a gateway must be positive");
        ensure!(self.cpu_slots > 0 && self.cpu_seconds > 0.0, "a gateway needs a slot and a cost per request");
        Ok(())
    }
}

impl GatewayKind {
    /// Label `job`, port, and the name of its Deployment.
    pub(super) fn job(self) -> (&'static str, u16, &'static str) {
        match self {
            GatewayKind::LiteLlm => ("litellm", 4000, "litellm"),
            GatewayKind::Dynamo => ("dynamo-frontend", 8000, "dynamo-frontend"),
            GatewayKind::Epp | GatewayKind::EppObjective => ("epp", 9090, "llm-d-epp"),
            GatewayKind::Smg => ("sglang-router", 29000, "sglang-router"),
        }
    }
}
