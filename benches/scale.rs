//! `make bench`: diagnoses of pools of 8, 100 and 1,000 replicas, and of one pool among 1,000, on a real Prometheus, against
//! their floor, in one run.
//!
//! Each replica has 62 series, two histograms among them, scraped every 15 seconds for two hours. A few replicas are simulated, and their
//! pages are written as many pods'. The floor is what nobody can beat: the slowest single query of the plan. The largest pool
//! is diagnosed once more on what the generated rules record.
#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "a benchmark that cannot go on should stop where it is")]

mod harness;

use std::collections::BTreeMap;
use std::io::{BufWriter, Write};
use std::path::Path;
use std::time::{Duration, Instant};

use diagnose::health::{HealthQuery, evaluate_fleet};
use diagnose::{ExtraSources, diagnose_early, observe, plan, queries};
use findings::{Baseline, Diagnosis, Request, Scope};
use knowledge::alert::Labels;
use knowledge::playbook::Library;
use knowledge::{clock, playbook};
use tokio::sync::oneshot;

use llm_diagnose_lab::sim::history::History;
use llm_diagnose_lab::sim::{Fault, Fleet, FleetSpec};
use llm_diagnose_lab::stack::Prometheus;

use harness::{FAULT, bar, ms, share, told};

/// Replicas and the most seconds that a diagnosis may take.
const SIZES: [(usize, f64); 3] = [(8, 0.3), (100, 0.6), (1_000, 2.0)];
/// The most seconds for the largest of them, on recorded series.
const RECORDED: f64 = 0.5;
/// Pools of one replica each, and the most seconds that the diagnosis of one of them may take.
const POOLS: (usize, f64) = (1_000, 1.0);
/// The pool among them that is diagnosed.
const POOL: &str = "llm-500";
/// The namespace of every other measurement.
const NAMESPACE: &str = "llm";
const RULES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/config/prometheus/llm-diagnose.rules.yaml");
const GROUP: &str = "llm-diagnose.record.vllm";
/// Replicas that are simulated; the others are copies.
const SIMULATED: usize = 4;
/// Of one replica, `up` aside.
const SERIES: usize = 62;
const HISTORY: f64 = 7_200.0;
/// Between two scrapes, in seconds.
const INTERVAL: f64 = 15.0;
const ROUNDS: usize = 5;
/// The queries that are printed, and how much of each.
const HEAVIEST: usize = 5;
const SHOWN: usize = 160;
/// Histograms with their buckets, and those of which only sum and count are kept.
const WHOLE: [&str; 2] = ["vllm:time_to_first_token_seconds", "vllm:inter_token_latency_seconds"];
const MEANS: [&str; 4] = [
    "vllm:request_queue_time_seconds",
    "vllm:request_prefill_time_seconds",
    "vllm:request_prompt_tokens",
    "vllm:request_generation_tokens",
];
const SINGLE: [&str; 7] = [
    "vllm:num_requests_running",
    "vllm:num_requests_waiting",
    "vllm:kv_cache_usage_perc",
    "vllm:prompt_tokens_total",
    "vllm:generation_tokens_total",
    "vllm:prefix_cache_queries_total",
    "vllm:prefix_cache_hits_total",
];

#[tokio::main]
async fn main() {
    // `cargo test --benches` only wants to know that it builds.
    if !std::env::args().any(|a| a == "--bench") {
        return;
    }
    let _ = rustls::crypto::ring::default_provider().install_default();
    let library = playbook::load(None).unwrap();
    let now = clock::now().as_second() as f64;
    let text = simulated(now);
    let mut asked = Vec::new();
    for (replicas, most) in SIZES {
        let file = tempfile::NamedTempFile::new().unwrap();
        let copy = |line: &str, copy: usize| Some(renamed(line, copy));
        copied(&text, replicas / SIMULATED, copy, BufWriter::new(file.as_file()));
        let mut prometheus = Prometheus::builder().backfill(file.path()).log_queries().start().await.unwrap();
        asked.push(measured(&library, &prometheus, (NAMESPACE, replicas), now, most).await);
        if replicas == SIZES[SIZES.len() - 1].0 {
            prometheus.record(Path::new(RULES), GROUP, (now - HISTORY) as i64, now as i64).await.unwrap();
            println!("\nThe same with recorded series:");
            measured(&library, &prometheus, (NAMESPACE, replicas), now, RECORDED).await;
        }
    }
    asked.push(many_pools(&library, &text, now).await);
    // Only a large pool is asked in smaller packs.
    let [small, others @ ..] = &asked[..] else { return };
    assert!(
        others.iter().all(|n| (*small..=2 * small).contains(n)),
        "the number of queries grows with the fleet: {asked:?}"
    );
}

