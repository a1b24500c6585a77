//! Everything that runs: the simulated fleet, Prometheus with an hour of its past, Alertmanager, the service.

use std::fs::File;
use std::io::Read;
use std::net::TcpListener as Reservation;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use anyhow::{Context, ensure};
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::process::Command;
use tokio::task::JoinSet;

use super::narrator::Narrator;
use super::options::Options;
use super::pictures;
use crate::sim::{Fault, Fleet, FleetSpec, History, live};
use crate::slack::{self, FakeSlack};
use crate::stack::{self, Alertmanager, Prometheus, Service};

/// The rules' and the diagnoses' window: short, so that nobody waits for a demo, and still thirty scrapes.
const WINDOW: &str = "30s";
/// How long an alert's condition must hold: longer than a rollout, so that it is no lost replica.
const FOR: &str = "10s";
/// What is normal: the past that the fleet has is short.
const BASELINE: &str = "30m";
/// What the baselines look back on.
pub(super) const PAST_SECONDS: f64 = 3_600.0;
/// Before that the fleet served unseen, so that no replica looks freshly started.
pub(super) const UNSEEN_SECONDS: f64 = 7_200.0;
/// Between two scrapes of the past.
pub(super) const PAST_INTERVAL_SECONDS: f64 = 15.0;
/// Of a container until it is ready; real models take minutes, of which a rollout has several.
pub(super) const STARTUP_SECONDS: f64 = 2.0;
/// Longer than what a tour's history has of the future.
const OUT_OF_ORDER: Duration = Duration::from_secs(3_600);
const SEED: u64 = 1;
const TERMINATE_WITHIN: Duration = Duration::from_secs(10);
const LOG_TAIL_LINES: usize = 15;

/// What Prometheus begins with.
pub(super) struct Past<'a> {
    /// The file with what it would have scraped.
    pub(super) history: &'a Path,
    /// What it scrapes from now on.
    pub(super) scrapes: &'a str,
    /// Where faults are injected.
    pub(super) url: String,
    /// What serves the fleet.
    pub(super) tasks: JoinSet<()>,
}

/// The running programs, in the order in which they end when it is dropped.
pub(super) struct Site {
    /// The product.
    pub(super) service: Service,
    alertmanager: Alertmanager,
    /// Where the service posts, if pictures are wanted.
    pub(super) slack: Option<FakeSlack>,
    /// What the story's figures are read from.
    pub(super) prometheus: Prometheus,
    /// Where faults are injected: `http://127.0.0.1:PORT`.
    pub(super) fleet_url: String,
    http: reqwest::Client,
    /// The fleet's server and the relay of the service's messages; they end with it.
    tasks: JoinSet<()>,
}

impl Site {
    /// Starts all of it and says so, one line a step. Files are made in `directory`.
    pub(super) async fn start(options: &Options, directory: &Path, narrator: &Narrator) -> anyhow::Result<Self> {
        let binary = &options.binary;
        ensure!(binary.is_file(), "there is no {}: build it with `cargo build`", binary.display());
        narrator.say(&format!("simulating {} vLLM replicas, and an hour of their past", options.replicas));
        let history = directory.join("history.txt");
        let fleet = fleet_with_past(options, &history).await?;
        let listener = TcpListener::bind("127.0.0.1:0").await.context("no free port on 127.0.0.1")?;
        let address = listener.local_addr()?.to_string();
        let scrapes = live::scrape_configs(&fleet.targets(), &address, "1s").to_string();
        let mut tasks = JoinSet::new();
        tasks.spawn(async move {
            live::serve(fleet, listener).await.ok();
        });

        narrator
            .say(&format!("starting Prometheus with that hour and the generated rules (window {WINDOW}, for {FOR})"));
        let past = Past { history: &history, scrapes: &scrapes, url: format!("http://{address}"), tasks };
        let mut site = Self::around(options, directory, past, narrator.colours).await?;
        site.tasks.spawn(narrator.relay(site.service.directory().join("stdout.log")));
        site.introduce(narrator);
        Ok(site)
    }

