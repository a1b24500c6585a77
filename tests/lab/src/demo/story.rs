//! The phases: healthy, broken, diagnosed, repaired, resolved; and what to make of them.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context, bail};

use super::figures::{Figures, firing};
use super::incidents::{Incident, Incidents};
use super::narrator::Narrator;
use super::options::Options;
use super::pictures;
use super::scenario::Expected;
use super::site::Site;

const TICK: Duration = Duration::from_millis(500);
const FIGURES_EVERY: Duration = Duration::from_secs(10);
/// How long the first scrapes may take.
const SCRAPED_WITHIN: Duration = Duration::from_secs(60);
const HEALTHY_FOR: Duration = Duration::from_secs(10);
/// How long after the fault the right cause may take.
const CAUSE_WITHIN: Duration = Duration::from_secs(120);
/// How long it is kept after that, so that the message can be read and refreshed.
const KEEP_FOR: Duration = Duration::from_secs(20);
/// How long after the repair the incident may stay open.
const RESOLVED_WITHIN: Duration = Duration::from_secs(180);
/// How long the service's API may fail.
const SILENT_FOR: Duration = Duration::from_secs(10);

/// What happened when, as time since the fault; since the repair for the end.
#[derive(Debug, Default)]
struct Times {
    alert: Option<Duration>,
    message: Option<Duration>,
    cause: Option<Duration>,
    resolved: Option<Duration>,
}

/// What is known so far.
struct Story<'a> {
    site: &'a mut Site,
    narrator: &'a Narrator,
    incidents: Incidents,
    expected: Expected,
    times: Times,
    /// Names of the alerts that were told.
    alerts: BTreeSet<String>,
    /// The chain last told of each incident.
    told: BTreeMap<String, String>,
    /// Chains that were told and not right.
    wrong: Vec<String>,
    /// Whether the newest diagnoses hold the right one.
    is_right: bool,
    heard: Instant,
    figures: Instant,
}

/// Tells the story and says whether it went as it should.
///
/// # Errors
/// When something that must run does not.
pub(super) async fn tell(options: &Options, site: &mut Site, narrator: &Narrator) -> anyhow::Result<bool> {
    let scenario = &options.scenario;
    let mut story = Story {
        incidents: Incidents::at(&site.service.url)?,
        site,
        narrator,
        expected: scenario.expected,
        times: Times::default(),
        alerts: BTreeSet::new(),
        told: BTreeMap::new(),
        wrong: Vec::new(),
        is_right: false,
        heard: Instant::now(),
        figures: Instant::now(),
    };
    story.be_healthy().await?;
    let names: Vec<String> = scenario.faults.iter().map(ToString::to_string).collect();
    narrator.bad(&format!("breaking it with {}: {}", names.join(" "), scenario.words));
    for fault in &scenario.faults {
        story.site.inject(*fault).await?;
    }
    story.suffer(Instant::now()).await?;
    if let Some(into) = &options.pictures {
        return story.draw(into).await;
    }
    story.site.clear().await?;
    narrator.good("repaired: the fault is gone; the alerts end when their window has seen enough of that");
    story.recover(Instant::now()).await?;
    Ok(story.sum_up())
}

