//! The arguments that locate the service's store.

use std::path::PathBuf;

use clap::Args;

use service::config::Config;

/// The location of the service's store.
#[derive(Debug, Args)]
pub struct StateArgs {
    /// The service's configuration, for its state directory.
    #[arg(long, value_name = "FILE", env = "LLM_DIAGNOSE_CONFIG")]
    pub config: Option<PathBuf>,
    /// The directory of the database [default: the configuration's, as `serve` has it].
    #[arg(long, value_name = "DIR", env = "LLM_DIAGNOSE_STATE_DIR")]
    pub state_dir: Option<PathBuf>,
}

impl StateArgs {
    /// Loads the configuration, with the given directory.
    pub(in crate::cli) fn config(&self) -> anyhow::Result<Config> {
        let mut config = self.config.as_deref().map(Config::load).transpose()?.unwrap_or_default();
        if let Some(dir) = &self.state_dir {
            config.state_dir.clone_from(dir);
        }
        Ok(config)
    }
}
