//! Labelled scenarios: fleets break in known ways, and what the product says is compared with what it was.
//!
//! `cargo test --test scenarios` runs a fixed third of the half that rules are tuned on and fails below its bars; a share is
//! diagnosed a second time alone in a Prometheus, and must get the same answer as beside seven other fleets;
//! `-- --all` runs everything, the handicaps too; `--write FILE` makes the page; `--only PART,PART` the families with
//! that in their names, in detail.
//! `--tuned` runs the whole half that rules are tuned on; with `--serve` it leaves its Prometheus running until it is
//! interrupted, and `--url URL` asks that one instead of simulating again. `--fit` adds the handicaps and prints the
//! coefficients of a cause's probability that fit the half that rules are tuned on and the captures' `--rows FILE`.
#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a test program that cannot go on should stop where it is; its output is its result"
)]

mod report;
mod run;
mod scenario;
mod world;

use std::process::ExitCode;
use std::time::Instant;

use diagnose::PRIOR;
use knowledge::playbook;
use llm_diagnose_lab::page::put_part;
use llm_diagnose_lab::{calibration, stack};
use prom::{Config, Prometheus};

use report::Rates;
use run::{Handicap, Outcome, outcomes};
use world::{Forced, Situation, histories};

/// The seeds of the half that rules were tuned on, and of the half that nobody looked at for that.
const TUNED: u64 = 1;
const HELD_OUT: u64 = 2;
/// Least shares of right mechanisms, right roots, and right roots among the first three; the same for a third as for all.
/// A third has some 35 faults: one root may be wrong, and it must be among the first three.
const BARS: (f64, f64, f64) = (0.95, 0.95, 0.98);

#[derive(Default)]
struct Options {
    all: bool,
    write: Option<String>,
    only: Option<String>,
    tuned: bool,
    serve: bool,
    fit: bool,
    rows: Option<String>,
    url: Option<String>,
}

fn options() -> Options {
    let mut options = Options::default();
    let mut words = std::env::args().skip(1);
    while let Some(word) = words.next() {
        match word.as_str() {
            "--all" => options.all = true,
            "--tuned" => options.tuned = true,
            "--serve" => options.serve = true,
            "--fit" => options.fit = true,
            "--rows" => options.rows = words.next(),
            "--url" => options.url = words.next(),
            "--write" => options.write = words.next(),
            "--only" => options.only = words.next(),
            // What `cargo test` hands to every test program.
            _ => {}
        }
    }
    options
}

fn main() -> ExitCode {
    let options = options();
    let _ = rustls::crypto::ring::default_provider().install_default();
    let library = playbook::load(None).unwrap_or_else(|problems| panic!("{problems:?}"));
    let families = scenario::all();
    let mut chosen = Vec::new();
    let mut tunable = 0;
    for family in families {
        if !family.held_out {
            // A single family is laid out in its place among all (`--all`), so that it is diagnosed at the same hour.
            if options.all || options.tuned || options.only.is_some() || tunable % 3 == 0 {
                chosen.push((family.clone(), false, TUNED));
            }
            tunable += 1;
        }
        if options.all || (options.only.is_some() && options.url.is_none() && !options.tuned) {
            chosen.push((family, true, HELD_OUT));
        }
    }
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let started = Instant::now();
    let told = |what: &str| eprintln!("{what} after {:.0} s", started.elapsed().as_secs_f64());
    runtime.block_on(async {
        let mut situations = Situation::lay_out(&chosen, Forced::default());
        if let Some(only) = &options.only {
            situations.retain(|s| only.split(',').any(|part| s.scenario.name.contains(part)));
        }
        let (prometheus, server) = match &options.url {
            Some(url) => (client(url), None),
            None => {
                let (prometheus, server) = serve(&library, &situations, &told).await;
                (prometheus, Some(server))
            }
        };
        if let Some(server) = server.as_ref().filter(|_| options.serve) {
            println!("{}", server.url);
            let _ = tokio::signal::ctrl_c().await;
            return ExitCode::SUCCESS;
        }
        let found = outcomes(&library, &prometheus, &situations, Handicap::None).await;
        told("diagnosed");
        let mut degraded = Vec::new();
        let mut another = 0;
        if options.url.is_none() && options.only.is_none() {
            let alone = Situation::alone(&situations);
            let (prometheus, _server) = serve(&library, &alone, &told).await;
            let lone = outcomes(&library, &prometheus, &alone, Handicap::None).await;
            told("diagnosed alone");
            another = differing(&found, &lone);
            degraded.push(("alone in their Prometheus".to_owned(), lone));
        }
        let keep = |degraded: &[(String, Vec<Outcome>)]| {
            if let Some(path) = &options.write {
                let part = report::page(&found, degraded, "make scenarios");
                put_part(path.as_ref(), "scenarios", &part).unwrap();
            }
        };
        keep(&degraded);
        print(&found, options.only.is_some());
        if options.all || options.fit {
            for (name, handicap) in [
                ("no GPU exporter", Handicap::NoGpuExporter),
                ("no kube-state-metrics", Handicap::NoKubernetes),
                ("no yesterday", Handicap::NoYesterday),
            ] {
                degraded.push((name.to_owned(), outcomes(&library, &prometheus, &situations, handicap).await));
            }
            keep(&degraded);
            told("handicapped");
        }
        if options.all {
            // Fleets of another shape need histories of their own: of every third family, from the halves in turn.
            let some = chosen.iter().enumerate().filter(|(i, _)| matches!(i % 12, 0 | 7));
            let some: Vec<_> = some.map(|(_, one)| one.clone()).collect();
            let slow = Forced { interval: Some(60.0), replicas: None };
            let lone = Forced { interval: None, replicas: Some(1) };
            for (name, forced, some) in [("60 s between scrapes", slow, some.clone()), ("one replica only", lone, some)]
            {
                let alone = |s: &(scenario::Scenario, bool, u64)| forced.replicas.is_none() || s.0.expect.alone;
                let some: Vec<_> = some.into_iter().filter(alone).collect();
                let situations = Situation::lay_out(&some, forced);
                let (prometheus, _server) = serve(&library, &situations, &told).await;
                degraded.push((name.to_owned(), outcomes(&library, &prometheus, &situations, Handicap::None).await));
            }
            told("degraded");
        }
        keep(&degraded);
        for (name, outcomes) in &degraded {
            println!("{name}: {:?}", Rates::of(outcomes.iter()));
        }
        for held_out in [false, true] {
            let said = report::said(&found, &degraded, held_out);
            println!(
                "calibration, never tuned on: {held_out}: error {:.3}\n{}",
                calibration::error(&said),
                calibration::table(&said)
            );
        }
        if options.fit {
            let outcomes = found.iter().chain(degraded.iter().flat_map(|(_, outcomes)| outcomes));
            let tuned = outcomes.filter(|o| !o.healthy && !o.held_out).flat_map(|o| o.weighed.clone()).collect();
            let captured = options.rows.as_ref().map(|path| std::fs::read_to_string(path).unwrap());
            let captured = captured.map(|text| serde_json::from_str(&text).unwrap()).unwrap_or_default();
            println!("coefficients: {:.2?}", calibration::fit(&[tuned, captured], PRIOR));
        }
        if another > 0 {
            println!("{another} answers are other ones alone than in company");
            return ExitCode::FAILURE;
        }
        verdict(&found)
    })
}

