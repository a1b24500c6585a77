//! `make demo MODE=tour`: eight pools break one after the other, each in another way, and all are diagnosed.
//!
//! Eight live fleets are too much for a laptop, so their next minutes are simulated before, too, and Prometheus plays
//! them. From there on all is as it is: its rules fire, Alertmanager sends, the service diagnoses.

use std::fs::File;
use std::io::{IsTerminal, Write};
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use anyhow::{Context, ensure};
use tokio::process::Command;
use tokio::sync::oneshot;
use tokio::task::JoinSet;

use super::incidents::{Incident, Incidents};
use super::narrator::Narrator;
use super::options::Options;
use super::scenario::Scenario;
use super::site::{PAST_INTERVAL_SECONDS, PAST_SECONDS, Past, STARTUP_SECONDS, Site, UNSEEN_SECONDS, seconds_now};
use crate::sim::{Fleet, FleetSpec, History};

/// What breaks, with the pool's name: a kind of fault each. Not among them are `stalled-engine` and `client-errors`: no
/// alert fires for these within two minutes in a pool of four, neither here nor on a live fleet.
const STOPS: [(&str, &str); 8] = [
    ("chat", "longer-prompts"),
    ("code", "slot-limit"),
    ("search", "bad-replica"),
    ("vision", "gpu-throttling"),
    ("support", "lost-replica"),
    ("mail", "capacity-shrunk"),
    ("notes", "runaway-generation"),
    ("partner", "interconnect-slow"),
];
/// The most stops that there are.
pub(super) const MOST_STOPS: usize = STOPS.len();
/// The replicas of a pool.
const REPLICAS: usize = 4;
/// Between the start of the programs and the first fault, and from fault to fault.
const APART_SECONDS: f64 = 10.0;
/// What Prometheus and the service may take to start, before the first fault.
const START_SECONDS: f64 = 20.0;
/// How long after its fault a pool may take to be diagnosed.
const FOUND_WITHIN_SECONDS: f64 = 100.0;
/// Between two samples while something is broken.
const INTERVAL_SECONDS: f64 = 3.0;
const TICK: Duration = Duration::from_millis(500);
/// How long the pages may be read in a terminal, and with `--keep`: so long Prometheus has data, in seconds.
const READ_SECONDS: [f64; 2] = [600.0, 1800.0];
/// Between two samples in that time.
const READ_INTERVAL_SECONDS: f64 = 15.0;

/// One pool on the way.
struct Stop {
    pool: &'static str,
    scenario: Scenario,
    /// When it breaks, in unix seconds.
    at: f64,
    broken: bool,
    found: Option<Incident>,
}

