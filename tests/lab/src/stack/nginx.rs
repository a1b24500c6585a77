//! A real nginx, as it stands before several replicas or before a Prometheus.

use std::path::Path;

use tokio::process::Command;

use super::find_binary;
use super::process::{self, Process};

/// A running nginx; it is killed when dropped.
pub struct Nginx {
    /// `http://127.0.0.1:PORT`
    pub url: String,
    process: Process,
}

impl Nginx {
    /// Starts it with these directives of its `http` block, in which `$PORT` stands for its port and `$DIR` for its
    /// directory; it is ready when `ready_path` answers 200. `files` are written there, each with its name.
    pub async fn start(directives: &str, ready_path: &'static str, files: &[(&str, &str)]) -> anyhow::Result<Self> {
        let binary = find_binary(&["nginx"])?;
        let directory = process::directory()?;
        for (name, content) in files {
            process::write(&directory, name, content)?;
        }
        let directives = directives.to_owned();
        let build = move |port: u16, directory: &Path| {
            let at = directory.display().to_string();
            let fill = |text: &str| text.replace("$PORT", &port.to_string()).replace("$DIR", &at);
            let paths: String = ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"]
                .map(|kind| format!("{kind}_temp_path $DIR/{kind};\n"))
                .concat();
            let config = fill(&format!(
                "daemon off;\nmaster_process off;\npid $DIR/nginx.pid;\nerror_log stderr;\nevents {{}}\n\
                 http {{\naccess_log off;\n{paths}{directives}\n}}\n"
            ));
            let file = directory.join("nginx.conf");
            // An unwritten file shows as the program's own complaint.
            std::fs::write(&file, config).ok();
            let mut command = Command::new(&binary);
            command.arg("-p").arg(directory).arg("-c").arg(file);
            command
        };
        let process = Process::start("nginx", ready_path, directory, build).await?;
        Ok(Self { url: process.url(), process })
    }

    /// What it logged so far.
    pub fn log(&self) -> String {
        self.process.output("stderr.log")
    }
}