    /// Starts the programs around a fleet that is served, or whose whole story is a history.
    pub(super) async fn around(
        options: &Options,
        directory: &Path,
        past: Past<'_>,
        colours: bool,
    ) -> anyhow::Result<Self> {
        let Past { history, scrapes, url: fleet_url, tasks } = past;
        let binary = &options.binary;
        ensure!(binary.is_file(), "there is no {}: build it with `cargo build`", binary.display());
        let rules = generate_rules(binary, directory).await?;
        // Prometheus must know Alertmanager's address before it runs, for the service stands between the two.
        let reserved = Reservation::bind("127.0.0.1:0").context("no free port on 127.0.0.1")?;
        let alerts_to = reserved.local_addr()?.to_string();
        let prometheus =
            Prometheus::builder().scrape_config(scrapes).alertmanager(&alerts_to).backfill(history).rule_file(&rules);
        // A tour's history ends in the future, and the rules record the present.
        let prometheus = if options.tour.is_some() { prometheus.out_of_order(OUT_OF_ORDER) } else { prometheus };
        let prometheus = prometheus.start().await?;
        std::fs::remove_file(history).ok();

        let token_file = directory.join("webhook-token");
        let token = token()?;
        std::fs::write(&token_file, &token).context("cannot write the webhook's token")?;
        let slack = match options.pictures {
            Some(_) => Some(FakeSlack::start(slack::Options::default()).await?),
            None => None,
        };
        let config = config(&token_file, &prometheus.url, &format!("http://{alerts_to}"));
        let service = start_service(binary, config, slack.as_ref(), colours).await?;
        drop(reserved);
        let alertmanager = Alertmanager::builder()
            // One incident for a pool, whatever its alerts are called.
            .group_by(&["namespace", "model_name"])
            .group_wait(Duration::from_secs(1))
            .group_interval(Duration::from_secs(5))
            .webhook(
                &format!("{}/webhook/alertmanager", service.url),
                json!({ "authorization": { "credentials": token } }),
            )
            .flag(&format!("--web.listen-address={alerts_to}"))
            .start()
            .await?;
        Ok(Self { service, alertmanager, slack, prometheus, fleet_url, http: stack::http()?, tasks })
    }

    /// Says where everything is.
    pub(super) fn introduce(&self, narrator: &Narrator) {
        narrator.note(&format!("incidents     {}/incidents", self.service.url));
        narrator.note(&format!("Prometheus    {}/alerts", self.prometheus.url));
        narrator.note(&format!("Alertmanager  {}", self.alertmanager.url));
    }

    /// Starts a fault now.
    pub(super) async fn inject(&self, fault: Fault) -> anyhow::Result<()> {
        self.ask_fleet(self.http.post(format!("{}/faults/{fault}", self.fleet_url))).await
    }

    /// Ends all faults.
    pub(super) async fn clear(&self) -> anyhow::Result<()> {
        self.ask_fleet(self.http.delete(format!("{}/faults", self.fleet_url))).await
    }

    async fn ask_fleet(&self, request: reqwest::RequestBuilder) -> anyhow::Result<()> {
        let answer = request.send().await.context("the fleet does not answer")?;
        let status = answer.status();
        ensure!(status.is_success(), "the fleet answered {status}: {}", answer.text().await.unwrap_or_default());
        Ok(())
    }

    /// An error if the service has ended, with the last that it logged.
    pub(super) async fn check_service(&mut self) -> anyhow::Result<()> {
        let Ok(status) = self.service.exit(Duration::ZERO).await else { return Ok(()) };
        anyhow::bail!("llm-diagnose ended ({status})\n{}", self.service_log())
    }

    /// The last lines that the service logged.
    pub(super) fn service_log(&self) -> String {
        let log = self.service.stderr();
        let lines: Vec<&str> = log.lines().collect();
        lines[lines.len().saturating_sub(LOG_TAIL_LINES)..].join("\n")
    }

    /// Ends the service as an operator would, and the others with it.
    pub(super) async fn stop(mut self, narrator: &Narrator) {
        match self.service.terminate(TERMINATE_WITHIN).await {
            Ok(status) if status.success() => {}
            Ok(status) => narrator.bad(&format!("llm-diagnose ended with {status}\n{}", self.service_log())),
            Err(error) => narrator.bad(&format!("llm-diagnose did not end on SIGTERM: {error:#}")),
        }
        self.tasks.shutdown().await;
    }
}

