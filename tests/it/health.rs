//! Fleet health on simulated fleets: state, exit status, thresholds and coverage, as a person and a monitor see them.

use std::io::{Read, Write};
use std::net::TcpListener;
use std::process::{Command, Output};
use std::time::Duration;

use authoring::check;
use diagnose::health::{HealthQuery, evaluate_fleet};
use findings::health::{Health, HealthCheck, HealthState, PoolHealth};
use knowledge::alert::Labels;
use knowledge::playbook::{Lint, SourceFile, load, parse};
use knowledge::signal::EngineKind;
use serde_json::Value;

use crate::chains::moment;
use crate::harness::{DEADLINE, WINDOW, at, client, library, run, shared, slot};
use crate::running::{BINARY, Running};

/// Slots of our own, more than a day after the engines of earlier ones and before those of later ones.
const VANISHED: usize = 96;
const FOREIGN: usize = 80;
/// Longer than the hour in which pools are looked for.
const AWAY_SECONDS: i64 = 4_200;

/// Two pools whose engines stop answering, one of them still wanted; and an engine that nobody here knows.
pub(crate) fn history() -> String {
    let series = |name: &str, labels: &str, value: u32, from: i64, to: i64| -> Vec<(i64, String)> {
        (from..=to).step_by(60).map(|t| (t, format!("{name}{{{labels}}} {value} {t}\n"))).collect()
    };
    let (begin, end) = (slot(VANISHED), slot(VANISHED) + AWAY_SECONDS);
    let engine = |namespace: &str| format!("namespace=\"{namespace}\",model_name=\"m\",pod=\"m-0\",job=\"vllm\"");
    let deployment = "namespace=\"vanished\",deployment=\"m\",job=\"kube-state-metrics\"";
    let pod = "namespace=\"vanished\",pod=\"m-0\",job=\"kube-state-metrics\"";
    let foreign = slot(FOREIGN);
    let mut lines = [
        series("vllm:num_requests_running", &engine("vanished"), 1, begin, begin + 300),
        series("vllm:num_requests_running", &engine("removed"), 1, begin, begin + 300),
        series("kube_pod_info", pod, 1, begin, end),
        series("kube_deployment_spec_replicas", deployment, 2, begin, end),
        series("kube_deployment_status_replicas_ready", deployment, 0, begin, end),
        series("unheardof:num_running_reqs", "namespace=\"foreign\",model_name=\"m\"", 1, foreign, foreign + 300),
        series("kube_pod_info", "namespace=\"foreign\",pod=\"s-0\"", 1, foreign, foreign + 300),
    ]
    .concat();
    // The import takes no sample that is much older than the last one.
    lines.sort();
    lines.into_iter().map(|(_, line)| line).collect()
}

fn looked(name: &str) -> Health {
    looked_at(&[("namespace", name)], moment(name))
}

fn looked_at(scope: &[(&str, &str)], when: i64) -> Health {
    let scope: Labels = scope.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
    let what = HealthQuery { scope, at: at(when), window: WINDOW, deadline: DEADLINE };
    let (prometheus, labels) = (shared(), Labels::new());
    run(evaluate_fleet(library(), &[(prometheus, &labels)], &what))
}

#[track_caller]
fn only(health: &Health) -> &PoolHealth {
    assert_eq!(health.pools.len(), 1, "{health:#?}");
    &health.pools[0]
}

fn check<'a>(pool: &'a PoolHealth, signal: &str) -> &'a HealthCheck {
    pool.checks.iter().find(|check| check.signal == signal).unwrap()
}

/// The signals of a pool that are not well, with how.
fn wrong(pool: &PoolHealth) -> Vec<(&str, HealthState)> {
    let bad = |check: &&HealthCheck| !matches!(check.state, None | Some(HealthState::Healthy));
    pool.checks.iter().filter(bad).map(|check| (check.signal.as_str(), check.state.unwrap())).collect()
}

