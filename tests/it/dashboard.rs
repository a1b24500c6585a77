//! The generated dashboard on real parts: simulated fleet ─▶ Prometheus with the generated rules ─▶ every panel's query.

use std::collections::{BTreeMap, BTreeSet};
use std::process::Command;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use knowledge::signal::{Engine, Fill, fill};
use llm_diagnose_lab::sim::{Fleet, FleetSpec, live};
use llm_diagnose_lab::stack::Prometheus;
use serde_json::{Value, json};
use tokio::net::TcpListener;

use crate::harness::library;
use crate::running::BINARY;

/// How long a test waits for data that must come; scrapes and rules are due every second.
const SOON: Duration = Duration::from_secs(60);
/// The rules' rate window.
const WINDOW: Duration = Duration::from_secs(4);
/// After these of each target every window is full, and a GPU's bit mask, looked at every ten seconds, was in one.
const SCRAPES: u64 = 15;
/// Who tells about the simulated fleet.
const EXPORTERS: [&str; 3] = ["dcgm", "kubernetes", "vllm"];
const REPLICAS: usize = 4;
/// What the panels are asked for, as Grafana asks: a range up to now.
const SHOWN_SECONDS: i64 = 60;

#[expect(clippy::disallowed_methods, reason = "a live fleet's present is the wall clock's")]
fn now() -> f64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs_f64()
}

fn generated(arguments: &[&str]) -> Vec<u8> {
    let made = Command::new(BINARY).arg("generate").args(arguments).output().unwrap();
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    made.stdout
}

/// A variable's name to what is chosen for it.
type Values = BTreeMap<String, String>;

/// A panel's query and legend, and the signal that it shows.
struct Panel {
    title: String,
    signal: String,
    query: String,
    legend: String,
}

/// All panels with a query, those in folded rows among them.
fn panels(of: &Value, into: &mut Vec<Panel>) {
    for panel in of["panels"].as_array().into_iter().flatten() {
        panels(panel, into);
        for target in panel["targets"].as_array().into_iter().flatten() {
            let query = target["expr"].as_str().unwrap().to_owned();
            let name = query.split("llm:").nth(1).and_then(|rest| rest.split(['{', ':']).next()).unwrap();
            into.push(Panel {
                title: panel["title"].as_str().unwrap().to_owned(),
                signal: name.to_owned(),
                legend: target["legendFormat"].as_str().unwrap().to_owned(),
                query,
            });
        }
    }
}

/// A text with each variable's value put in, as Grafana does.
fn chosen(text: &str, values: &Values) -> String {
    values.iter().fold(text.to_owned(), |text, (name, value)| text.replace(&format!("${name}"), value))
}

/// A Prometheus that scrapes four vLLM replicas, their GPUs and kube-state-metrics, with the generated rules.
async fn scraping() -> Prometheus {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let fleet = tokio::task::spawn_blocking(|| {
        let mut fleet = Fleet::new(FleetSpec::sized(REPLICAS), 1, now() - 300.0).unwrap();
        fleet.advance_to(now());
        fleet
    });
    let fleet = fleet.await.unwrap();
    let mut scrapes = live::scrape_configs(&fleet.targets(), &address, "1s");
    for group in
        scrapes.as_array_mut().unwrap().iter_mut().flat_map(|job| job["static_configs"].as_array_mut().unwrap())
    {
        group["labels"]["cluster"] = json!("eu-1");
    }
    tokio::spawn(live::serve(fleet, listener));
    let rules = tempfile::Builder::new().suffix(".yaml").tempfile().unwrap();
    std::fs::write(
        rules.path(),
        generated(&["rules", "--window", &humantime::format_duration(WINDOW).to_string(), "--for", "1s"]),
    )
    .unwrap();
    // It has read the rules once it is ready.
    Prometheus::builder().scrape_config(&scrapes.to_string()).rule_file(rules.path()).start().await.unwrap()
}

/// The engines whose series Prometheus holds.
async fn present(prometheus: &Prometheus) -> Vec<&'static Engine> {
    let mut present = Vec::new();
    for engine in library().engines.values() {
        let names = engine.detected_by().join("|");
        if prometheus.query_now(&format!("{{__name__=~\"{names}\"}}")).await.unwrap() != json!([]) {
            present.push(engine);
        }
    }
    present
}

/// The series of a panel within the shown range.
async fn series(prometheus: &Prometheus, query: &str) -> Vec<Value> {
    let end = now() as i64;
    let answer = prometheus.query_range(query, end - SHOWN_SECONDS, end, 1).await;
    answer.unwrap_or_else(|error| panic!("{query}: {error:#}")).as_array().unwrap().clone()
}

/// Whether an engine's own query of a signal finds anything, as its file has it and without any rule.
async fn tells(prometheus: &Prometheus, engine: &Engine, signal: &str) -> bool {
    let Some(entry) = engine.signals.get(signal) else { return false };
    let Some(query) = entry.query.as_ref().filter(|_| entry.from_labels.is_empty()) else { return false };
    let window = entry.window.as_ref().map_or(WINDOW, |window| humantime::parse_duration(window).unwrap());
    let query = fill(query, &Fill { window, target: &engine.target(), ..Fill::default() });
    !series(prometheus, &query).await.is_empty()
}

