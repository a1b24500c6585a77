//! The product's binary, as an operator would run it.

use std::path::{Path, PathBuf};
use std::process::ExitStatus;
use std::time::Duration;

use tokio::process::Command;

use super::process::{self, Process};

/// Configures the program before its start.
#[derive(Debug)]
pub struct ServiceBuilder {
    binary: PathBuf,
    arguments: Vec<String>,
    environment: Vec<(String, String)>,
    config: Option<String>,
    ready_path: &'static str,
}

/// The running program; it is killed when dropped.
pub struct Service {
    /// `http://127.0.0.1:PORT`
    pub url: String,
    process: Process,
}

impl Service {
    /// A program to run. In arguments, environment and configuration `$PORT` stands for its port, `$DIR` for its
    /// directory, which survives restarts, and `$CONFIG` for its configuration file.
    pub fn builder(binary: impl Into<PathBuf>) -> ServiceBuilder {
        ServiceBuilder {
            binary: binary.into(),
            arguments: Vec::new(),
            environment: Vec::new(),
            config: None,
            ready_path: "/readyz",
        }
    }

    /// Runs a program with these arguments, environment and configuration; see [`Service::builder`].
    pub async fn start(binary: &Path, arguments: &[&str], env: &[(&str, &str)], config: &str) -> anyhow::Result<Self> {
        let builder = Self::builder(binary).args(arguments).config(config);
        env.iter().fold(builder, |builder, (name, value)| builder.env(name, value)).start().await
    }

    /// Its port.
    pub fn port(&self) -> u16 {
        self.process.port
    }

    /// Its process id, while it runs.
    pub fn id(&self) -> Option<u32> {
        self.process.id()
    }

    /// Its directory.
    pub fn directory(&self) -> &Path {
        self.process.directory.path()
    }

    /// Kills it with SIGKILL and waits for its end.
    pub async fn kill9(&mut self) -> anyhow::Result<()> {
        self.process.kill().await
    }

    /// Asks it to stop with SIGTERM and waits for its end.
    pub async fn terminate(&mut self, within: Duration) -> anyhow::Result<ExitStatus> {
        self.process.signal("TERM").await?;
        self.process.exit(within).await
    }

    /// Asks it to read its configuration again with SIGHUP.
    pub async fn hang_up(&self) -> anyhow::Result<()> {
        self.process.signal("HUP").await
    }

    /// Waits until it ends by itself.
    pub async fn exit(&mut self, within: Duration) -> anyhow::Result<ExitStatus> {
        self.process.exit(within).await
    }

    /// Kills it if it runs, and starts it again on the same port, directory and configuration.
    pub async fn restart(&mut self) -> anyhow::Result<()> {
        self.process.restart().await
    }

    /// What it wrote to standard output, over all its starts.
    pub fn stdout(&self) -> String {
        self.process.output("stdout.log")
    }

    /// Waits for a whole line on standard error that contains this text, and returns it.
    pub async fn complains(&self, text: &str, within: Duration) -> anyhow::Result<String> {
        self.process.line("stderr.log", text, 1, within).await
    }

    /// As [`Self::complains`], for so many lines in all.
    pub async fn complains_times(&self, text: &str, times: usize, within: Duration) -> anyhow::Result<String> {
        self.process.line("stderr.log", text, times, within).await
    }

    /// What it wrote to standard error, over all its starts.
    pub fn stderr(&self) -> String {
        self.process.output("stderr.log")
    }
}

impl ServiceBuilder {
    /// Adds arguments.
    #[must_use]
    pub fn args<A: AsRef<str>>(mut self, arguments: impl IntoIterator<Item = A>) -> Self {
        self.arguments.extend(arguments.into_iter().map(|argument| argument.as_ref().to_owned()));
        self
    }

    /// Sets a variable of its environment.
    #[must_use]
    pub fn env(mut self, name: &str, value: &str) -> Self {
        self.environment.push((name.into(), value.into()));
        self
    }

    /// Writes its configuration file, `$CONFIG`.
    #[must_use]
    pub fn config(mut self, yaml: &str) -> Self {
        self.config = Some(yaml.into());
        self
    }

    /// The path that answers 200 once it is ready; `/readyz` unless said otherwise.
    #[must_use]
    pub fn ready_path(mut self, path: &'static str) -> Self {
        self.ready_path = path;
        self
    }

    /// Starts the program and waits until it is ready.
    pub async fn start(self) -> anyhow::Result<Service> {
        let Self { binary, arguments, environment, config, ready_path } = self;
        let directory = process::directory()?;
        let build = move |port: u16, directory: &Path| {
            let file = directory.join("config.yaml");
            let fill = |text: &str| {
                text.replace("$PORT", &port.to_string())
                    .replace("$DIR", &directory.display().to_string())
                    .replace("$CONFIG", &file.display().to_string())
            };
            if let Some(config) = &config {
                // An unwritten file shows as the program's own complaint.
                std::fs::write(&file, fill(config)).ok();
            }
            let mut command = Command::new(&binary);
            command.args(arguments.iter().map(|argument| fill(argument))).current_dir(directory);
            // As the image and the unit of systemd have it.
            command.env("MALLOC_ARENA_MAX", "2");
            command.envs(environment.iter().map(|(name, value)| (name, fill(value))));
            command
        };
        let process = Process::start("the service", ready_path, directory, build).await?;
        Ok(Service { url: process.url(), process })
    }
}