/// The command itself, at a case's moment.
fn command(when: i64, arguments: &[&str]) -> Output {
    let mut command = Command::new(BINARY);
    command.args(["health", "--prometheus", &shared().url, "--at", &when.to_string()]).args(arguments);
    command.env_remove("PROMETHEUS_URL").env_remove("LLM_DIAGNOSE_CONFIG").output().unwrap()
}

fn text(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned()
}

#[test]
fn a_healthy_fleet_is_healthy_and_every_number_has_its_threshold_and_playbook() {
    for name in ["healthy", "sixteen-replicas"] {
        let health = looked(name);
        let pool = only(&health);
        assert_eq!(
            (health.state, pool.state),
            (HealthState::Healthy, HealthState::Healthy),
            "{name} {:?}",
            wrong(pool)
        );
        assert_eq!(wrong(pool), [], "{name}");
        assert_eq!((health.problems.as_slice(), health.notes.as_slice()), (&[][..], &[][..]), "{name}");
        for check in pool.checks.iter().filter(|check| !check.thresholds.is_empty()) {
            let playbook = check.playbook.as_ref().unwrap();
            assert!(library().playbooks.contains_key(playbook), "{check:?}");
        }
    }
}

#[test]
fn health_and_alerts_cannot_disagree_because_every_alert_rule_is_a_threshold() {
    let health = looked("healthy");
    let pool = only(&health);
    let mut gateways = 0;
    for playbook in library().playbooks.values() {
        for rule in &playbook.alerts {
            let (signal, when) = rule.when[0].checks()[0];
            if library().signals[signal].of == [EngineKind::Gateway] {
                gateways += 1;
                assert!(!pool.checks.iter().any(|c| c.signal == signal), "there is no gateway: {signal}");
                continue;
            }
            // A feature that is not in use is nobody's check.
            let unused = library().engines["vllm"].signals.get(signal).is_some_and(|entry| entry.feature.is_some());
            let row =
                pool.checks.iter().find(|c| c.signal == signal && c.playbook.as_ref() == Some(&playbook.playbook));
            if row.is_none() && unused {
                continue;
            }
            let row = row.unwrap_or_else(|| panic!("{} is no check", rule.alert));
            let same = |t: &&findings::health::Threshold| {
                t.severity == rule.severity && t.when == when.to_string() && t.source == format!("alert {}", rule.alert)
            };
            assert!(row.thresholds.iter().any(|t| same(&t)), "{} {row:?}", rule.alert);
        }
    }
    assert!(gateways > 0);
}

#[test]
fn a_fleet_with_a_full_cache_is_critical_by_the_checks_that_an_alert_would_fire_for() {
    let health = looked("longer-prompts");
    let pool = only(&health);
    assert_eq!((health.state, health.state.code()), (HealthState::Critical, 2));
    let expected = [
        ("ttft_burn", HealthState::Critical, "high-ttft"),
        ("kv_cache_peak", HealthState::Critical, "kv-cache-pressure"),
    ];
    for (signal, state, playbook) in expected {
        let check = check(pool, signal);
        assert_eq!((check.state, check.playbook.as_deref()), (Some(state), Some(playbook)), "{check:?}");
    }
    assert_eq!(check(pool, "error_burn").state, Some(HealthState::Healthy));
}

#[test]
fn a_hanging_engine_and_lost_replicas_are_seen_although_latencies_look_fine() {
    let health = looked("stalled-engine");
    let stalled = check(only(&health), "stalled_requests");
    assert_eq!((health.state, stalled.state), (HealthState::Critical, Some(HealthState::Critical)));
    assert_eq!(stalled.playbook.as_deref(), Some("engine-stalled"));
    assert_eq!(stalled.replicas[0].name, "vllm-llama-8b-0");
    let health = looked("lost-replicas");
    let down = only(&health).checks.iter().filter(|check| check.signal == "replicas_down");
    let down: Vec<_> = down.map(|c| (c.playbook.as_deref().unwrap(), c.state.unwrap(), c.value)).collect();
    // Their pods are known to be gone, so it is not the metrics alone that are absent.
    let expected =
        [("metrics-absent", HealthState::Healthy, Some(2.0)), ("replica-down", HealthState::Warning, Some(2.0))];
    assert_eq!(down, expected);
    assert_eq!(only(&health).replicas, 4, "the gone ones still count");
}