/// Tells the tour and says whether every pool was diagnosed as expected.
///
/// # Errors
/// When something that must run does not.
pub(super) async fn tell(
    options: &Options,
    stops: usize,
    directory: &Path,
    narrator: &Narrator,
) -> anyhow::Result<(Site, bool)> {
    narrator.say(&format!(
        "a tour in about three minutes: {stops} pools of {REPLICAS} vLLM replicas each, one fault after the other"
    ));
    narrator.note("simulating them: an hour in which all is well, and the minutes that come");
    let scenarios = STOPS[..stops].iter().map(|(pool, fault)| Ok((*pool, Scenario::read(fault, REPLICAS)?)));
    let scenarios = scenarios.collect::<anyhow::Result<Vec<_>>>()?;
    // The simulation ends with a file; then the clock that everything waits for is set.
    let history = directory.join("history.txt");
    let began = seconds_now()?;
    let is_terminal = std::io::stdout().is_terminal();
    let stays = match (options.keep, is_terminal) {
        (true, _) => READ_SECONDS[1],
        (false, true) => READ_SECONDS[0],
        // Nobody opens a page from a pipe.
        (false, false) => 0.0,
    };
    let simulating = if stays > 0.0 { 3.5 } else { 2.5 };
    let first = began + START_SECONDS + simulating * stops as f64;
    let mut tour: Vec<Stop> = scenarios
        .into_iter()
        .enumerate()
        .map(|(number, (pool, scenario))| Stop {
            pool,
            scenario,
            at: first + APART_SECONDS * number as f64,
            broken: false,
            found: None,
        })
        .collect();
    let end = tour.last().map_or(first, |stop| stop.at) + FOUND_WITHIN_SECONDS + 60.0;
    record(&tour, began, end, stays, &history).await?;
    narrator.say("starting Prometheus, Alertmanager and llm-diagnose");
    let past = Past { history: &history, scrapes: "", url: String::new(), tasks: JoinSet::new() };
    let mut site = Site::around(options, directory, past, narrator.colours).await?;
    site.introduce(narrator);
    let incidents = Incidents::at(&site.service.url)?;
    while tour.iter().any(|stop| stop.found.is_none()) {
        let now = seconds_now()?;
        if now > end - 60.0 {
            break;
        }
        for (number, stop) in tour.iter_mut().enumerate().filter(|(_, stop)| !stop.broken && stop.at <= now) {
            stop.broken = true;
            narrator.bad(&format!("{}/{stops} {} breaks: {}", number + 1, stop.pool, stop.scenario.words));
        }
        site.check_service().await?;
        let list = incidents.list().await.unwrap_or_default();
        for (number, stop) in tour.iter_mut().enumerate().filter(|(_, stop)| stop.broken && stop.found.is_none()) {
            let of_pool = |incident: &&Incident| incident.open && incident.is_of(stop.pool);
            let met = |incident: &&Incident| stop.scenario.expected.is_met(incident.chain());
            if let Some(incident) = list.iter().filter(of_pool).find(met) {
                narrator.good(&format!(
                    "{}/{stops} {} after {:.0} s: {}",
                    number + 1,
                    stop.pool,
                    now - stop.at,
                    incident.headline
                ));
                narrator.note(&incident.spoken());
                stop.found = Some(incident.clone());
            }
        }
        tokio::time::sleep(TICK).await;
    }
    for stop in tour.iter().filter(|stop| stop.found.is_none()) {
        let list = incidents.list().await.unwrap_or_default();
        let seen: Vec<String> =
            list.iter().filter(|incident| incident.is_of(stop.pool)).map(Incident::spoken).collect();
        let expected = stop.scenario.expected.spoken();
        narrator.bad(&format!("{}: {expected} was not found; seen: {}", stop.pool, seen.join("; ")));
    }
    if let Some(incident) = tour.iter().find_map(|stop| stop.found.as_ref()) {
        let bundle = if is_terminal { beside()? } else { directory.join("bundle.zip") };
        show(options, &site, incident, &bundle, narrator).await?;
        let minutes = (end + stays - seconds_now()?) / 60.0;
        if options.keep {
            narrator.note(&format!("the fleets have data for {minutes:.0} minutes more; then their pools go blind"));
        } else if is_terminal {
            narrator.note("the pages stay until you press Enter, for ten minutes at most");
            enter(Duration::from_secs_f64(READ_SECONDS[0])).await;
        }
    }
    let all = tour.iter().all(|stop| stop.found.is_some());
    Ok((site, all))
}

/// Returns the place of a bundle that outlives the tour: beside this program.
fn beside() -> anyhow::Result<PathBuf> {
    let own = std::env::current_exe().context("cannot tell where this program is")?;
    Ok(own.with_file_name("llm-diagnose-tour-bundle.zip"))
}

/// Waits for Enter, or the end of the input, and no longer than this.
async fn enter(most: Duration) {
    let (pressed, is_pressed) = oneshot::channel();
    // A thread that nobody waits for: the end of the program must not wait for a key.
    std::thread::spawn(move || {
        let _ = std::io::stdin().read_line(&mut String::new());
        let _ = pressed.send(());
    });
    let _ = tokio::time::timeout(most, is_pressed).await;
}