/// Waits until `done`, at most for [`SOON`].
async fn until(what: &str, mut done: impl AsyncFnMut() -> bool) {
    let end = Instant::now() + SOON;
    while !done().await {
        assert!(Instant::now() < end, "{what} did not come");
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
}

#[tokio::test]
async fn every_panel_whose_signal_is_told_has_data_and_a_legend_that_tells_its_lines_apart() {
    let dashboard: Value = serde_json::from_slice(&generated(&["dashboard"])).unwrap();
    let mut all = Vec::new();
    panels(&dashboard, &mut all);
    let shown = library().signals.values().map(|s| usize::from(s.row.is_some()) + usize::from(s.by_replica));
    assert_eq!(all.len(), shown.sum::<usize>(), "a row or replica of the catalog has no panel");

    let list = dashboard["templating"]["list"].as_array().unwrap();
    let variables: Vec<&Value> = list.iter().filter(|variable| variable["type"] == "query").collect();
    let named = |variable: &Value| variable["name"].as_str().unwrap().to_owned();
    let everything = |variable: &&Value| (named(variable), variable["allValue"].as_str().unwrap().to_owned());
    let prometheus = scraping().await;
    let values: Values = variables.iter().map(everything).collect();
    until("enough scrapes to fill every window", async || {
        let scrapes = prometheus.query_now(&format!("min(count_over_time(up[1m])) >= {SCRAPES}")).await.unwrap();
        scrapes != json!([])
    })
    .await;
    let engines = present(&prometheus).await;
    assert_eq!(engines.iter().map(|engine| engine.engine.as_str()).collect::<Vec<_>>(), EXPORTERS);
    let (mut told, mut untold) = (Vec::new(), Vec::new());
    for panel in &all {
        let mut is_told = false;
        for engine in &engines {
            is_told |= tells(&prometheus, engine, &panel.signal).await;
        }
        if is_told { told.push(panel) } else { untold.push(panel) }
    }
    for Panel { title, query, .. } in &told {
        let query = chosen(query, &values);
        until(&format!("{title}: data for {query}"), async || !series(&prometheus, &query).await.is_empty()).await;
    }
    for Panel { title, query, signal, .. } in &untold {
        // Here nobody tells it: it is another engine's, or something has to be turned on first.
        let mut entries = engines.iter().filter_map(|engine| engine.signals.get(signal));
        assert!(entries.all(|entry| entry.query.is_none() || entry.enable.is_some()), "nobody tells {signal}");
        assert_eq!(series(&prometheus, &chosen(query, &values)).await, [] as [Value; 0], "{title}");
    }
    // The gateways' panels and few others; else it is the test that sees nothing.
    assert!(told.len() > 4 * untold.len(), "only {} of {} panels have data", told.len(), all.len());

    // ---- each variable offers what is there, given the choices before it
    let mut values = Values::new();
    for variable in &variables {
        let query = variable["query"].as_str().unwrap();
        let inside = query.strip_prefix("label_values(").and_then(|rest| rest.strip_suffix(')')).unwrap();
        let (metric, label) = inside.rsplit_once(", ").unwrap();
        let found = prometheus.query_now(&chosen(&format!("group by ({label}) ({metric})"), &values)).await.unwrap();
        let offered: Vec<&str> = found.as_array().unwrap().iter().filter_map(|s| s["metric"][label].as_str()).collect();
        let [only] = offered[..] else { panic!("{query} offers {offered:?}, expected one value") };
        values.insert(named(variable), only.to_owned());
    }
    assert_eq!(values.values().collect::<Vec<_>>(), ["eu-1", "vllm", FleetSpec::default().model_name.as_str(), "llm"]);

    // ---- with them chosen the panels are as full, and no two lines of one read the same
    for panel in told {
        let lines = series(&prometheus, &chosen(&panel.query, &values)).await;
        assert!(!lines.is_empty(), "{} is empty once {values:?} are chosen: {}", panel.title, panel.query);
        let labels: Vec<&str> = panel.legend.split("{{").skip(1).filter_map(|rest| rest.split("}}").next()).collect();
        let read = |line: &Value| labels.iter().map(|label| line["metric"][*label].to_string()).collect::<String>();
        assert_eq!(lines.iter().map(read).collect::<BTreeSet<_>>().len(), lines.len(), "{}: {lines:#?}", panel.title);
        if panel.query.contains(":replica{") {
            let pod = |line: &Value| line["metric"]["replica_name"].as_str().unwrap().starts_with("vllm-llama-8b-");
            assert_eq!((lines.len(), lines.iter().all(pod)), (REPLICAS, true), "{}: {lines:#?}", panel.title);
        }
    }

    // ---- and the alerts' marks are taken too
    for marks in dashboard["annotations"]["list"].as_array().unwrap() {
        prometheus.query_now(&chosen(marks["expr"].as_str().unwrap(), &values)).await.unwrap();
    }
}