async fn serve(
    library: &playbook::Library,
    situations: &[Situation],
    told: &impl Fn(&str),
) -> (Prometheus, stack::Prometheus) {
    let directory = tempfile::tempdir().unwrap();
    let files = histories(library, situations, directory.path());
    told("simulated");
    let builder = files.into_iter().fold(stack::Prometheus::builder(), |builder, file| builder.backfill(file));
    let server = builder.start().await.unwrap();
    told("imported");
    (client(&server.url), server)
}

fn client(url: &str) -> Prometheus {
    Prometheus::new(&Config { url: url.to_owned(), ..Config::default() }).unwrap()
}

fn print(found: &[Outcome], detail: bool) {
    for o in found.iter().filter(|o| detail || !o.right()) {
        let score = o.probability.map_or(String::new(), |p| format!("{p:.2}"));
        println!(
            "{} {}{} from {}: expected {}, found {} ({:?} {score})",
            if o.right() { "ok   " } else { "WRONG" },
            o.scenario,
            if o.held_out { " (held out)" } else { "" },
            o.entry,
            o.expected,
            o.found(),
            o.verdict
        );
        if detail && !o.right() {
            println!("{}", serde_json::to_string_pretty(&*o.diagnosis).unwrap());
        }
    }
    for (name, held_out) in [("tuned on", false), ("never tuned on", true)] {
        println!("{name}: {:?}", Rates::of(found.iter().filter(|o| o.held_out == held_out)));
    }
}

/// How many diagnoses are other ones alone than beside other pools.
fn differing(company: &[Outcome], alone: &[Outcome]) -> usize {
    let same = |one: &Outcome, other: &Outcome| {
        (&one.scenario, one.held_out, &one.entry) == (&other.scenario, other.held_out, &other.entry)
    };
    let pairs = alone.iter().filter_map(|one| Some((one, company.iter().find(|other| same(one, other))?)));
    let differ = pairs.filter(|(one, other)| {
        let answer = |o: &Outcome| (o.diagnosis.symptom.playbook.clone(), o.symptom, o.chain.clone(), o.verdict);
        answer(one) != answer(other)
    });
    let told = differ.map(|(one, other)| {
        let of = |o: &Outcome| {
            format!("{} {:?} {:?} {:?}", o.found(), o.symptom, o.verdict, o.probability.map(|p| (p * 100.0).round()))
        };
        println!("{} from {}: alone {}, in company {}", one.scenario, one.entry, of(one), of(other));
    });
    println!("{} of {} situations were diagnosed alone too", alone.len(), company.len());
    told.count()
}

fn verdict(found: &[Outcome]) -> ExitCode {
    let (mechanism, root, top3) = BARS;
    let rates = Rates::of(found.iter());
    let share = |hits: usize| hits as f64 / rates.faults.max(1) as f64;
    let held = share(rates.mechanism) >= mechanism
        && share(rates.root) >= root
        && share(rates.top3) >= top3
        && rates.false_alarms == 0;
    if held {
        return ExitCode::SUCCESS;
    }
    println!(
        "below the bars: mechanism {mechanism}, root {root}, among three {top3}, no likely cause on a healthy fleet"
    );
    ExitCode::FAILURE
}
