//! How a tool is asked: a command or an address gets one case, and answers with one JSON object within a deadline.

use std::path::PathBuf;
use std::process::{Command as Blocking, Stdio};
use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use tokio::io::AsyncReadExt;
use tokio::process::Command;

/// The longest answer, in bytes; a tool that writes more is a tool that prints nonsense.
const LONGEST: u64 = 1 << 20;
/// How much of a refused answer, or of what a failed command wrote, is shown, in characters.
const SHOWN: usize = 160;

/// One case, without its truth.
#[derive(Debug, Clone)]
pub struct Question {
    /// A Prometheus with the history of the case.
    pub prometheus_url: String,
    /// A file with what Alertmanager would send: a webhook of version 4.
    pub alert_file: PathBuf,
    /// A file with the engine's page shortly before the fault.
    pub metrics_before: PathBuf,
    /// A file with the engine's page at the judged moment; it is empty if the engine is dead.
    pub metrics_during: PathBuf,
    /// The engine: vllm, sglang, litellm, dynamo, llamacpp or ray.
    pub engine: String,
    /// The judged moment, in Unix seconds.
    pub at: i64,
}

/// What a tool says of a case.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Answer {
    /// The root cause; none if the tool does not know it.
    #[serde(default)]
    pub root: Option<String>,
    /// The links from the symptom to the root.
    #[serde(default)]
    pub chain: Vec<String>,
    /// Causes that the tool finds possible, best first.
    #[serde(default)]
    pub candidates: Vec<String>,
    /// True if the tool commits itself to nothing.
    #[serde(default)]
    pub abstained: bool,
}

impl Answer {
    /// Returns whether the tool commits itself to no root.
    pub fn is_abstained(&self) -> bool {
        self.abstained || self.root.is_none()
    }
}

/// A tool under test.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Tool {
    /// A program with its arguments, run in a directory; it gets the question as environment variables.
    Command {
        /// The program and its arguments.
        argv: Vec<String>,
        /// Where it runs.
        directory: PathBuf,
        /// More variables of its environment.
        environment: Vec<(String, String)>,
    },
    /// An address that takes the question as the JSON body of a POST.
    Http(String),
}

impl Tool {
    /// Asks the tool about one case.
    ///
    /// # Errors
    /// The reason for which there is no answer, as a sentence: no such program, a deadline, an exit status, no JSON.
    pub async fn ask(&self, question: &Question, deadline: Duration) -> Result<Answer, String> {
        let text = match self {
            Self::Command { argv, directory, environment } => {
                let (program, arguments) = argv.split_first().ok_or("the command is empty")?;
                let mut command = Command::new(program);
                command.args(arguments).current_dir(directory).envs(environment.iter().cloned());
                run(command.envs(variables(question)), deadline).await?
            }
            Self::Http(url) => post(url, question, deadline).await?,
        };
        serde_json::from_str(text.trim()).map_err(|error| format!("no answer in JSON ({error}): {}", clipped(&text)))
    }
}

fn variables(question: &Question) -> [(&'static str, String); 6] {
    let path = |path: &PathBuf| path.display().to_string();
    [
        ("PROMETHEUS_URL", question.prometheus_url.clone()),
        ("ALERT_FILE", path(&question.alert_file)),
        ("METRICS_BEFORE", path(&question.metrics_before)),
        ("METRICS_DURING", path(&question.metrics_during)),
        ("ENGINE", question.engine.clone()),
        ("AT", question.at.to_string()),
    ]
}

/// Runs a command and returns what it printed; at the deadline its whole process group ends.
async fn run(command: &mut Command, deadline: Duration) -> Result<String, String> {
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).kill_on_drop(true).process_group(0);
    let mut child = command.spawn().map_err(|error| format!("cannot start the command: {error}"))?;
    let group = child.id();
    let (mut out, mut err) = (String::new(), Vec::new());
    let (stdout, stderr) = (child.stdout.take(), child.stderr.take());
    let finished = async {
        let read = async {
            let mut bytes = Vec::new();
            if let Some(stdout) = stdout {
                stdout.take(LONGEST).read_to_end(&mut bytes).await?;
            }
            out = String::from_utf8_lossy(&bytes).into_owned();
            Ok::<_, std::io::Error>(())
        };
        let complaints = async {
            if let Some(mut stderr) = stderr {
                stderr.read_to_end(&mut err).await?;
            }
            Ok(())
        };
        tokio::try_join!(read, complaints)?;
        child.wait().await
    };
    let finished = tokio::time::timeout(deadline, finished).await;
    if let (Err(_), Some(group)) = (&finished, group) {
        // The command may have started others, which would live on.
        let _ = Blocking::new("kill").args(["-KILL", "--", &format!("-{group}")]).status();
    }
    match finished {
        Err(_) => Err(format!("no answer within {} s", deadline.as_secs_f64())),
        Ok(Err(error)) => Err(format!("cannot read the command's answer: {error}")),
        Ok(Ok(status)) if !status.success() => {
            Err(format!("the command ended with {status}: {}", clipped(&String::from_utf8_lossy(&err))))
        }
        Ok(Ok(_)) => Ok(out),
    }
}