#[test]
fn without_a_gpu_exporter_the_rest_is_judged_and_the_line_that_brings_it_is_named() {
    let health = looked("gpu-throttling-unseen");
    let pool = only(&health);
    let gpu = check(pool, "gpu_xid_critical");
    assert_eq!((gpu.state, gpu.value), (Some(HealthState::Unknown), None));
    assert_eq!(gpu.why.as_deref(), Some("no dcgm series in this Prometheus"));
    assert!(gpu.enable.as_deref().unwrap().contains("`DCGM_FI_DEV_FB_USED`"), "{gpu:?}");
    assert!(pool.coverage.with_data < pool.coverage.of, "{:?}", pool.coverage);
    assert_ne!(pool.state, HealthState::Unknown, "what the engines tell is enough to judge");
    let said = text(&command(moment("gpu-throttling-unseen"), &[]));
    let words = said.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(words.contains("no dcgm series in this Prometheus → ") && words.contains("DCGM_FI_DEV_FB_USED"), "{said}");
}

#[test]
fn two_models_of_one_namespace_are_two_pools_and_the_scope_narrows_to_one() {
    let when = moment("beside-trouble");
    let health = looked_at(&[("namespace", "beside-trouble")], when);
    let states: Vec<_> = health.pools.iter().map(|pool| (pool.labels["model"].as_str(), pool.state)).collect();
    let [("meta-llama/Llama-3.1-8B-Instruct", HealthState::Healthy), ("other", worse)] = states[..] else {
        panic!("{states:?}")
    };
    assert!(matches!(worse, HealthState::Warning | HealthState::Critical) && health.state == worse, "{states:?}");
    assert_eq!([health.pools[0].replicas, health.pools[1].replicas], [4, 2]);
    let one = looked_at(&[("model", "meta-llama/Llama-3.1-8B-Instruct")], when);
    assert_eq!((only(&one).state, one.state), (HealthState::Healthy, HealthState::Healthy));
    let said = text(&command(when, &[]));
    assert!(said.contains("2 pools: 1 ") && said.contains("healthy   beside-trouble/meta-llama"), "{said}");
}

#[test]
fn eight_replicas_need_no_more_queries_than_two() {
    let [two, eight] = ["two-replicas", "eight-replicas"].map(looked);
    assert_eq!((two.queries, only(&two).replicas), (eight.queries, 2));
    assert_eq!(only(&eight).replicas, 8);
    assert!(two.queries < 12, "{}", two.queries);
}

#[test]
fn a_prometheus_without_engines_is_unknown_and_says_what_must_be_scraped() {
    let health = looked_at(&[], 1_600_000_000);
    assert_eq!((health.state, health.state.code(), health.pools.len()), (HealthState::Unknown, 3, 0));
    let said = health.notes.join(" ");
    assert!(said.contains("no serving engine was found") && said.contains("vllm:num_requests_running"), "{said}");
    assert_eq!(command(1_600_000_000, &[]).status.code(), Some(3));
}

#[test]
fn a_scope_that_nothing_has_is_unknown_and_names_what_is_there() {
    let when = moment("healthy");
    let health = looked_at(&[("namespace", "elsewhere")], when);
    assert_eq!((health.state, health.pools.len()), (HealthState::Unknown, 0));
    let said = &health.notes[0];
    assert!(said.contains("has namespace `elsewhere`; there is ") && said.contains("`healthy`"), "{said}");
    let evil = looked_at(&[("model", "\"} or vector(1) #")], when);
    assert_eq!((evil.state, evil.problems.len()), (HealthState::Unknown, 0));
}