impl Story<'_> {
    /// Waits for the first scrapes, then shows what good looks like.
    async fn be_healthy(&mut self) -> anyhow::Result<()> {
        let started = Instant::now();
        while !Figures::read(&self.site.prometheus).await.is_healthy() {
            if started.elapsed() > SCRAPED_WITHIN {
                let figures = Figures::read(&self.site.prometheus).await;
                bail!("the fleet is not healthy after {SCRAPED_WITHIN:?}: {figures}");
            }
            tokio::time::sleep(TICK).await;
        }
        for rest in [HEALTHY_FOR, Duration::ZERO] {
            self.narrator.good(&format!("healthy: {}", Figures::read(&self.site.prometheus).await));
            tokio::time::sleep(rest).await;
        }
        let alerts = firing(&self.site.prometheus).await;
        if !alerts.is_empty() {
            self.narrator.bad(&format!("false alarm: {} fires on a healthy fleet", alerts.join(", ")));
            self.wrong.push(format!("{} before the fault", alerts.join(", ")));
        }
        Ok(())
    }

    /// From the fault to the right cause, and a little longer.
    async fn suffer(&mut self, fault: Instant) -> anyhow::Result<()> {
        self.figures = fault;
        loop {
            let since = fault.elapsed();
            self.show_figures("suffering").await;
            self.hear_alerts(fault).await;
            if let Some(incidents) = self.listen().await? {
                if incidents.iter().any(|incident| incident.open) {
                    self.times.message.get_or_insert(fault.elapsed());
                }
                self.follow(&incidents);
            }
            if self.is_right && self.times.cause.is_none() {
                self.times.cause = Some(fault.elapsed());
                let kept = KEEP_FOR.as_secs();
                self.narrator.good(&format!("that is the cause; it is left as it is for {kept} s more"));
            }
            match self.times.cause {
                Some(cause) if since > cause + KEEP_FOR => break,
                None if since > CAUSE_WITHIN => {
                    let expected = self.expected.spoken();
                    self.narrator.bad(&format!("{expected} was not found within {} s", CAUSE_WITHIN.as_secs()));
                    break;
                }
                Some(_) | None => tokio::time::sleep(TICK).await,
            }
        }
        Ok(())
    }

    /// Takes the pictures of what was found; false if it was not the cause.
    async fn draw(&self, into: &Path) -> anyhow::Result<bool> {
        let slack = self.site.slack.as_ref().context("pictures need the fake Slack")?;
        let open = self.incidents.list().await?.into_iter().find(|incident| incident.open);
        let (Some(incident), true) = (open, self.is_right) else { return Ok(false) };
        pictures::take(slack, &format!("{}/incidents/{}", self.site.service.url, incident.id), into).await?;
        self.narrator.good(&format!("the message and the page are drawn into {}", into.display()));
        Ok(true)
    }

    /// From the repair until no incident is open.
    async fn recover(&mut self, repaired: Instant) -> anyhow::Result<()> {
        self.figures = repaired;
        while repaired.elapsed() < RESOLVED_WITHIN {
            self.show_figures("recovering").await;
            let over = self.listen().await?.is_some_and(|incidents| !incidents.iter().any(|incident| incident.open));
            if over && firing(&self.site.prometheus).await.is_empty() {
                self.times.resolved = self.times.message.map(|_| repaired.elapsed());
                // The message may still be on its way to the console.
                tokio::time::sleep(2 * TICK).await;
                return Ok(());
            }
            tokio::time::sleep(TICK).await;
        }
        let alerts = firing(&self.site.prometheus).await;
        let fires =
            if alerts.is_empty() { "no alert fires".to_owned() } else { format!("{} fires", alerts.join(", ")) };
        self.narrator.bad(&format!("still open {} s after the repair; {fires}", RESOLVED_WITHIN.as_secs()));
        Ok(())
    }

    /// Says which alerts are new.
    async fn hear_alerts(&mut self, fault: Instant) {
        let alerts = firing(&self.site.prometheus).await;
        let fresh: Vec<String> = alerts.into_iter().filter(|name| self.alerts.insert(name.clone())).collect();
        if !fresh.is_empty() {
            self.times.alert.get_or_insert(fault.elapsed());
            self.narrator.bad(&format!("Prometheus fires {}", fresh.join(", ")));
        }
    }

    async fn show_figures(&mut self, phase: &str) {
        if self.figures.elapsed() >= FIGURES_EVERY {
            self.figures += FIGURES_EVERY;
            self.narrator.say(&format!("{phase}: {}", Figures::read(&self.site.prometheus).await));
        }
    }

    /// The incidents, none while the service does not answer; an error when it has ended or is silent for too long.
    async fn listen(&mut self) -> anyhow::Result<Option<Vec<Incident>>> {
        match self.incidents.list().await {
            Ok(incidents) => {
                self.heard = Instant::now();
                Ok(Some(incidents))
            }
            Err(error) => {
                self.site.check_service().await?;
                if self.heard.elapsed() > SILENT_FOR {
                    return Err(error).with_context(|| format!("llm-diagnose is silent\n{}", self.site.service_log()));
                }
                Ok(None)
            }
        }
    }

    /// Says each new chain, and whether it is the right one.
    fn follow(&mut self, incidents: &[Incident]) {
        self.is_right = incidents.iter().any(|incident| incident.open && self.expected.is_met(incident.chain()));
        for incident in incidents.iter().filter(|incident| incident.open) {
            let chain = incident.spoken();
            if self.told.get(&incident.id) == Some(&chain) {
                continue;
            }
            if self.expected.is_met(incident.chain()) {
                self.narrator.good(&format!("diagnosed as expected: {chain}"));
            } else if self.expected.is_near(incident.chain()) {
                self.narrator.say(&format!("diagnosed so far: {chain}"));
            } else if !chain.is_empty() {
                let expected = self.expected.spoken();
                self.narrator.bad(&format!("diagnosed {chain}, but {expected} was expected"));
                self.wrong.push(chain.clone());
            } else if self.told.contains_key(&incident.id) {
                self.narrator.bad(&format!("no cause any more: {}", incident.headline));
                self.wrong.push("no cause".to_owned());
            }
            self.told.insert(incident.id.clone(), chain);
        }
    }

    /// The times, and the verdict.
    fn sum_up(&self) -> bool {
        let Times { alert, message, cause, resolved } = self.times;
        let seconds =
            |time: Option<Duration>| time.map_or_else(|| "never".into(), |t| format!("{:.1} s", t.as_secs_f64()));
        let passed = cause.is_some_and(|time| time < CAUSE_WITHIN) && resolved.is_some();
        if passed {
            self.narrator.good("passed: the cause was found and the incident is resolved");
        } else {
            self.narrator.bad("failed: not everything came as expected");
        }
        self.narrator.note(&format!("from the fault to the alert {}", seconds(alert)));
        self.narrator.note(&format!(
            "to the first message {}, to the right cause {}",
            seconds(message),
            seconds(cause)
        ));
        self.narrator.note(&format!("from the repair to the resolved incident {}", seconds(resolved)));
        if !self.wrong.is_empty() {
            self.narrator.note(&format!("not as expected: {}", self.wrong.join("; ")));
        }
        passed
    }
}
