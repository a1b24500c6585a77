//! A real VictoriaMetrics, single node.

use std::path::Path;

use tokio::process::Command;

use super::find_binary;
use super::process::{self, Process};

/// Bytes of one import: its parser takes lines as they come, but a request has a limit.
const IMPORT_BYTES: usize = 4 << 20;

/// A running VictoriaMetrics; it is killed when dropped.
pub struct VictoriaMetrics {
    /// `http://127.0.0.1:PORT`
    pub url: String,
    process: Process,
}

impl VictoriaMetrics {
    /// Starts it empty.
    pub async fn start() -> anyhow::Result<Self> {
        let binary = find_binary(&["victoria-metrics"])?;
        let build = move |port: u16, directory: &Path| {
            let mut command = Command::new(&binary);
            command
                .arg(format!("-storageDataPath={}", directory.join("data").display()))
                .arg(format!("-httpListenAddr=127.0.0.1:{port}"))
                .arg("-retentionPeriod=100y")
                // Else a query of now leaves out the last 30 seconds.
                .arg("-search.latencyOffset=0s")
                .arg("-memory.allowedBytes=256MiB");
            command
        };
        let process = Process::start("victoria-metrics", "/health", process::directory()?, build).await?;
        Ok(Self { url: process.url(), process })
    }

    /// Imports OpenMetrics text with a time in seconds in each line, and waits until queries see it.
    pub async fn import(&self, openmetrics: &str) -> anyhow::Result<()> {
        let mut body = String::new();
        let mut lines = openmetrics.lines().filter(|line| !line.starts_with('#')).peekable();
        while let Some(line) = lines.next() {
            let Some((sample, seconds)) = line.rsplit_once(' ') else { continue };
            let seconds: f64 = seconds.parse()?;
            body.push_str(&format!("{sample} {:.0}\n", seconds * 1e3));
            if body.len() > IMPORT_BYTES || lines.peek().is_none() {
                let request = self.process.http.post(format!("{}/api/v1/import/prometheus", self.url));
                self.process.call(request.body(std::mem::take(&mut body))).await?;
            }
        }
        // It answers with nothing, in plain text.
        let flush = self.process.http.get(format!("{}/internal/force_flush", self.url));
        self.process.call(flush).await.map(drop)
    }
}