#[test]
fn a_dimension_that_the_series_do_not_carry_is_noted_and_not_used() {
    let health = looked_at(&[("cluster", "eu-1"), ("namespace", "healthy")], moment("healthy"));
    assert_eq!(health.state, HealthState::Healthy);
    assert!(health.notes[0].contains("carry no label for cluster `eu-1`"), "{:?}", health.notes);
}

#[test]
fn a_prometheus_that_is_away_is_unknown_at_once() {
    let (prometheus, labels) = (client("http://127.0.0.1:1"), Labels::new());
    let what = HealthQuery { scope: Labels::new(), at: at(moment("healthy")), window: WINDOW, deadline: DEADLINE };
    let health = run(evaluate_fleet(library(), &[(&prometheus, &labels)], &what));
    assert_eq!(health.state, HealthState::Unknown);
    assert!(health.problems[0].contains("Prometheus cannot be reached") && health.took_seconds < 5.0, "{health:?}");
}

#[test]
fn a_prometheus_that_hangs_is_given_up_at_the_deadline() {
    // The kernel takes the connection; nobody ever reads from it.
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let prometheus = client(&format!("http://{}", listener.local_addr().unwrap()));
    let (labels, deadline) = (Labels::new(), Duration::from_millis(600));
    let what = HealthQuery { scope: Labels::new(), at: at(moment("healthy")), window: WINDOW, deadline };
    let health = run(evaluate_fleet(library(), &[(&prometheus, &labels)], &what));
    assert!(health.state == HealthState::Unknown && health.took_seconds < 1.5, "{health:?}");
    assert!(health.problems[0].ends_with("timed out"), "{health:?}");
}

#[test]
fn two_prometheus_are_one_fleet_and_a_label_chooses_between_them() {
    let away = client("http://127.0.0.1:1");
    let [eu, us] = ["eu", "us"].map(|cluster| Labels::from([("cluster".to_owned(), cluster.to_owned())]));
    let ask = |cluster: Option<&str>| {
        let scope = cluster.map(|value| ("cluster".to_owned(), value.to_owned())).into_iter().collect();
        let what = HealthQuery { scope, at: at(moment("healthy")), window: WINDOW, deadline: DEADLINE };
        let prometheus = shared();
        run(evaluate_fleet(library(), &[(prometheus, &eu), (&away, &us)], &what))
    };
    assert_eq!((ask(None).state, ask(None).pools.len()), (HealthState::Unknown, 1), "half of the fleet is not seen");
    let eu = ask(Some("eu"));
    assert!(
        eu.state == HealthState::Healthy && !eu.notes.iter().any(|note| note.contains("cluster")),
        "{:?}",
        eu.notes
    );
    assert_eq!((ask(Some("us")).state, ask(Some("us")).pools.len()), (HealthState::Unknown, 0));
    assert!(ask(Some("ap")).notes[0].contains("cluster=ap"));
}

#[test]
fn equal_pools_of_two_prometheus_are_told_apart_by_the_names_of_their_servers() {
    let named = |name: &str| {
        let url = shared().url.clone();
        prom::Prometheus::new(&prom::Config { name: name.to_owned(), url, ..prom::Config::default() }).unwrap()
    };
    let (eu, us, none) = (named("eu"), named("us"), Labels::new());
    let what = HealthQuery { scope: Labels::new(), at: at(moment("healthy")), window: WINDOW, deadline: DEADLINE };
    let health = run(evaluate_fleet(library(), &[(&eu, &none), (&us, &none)], &what));
    let words = render::Phrases::english();
    for said in [render::health(&health, &[], &words), render::health_page(&health, &words)] {
        assert!(said.contains("(Prometheus eu)") && said.contains("(Prometheus us)"), "{said}");
    }
    let alone = run(evaluate_fleet(library(), &[(&eu, &none)], &what));
    assert!(!render::health(&alone, &[], &words).contains("Prometheus eu"));
}