/// A fleet that has served for hours, the last of which is written to a file as Prometheus would have scraped it.
async fn fleet_with_past(options: &Options, file: &Path) -> anyhow::Result<Fleet> {
    let now = seconds_now()?;
    let fault = options.scenario.faults.first();
    let spec =
        fault.map_or_else(|| FleetSpec::sized(options.replicas), |fault| FleetSpec::for_fault(fault, options.replicas));
    let spec = FleetSpec { startup_seconds: STARTUP_SECONDS, ..spec };
    let mut fleet = Fleet::new(spec, SEED, now - PAST_SECONDS - UNSEEN_SECONDS)?;
    let mut history = History::new(PAST_INTERVAL_SECONDS);
    let mut at = fleet.now();
    while at < now {
        at = (at + 60.0).min(now);
        if at <= now - PAST_SECONDS {
            fleet.advance_to(at);
        } else {
            history.record(&mut fleet, at);
        }
        // So that Ctrl-C is heard meanwhile.
        tokio::task::yield_now().await;
    }
    let out = File::create(file).with_context(|| format!("cannot write {}", file.display()))?;
    history.write(out).with_context(|| format!("cannot write {}", file.display()))?;
    Ok(fleet)
}

#[expect(clippy::disallowed_methods, reason = "the past of a live fleet ends in the present")]
pub(super) fn seconds_now() -> anyhow::Result<f64> {
    Ok(SystemTime::now().duration_since(UNIX_EPOCH)?.as_secs_f64())
}

/// The file with the product's rules.
async fn generate_rules(binary: &Path, directory: &Path) -> anyhow::Result<PathBuf> {
    let generated = directory.join("rules.yaml");
    let output = Command::new(binary)
        .args(["generate", "rules", "--window", WINDOW, "--for", FOR, "--output"])
        .arg(&generated)
        .stdin(Stdio::null())
        .kill_on_drop(true)
        .output()
        .await
        .with_context(|| format!("cannot run {}", binary.display()))?;
    let complaint = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "`llm-diagnose generate rules` failed ({}): {complaint}", output.status);
    // Alerts on a burn rate are kept for minutes, so that they do not come and go. Nobody waits for that either.
    let rules = std::fs::read_to_string(&generated).context("cannot read the generated rules")?;
    let lines: Vec<&str> = rules.lines().filter(|line| !line.trim_start().starts_with("keep_firing_for:")).collect();
    std::fs::write(&generated, lines.join("\n")).context("cannot write the demo's rules")?;
    Ok(generated)
}

/// The service's configuration, without Slack.
fn config(token: &Path, prometheus: &str, alertmanager: &str) -> Value {
    json!({
        "listen": "127.0.0.1:$PORT",
        "state_dir": "$DIR",
        "public_url": "http://127.0.0.1:$PORT",
        "webhook": { "bearer_token_file": token },
        "pages": { "authentication": "none", "act": ["anybody"] },
        "prometheus": [{ "url": prometheus, "concurrency": 8 }],
        "alertmanagers": [{ "url": alertmanager }],
        "console": true,
        "diagnose": { "window": WINDOW, "baseline": BASELINE, "deadline": "10s", "refresh": "10s" },
        "incident": { "duplicate_within": "2s", "reopen_within": "2m" },
    })
}

async fn start_service(
    binary: &Path,
    mut config: Value,
    slack: Option<&FakeSlack>,
    colours: bool,
) -> anyhow::Result<Service> {
    let mut builder = Service::builder(binary).args(["serve", "--config", "$CONFIG"]);
    if let Some(slack) = slack {
        config["slack"] = json!({ "api_url": slack.base_url, "channel": pictures::CHANNEL, "escalate": "S0ONCALL" });
        builder = builder.env("SLACK_BOT_TOKEN", &slack.token).env("SLACK_APP_TOKEN", "xapp-lab");
    }
    let builder = if colours { builder.env("CLICOLOR_FORCE", "1") } else { builder.env("NO_COLOR", "1") };
    builder.config(&config.to_string()).start().await
}

/// A secret that nobody can guess.
pub(super) fn token() -> anyhow::Result<String> {
    let mut bytes = [0; 16];
    File::open("/dev/urandom").and_then(|mut random| random.read_exact(&mut bytes)).context("no random numbers")?;
    Ok(format!("{:032x}", u128::from_ne_bytes(bytes)))
}