/// The incident's page, and its bundle.
async fn show(
    options: &Options,
    site: &Site,
    incident: &Incident,
    bundle: &Path,
    narrator: &Narrator,
) -> anyhow::Result<()> {
    narrator.say("each incident has a page: the chain with its evidence, what was ruled out, steps, charts; live until the alert ends");
    narrator.note(&format!("{}/incidents/{}", site.service.url, incident.id));
    narrator.note(&format!("{}/health      every pool at a glance", site.service.url));
    narrator.say("and a bundle, one file to hand on: the report, every source's answers, the series");
    let output = Command::new(&options.binary)
        .args(["bundle", &incident.id, "--force", "--config"])
        .arg(site.service.directory().join("config.yaml"))
        .arg("--output")
        .arg(bundle)
        .stdin(Stdio::null())
        .kill_on_drop(true)
        .output()
        .await
        .context("cannot make the bundle")?;
    let said = format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    ensure!(output.status.success(), "`llm-diagnose bundle` failed ({}): {said}", output.status);
    said.lines().filter(|line| !line.trim().is_empty()).for_each(|line| narrator.note(line));
    // In a pipe the file goes with the demo.
    if options.keep || std::io::stdout().is_terminal() {
        narrator.note(&format!(
            "read it again, on any machine: {} bundle open {}",
            options.binary.display(),
            bundle.display()
        ));
    }
    Ok(())
}

/// Writes what Prometheus would have scraped of all pools until `end`, and more seldom for `stays` seconds after it.
async fn record(tour: &[Stop], began: f64, end: f64, stays: f64, file: &Path) -> anyhow::Result<()> {
    let mut tasks = JoinSet::new();
    for (number, stop) in tour.iter().enumerate() {
        let (pool, faults, at) = (stop.pool, stop.scenario.faults.clone(), stop.at);
        tasks.spawn_blocking(move || {
            let spec = faults
                .first()
                .map_or_else(|| FleetSpec::sized(REPLICAS), |fault| FleetSpec::for_fault(fault, REPLICAS));
            let spec = FleetSpec { namespace: pool.to_owned(), startup_seconds: STARTUP_SECONDS, ..spec };
            let mut fleet = Fleet::new(spec, number as u64 + 1, began - PAST_SECONDS - UNSEEN_SECONDS)?;
            fleet.advance_to(began - PAST_SECONDS);
            let mut normal = History::new(PAST_INTERVAL_SECONDS);
            normal.record(&mut fleet, began - 120.0);
            let mut close = History::new(INTERVAL_SECONDS);
            fleet.advance_to(began - 119.0);
            close.record(&mut fleet, at);
            for fault in faults {
                fleet.inject(fault)?;
            }
            let mut broken = History::new(INTERVAL_SECONDS);
            fleet.advance_to(at + 1.0);
            broken.record(&mut fleet, end);
            let mut after = History::new(READ_INTERVAL_SECONDS);
            if stays > 0.0 {
                fleet.advance_to(end + 1.0);
                after.record(&mut fleet, end + stays);
            }
            let mut text = String::new();
            for history in [&normal, &close, &broken, &after] {
                let mut part = Vec::new();
                history.write(&mut part)?;
                // One file has one end, and no family stands in it twice.
                text.extend(String::from_utf8(part)?.split_inclusive('\n').filter(|line| !line.starts_with('#')));
            }
            anyhow::Ok(apart(&text, number))
        });
    }
    let texts: Vec<String> = tasks.join_all().await.into_iter().collect::<anyhow::Result<_>>()?;
    let mut out = File::create(file).with_context(|| format!("cannot write {}", file.display()))?;
    texts.iter().try_for_each(|text| out.write_all(text.as_bytes())).and_then(|()| out.write_all(b"# EOF\n"))?;
    Ok(())
}

/// Gives a fleet addresses, nodes and GPUs of its own.
fn apart(text: &str, number: usize) -> String {
    text.replace("\"10.42.200.", &format!("\"10.43.{number}."))
        .replace("\"10.42.0.", &format!("\"10.42.{number}."))
        .replace("\"10.0.0.", &format!("\"10.0.{number}."))
        .replace("gpu-node-", &format!("gpu-node-{number}-"))
        .replace("UUID=\"GPU-", &format!("UUID=\"GPU-{number}"))
        .replace("dcgm-exporter-", &format!("dcgm-exporter-{number}-"))
}