#[test]
fn a_pool_that_is_gone_for_hours_is_critical_while_somebody_wants_it_and_a_note_otherwise() {
    let when = slot(VANISHED) + AWAY_SECONDS;
    let health = looked_at(&[], when);
    let pool = only(&health);
    assert_eq!((pool.labels["namespace"].as_str(), pool.state, pool.replicas), ("vanished", HealthState::Critical, 0));
    let ready = check(pool, "replicas_ready");
    assert_eq!((ready.state, ready.playbook.as_deref()), (Some(HealthState::Critical), Some("replica-down")));
    assert!(health.notes.iter().any(|note| note.ends_with("`removed/m`")), "{:?}", health.notes);
    let removed = looked_at(&[("namespace", "removed")], when);
    assert_eq!((removed.state, removed.pools.len()), (HealthState::Unknown, 0));
}

#[test]
fn engines_that_nobody_here_knows_are_no_pools() {
    let health = looked_at(&[], slot(FOREIGN) + 300);
    assert_eq!((health.state, health.pools.len()), (HealthState::Unknown, 0));
    assert!(health.notes[0].contains("no serving engine was found"), "{:?}", health.notes);
}

#[test]
fn an_own_playbooks_alert_is_a_check_without_further_ado() {
    let mut own = library().clone();
    let text = "playbook: chat-slow\nschema: 1\nkind: symptom\ntitle: t\nmeaning: m\nimpact: i\nsymptom: []\nalerts:\n  \
        - { alert: ChatSlow, severity: critical, for: 1m, when: [{ signal: ttft_p99, when: '> 0.01' }] }\n  \
        - { alert: ChatLong, severity: warning, for: 1m, when: [{ signal: prompt_tokens_mean, when: '> 1' }] }\n";
    let playbook = parse(&SourceFile::new("chat-slow.yaml".to_owned(), text.to_owned())).unwrap();
    own.playbooks.insert("chat-slow".to_owned(), playbook);
    let scope = Labels::from([("namespace".to_owned(), "healthy".to_owned())]);
    let what = HealthQuery { scope, at: at(moment("healthy")), window: WINDOW, deadline: DEADLINE };
    let (prometheus, labels) = (shared(), Labels::new());
    let health = run(evaluate_fleet(&own, &[(prometheus, &labels)], &what));
    let ours = only(&health).checks.iter().filter(|c| c.playbook.as_deref() == Some("chat-slow"));
    let ours: Vec<_> = ours.map(|c| (c.heading.as_str(), c.signal.as_str(), c.state.unwrap())).collect();
    let expected =
        [("latency", "ttft_p99", HealthState::Critical), ("other", "prompt_tokens_mean", HealthState::Warning)];
    assert_eq!((ours.as_slice(), health.state), (&expected[..], HealthState::Critical));
}

#[test]
fn what_is_wrong_in_an_own_quick_look_is_found_by_the_lint() {
    let directory = tempfile::tempdir().unwrap();
    let text = "schema: 1\nheadings:\n  - heading: h\n    checks:\n      - { signal: ttft_p98 }\n      \
        - { signal: oom_killed, playbook: host-om }\n      - { signal: kv_transfer_speed, playbook: kv-transfer-slow }\n";
    std::fs::write(directory.path().join("health.yaml"), text).unwrap();
    let problems = check::lint(&load(Some(directory.path())).unwrap());
    let found: Vec<_> = problems.iter().map(|p| (p.lint, p.line, p.hint.as_deref().unwrap_or_default())).collect();
    let expected = [
        (Lint::HealthUnknownSignal, 5, "did you mean `ttft_p99`?"),
        (Lint::HealthUnknownPlaybook, 6, "did you mean `host-oom`?"),
        (Lint::HealthNoThreshold, 7, "leave `playbook` out: a number to know"),
    ];
    assert_eq!(found, expected);
}

