//! The service's own list of incidents, over its API.

use anyhow::Context;
use serde::Deserialize;

use crate::stack;

/// An incident, as far as the story needs it.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub(super) struct Incident {
    /// Its id.
    pub(super) id: String,
    /// Whether it is still going on.
    pub(super) open: bool,
    /// Alertmanager's key of its group, which names the pool's labels.
    #[serde(default)]
    group_key: String,
    /// The message's first line.
    #[serde(default)]
    pub(super) headline: String,
    /// The ids from the symptom to the root; none before a diagnosis, or when nothing is likely.
    #[serde(default)]
    chain: Option<Vec<String>>,
}

impl Incident {
    /// The chain's ids, symptom first.
    pub(super) fn chain(&self) -> &[String] {
        self.chain.as_deref().unwrap_or_default()
    }

    /// Whether it is of the pool in this namespace.
    pub(super) fn is_of(&self, namespace: &str) -> bool {
        self.group_key.contains(&format!("namespace=\"{namespace}\""))
    }

    /// `high-ttft ← kv-cache-full ← longer-prompts`.
    pub(super) fn spoken(&self) -> String {
        self.chain().join(" ← ")
    }
}

/// Where to ask.
pub(super) struct Incidents {
    http: reqwest::Client,
    url: String,
}

impl Incidents {
    /// Of the service at this address.
    pub(super) fn at(service: &str) -> anyhow::Result<Self> {
        Ok(Self { http: stack::http()?, url: format!("{service}/api/v1/incidents") })
    }

    /// All incidents, newest first.
    pub(super) async fn list(&self) -> anyhow::Result<Vec<Incident>> {
        let answer = self.http.get(&self.url).send().await.and_then(reqwest::Response::error_for_status);
        let answer = answer.with_context(|| format!("no list of incidents from {}", self.url))?;
        answer.json().await.with_context(|| format!("the incidents from {} cannot be read", self.url))
    }
}