async fn post(url: &str, question: &Question, deadline: Duration) -> Result<String, String> {
    let read = |path: &PathBuf| {
        std::fs::read_to_string(path).map_err(|error| format!("cannot read {}: {error}", path.display()))
    };
    let alert: Value = serde_json::from_str(&read(&question.alert_file)?).map_err(|error| error.to_string())?;
    let body = json!({
        "prometheus_url": question.prometheus_url,
        "alert": alert,
        "metrics_before": read(&question.metrics_before)?,
        "metrics_during": read(&question.metrics_during)?,
        "engine": question.engine,
        "at": question.at,
    });
    let client = reqwest::Client::builder().timeout(deadline).build().map_err(|error| error.to_string())?;
    let answer = client.post(url).json(&body).send().await;
    let answer = answer.and_then(reqwest::Response::error_for_status).map_err(|error| said(&error, deadline))?;
    answer.text().await.map_err(|error| said(&error, deadline))
}

fn said(error: &reqwest::Error, deadline: Duration) -> String {
    match error.is_timeout() {
        true => format!("no answer within {} s", deadline.as_secs_f64()),
        false => error.to_string(),
    }
}

/// The last line that says something, or the beginning of it.
fn clipped(text: &str) -> String {
    let last = text.lines().rev().find(|line| !line.trim().is_empty()).unwrap_or("it said nothing");
    last.trim().chars().take(SHOWN).collect()
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test that cannot go on should stop where it is")]
mod tests {
    use axum::Json;
    use axum::routing::post;
    use tokio::net::TcpListener;

    use super::*;

    const DEADLINE: Duration = Duration::from_secs(20);

    fn question(directory: &std::path::Path) -> Question {
        let file = |name: &str, text: &str| {
            std::fs::write(directory.join(name), text).unwrap();
            directory.join(name)
        };
        Question {
            prometheus_url: "http://127.0.0.1:9".to_owned(),
            alert_file: file("alert.json", r#"{"version":"4"}"#),
            metrics_before: file("before.prom", "a 1\n"),
            metrics_during: file("during.prom", "a 2\n"),
            engine: "vllm".to_owned(),
            at: 1_700_000_000,
        }
    }

    /// What a shell script answers.
    async fn script(text: &str, deadline: Duration) -> Result<Answer, String> {
        let directory = tempfile::tempdir().unwrap();
        let argv = ["sh", "-c", text].map(str::to_owned).to_vec();
        let tool = Tool::Command { argv, directory: directory.path().to_owned(), environment: vec![] };
        tool.ask(&question(directory.path()), deadline).await
    }

    #[tokio::test]
    async fn a_command_reads_the_case_and_its_answer_is_taken() {
        let text = r#"[ "$(cat "$METRICS_DURING")" = "a 2" ] && [ -s "$ALERT_FILE" ] && [ "$AT" = 1700000000 ] &&
            printf '{"root":"%s","chain":["x"],"candidates":[],"abstained":false}' "$ENGINE""#;
        let answer = script(text, DEADLINE).await.unwrap();
        assert_eq!((answer.root.as_deref(), answer.chain), (Some("vllm"), vec!["x".to_owned()]));
    }

    #[tokio::test]
    async fn a_command_that_fails_gives_its_status_and_last_words() {
        let reason = script("echo no such metric >&2; exit 3", DEADLINE).await.unwrap_err();
        assert!(reason.contains("3") && reason.contains("no such metric"), "{reason}");
    }

    #[tokio::test]
    async fn a_command_that_prints_nonsense_gives_what_it_printed() {
        for text in ["echo all is well", "echo '[1]'", "true"] {
            let reason = script(text, DEADLINE).await.unwrap_err();
            assert!(reason.starts_with("no answer in JSON"), "{reason}");
        }
    }

    #[tokio::test]
    async fn a_command_that_hangs_ends_at_the_deadline_with_its_children() {
        let directory = tempfile::tempdir().unwrap();
        let text = "sleep 600 & echo $! > child; wait";
        let argv = ["sh", "-c", text].map(str::to_owned).to_vec();
        let tool = Tool::Command { argv, directory: directory.path().to_owned(), environment: vec![] };
        let reason = tool.ask(&question(directory.path()), Duration::from_secs(2)).await.unwrap_err();
        assert_eq!(reason, "no answer within 2 s");
        let child = std::fs::read_to_string(directory.path().join("child")).unwrap();
        let status = format!("/proc/{}/stat", child.trim());
        // Nobody may have collected it yet: a zombie has ended too.
        let ended = |text: String| text.rsplit(')').next().is_some_and(|rest| rest.trim_start().starts_with('Z'));
        while !std::fs::read_to_string(&status).map_or(true, ended) {
            tokio::task::yield_now().await;
        }
    }

    #[tokio::test]
    async fn an_address_gets_the_same_case_as_json() {
        let _ = rustls::crypto::ring::default_provider().install_default();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}/", listener.local_addr().unwrap());
        let echo = |Json(body): Json<Value>| async move {
            let seen =
                body["metrics_during"] == "a 2\n" && body["alert"]["version"] == "4" && body["at"] == 1_700_000_000;
            Json(json!({ "root": body["engine"], "abstained": !seen }))
        };
        let app = axum::Router::new().route("/", post(echo));
        let server = tokio::spawn(async move { axum::serve(listener, app).await });
        let directory = tempfile::tempdir().unwrap();
        let answer = Tool::Http(url).ask(&question(directory.path()), DEADLINE).await.unwrap();
        assert_eq!(answer, Answer { root: Some("vllm".to_owned()), ..Answer::default() });
        server.abort();
    }
}