/// One pool among many, and the health of them all; returns the number of queries of a diagnosis.
async fn many_pools(library: &Library, text: &str, now: f64) -> usize {
    let (pools, most) = POOLS;
    let file = tempfile::NamedTempFile::new().unwrap();
    let first = text.split_once("pod=\"").and_then(|(_, rest)| rest.split_once('"')).unwrap().0.to_owned();
    let copy = |line: &str, copy: usize| {
        let own = line.contains(&format!("pod=\"{first}\""));
        own.then(|| renamed(line, copy).replace("namespace=\"llm\"", &format!("namespace=\"llm-{copy}\"")))
    };
    copied(text, pools, copy, BufWriter::new(file.as_file()));
    let prometheus = Prometheus::builder().backfill(file.path()).log_queries().start().await.unwrap();
    println!("\nOne of {pools} pools:");
    let queries = measured(library, &prometheus, (POOL, 1), now, most).await;
    let client =
        prom::Prometheus::new(&prom::Config { url: prometheus.url.clone(), ..prom::Config::default() }).unwrap();
    let query = HealthQuery {
        scope: Labels::new(),
        at: jiff::Timestamp::from_second(now as i64).unwrap(),
        window: Duration::from_secs(300),
        deadline: Duration::from_secs(30),
    };
    let started = Instant::now();
    let health = evaluate_fleet(library, &[(&client, &Labels::new())], &query).await;
    println!("\nThe health of {pools} pools, of which {} are evaluated:", health.pools.len());
    assert_eq!((health.pools.len() + health.left_out, health.problems), (pools, Vec::new()));
    told("health", started.elapsed().as_secs_f64(), "s");
    told("its queries", health.queries as f64, "");
    queries
}

/// The wanted series of a few replicas whose prompts became longer.
fn simulated(now: f64) -> String {
    let mut fleet = Fleet::new(FleetSpec::sized(SIMULATED), 7, now - HISTORY).unwrap();
    let mut history = History::new(INTERVAL).only(wanted);
    history.record(&mut fleet, now - FAULT);
    fleet.inject("longer-prompts".parse::<Fault>().unwrap()).unwrap();
    history.record(&mut fleet, now);
    let mut text = Vec::new();
    history.write(&mut text).unwrap();
    String::from_utf8(text).unwrap()
}

fn wanted(name: &str) -> bool {
    let of = |base: &&&str, ends: &[&str]| name.strip_prefix(**base).is_some_and(|end| ends.contains(&end));
    SINGLE.contains(&name)
        || WHOLE.iter().any(|base| of(&base, &["_bucket", "_sum", "_count"]))
        || MEANS.iter().any(|base| of(&base, &["_sum", "_count"]))
}

/// The same text for so many copies, family by family; `copy` makes a line of a copy of one of its lines, if it has it.
fn copied(text: &str, copies: usize, copy: impl Fn(&str, usize) -> Option<String>, mut out: impl Write) {
    let mut family: Vec<&str> = Vec::new();
    let flush = |family: &mut Vec<&str>, out: &mut dyn Write| {
        for number in 0..copies {
            for line in family.iter().filter_map(|line| copy(line, number)) {
                out.write_all(line.as_bytes()).unwrap();
            }
        }
        family.clear();
    };
    for line in text.split_inclusive('\n') {
        if line.starts_with('#') {
            flush(&mut family, &mut out);
            out.write_all(line.as_bytes()).unwrap();
        } else if line.contains("job=\"vllm\"") {
            family.push(line);
        }
    }
    out.flush().unwrap();
}

/// The line of a pod as that of its copy: another hash of the same Deployment, another address.
fn renamed(line: &str, copy: usize) -> String {
    let (before, rest) = line.split_once("pod=\"").unwrap();
    let (pod, after) = rest.split_once('"').unwrap();
    let mut names: Vec<&str> = pod.split('-').collect();
    let hash = format!("{copy:09}");
    let place = names.len() - 2;
    names[place] = &hash;
    let before = before.replacen("instance=\"10.", &format!("instance=\"{copy}."), 1);
    format!("{before}pod=\"{}\"{after}", names.join("-"))
}

