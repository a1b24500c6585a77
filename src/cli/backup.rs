//! `backup` and `restore`: the service's store as a file.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, bail};
use clap::Args;
use url::Url;

use super::args::StateArgs;
use super::store::block_on;
use crate::cli::output::outln;
use knowledge::clock;
use service::config::state_directory;
use store::STORE_FILE;

/// Sources of the password for PostgreSQL's tools: <https://www.postgresql.org/docs/current/libpq-pgpass.html>.
const PASSWORD: &str = "It asks for the password, or takes it from ~/.pgpass or the file that PGPASSFILE names.";

/// The arguments of `backup` and `restore`.
#[derive(Debug, Args)]
#[command(
    after_help = "Exit status: 0 done, 2 not done.\nWith PostgreSQL the error says which pg_dump or pg_restore does it."
)]
pub struct BackupArgs {
    /// The file of the backup; `backup` creates it and does not overwrite an existing one.
    #[arg(value_name = "FILE")]
    pub file: PathBuf,
    /// The store.
    #[command(flatten)]
    pub state: StateArgs,
}

pub(super) fn backup(args: BackupArgs) -> anyhow::Result<ExitCode> {
    let config = args.state.config()?;
    if let Some(url) = &config.database.url_file {
        let (file, database) = (quoted(&args.file)?, database(url)?);
        bail!(
            "the store is a PostgreSQL, whose own tool backs it up:\n  pg_dump --format=custom --file={file} --dbname={database}\n{PASSWORD}"
        );
    }
    let from = state_directory(&config).join(STORE_FILE);
    if !from.exists() {
        bail!("there is no store at {}: pass --config as `serve` has it", from.display());
    }
    block_on(async { Ok(store::backup(&from, &args.file).await?) })
        .with_context(|| format!("cannot back up {}", from.display()))?;
    outln!("{} is a copy of {}", args.file.display(), from.display());
    Ok(ExitCode::SUCCESS)
}

pub(super) fn restore(args: BackupArgs) -> anyhow::Result<ExitCode> {
    let config = args.state.config()?;
    if let Some(url) = &config.database.url_file {
        let (file, database) = (quoted(&args.file)?, database(url)?);
        bail!(
            "the store is a PostgreSQL: stop every replica, then let its own tool restore it:\n  pg_restore --clean --if-exists --single-transaction --dbname={database} {file}\n{PASSWORD}"
        );
    }
    let directory = state_directory(&config);
    let suffix = format!("replaced-{}", clock::now().strftime("%Y%m%dT%H%M%SZ"));
    let replaced = block_on(async { Ok(store::restore(&args.file, &directory, &suffix).await?) })
        .with_context(|| format!("cannot restore {} into {}", args.file.display(), directory.display()))?;
    outln!("{} is in place in {}: start the service", args.file.display(), directory.display());
    if let Some(replaced) = replaced {
        outln!("the store that it replaces is kept: {}", replaced.display());
    }
    Ok(ExitCode::SUCCESS)
}

/// Returns the database's URL quoted for a shell, without its password: all users of the machine can see arguments.
fn database(url_file: &Path) -> anyhow::Result<String> {
    let url = std::fs::read_to_string(url_file)
        .with_context(|| format!("cannot read {} (`database.url_file`)", url_file.display()))?;
    let url = without_password(url.trim())
        .with_context(|| format!("{} (`database.url_file`) holds no address of a PostgreSQL", url_file.display()))?;
    Ok(shlex::try_quote(&url).context("the address cannot be written in a shell")?.into_owned())
}

/// Removes the password from a URL; `None` if it is not a URL, because then a password in it cannot be found.
fn without_password(url: &str) -> Option<String> {
    let mut url = Url::parse(url).ok().filter(|url| matches!(url.scheme(), "postgres" | "postgresql"))?;
    // It fails only without a host, and then there is no password either.
    let _ = url.set_password(None);
    let remaining = url.query().map(|query| {
        let parts: Vec<&str> = query.split('&').filter(|part| !part.starts_with("password=")).collect();
        parts.join("&")
    });
    url.set_query(remaining.as_deref().filter(|query| !query.is_empty()));
    Some(url.into())
}

/// Quotes a path for a shell.
pub(super) fn quoted(path: &Path) -> anyhow::Result<String> {
    let path = path.to_string_lossy();
    Ok(shlex::try_quote(&path).context("the path cannot be written in a shell")?.into_owned())
}

#[cfg(test)]
mod tests {
    use super::without_password;

    #[test]
    fn an_address_is_shown_without_its_password_wherever_that_stands() {
        for (url, expected) in [
            ("postgres://u:s3cret@db:5433/llm", Some("postgres://u@db:5433/llm")),
            ("postgres://u:a%40b@db/llm?sslmode=require", Some("postgres://u@db/llm?sslmode=require")),
            ("postgres:///llm?host=/run/pg&user=u&password=s3cret", Some("postgres:///llm?host=/run/pg&user=u")),
            ("postgres://db/llm", Some("postgres://db/llm")),
            ("u:s3cret@db", None),
        ] {
            assert_eq!(without_password(url).as_deref(), expected, "{url}");
        }
    }
}
