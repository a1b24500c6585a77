//! Sources beside Prometheus for one command: a laptop has a kubeconfig, and rarely the service's configuration.

use std::path::PathBuf;

use clap::Args;

use service::config::Config;
use sources::loki;

/// Logs and a cluster, in addition to the configured sources.
#[derive(Debug, Clone, Default, Args)]
pub struct SourceArgs {
    /// A log as evidence, best named after its pod (`llama-0.log`), or a directory of logs; repeat for more.
    #[arg(long, value_name = "PATH")]
    pub logs: Vec<PathBuf>,
    /// Query the cluster of this context, else of the current one, for pods, events and logs; found as kubectl does.
    #[arg(long, value_name = "CONTEXT", num_args = 0..=1, require_equals = true, default_missing_value = "")]
    pub kubernetes: Option<String>,
    /// A Loki to query for the pods' logs.
    #[arg(long, value_name = "URL")]
    pub loki: Option<String>,
}

impl SourceArgs {
    /// Overrides the configured sources by the arguments.
    pub fn put_into(&self, config: &mut Config) {
        if let Some(context) = &self.kubernetes {
            config.kubernetes.enabled = Some(true);
            config.kubernetes.context =
                (!context.is_empty()).then(|| context.clone()).or(config.kubernetes.context.take());
            config.kubernetes.kubeconfig = config.kubernetes.kubeconfig.take().or_else(kubeconfig);
        }
        if let Some(url) = &self.loki {
            config.loki = vec![loki::Config { url: url.clone(), ..loki::Config::default() }];
        }
    }
}

/// Returns the kubeconfig that kubectl uses: the first file of $KUBECONFIG, else ~/.kube/config.
fn kubeconfig() -> Option<PathBuf> {
    let first = std::env::var_os("KUBECONFIG").and_then(|list| std::env::split_paths(&list).next());
    first
        .filter(|path| !path.as_os_str().is_empty())
        .or_else(|| std::env::home_dir().map(|home| home.join(".kube").join("config")).filter(|path| path.is_file()))
}