/// Prints how long diagnoses take; returns the number of queries.
async fn measured(
    library: &Library,
    prometheus: &Prometheus,
    (namespace, replicas): (&str, usize),
    now: f64,
    most: f64,
) -> usize {
    let at = jiff::Timestamp::from_second(now as i64).unwrap();
    let client =
        || prom::Prometheus::new(&prom::Config { url: prometheus.url.clone(), ..prom::Config::default() }).unwrap();
    let request = Request {
        screen: false,
        rules: Vec::new(),
        conditions: Vec::new(),
        playbook: "high-ttft".into(),
        scope: Scope::of_labels(&[("namespace".to_owned(), namespace.to_owned())].into()),
        at,
        since: Some(clock::before(at, Duration::from_secs(300))),
        window: Duration::from_secs(300),
        is_young: false,
        baseline: Baseline::Earlier(Duration::from_secs(86_400)),
        deadline: Duration::from_secs(10),
    };
    let (mut first, mut whole, mut last) = (Vec::new(), Vec::new(), None);
    let logged = prometheus.queries().map_or(0, |queries| queries.len());
    let before = own_seconds();
    for _ in 0..ROUNDS {
        // Another client shares no answers.
        let (client, started) = (client(), Instant::now());
        let (early, judged) = oneshot::channel();
        let verdict = async { judged.await.map(|_| started.elapsed()) };
        let diagnosis = diagnose_early(library, &client, &request, ExtraSources::default(), Some(early));
        let (verdict, diagnosis) = tokio::join!(verdict, diagnosis);
        whole.push(started.elapsed());
        first.push(verdict.unwrap_or_else(|_| started.elapsed()));
        last = Some(diagnosis);
    }
    let queries = prometheus.queries().unwrap().split_off(logged);
    let own = (own_seconds() - before) / ROUNDS as f64;
    let diagnosis = last.unwrap();
    expect(&diagnosis, replicas);
    let (slowest, sum, count) = alone(library, &client(), &request).await;
    let (first, whole) = (share(&mut first, 0.5), share(&mut whole, 0.5));
    println!("\n{replicas} replicas x {SERIES} series, median of {ROUNDS}, {} queries a diagnosis", diagnosis.queries);
    told("floor: the slowest of the plan's queries, alone", ms(slowest), "ms");
    told(&format!("the plan's {count} queries, one after the other"), ms(sum), "ms");
    told("verdict, which a first message waits for", first.as_secs_f64(), "s");
    bar("whole diagnosis, with the times of its story", whole.as_secs_f64(), most, "s");
    told("of a diagnosis, our own time on the processors", own, "s");
    told("links of the chain whose beginning it tells", diagnosis.timeline.len() as f64, "");
    told("whole diagnosis / floor", whole.as_secs_f64() / slowest.as_secs_f64(), "");
    heaviest(queries);
    diagnosis.queries
}

/// Prints the queries of the diagnoses that kept Prometheus busy longest.
fn heaviest(queries: Vec<(f64, String)>) {
    let mut by_query: BTreeMap<String, Vec<Duration>> = BTreeMap::new();
    for (seconds, query) in queries {
        by_query.entry(query).or_default().push(Duration::from_secs_f64(seconds));
    }
    let mut medians: Vec<(Duration, String)> =
        by_query.into_iter().map(|(query, mut times)| (share(&mut times, 0.5), query)).collect();
    medians.sort_by(|a, b| b.cmp(a));
    for (time, query) in medians.into_iter().take(HEAVIEST) {
        let line: String = query.split_whitespace().collect::<Vec<_>>().join(" ").chars().take(SHOWN).collect();
        println!("  {:>8.0} ms  {line}", ms(time));
    }
}

/// The time on the processors that this program has used; source: proc(5), in ticks of a hundredth of a second.
fn own_seconds() -> f64 {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap();
    let fields: Vec<&str> = stat.rsplit_once(") ").unwrap().1.split(' ').collect();
    [11, 12].iter().map(|i| fields[*i].parse::<f64>().unwrap()).sum::<f64>() / 100.0
}

/// What is measured is the right answer.
fn expect(diagnosis: &Diagnosis, replicas: usize) {
    assert_eq!(diagnosis.problems, Vec::<String>::new());
    assert_eq!(diagnosis.replicas.total, replicas);
    let chain = diagnosis.root().map(|root| root.chain.clone()).unwrap_or_default();
    assert_eq!(chain, ["high-ttft", "kv-cache-full", "longer-prompts"]);
}

/// The time of the plan's slowest query, each asked alone, of all together, and how many they are.
async fn alone(library: &Library, client: &prom::Prometheus, request: &Request) -> (Duration, Duration, usize) {
    let deadline = || Instant::now() + Duration::from_secs(30);
    let found = observe(library, client, request, None).await.detection;
    let queries = queries(&plan(library, request, &found));
    let (mut slowest, mut sum) = (Duration::ZERO, Duration::ZERO);
    for (query, at) in &queries {
        let mut times = Vec::new();
        for round in 0..3 {
            // Another moment each time, so that no answer is reused.
            let at = clock::before(*at, Duration::from_secs(round));
            let started = Instant::now();
            client.query(query, at, deadline()).await.unwrap();
            times.push(started.elapsed());
        }
        let time = share(&mut times, 0.5);
        slowest = slowest.max(time);
        sum += time;
    }
    (slowest, sum, queries.len())
}
