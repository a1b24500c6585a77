//! A local Prometheus that serves a bundle's series and scrapes nothing.

use std::fs::{self, File};
use std::io::{self, Read, Seek, SeekFrom};
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::{Duration, Instant};

use tempfile::TempDir;
use tokio::process::{Child, Command};

use super::{OpenError, program};

/// Timeout of promtool; it reads about 20 MB per second.
const LOAD: Duration = Duration::from_secs(1_800);
/// Timeout until Prometheus is ready.
const READY: Duration = Duration::from_secs(60);
/// Interval between two readiness checks.
const POLL: Duration = Duration::from_millis(50);
/// Timeout for the process to end.
const END: Duration = Duration::from_secs(5);
/// Attempts to start: another process may take the free port before Prometheus does.
const ATTEMPTS: usize = 4;
/// Maximum bytes of a program's output that are shown.
const STDERR_CHARS: u64 = 2_000;
/// A retention that deletes no block as too old.
const RETENTION: &str = "--storage.tsdb.retention.time=100y";
/// Long blocks, since promtool reads the file once per block.
const BLOCKS: &str = "--max-block-duration=744h";

/// Creates a private temporary directory, which is removed on drop.
pub(super) fn private_directory() -> Result<TempDir, OpenError> {
    let mut builder = tempfile::Builder::new();
    builder.prefix("llm-diagnose-");
    #[cfg(unix)]
    builder.permissions(std::os::unix::fs::PermissionsExt::from_mode(0o700));
    builder.tempdir().map_err(|error| OpenError::Disk(std::env::temp_dir().display().to_string(), error))
}

/// The running Prometheus; fields are dropped in order, the child before its directory.
#[derive(Debug)]
pub(super) struct Server {
    child: Child,
    port: u16,
    dir: TempDir,
}

impl Server {
    /// Loads the series and starts Prometheus.
    pub(super) async fn start(dir: TempDir, series: &Path, binary: Option<&Path>) -> Result<Self, OpenError> {
        let data = dir.path().join("data");
        load(series, &data, &program("promtool", binary)).await?;
        // The series are in the blocks now, and the file may be large.
        let _ = fs::remove_file(series);
        let config = dir.path().join("prometheus.yml");
        fs::write(&config, "scrape_configs: []\n").map_err(|e| OpenError::Disk(config.display().to_string(), e))?;
        let prometheus = binary.map_or_else(|| program("prometheus", None), Path::to_owned);
        let mut dir = dir;
        let mut attempt = 1;
        loop {
            let (port, child) = spawn(&prometheus, &dir, &config, &data)?;
            let mut server = Self { child, port, dir };
            match server.ready().await {
                Ok(()) => return Ok(server),
                Err(output) if attempt < ATTEMPTS && output.contains("address already in use") => attempt += 1,
                Err(output) => return Err(OpenError::Program(prometheus.display().to_string(), output)),
            }
            dir = server.dir;
        }
    }

    pub(super) fn url(&self) -> String {
        format!("http://127.0.0.1:{}", self.port)
    }

    /// Waits until Prometheus is ready; returns its log if it is not.
    async fn ready(&mut self) -> Result<(), String> {
        let url = format!("{}/-/ready", self.url());
        let client = reqwest::Client::builder().no_proxy().timeout(Duration::from_secs(2)).build();
        let client = client.map_err(|error| error.to_string())?;
        let deadline = Instant::now() + READY;
        while Instant::now() < deadline {
            if let Ok(Some(status)) = self.child.try_wait() {
                return Err(format!("it ended before it was ready ({status}): {}", read_log_end(&self.log())));
            }
            if client.get(&url).send().await.is_ok_and(|answer| answer.status().is_success()) {
                return Ok(());
            }
            tokio::time::sleep(POLL).await;
        }
        Err(format!("it was not ready within {} s: {}", READY.as_secs(), read_log_end(&self.log())))
    }

