//! Captures of real servers: what the product says of them, in nine ways.
//!
//! `cargo test --test captures` diagnoses a fixed part and fails below its bars, or where a step's `verify` cannot tell;
//! `-- --all` diagnoses every capture in every way; `--alone`, `--in-company`, `--together` and `--two-clusters` choose the
//! histories; `--alerts` asks about alerts by other people's rules alone (`alerts.yaml`); `--write FILE` puts
//! the table into a page; `--only NAME` shows one capture in detail; `--from DIR` shows the captures of another directory,
//! such as `make testbed` writes, and has no bars; `--serve` leaves the Prometheus with the histories running until it is
//! interrupted, and `--url URL` asks that one; `--rows FILE` writes the features of all causes, for the scenarios' `--fit`.
//! `--benchmark` asks other tools about the captures instead (`benchmark.rs`): `--tool NAME` for each, `--adapters DIR`.
#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a test program that cannot go on should stop where it is; its output is its result"
)]

mod alerts;
mod benchmark;
mod kit;
mod names;
mod recording;
mod report;
mod run;
mod stretch;
mod verify;

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Instant;

use knowledge::playbook;
use llm_diagnose_lab::calibration;
use prom::{Config, Prometheus};

use run::{Answer, Case, Histories, Way};
use verify::Tried;

/// The least number of steps' checks that a run must try.
const STEPS: usize = 130;

#[derive(Default)]
struct Options {
    all: bool,
    write: Option<PathBuf>,
    only: Option<String>,
    histories: Option<Histories>,
    serve: bool,
    url: Option<String>,
    from: Option<PathBuf>,
    alerts: bool,
    rows: Option<PathBuf>,
    benchmark: bool,
    tools: Vec<String>,
    adapters: Option<PathBuf>,
}

fn options() -> Options {
    let mut options = Options::default();
    let mut words = std::env::args().skip(1);
    while let Some(word) = words.next() {
        match word.as_str() {
            "--all" => options.all = true,
            "--alone" => options.histories = Some(Histories::Alone),
            "--in-company" => options.histories = Some(Histories::InCompany),
            "--together" => options.histories = Some(Histories::Together),
            "--two-clusters" => options.histories = Some(Histories::TwoClusters),
            "--serve" => options.serve = true,
            "--write" => options.write = words.next().map(PathBuf::from),
            "--url" => options.url = words.next(),
            "--from" => options.from = words.next().map(PathBuf::from),
            "--alerts" => options.alerts = true,
            "--rows" => options.rows = words.next().map(PathBuf::from),
            "--only" => options.only = words.next(),
            "--benchmark" => options.benchmark = true,
            "--tool" => options.tools.extend(words.next()),
            "--adapters" => options.adapters = words.next().map(PathBuf::from),
            // What `cargo test` hands to every test program.
            _ => {}
        }
    }
    options
}

