//! A fake API server of a cluster: what it is given it serves as the real one does, and it records every request.
//!
//! Sources: kubernetes.io/docs/reference/using-api/api-concepts (lists in pages, `continue`, Status), and the API
//! reference of pods/log (`tailLines` before `limitBytes`, which cuts off the end).

mod objects;
mod serve;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use anyhow::Context;
use axum::Router;
use serde_json::Value;
use tokio::net::TcpListener;
use tokio::task::JoinHandle;

pub use objects::{deployment, event, node, object, owned, pod};

/// How requests are answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mode {
    /// As the real one does.
    Fine,
    /// Never.
    Hang,
    /// The first half, and then nothing more.
    Stall,
    /// 403, as without the permission.
    Forbidden,
    /// 401.
    Unauthorized,
    /// With this status.
    Status(u16),
    /// 200 and something else.
    Garbage,
    /// 200 and an answer without an end.
    Huge,
}

/// A request that came.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Asked {
    /// `GET`, hopefully.
    pub method: String,
    /// The path.
    pub path: String,
    /// The parameters.
    pub query: BTreeMap<String, String>,
}

/// The server; it stops when dropped.
pub struct FakeKubernetes {
    /// Its address.
    pub url: String,
    hub: Arc<Hub>,
    server: JoinHandle<()>,
}

#[derive(Default)]
pub(crate) struct Hub {
    state: Mutex<State>,
}

/// Where a log is: namespace, pod, container, previous.
type LogKey = (String, String, String, bool);

#[derive(Default)]
struct State {
    /// Group and plural, namespace, name.
    objects: BTreeMap<(String, String), BTreeMap<(String, String), Value>>,
    /// Versions of a group in the order of preference, with what each has.
    groups: BTreeMap<String, Vec<(String, BTreeSet<String>)>>,
    logs: BTreeMap<LogKey, Vec<u8>>,
    modes: Vec<(String, Mode)>,
    starts_withheld: bool,
    asked: Vec<Asked>,
}

impl Hub {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl FakeKubernetes {
    /// Starts an empty cluster on a free port of the loopback interface, with the built-in kinds.
    ///
    /// # Errors
    /// When it cannot listen.
    pub async fn start() -> anyhow::Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0").await.context("the cluster cannot listen on 127.0.0.1")?;
        let url = format!("http://{}", listener.local_addr()?);
        let fake = Self { url, hub: Arc::default(), server: tokio::spawn(std::future::ready(())) };
        fake.install(
            "apps",
            "v1",
            &["deployments", "replicasets", "statefulsets", "daemonsets", "controllerrevisions"],
        );
        fake.install("batch", "v1", &["jobs"]);
        fake.install("autoscaling", "v2", &["horizontalpodautoscalers"]);
        let router = Router::new().fallback(serve::answer).with_state(Arc::clone(&fake.hub));
        let server = tokio::spawn(async move {
            // It ends only with the task.
            axum::serve(listener, router).await.ok();
        });
        Ok(Self { url: fake.url.clone(), hub: Arc::clone(&fake.hub), server })
    }

    /// Puts an object there, or in another's place; its kind is installed if need be.
    pub fn add(&self, object: Value) {
        let text = |pointer: &str| object.pointer(pointer).and_then(Value::as_str).unwrap_or_default().to_owned();
        let api_version = text("/apiVersion");
        let (group, version) = api_version.split_once('/').unwrap_or(("", &api_version));
        let plural = format!("{}s", text("/kind").to_lowercase());
        if !group.is_empty() {
            self.install(group, version, &[&plural]);
        }
        let place = (text("/metadata/namespace"), text("/metadata/name"));
        self.hub.lock().objects.entry((group.to_owned(), plural)).or_default().insert(place, object);
    }

    /// Takes an object away; `plural` is `pods`, `deployments`.
    pub fn remove(&self, plural: &str, namespace: &str, name: &str) {
        for (_, objects) in self.hub.lock().objects.iter_mut().filter(|((_, of), _)| of == plural) {
            objects.remove(&(namespace.to_owned(), name.to_owned()));
        }
    }

    /// Installs kinds (by their plurals) in a version; the group's first version is the preferred one.
    pub fn install(&self, group: &str, version: &str, plurals: &[&str]) {
        let mut state = self.hub.lock();
        let versions = state.groups.entry(group.to_owned()).or_default();
        let at = versions.iter().position(|(known, _)| known == version).unwrap_or_else(|| {
            versions.push((version.to_owned(), BTreeSet::new()));
            versions.len() - 1
        });
        versions[at].1.extend(plurals.iter().map(|plural| (*plural).to_owned()));
    }

    /// What a container has written; any bytes.
    pub fn log(&self, namespace: &str, pod: &str, container: &str, previous: bool, text: impl Into<Vec<u8>>) {
        let key = (namespace.to_owned(), pod.to_owned(), container.to_owned(), previous);
        self.hub.lock().logs.insert(key, text.into());
    }

    /// A request for a log's start fails, one for its end does not.
    pub fn without_starts(&self) {
        self.hub.lock().starts_withheld = true;
    }

    /// How every request is answered from now on.
    pub fn set_mode(&self, mode: Mode) {
        self.hub.lock().modes = vec![(String::new(), mode)];
    }

    /// How requests are answered whose path contains `part`; what is set last counts.
    pub fn set_mode_of(&self, part: &str, mode: Mode) {
        self.hub.lock().modes.insert(0, (part.to_owned(), mode));
    }

    /// Every request so far, in the order in which they came.
    pub fn asked(&self) -> Vec<Asked> {
        self.hub.lock().asked.clone()
    }

    /// A kubeconfig that leads here, with the context `lab`.
    pub fn kubeconfig(&self) -> String {
        kubeconfig(&self.url)
    }
}

impl Drop for FakeKubernetes {
    fn drop(&mut self) {
        self.server.abort();
    }
}

/// A kubeconfig for a server at this address, with the context `lab`.
pub fn kubeconfig(url: &str) -> String {
    serde_json::json!({
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "lab",
        "clusters": [{ "name": "lab", "cluster": { "server": url } }],
        "users": [{ "name": "lab", "user": { "token": "lab-token" } }],
        "contexts": [{ "name": "lab", "context": { "cluster": "lab", "user": "lab" } }],
    })
    .to_string()
}
