//! A real PostgreSQL.

use std::io::Write;
use std::os::unix::fs::{MetadataExt, chown};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::OnceLock;
use std::time::Instant;

use anyhow::{Context, bail};
use tempfile::TempDir;

use super::process;

/// A running PostgreSQL on a socket in its own directory; it is stopped when dropped.
///
/// It keeps nothing safe: what it holds is gone with it, so it never waits for the disk.
#[derive(Debug)]
pub struct Postgres {
    programs: PathBuf,
    /// It refuses to run as root: the user and group it runs as then.
    user: Option<(u32, u32)>,
    directory: TempDir,
}

impl Postgres {
    /// Makes a database cluster and starts it.
    pub fn start() -> anyhow::Result<Self> {
        let postgres = Self::prepare()?;
        postgres.run("initdb", &["-D", "data", "-A", "trust", "-U", "postgres", "-E", "UTF8", "--locale=C", "-N"])?;
        postgres.start_again()?;
        Ok(postgres)
    }

    fn prepare() -> anyhow::Result<Self> {
        let programs = programs()?;
        let directory = process::directory()?;
        let root = std::fs::metadata(directory.path())?.uid() == 0;
        let user = if root { Some(postgres_user()?) } else { None };
        if let Some((uid, gid)) = user {
            chown(directory.path(), Some(uid), Some(gid))?;
        }
        Ok(Self { programs, user, directory })
    }

    /// Starts a second one that copies this one; from now on nothing is committed here before the copy has it.
    pub fn standby(&self) -> anyhow::Result<Self> {
        let standby = Self::prepare()?;
        let here = self.directory.path().display().to_string();
        let copy = ["-h", &here, "-U", "postgres", "-D", "data", "-R", "-X", "stream", "-c", "fast", "--no-sync"];
        standby.run("pg_basebackup", &copy)?;
        standby.start_again()?;
        self.query("postgres", "ALTER SYSTEM SET synchronous_standby_names = '*'")?;
        self.query("postgres", "SELECT pg_reload_conf()")?;
        let until = Instant::now() + super::PATIENCE;
        while self.query("postgres", "SELECT sync_state FROM pg_stat_replication")? != "sync" {
            anyhow::ensure!(Instant::now() < until, "the copy does not follow");
        }
        Ok(standby)
    }

    /// Makes a copy a server of its own.
    pub fn promote(&self) -> anyhow::Result<()> {
        self.run("pg_ctl", &["-D", "data", "-w", "promote"]).map(drop)
    }

    /// Its Unix socket.
    pub fn socket(&self) -> PathBuf {
        self.directory.path().join(".s.PGSQL.5432")
    }

    /// The address of its only database.
    pub fn url(&self) -> String {
        format!("postgres:///postgres?host={}&user=postgres", self.directory.path().display())
    }

    /// The address of a new, empty database in it.
    pub fn database(&self, name: &str) -> anyhow::Result<String> {
        self.query("postgres", &format!("CREATE DATABASE {name}"))?;
        Ok(format!("postgres:///{name}?host={}&user=postgres", self.directory.path().display()))
    }

    /// A file with an address, as the configuration wants it.
    pub fn file(&self, url: &str) -> anyhow::Result<tempfile::NamedTempFile> {
        let mut file = tempfile::NamedTempFile::new()?;
        writeln!(file, "{url}")?;
        Ok(file)
    }

    /// Runs one statement in a database; the rows as text.
    pub fn query(&self, database: &str, sql: &str) -> anyhow::Result<String> {
        let socket = self.directory.path().display().to_string();
        let output = self.run("psql", &["-h", &socket, "-U", "postgres", "-d", database, "-At", "-c", sql])?;
        Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned())
    }

    /// Stops it as a crash would: connections break, nobody is asked.
    pub fn stop(&self) -> anyhow::Result<()> {
        self.run("pg_ctl", &["-D", "data", "-m", "immediate", "-w", "stop"]).map(drop)
    }

    /// Starts it again with what it holds.
    pub fn start_again(&self) -> anyhow::Result<()> {
        let options = format!(
            "-k {} -c listen_addresses='' -c fsync=off -c full_page_writes=off -c shared_buffers=16MB \
             -c max_connections=150",
            self.directory.path().display()
        );
        self.run("pg_ctl", &["-D", "data", "-w", "-l", "log", "-o", &options, "start"]).map(drop)
    }

    fn run(&self, program: &str, arguments: &[&str]) -> anyhow::Result<Output> {
        let path = self.programs.join(program);
        let mut command = match self.user {
            None => Command::new(&path),
            Some((uid, gid)) => {
                let mut command = Command::new("setpriv");
                command.args([format!("--reuid={uid}"), format!("--regid={gid}"), "--clear-groups".into()]).arg(&path);
                command
            }
        };
        command.args(arguments).current_dir(self.directory.path());
        // What is set for another database is not for this one.
        for (name, _) in std::env::vars_os().filter(|(name, _)| name.to_string_lossy().starts_with("PG")) {
            command.env_remove(name);
        }
        let output = command.output().with_context(|| format!("cannot run {}", path.display()))?;
        if !output.status.success() {
            let log = std::fs::read_to_string(self.directory.path().join("log")).unwrap_or_default();
            bail!("{program} failed: {}\n{log}", String::from_utf8_lossy(&output.stderr));
        }
        Ok(output)
    }
}

impl Drop for Postgres {
    fn drop(&mut self) {
        self.stop().ok();
    }
}

/// Debian keeps each version's programs out of PATH.
fn programs() -> anyhow::Result<PathBuf> {
    static FOUND: OnceLock<Option<PathBuf>> = OnceLock::new();
    let found = FOUND.get_or_init(|| {
        if let Ok(path) = super::find_binary(&["initdb"]) {
            // The others stand beside the program itself, not beside a link to it.
            return path.canonicalize().ok()?.parent().map(Path::to_path_buf);
        }
        let versions = std::fs::read_dir("/usr/lib/postgresql").ok()?;
        let mut with: Vec<_> =
            versions.flatten().map(|v| v.path().join("bin")).filter(|bin| bin.join("initdb").is_file()).collect();
        with.sort();
        with.pop()
    });
    found.clone().context("PostgreSQL's initdb is not there: apt-get install postgresql")
}

/// The user that Debian's package makes.
fn postgres_user() -> anyhow::Result<(u32, u32)> {
    let users = std::fs::read_to_string("/etc/passwd").context("cannot read /etc/passwd")?;
    let line = users.lines().find(|line| line.starts_with("postgres:"));
    let fields: Vec<&str> =
        line.context("there is no user `postgres`: PostgreSQL refuses to run as root")?.split(':').collect();
    match fields[..] {
        [_, _, uid, gid, ..] => Ok((uid.parse()?, gid.parse()?)),
        _ => bail!("/etc/passwd has a broken line for `postgres`"),
    }
}