fn main() -> ExitCode {
    let options = options();
    let _ = rustls::crypto::ring::default_provider().install_default();
    if options.benchmark {
        let Options { tools, adapters, serve, only, write, .. } = options;
        let wanted = benchmark::Wanted { tools, adapters, serve, only, write };
        let answered = tokio::runtime::Runtime::new().unwrap().block_on(benchmark::run(&wanted));
        return match answered {
            Ok(true) => ExitCode::SUCCESS,
            Ok(false) => ExitCode::FAILURE,
            Err(error) => {
                eprintln!("{error:#}");
                ExitCode::FAILURE
            }
        };
    }
    let library = playbook::load(None).unwrap_or_else(|problems| panic!("{problems:?}"));
    let cases = run::cases(&options.from.clone().unwrap_or_else(run::directory)).unwrap();
    let shows_all = options.only.is_some() || options.from.is_some();
    let chosen = |way: Way| -> Vec<Case> {
        let fixed_part = |i: usize| options.all || shows_all || way.is_in_every_run(i);
        let only = options.histories.or(options.url.as_ref().map(|_| Histories::Alone));
        let wanted = only.is_none_or(|only| way.histories() == only);
        let named = |case: &Case| options.only.as_ref().is_none_or(|only| case.id.contains(only.as_str()));
        cases
            .iter()
            .enumerate()
            .filter(|(i, case)| wanted && fixed_part(*i) && named(case))
            .map(|(_, c)| c.clone())
            .collect()
    };
    // The quick run leaves out what nobody asks for; whoever asks for all, or shows or serves a history, has all of it.
    let is_quick = !options.all && !options.serve && !shows_all;
    let names = is_quick.then(|| names::Names::of_data().unwrap());
    if options.alerts || (!shows_all && options.histories.is_none() && options.url.is_none()) {
        let wrong = tokio::runtime::Runtime::new().unwrap().block_on(alerts::wrong_answers(names.as_ref())).unwrap();
        wrong.iter().for_each(|wrong| println!("WRONG {wrong}"));
        if options.alerts || !wrong.is_empty() {
            return if wrong.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE };
        }
    }
    let started = Instant::now();
    let told = |what: &str| eprintln!("{what} after {:.0} s", started.elapsed().as_secs_f64());
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let (answers, steps): (Vec<Answer>, Tried) = runtime.block_on(async {
        let (mut answers, mut steps) = (Vec::new(), Tried::default());
        for histories in
            Histories::ALL.into_iter().filter(|histories| options.histories.is_none_or(|only| only == *histories))
        {
            let ways: Vec<(Way, Vec<Case>)> =
                Way::ALL.into_iter().filter(|way| way.histories() == histories).map(|way| (way, chosen(way))).collect();
            let all: Vec<Case> =
                cases.iter().filter(|c| ways.iter().any(|(_, w)| w.iter().any(|o| o.id == c.id))).cloned().collect();
            // Who stands together does not depend on who is asked.
            let is_crowd = matches!(histories, Histories::Together | Histories::TwoClusters) && !all.is_empty();
            let all = if is_crowd { cases.clone() } else { all };
            let all: Vec<Case> = all.iter().map(|case| case.among(histories)).collect();
            if all.is_empty() {
                continue;
            }
            let server = match options.url {
                Some(_) => None,
                None => Some(run::serve(&all, histories, names.as_ref()).await.unwrap()),
            };
            let url = options.url.clone().or(server.as_ref().map(|server| server.url.clone())).unwrap();
            told(&format!("{histories:?}: imported"));
            if options.serve {
                println!("{url}");
                for case in &all {
                    println!("{} at {} {:?}", case.id, case.at(), case.labels);
                }
                let _ = tokio::signal::ctrl_c().await;
                return (answers, steps);
            }
            let prometheus = Prometheus::new(&Config { url, ..Config::default() }).unwrap();
            for (way, cases) in ways {
                let cases: Vec<Case> = cases.iter().map(|case| case.among(histories)).collect();
                let own = run::answers(&library, &prometheus, &cases, way).await;
                told(&format!("{way:?}: diagnosed"));
                if way == Way::OwnName {
                    steps = verify::tried(&library, &prometheus, &own).await;
                    told(&format!("{} checks of steps tried", steps.shown));
                }
                answers.extend(own);
            }
        }
        (answers, steps)
    });
    for step in &steps.unable {
        println!("cannot tell whether it worked: {step}");
    }
    for answer in answers.iter().filter(|answer| shows_all || !answer.is_right()) {
        println!("{}", report::line(answer));
        if options.only.is_some() {
            println!("{}", serde_json::to_string_pretty(&answer.diagnosis).unwrap());
        }
    }
    println!("{}", report::table(&answers));
    let error = calibration::error(&report::said(answers.iter()));
    println!("calibration error {error:.3}\n{}", report::calibrated(&answers));
    if let Some(path) = &options.rows {
        let rows: Vec<_> = answers.iter().flat_map(Answer::weighed).collect();
        std::fs::write(path, serde_json::to_string(&rows).unwrap()).unwrap();
    }
    if let Some(path) = &options.write {
        report::write(path, &answers).unwrap();
    }
    if options.from.is_some() {
        return ExitCode::SUCCESS;
    }
    let mut missed = report::missed(&answers);
    if steps.shown < STEPS {
        missed.push(format!("{} checks of steps were tried, of at least {STEPS}", steps.shown));
    }
    for bar in &missed {
        println!("missed: {bar}");
    }
    let passed = missed.is_empty() && steps.unable.is_empty();
    if passed || options.only.is_some() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