#[test]
fn of_many_pools_fifty_are_looked_at_and_the_others_are_counted() {
    let prometheus = client(&with_pools(60));
    let (labels, deadline) = (Labels::new(), Duration::from_secs(20));
    let what = HealthQuery { scope: Labels::new(), at: at(moment("healthy")), window: WINDOW, deadline };
    let health = run(evaluate_fleet(library(), &[(&prometheus, &labels)], &what));
    assert_eq!(
        (health.pools.len(), health.left_out, health.state),
        (50, 10, HealthState::Unknown),
        "{:?}",
        health.problems
    );
    let said = render::health(&health, &[], &render::Phrases::english());
    assert!(said.contains("10 more pools were left out"), "{said}");
    assert!(said.lines().count() <= 100, "a line for each pool, and what cannot be seen once:\n{said}");
}

/// A Prometheus that knows so many pools and nothing else of them; it answers until the test ends.
fn with_pools(many: usize) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let row =
        |i| format!(r#"{{"metric":{{"__name__":"vllm:num_requests_running","namespace":"n{i}"}},"value":[1,"1"]}}"#);
    let rows = (0..many).map(row).collect::<Vec<_>>().join(",");
    std::thread::spawn(move || {
        for connection in listener.incoming() {
            let Ok(mut connection) = connection else { return };
            let mut request = [0; 65_536];
            let read = connection.read(&mut request).unwrap_or(0);
            let asked = String::from_utf8_lossy(&request[..read]).contains("__name__%3D%7E");
            let rows = if asked { rows.as_str() } else { "" };
            let body = format!(r#"{{"status":"success","data":{{"resultType":"vector","result":[{rows}]}}}}"#);
            let head = format!("HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: {}\r\n\r\n", body.len());
            let _ = connection.write_all(format!("{head}{body}").as_bytes());
        }
    });
    url
}

#[test]
fn an_idle_pool_is_healthy_and_says_that_nothing_is_asked_of_it() {
    let health = looked("idle");
    let pool = only(&health);
    assert_eq!((pool.state, pool.idle), (HealthState::Healthy, true), "{:?}", wrong(pool));
    assert_eq!(check(pool, "ttft_p99").value, None, "0/0 is no number");
    let said = text(&command(moment("idle"), &[]));
    assert!(said.split_whitespace().collect::<Vec<_>>().join(" ").contains("no requests at present"), "{said}");
}

#[test]
fn the_exit_status_is_that_of_monitoring_plugins_wrong_use_included() {
    let status = |name: &str| command(moment(name), &["--scope", &format!("namespace={name}")]).status.code();
    assert_eq!([status("healthy"), status("longer-prompts"), status("lost-replicas")].map(Option::unwrap)[..2], [0, 2]);
    for wrong in [&["--scope", "team=search"][..], &["--scope", "namespace"], &["--colour"], &["--config", "/nowhere"]]
    {
        let output = command(moment("healthy"), wrong);
        assert_eq!(output.status.code(), Some(3), "{wrong:?}");
        assert!(output.stdout.is_empty() && !output.stderr.is_empty(), "{wrong:?}");
    }
    let help = Command::new(BINARY).args(["health", "--help"]).output().unwrap();
    assert!(help.status.success() && text(&help).contains("2 critical"));
}

#[test]
fn a_typed_label_that_nobody_has_is_refused_with_the_nearest_and_one_that_somebody_has_is_taken() {
    let diagnosed = |label: &str| {
        let mut command = Command::new(BINARY);
        command.args(["diagnose", "--playbook", "high-ttft", "--prometheus", &shared().url, "--label", label]);
        command.args(["--at", &moment("healthy").to_string()]);
        command.env_remove("PROMETHEUS_URL").env_remove("LLM_DIAGNOSE_CONFIG").output().unwrap()
    };
    let wrong = diagnosed("namespace=healhty");
    let said = String::from_utf8_lossy(&wrong.stderr);
    assert!(!wrong.status.success() && said.contains("no namespace `healhty`; there is `healthy`"), "{said}");
    assert!(diagnosed("namespace=healthy").status.success());
}

#[test]
fn the_screen_is_at_most_100_columns_wide_and_has_no_colour_in_a_pipe() {
    for name in ["healthy", "longer-prompts", "gpu-throttling-unseen", "beside-trouble", "idle"] {
        let said = text(&command(moment(name), &[]));
        let wide: Vec<&str> = said.lines().filter(|line| line.chars().count() > 100).collect();
        assert!(wide.is_empty() && !said.contains('\u{1b}'), "{name}: {wide:#?}");
        assert!(said.lines().count() <= 52, "{name} is longer than a screen:\n{said}");
    }
}

#[test]
fn the_next_command_keeps_the_flags_and_runs_as_it_is_printed() {
    let said = text(&command(moment("longer-prompts"), &["--window", "4m", "--deadline", "19s"]));
    // It may go over several lines, as a shell takes it.
    let said = said.replace(" \\\n", " ");
    let next = said.lines().find_map(|line| line.split_once("llm-diagnose diagnose ")).expect("a next command").1;
    let next: Vec<&str> = next.split_whitespace().collect();
    let url = shared().url.trim_end_matches('/');
    for flag in [&format!("--prometheus={url}"), "--window=4m", "--deadline=19s"] {
        assert!(next.contains(&flag), "{flag} is not in {next:?}");
    }
    assert!(next.iter().any(|flag| flag.starts_with("--at=")) && next.iter().any(|f| f.starts_with("--label=")));
    let output = Command::new(BINARY).arg("diagnose").args(&next).output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
}

#[test]
fn a_summary_keeps_every_pool_and_of_its_checks_those_that_are_not_well() {
    let (sick, healthy) = (looked("longer-prompts"), looked("healthy"));
    let (short, whole) = (sick.summary(), only(&sick));
    let kept = only(&short);
    assert_eq!((kept.state, kept.coverage, kept.replicas), (whole.state, whole.coverage, whole.replicas));
    assert_eq!(wrong(kept).len(), kept.checks.len());
    assert!(!kept.checks.is_empty() && kept.checks.iter().all(|check| check.query.is_none()));
    let size = |health: &Health| serde_json::to_string(health).unwrap().len();
    assert!(only(&healthy.summary()).checks.is_empty() && size(&healthy.summary()) * 10 < size(&healthy));
}

#[test]
fn the_json_is_the_same_look() {
    let output = command(moment("longer-prompts"), &["--output", "json"]);
    let health: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!((&health["schema"], &health["state"]), (&"llm-diagnose/health/v1".into(), &"critical".into()));
    let read: Health = serde_json::from_value(health).unwrap();
    assert_eq!(only(&read).state, HealthState::Critical);
}

#[tokio::test]
async fn the_service_answers_200_with_the_state_in_the_body_and_400_for_what_narrows_nothing() {
    let running = Running::start("prometheus: [{ url: \"http://127.0.0.1:1\" }]").await;
    let (status, body) = running.get("/api/v1/health?namespace=llm&model=m").await;
    let health: Value = serde_json::from_str(&body).unwrap();
    assert_eq!((status, &health["state"]), (200, &"unknown".into()), "{body}");
    assert_eq!((&health["scope"]["model"], &health["schema"]), (&"m".into(), &"llm-diagnose/health/v1".into()));
    assert!(health["problems"][0].as_str().unwrap().contains("cannot be reached"), "{body}");
    let names = "expected one of `cluster`, `namespace`, `model`, `detail`";
    for (wrong, says) in [
        ("?team=search", names),
        ("?namespace=", "namespace: expected a value: an empty one selects no pool"),
        ("?pod=a", names),
    ] {
        let (status, body) = running.get(&format!("/api/v1/health{wrong}")).await;
        assert!(status == 400 && body.contains(says), "{wrong}: {body}");
    }
}
