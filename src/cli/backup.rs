//! `backup` and `restore`: the service's store as a file.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, bail};
use clap::Args;

use super::past::{StateArgs, block_on};
use super::serve;
use crate::clock;
use crate::store::{self, STORE_FILE};

/// What is copied where.
#[derive(Debug, Args)]
#[command(
    after_help = "Exit status: 0 done, 2 not done.\nWith PostgreSQL the error says which pg_dump or pg_restore does it."
)]
pub struct BackupArgs {
    /// The file of the backup; `backup` makes it, and does not overwrite one.
    #[arg(value_name = "FILE")]
    pub file: PathBuf,
    /// Which store.
    #[command(flatten)]
    pub state: StateArgs,
}

pub(super) fn backup(args: &BackupArgs) -> anyhow::Result<ExitCode> {
    let config = args.state.config()?;
    if let Some(url) = &config.database.url_file {
        let (file, url) = (quoted(&args.file)?, quoted(url)?);
        bail!(
            "the store is a PostgreSQL, whose own tool backs it up:\n  pg_dump --format=custom --file={file} --dbname=\"$(cat {url})\""
        );
    }
    let from = serve::state_directory(&config).join(STORE_FILE);
    if !from.exists() {
        bail!("there is no store at {}: pass --config as `serve` has it", from.display());
    }
    block_on(async { Ok(store::backup(&from, &args.file).await?) })
        .with_context(|| format!("cannot back up {}", from.display()))?;
    anstream::println!("{} is a copy of {}", args.file.display(), from.display());
    Ok(ExitCode::SUCCESS)
}

pub(super) fn restore(args: &BackupArgs) -> anyhow::Result<ExitCode> {
    let config = args.state.config()?;
    if let Some(url) = &config.database.url_file {
        let (file, url) = (quoted(&args.file)?, quoted(url)?);
        bail!(
            "the store is a PostgreSQL: stop every replica, then let its own tool restore it:\n  pg_restore --clean --if-exists --single-transaction --dbname=\"$(cat {url})\" {file}"
        );
    }
    let directory = serve::state_directory(&config);
    let suffix = format!("replaced-{}", clock::now().strftime("%Y%m%dT%H%M%SZ"));
    let replaced = block_on(async { Ok(store::restore(&args.file, &directory, &suffix).await?) })
        .with_context(|| format!("cannot restore {} into {}", args.file.display(), directory.display()))?;
    anstream::println!("{} is in place in {}: start the service", args.file.display(), directory.display());
    if let Some(replaced) = replaced {
        anstream::println!("the store that it replaces is kept: {}", replaced.display());
    }
    Ok(ExitCode::SUCCESS)
}

/// A path as a shell takes it.
fn quoted(path: &Path) -> anyhow::Result<String> {
    let path = path.to_string_lossy();
    Ok(shlex::try_quote(&path).context("the path cannot be written in a shell")?.into_owned())
}
