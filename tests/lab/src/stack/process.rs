//! A child process with a port, a directory and captured output.

use std::fs::{self, File};
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{ExitStatus, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use tempfile::TempDir;
use tokio::process::{Child, Command};

use super::PATIENCE;

/// Between the moment a port is known to be free and the moment it is taken, someone else may take it.
const PORT_ATTEMPTS: usize = 4;
/// How often it is asked whether it is ready, and its output is looked at.
const POLL: Duration = Duration::from_millis(15);
const LOG_TAIL_LINES: usize = 30;

/// Builds the command for a port, the same for every start.
type Build = Box<dyn Fn(u16, &Path) -> Command + Send + Sync>;

pub(super) struct Process {
    name: &'static str,
    ready_path: &'static str,
    build: Build,
    child: Option<Child>,
    pub(super) http: reqwest::Client,
    pub(super) port: u16,
    /// Last, so that it outlives the child.
    pub(super) directory: TempDir,
}

impl Process {
    /// Starts a program on a free port and waits until `ready_path` answers 200.
    pub(super) async fn start(
        name: &'static str,
        ready_path: &'static str,
        directory: TempDir,
        build: impl Fn(u16, &Path) -> Command + Send + Sync + 'static,
    ) -> anyhow::Result<Self> {
        let http = super::http()?;
        let mut process = Self { name, ready_path, build: Box::new(build), child: None, http, port: 0, directory };
        for attempt in 1.. {
            process.port = free_port()?;
            match process.spawn().await {
                Ok(()) => break,
                Err(error)
                    if attempt < PORT_ATTEMPTS && process.log().to_lowercase().contains("address already in use") =>
                {
                    drop(error)
                }
                Err(error) => return Err(error),
            }
        }
        Ok(process)
    }

    pub(super) fn url(&self) -> String {
        format!("http://127.0.0.1:{}", self.port)
    }

    /// Starts it again on the same port and directory.
    pub(super) async fn restart(&mut self) -> anyhow::Result<()> {
        self.kill().await?;
        self.spawn().await
    }

    async fn spawn(&mut self) -> anyhow::Result<()> {
        let mut command = (self.build)(self.port, self.directory.path());
        command
            .stdin(Stdio::null())
            .stdout(self.log_file("stdout.log")?)
            .stderr(self.log_file("stderr.log")?)
            .kill_on_drop(true);
        for variable in ["HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "http_proxy", "https_proxy", "all_proxy"] {
            command.env_remove(variable);
        }
        self.child = Some(command.spawn().with_context(|| format!("cannot start {}", self.name))?);
        self.ready().await
    }

    fn log_file(&self, name: &str) -> anyhow::Result<Stdio> {
        let path = self.directory.path().join(name);
        let file = File::options().create(true).append(true).open(&path);
        Ok(file.with_context(|| format!("cannot write {}", path.display()))?.into())
    }

    /// Waits until it answers, or has ended, or the deadline passes. A program does not tell its readiness: it is
    /// asked again and again.
    async fn ready(&mut self) -> anyhow::Result<()> {
        let url = format!("{}{}", self.url(), self.ready_path);
        let deadline = Instant::now() + PATIENCE;
        while Instant::now() < deadline {
            if let Some(child) = &mut self.child
                && let Some(status) = child.try_wait()?
            {
                self.child = None;
                bail!("{} ended before it was ready ({status})\n{}", self.name, self.tail());
            }
            let answer = self.http.get(&url).timeout(Duration::from_secs(2)).send().await;
            if answer.is_ok_and(|answer| answer.status().is_success()) {
                return Ok(());
            }
            tokio::time::sleep(POLL).await;
        }
        bail!("{} was not ready at {url} within {PATIENCE:?}\n{}", self.name, self.tail())
    }

    /// Kills it with SIGKILL and waits for its end; fine if it does not run.
    pub(super) async fn kill(&mut self) -> anyhow::Result<()> {
        if let Some(mut child) = self.child.take() {
            child.kill().await.with_context(|| format!("cannot kill {}", self.name))?;
        }
        Ok(())
    }

    /// Sends a signal by name, as in `TERM`.
    pub(super) async fn signal(&self, signal: &str) -> anyhow::Result<()> {
        let Some(id) = self.child.as_ref().and_then(Child::id) else { bail!("{} does not run", self.name) };
        // The shell's own kill is there on every machine.
        let status = Command::new("sh").arg("-c").arg(format!("kill -{signal} {id}")).status().await?;
        anyhow::ensure!(status.success(), "cannot send SIG{signal} to {} ({id})", self.name);
        Ok(())
    }

    /// Waits for its end.
    pub(super) async fn exit(&mut self, within: Duration) -> anyhow::Result<ExitStatus> {
        let Some(child) = &mut self.child else { bail!("{} does not run", self.name) };
        match tokio::time::timeout(within, child.wait()).await {
            Ok(status) => {
                self.child = None;
                Ok(status?)
            }
            Err(_) => bail!("{} still runs after {within:?}\n{}", self.name, self.tail()),
        }
    }

    pub(super) fn id(&self) -> Option<u32> {
        self.child.as_ref().and_then(Child::id)
    }

    /// What it wrote so far, over all its starts.
    pub(super) fn output(&self, file: &str) -> String {
        let bytes = fs::read(self.directory.path().join(file)).unwrap_or_default();
        String::from_utf8_lossy(&bytes).into_owned()
    }

    /// Waits for so many whole lines of its output that contain a text, and returns the last. A file does not tell that it
    /// has grown: it is read again and again.
    pub(super) async fn line(&self, file: &str, text: &str, times: usize, within: Duration) -> anyhow::Result<String> {
        let deadline = Instant::now() + within;
        while Instant::now() < deadline {
            let output = self.output(file);
            let mut lines = output.split_inclusive('\n').filter(|l| l.ends_with('\n') && l.contains(text));
            if let Some(line) = lines.nth(times.saturating_sub(1)) {
                return Ok(line.trim_end().to_owned());
            }
            tokio::time::sleep(POLL).await;
        }
        bail!("{} did not write {text:?} ({times} times) within {within:?}\n{}", self.name, self.tail())
    }

    fn log(&self) -> String {
        self.output("stderr.log") + &self.output("stdout.log")
    }

    /// The last lines of its log, for errors.
    pub(super) fn tail(&self) -> String {
        let log = self.log();
        let lines: Vec<_> = log.lines().collect();
        lines[lines.len().saturating_sub(LOG_TAIL_LINES)..].join("\n")
    }

    /// A GET or POST to it, read as JSON; an answer other than 2xx is an error with its body.
    pub(super) async fn call(&self, request: reqwest::RequestBuilder) -> anyhow::Result<serde_json::Value> {
        let answer = request.send().await.with_context(|| format!("{} does not answer\n{}", self.name, self.tail()))?;
        let status = answer.status();
        let body = answer.text().await?;
        anyhow::ensure!(status.is_success(), "{} answered {status}: {body}", self.name);
        if body.trim().is_empty() {
            return Ok(serde_json::Value::Null);
        }
        serde_json::from_str(&body).with_context(|| format!("{} answered no JSON: {body}", self.name))
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let Some(child) = &mut self.child else { return };
        child.start_kill().ok();
        // Nothing can be awaited here; a killed process ends within milliseconds.
        for _ in 0..500 {
            if !matches!(child.try_wait(), Ok(None)) {
                break;
            }
            std::thread::sleep(Duration::from_millis(2));
        }
    }
}

/// A directory for one program.
pub(super) fn directory() -> anyhow::Result<TempDir> {
    TempDir::with_prefix("llm-diagnose-lab-").context("cannot make a temporary directory")
}

/// Writes a file for a program, and returns its path.
pub(super) fn write(directory: &TempDir, name: &str, content: &str) -> anyhow::Result<PathBuf> {
    let path = directory.path().join(name);
    fs::write(&path, content).with_context(|| format!("cannot write {}", path.display()))?;
    Ok(path)
}

fn free_port() -> anyhow::Result<u16> {
    let listener = TcpListener::bind("127.0.0.1:0").context("no free port on 127.0.0.1")?;
    Ok(listener.local_addr()?.port())
}
