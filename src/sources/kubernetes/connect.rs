//! Connects to a cluster's API by the pod's service account or by a configured kubeconfig.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use kube::config::{KubeConfigOptions, Kubeconfig};
use tokio::sync::Semaphore;

use super::{Config, Kubernetes};
use http_client::address;

/// The environment variable that is set in every pod (kubernetes.io/docs/tasks/run-application/access-api-from-pod).
const IN_CLUSTER: &str = "KUBERNETES_SERVICE_HOST";
/// Timeout for credentials; a kubeconfig may name a program that provides them.
const CREDENTIALS_WITHIN: Duration = Duration::from_secs(20);
/// Maximum number of concurrent calls, over all users of a client.
const AT_ONCE: usize = 8;

/// The reason why the client cannot be created.
#[derive(Debug, thiserror::Error)]
pub enum KubernetesError {
    /// The access is enabled, no kubeconfig is configured, and the program does not run in a pod.
    #[error(
        "`kubernetes.enabled` is true, but this is no pod ({IN_CLUSTER} is not set): name a file in `kubernetes.kubeconfig`"
    )]
    NotInCluster,
    /// The pod has no service account token.
    #[error(
        "the pod's service account cannot be read: {0}; set `automountServiceAccountToken: true` and apply config/kubernetes/rbac.yaml"
    )]
    ServiceAccount(#[source] kube::config::InClusterError),
    /// The kubeconfig cannot be read or is incomplete.
    #[error("the kubeconfig {path}: {1}", path = .0.display())]
    Kubeconfig(PathBuf, #[source] kube::config::KubeconfigError),
    /// The kubeconfig has no such context.
    #[error("the kubeconfig {path} has no context `{1}`; it has {2}", path = .0.display())]
    Context(PathBuf, String, String),
    /// Certificate, key, token or proxy cannot be used.
    #[error("the credentials for the cluster cannot be used: {0}")]
    Credentials(#[source] kube::Error),
    /// The program that the kubeconfig names for the credentials does not end.
    #[error("the kubeconfig {path} gets its credentials from a program that does not end: run it by hand, or use a token", path = .0.display())]
    Slow(PathBuf),
}

impl Kubernetes {
    /// Returns the same client with its own slots, so that neither waits for the other's requests.
    #[must_use]
    pub fn with_own_slots(&self) -> Self {
        Self { slots: Arc::new(Semaphore::new(AT_ONCE)), ..self.clone() }
    }

    /// Creates a client; nothing is sent. Returns `None` if the access is disabled, or not configured outside of a pod.
    ///
    /// # Errors
    /// If the access is enabled and the client cannot be created.
    pub async fn connect(config: &Config) -> Result<Option<Self>, KubernetesError> {
        let in_cluster = std::env::var_os(IN_CLUSTER).is_some();
        if !config.enabled.unwrap_or(in_cluster) {
            return Ok(None);
        }
        let mut access = match &config.kubeconfig {
            Some(path) => from_file(path.clone(), config.context.as_deref()).await?,
            None if in_cluster => kube::Config::incluster().map_err(KubernetesError::ServiceAccount)?,
            None => return Err(KubernetesError::NotInCluster),
        };
        // Every caller has a deadline and queries other sources meanwhile, so a retry would not help.
        access.default_retry = false;
        let server = address(&access.cluster_url.to_string()).into();
        // The creation may block: it may run a program that provides the credentials.
        let making = tokio::task::spawn_blocking(move || kube::Client::try_from(access));
        let slow = || KubernetesError::Slow(config.kubeconfig.clone().unwrap_or_default());
        let client = tokio::time::timeout(CREDENTIALS_WITHIN, making).await.map_err(|_| slow())?;
        let client = client.map_err(|_| slow())?.map_err(KubernetesError::Credentials)?;
        let slots = Arc::new(Semaphore::new(AT_ONCE));
        Ok(Some(Self { client, server, slots, allowed: config.namespaces.clone().into() }))
    }
}

async fn from_file(path: PathBuf, context: Option<&str>) -> Result<kube::Config, KubernetesError> {
    let kubeconfig = match Kubeconfig::read_from(&path) {
        Ok(kubeconfig) => kubeconfig,
        Err(error) => return Err(KubernetesError::Kubeconfig(path, error)),
    };
    if let Some(context) = context
        && !kubeconfig.contexts.iter().any(|named| named.name == context)
    {
        let contexts: Vec<_> = kubeconfig.contexts.iter().map(|contexts| format!("`{}`", contexts.name)).collect();
        let contexts = if contexts.is_empty() { "none".to_owned() } else { contexts.join(", ") };
        return Err(KubernetesError::Context(path, context.to_owned(), contexts));
    }
    let options = KubeConfigOptions { context: context.map(str::to_owned), ..KubeConfigOptions::default() };
    let config = kube::Config::from_custom_kubeconfig(kubeconfig, &options).await;
    config.map_err(|error| KubernetesError::Kubeconfig(path, error))
}