    /// Waits for the process to end by itself; returns the end of its log.
    pub(super) async fn ended(&mut self) -> String {
        let status = self.child.wait().await.map_or_else(|error| error.to_string(), |status| status.to_string());
        format!("Prometheus ended ({status}): {}", read_log_end(&self.log()))
    }

    /// Kills the process; its data is temporary, so there is nothing to flush.
    pub(super) async fn stop(mut self) {
        let killed = tokio::time::timeout(END, self.child.kill()).await;
        if !matches!(killed, Ok(Ok(()))) {
            tracing::warn!(id = self.child.id(), "Prometheus did not end");
        }
        let path = self.dir.path().to_owned();
        if let Err(error) = self.dir.close() {
            tracing::warn!(%error, path = %path.display(), "the unpacked files could not be removed");
        }
    }

    fn log(&self) -> PathBuf {
        self.dir.path().join(LOG)
    }
}

const LOG: &str = "prometheus.log";

/// Converts OpenMetrics text into TSDB blocks.
async fn load(series: &Path, data: &Path, promtool: &Path) -> Result<(), OpenError> {
    let failed = |why: String| OpenError::Program(promtool.display().to_string(), why);
    let output = Command::new(promtool)
        .args(["tsdb", "create-blocks-from", "openmetrics", "--quiet", BLOCKS])
        .args([series, data])
        .stdin(Stdio::null())
        .kill_on_drop(true)
        .output();
    match tokio::time::timeout(LOAD, output).await {
        Ok(Ok(output)) if output.status.success() => Ok(()),
        Ok(Ok(output)) => {
            let stderr = String::from_utf8_lossy(&output.stderr);
            let stderr: String = stderr.trim().chars().take(STDERR_CHARS as usize).collect();
            Err(failed(format!("cannot load the bundle's series ({}): {stderr}", output.status)))
        }
        Ok(Err(error)) => Err(start(promtool, error)),
        Err(_) => Err(failed(format!("had not loaded the bundle's series after {} minutes", LOAD.as_secs() / 60))),
    }
}

fn spawn(prometheus: &Path, dir: &TempDir, config: &Path, data: &Path) -> Result<(u16, Child), OpenError> {
    let free = TcpListener::bind(("127.0.0.1", 0)).and_then(|listener| listener.local_addr());
    let port = free.map_err(|error| OpenError::Disk("a port of 127.0.0.1".to_owned(), error))?.port();
    let log = dir.path().join(LOG);
    let file = File::create(&log).map_err(|error| OpenError::Disk(log.display().to_string(), error))?;
    let mut command = Command::new(prometheus);
    command
        .arg(format!("--config.file={}", config.display()))
        .arg(format!("--storage.tsdb.path={}", data.display()))
        .arg(RETENTION)
        .arg(format!("--web.listen-address=127.0.0.1:{port}"))
        .arg("--log.level=warn")
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(file)
        .kill_on_drop(true);
    // Ctrl-C must reach only this process, which then ends Prometheus.
    #[cfg(unix)]
    command.process_group(0);
    command.spawn().map(|child| (port, child)).map_err(|error| start(prometheus, error))
}

fn start(program: &Path, error: io::Error) -> OpenError {
    match error.kind() {
        io::ErrorKind::NotFound => OpenError::Missing(program.display().to_string()),
        _ => OpenError::Program(program.display().to_string(), format!("cannot be started: {error}")),
    }
}

/// Returns the end of a log.
fn read_log_end(log: &Path) -> String {
    let read = || -> io::Result<String> {
        let mut file = File::open(log)?;
        let length = file.metadata()?.len();
        file.seek(SeekFrom::Start(length.saturating_sub(STDERR_CHARS)))?;
        let mut end = Vec::new();
        file.take(STDERR_CHARS).read_to_end(&mut end)?;
        Ok(String::from_utf8_lossy(&end).trim().to_owned())
    };
    read().unwrap_or_default()
}
