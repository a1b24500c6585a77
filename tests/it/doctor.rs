//! `doctor`: each thing that the service needs, fit or not, with what to do; and what a Prometheus lets one see.

use std::io::{Read, Write};
use std::net::TcpListener;
use std::process::{Command, Output};

use app::doctor::studies_coverage;
use diagnose::health::coverage;
use findings::health::{Coverage, CoverageLimit, SignalAvailability};
use findings::incident_studies::StudyCoverage;
use knowledge::signal::EngineKind;
use llm_diagnose_lab::kubernetes::{FakeKubernetes, Mode};
use llm_diagnose_lab::slack::{FakeSlack, Options};
use llm_diagnose_lab::sources::FakeLoki;
use llm_diagnose_lab::stack::Postgres;
use serde_json::Value;

use crate::chains::moment;
use crate::harness::{DEADLINE, WINDOW, at, library, run, shared};
use crate::running::BINARY;

const NOWHERE: &str = "http://127.0.0.1:1";

fn doctor(arguments: &[&str], token: Option<&str>) -> Output {
    let mut command = Command::new(BINARY);
    command.arg("doctor").args(arguments).env_remove("PROMETHEUS_URL").env_remove("LLM_DIAGNOSE_CONFIG");
    match token {
        Some(token) => command.env("SLACK_BOT_TOKEN", token),
        None => command.env_remove("SLACK_BOT_TOKEN"),
    };
    command.output().unwrap()
}

/// Runs it with a configuration; the lines by name, and the exit status.
fn examined(config: &str, token: Option<&str>) -> (Value, i32) {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("llm-diagnose.yaml");
    let state = directory.path().join("state");
    let webhook = if config.contains("webhook: {") { "" } else { "webhook: { authentication: none }\n" };
    std::fs::write(&file, format!("{webhook}{config}").replace("$DIR", state.to_str().unwrap())).unwrap();
    let output = doctor(&["--config", file.to_str().unwrap(), "--output", "json"], token);
    assert!(output.stderr.is_empty(), "{}", String::from_utf8_lossy(&output.stderr));
    (serde_json::from_slice(&output.stdout).unwrap(), output.status.code().unwrap())
}

#[track_caller]
fn line<'a>(findings: &'a Value, name: &str) -> (&'a str, &'a str, &'a str) {
    let lines = findings["checks"].as_array().unwrap();
    let line = lines.iter().find(|line| line["name"] == name).unwrap_or_else(|| panic!("no {name}: {findings:#}"));
    let text = |key: &str| line[key].as_str().unwrap_or_default();
    (text("level"), text("found"), text("todo"))
}

/// A Prometheus whose clock, and newest sample, are so many seconds ahead of ours; it answers until the test ends.
fn with_clock(ahead: f64) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    std::thread::spawn(move || {
        for connection in listener.incoming() {
            let Ok(mut connection) = connection else { return };
            let now = knowledge::clock::now().as_millisecond() as f64 / 1e3 + ahead;
            let body = format!(r#"{{"status":"success","data":{{"resultType":"scalar","result":[{now},"{now}"]}}}}"#);
            let _ = connection.read(&mut [0; 65_536]);
            let head = format!("HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: {}\r\n\r\n", body.len());
            let _ = connection.write_all(format!("{head}{body}").as_bytes());
        }
    });
    url
}

#[test]
fn what_is_fit_is_ok_and_the_status_is_0() {
    let url = with_clock(0.0);
    let (findings, status) = examined(&format!("state_dir: $DIR\nprometheus: [{{ url: \"{url}\" }}]"), None);
    assert_eq!((status, &findings["schema"]), (0, &"llm-diagnose/doctor/v1".into()), "{findings:#}");
    for name in ["configuration", "playbooks", "store", "webhook", "slack", "prometheus/default clock"] {
        assert_eq!(line(&findings, name).0, "ok", "{findings:#}");
    }
    assert!(line(&findings, "store").1.contains("will be made by the first start"));
}

#[test]
fn entries_that_leave_alerts_without_a_prometheus_are_a_finding() {
    let url = with_clock(0.0);
    let entries = |labels: [&str; 2]| {
        let entry = |name: &str, labels: &str| format!("{{ name: {name}, url: \"{url}\", labels: {{ {labels} }} }}");
        examined(&format!("prometheus: [{}, {}]", entry("eu", labels[0]), entry("us", labels[1])), None).0
    };
    for (labels, level, said) in [
        (["tenant: a", "tenant: b"], "ok", "alerts that fit none get no diagnosis"),
        (["", "tenant: b"], "warn", "`eu` takes every alert"),
        (["tenant: a", ""], "ok", "alerts that fit no labels go to `us`"),
    ] {
        let findings = entries(labels);
        let (found, text, _) = line(&findings, "prometheus entries");
        assert!(found == level && text.contains(said), "{labels:?}: {found} {text}");
    }
}

#[test]
fn a_shared_store_is_named_without_its_password_and_says_what_it_lacks() {
    let prometheus = with_clock(0.0);
    let postgres = Postgres::start().unwrap();
    let asked = |url: &str| {
        let file = postgres.file(url).unwrap();
        let database = format!("database: {{ url_file: {} }}", file.path().display());
        examined(&format!("{database}\nprometheus: [{{ url: \"{prometheus}\" }}]"), None)
    };
    let (findings, status) = asked(&postgres.url());
    let (level, found, _) = line(&findings, "store");
    assert_eq!((level, status), ("ok", 0), "{findings:#}");
    assert!(found.starts_with("PostgreSQL at /") && found.contains("/postgres (version "), "{found}");
    postgres.query("postgres", "CREATE ROLE guest LOGIN").unwrap();
    postgres.query("postgres", "REVOKE CREATE ON SCHEMA public FROM PUBLIC").unwrap();
    for (url, said) in [
        (postgres.url().replace("user=postgres", "user=guest"), "lets its user make no tables"),
        ("postgres://u:s3cret@127.0.0.1:1/db".to_owned(), "Connection refused"),
    ] {
        let (findings, status) = asked(&url);
        let (level, found, todo) = line(&findings, "store");
        assert_eq!((level, status), ("fail", 1), "{findings:#}");
        assert!(found.contains(said) && !todo.is_empty(), "{said} is not in {found}");
        assert!(!findings.to_string().contains("s3cret"), "{findings:#}");
    }
}

#[test]
fn a_clock_that_is_off_is_a_finding_and_far_off_hides_everything() {
    for (ahead, level, said) in [(60.0, "warn", "60 s ahead of ours"), (-600.0, "fail", "600 s behind ours")] {
        let (findings, status) = examined(&format!("prometheus: [{{ url: \"{}\" }}]", with_clock(ahead)), None);
        let (found, clock, todo) = line(&findings, "prometheus/default clock");
        assert_eq!((status, found), (1, level), "{findings:#}");
        assert!(clock.contains(said) && todo.contains("chrony"), "{clock}");
    }
}

#[test]
fn a_prometheus_that_cannot_be_asked_is_status_3_and_the_rest_is_examined_all_the_same() {
    let output = doctor(&["--prometheus", NOWHERE, "--signals"], None);
    let said = String::from_utf8_lossy(&output.stdout);
    assert_eq!(output.status.code(), Some(3), "{said}");
    assert!(said.contains("FAIL  prometheus/default") && said.contains("Connection refused"), "{said}");
    assert_eq!(said.matches(NOWHERE).count(), 1, "the address is named once\n{said}");
    assert!(said.contains("ok    playbooks") && said.contains("→ set `prometheus:"), "{said}");
}

#[test]
fn a_server_that_is_down_is_told_once_for_all_entries_with_its_address() {
    let entry =
        |name: &str, url: &str| format!("{{ name: {name}, url: \"{url}\", headers: {{ X-Scope-OrgID: {name} }} }}");
    let entries = ["a", "b", "c"].map(|name| entry(name, NOWHERE)).join(", ");
    let (findings, _) = examined(&format!("prometheus: [{entries}, {}]\n", entry("d", &with_clock(0.0))), None);
    let (level, found, _) = line(&findings, "prometheus/a");
    assert!(level == "fail" && found.ends_with("; 2 more entries with this address not asked"), "{found}");
    assert_eq!(line(&findings, "prometheus/d").0, "ok");
    let names = findings["checks"].as_array().unwrap().iter().filter_map(|check| check["name"].as_str());
    assert_eq!(names.filter(|name| ["prometheus/b", "prometheus/c"].contains(name)).count(), 0, "{findings:#}");
}

#[test]
fn what_is_wrong_in_the_configuration_is_named_with_its_line() {
    let (findings, status) = examined("prometeus: []\n", None);
    let (level, found, _) = line(&findings, "configuration");
    assert_eq!((status, level), (1, "fail"));
    assert!(found.contains("did you mean `prometheus`?"), "{found}");
}

#[test]
fn names_of_metrics_that_newer_engines_lack_are_found_in_own_rules_and_dashboards() {
    let directory = tempfile::tempdir().unwrap();
    let file = |name: &str, text: &str| {
        let file = directory.path().join(name);
        std::fs::write(&file, text).unwrap();
        file.to_str().unwrap().to_owned()
    };
    let expression = "avg(vllm:gpu_cache_usage_perc) > 0.9";
    let rules = file(
        "rules.yaml",
        &format!(
            "groups:\n- name: g\n  rules:\n  - {{ alert: Full, expr: \"{expression}\" }}\n\
             \x20 - alert: Both\n    expr: |\n      vllm:kv_cache_usage_perc > 0.9\n        or vllm:gpu_cache_usage_perc > 0.9\n\
             \x20 - {{ record: slow, expr: \"rate(vllm:time_per_output_token_seconds_bucket[5m])\" }}\n\
             \x20 - {{ alert: Swapped, expr: \"vllm:num_requests_swapped\" }}\n"
        ),
    );
    let dashboard =
        file("dashboard.json", &format!(r#"{{"panels":[{{"title":"Cache","targets":[{{"expr":"{expression}"}}]}}]}}"#));
    let shipped = concat!(env!("CARGO_MANIFEST_DIR"), "/config/prometheus/llm-diagnose.rules.yaml");
    let output = doctor(&["--names", &rules, "--names", &dashboard, "--names", shipped, "--output", "json"], None);
    let findings: Value = serde_json::from_slice(&output.stdout).unwrap();
    let (level, found, todo) = line(&findings, &format!("names in {rules}"));
    let lines: Vec<&str> = found.lines().collect();
    assert_eq!((level, lines.len()), ("warn", 4), "{found}");
    assert!(todo.contains("new or old"), "{todo}");
    for expected in [
        "`vllm:gpu_cache_usage_perc` is not in vllm 0.11 and newer: write `vllm:kv_cache_usage_perc` (Full)",
        "`vllm:num_requests_swapped` is not in vllm 0.8.5 and newer: no metric has its place (Swapped)",
        "`vllm:time_per_output_token_seconds` is not in vllm 0.12 and newer: write \
         `vllm:inter_token_latency_seconds` (slow)",
    ] {
        assert!(lines.contains(&expected), "{expected}: {found}");
    }
    let (level, found, _) = line(&findings, &format!("names in {dashboard}"));
    assert!(level == "warn" && found.contains("write `vllm:kv_cache_usage_perc` (Cache)"), "{found}");
    assert_eq!(line(&findings, &format!("names in {shipped}")).0, "ok");
}

#[test]
fn names_are_looked_for_in_several_documents_templates_and_dashboards_inside_of_texts() {
    let directory = tempfile::tempdir().unwrap();
    let level = |name: &str, text: &str| {
        let file = directory.path().join(name);
        std::fs::write(&file, text).unwrap();
        let output = doctor(&["--names", file.to_str().unwrap(), "--output", "json"], None);
        let findings: Value = serde_json::from_slice(&output.stdout).unwrap();
        line(&findings, &format!("names in {}", file.display())).0.to_owned()
    };
    let old = "vllm:gpu_cache_usage_perc";
    assert_eq!(level("two.yaml", &format!("a: b\n---\nexpr: {old} > 0.9\n")), "warn");
    assert_eq!(level("helm.yaml", &format!("expr: {old} > 0.9\nsummary: {{{{ $labels.pod }}}} is full\n")), "warn");
    let panels = format!(r#"{{"panels":[{{"expr":"{old}"}},{{"expr":"vllm:kv_cache_usage_perc"}}]}}"#);
    assert_eq!(level("map.yaml", &format!("kind: ConfigMap\ndata:\n  cache.json: |\n    {panels}\n")), "warn");
    assert_eq!(level("new.yaml", "expr: vllm:kv_cache_usage_perc > 0.9\n"), "ok");
    assert_eq!(level("empty.yaml", ""), "warn");
    let output = doctor(&["--names", "/nowhere.yaml", "--output", "json"], None);
    let findings: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(line(&findings, "names in /nowhere.yaml").0, "fail");
}

#[test]
fn an_address_that_nothing_can_listen_on_is_a_finding() {
    for listen in ["nonsense", "127.0.0.1", "127.0.0.1:70000"] {
        let (findings, status) =
            examined(&format!("listen: {listen}\nstate_dir: $DIR\nprometheus: [{{ url: {NOWHERE} }}]"), None);
        let (level, found, todo) = line(&findings, "webhook");
        assert_ne!(status, 0);
        assert!(level == "fail" && found.contains(listen) && todo.contains("127.0.0.1:9098"), "{found}");
    }
}

#[test]
fn a_store_that_cannot_be_written_and_an_open_webhook_are_findings() {
    let config = "listen: 0.0.0.0:9098\nstate_dir: /dev/null/state\nprometheus: [{ url: \"http://127.0.0.1:1\" }]";
    let (findings, _) = examined(config, None);
    let (level, found, todo) = line(&findings, "store");
    assert!(level == "fail" && found.contains("/dev/null is no directory") && todo.contains("state_dir"), "{found}");
    assert_eq!(line(&findings, "webhook").0, "warn");
    let secret = "webhook: { bearer_token_file: /nonexistent }\nprometheus: [{ url: \"http://127.0.0.1:1\" }]";
    let (findings, _) = examined(secret, None);
    assert!(line(&findings, "webhook").1.contains("/nonexistent"), "{findings:#}");
    let (findings, status) = examined("webhook: { authentication: required }\n", None);
    let (level, found, _) = line(&findings, "webhook");
    assert!(level == "fail" && found.contains("`webhook.authentication: none`") && status != 0, "{found}");
}

#[tokio::test(flavor = "multi_thread")]
async fn slack_is_asked_only_with_a_channel_and_a_token() {
    crate::running::tls();
    let slack = FakeSlack::start(Options::unlimited()).await.unwrap();
    let config = format!("slack: {{ api_url: \"{}\", channel: \"#llm-alerts\" }}\n", slack.base_url);
    let ask = async |token: Option<String>| {
        let config = config.clone();
        tokio::task::spawn_blocking(move || examined(&config, token.as_deref()).0).await.unwrap()
    };
    let without = ask(None).await;
    let (level, found, todo) = line(&without, "slack");
    assert!(level == "fail" && found.contains("SLACK_BOT_TOKEN") && todo.contains("xoxb-"), "{found}");
    let wrong = ask(Some("xoxb-wrong".to_owned())).await;
    assert_eq!(line(&wrong, "slack").0, "fail", "{wrong:#}");
    let right = ask(Some(slack.token.clone())).await;
    assert_eq!(line(&right, "slack"), ("ok", "the token is good, in workspace T0LAB", ""));
}

/// The lines of a configuration that is examined while fakes of this runtime answer.
async fn asked(config: String) -> Value {
    tokio::task::spawn_blocking(move || examined(&config, None).0).await.unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn the_cluster_is_asked_for_each_permission_and_what_is_missing_is_named() {
    crate::running::tls();
    let fake = FakeKubernetes::start().await.unwrap();
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), fake.kubeconfig()).unwrap();
    let config = format!(
        "kubernetes: {{ enabled: true, kubeconfig: {}, namespaces: [llm] }}\nprometheus: [{{ url: \"http://127.0.0.1:1\" }}]\n",
        file.path().display()
    );
    let (level, found, _) = {
        let findings = asked(config.clone()).await;
        let (level, found, todo) = line(&findings, "kubernetes");
        (level.to_owned(), found.to_owned(), todo.to_owned())
    };
    assert_eq!(level, "ok", "{found}");
    let verbs: usize = sources::kubernetes::read().map(|kind| kind.verbs.len()).sum();
    assert!(found.contains(&verbs.to_string()), "{found}");
    fake.set_mode_of("/events", Mode::Forbidden);
    fake.set_mode_of("/log", Mode::Forbidden);
    let findings = asked(config.clone()).await;
    let (level, found, todo) = line(&findings, "kubernetes permissions");
    assert_eq!((level, found), ("warn", "may not get pods/log in llm, list events in llm"));
    assert!(todo.contains("rbac.yaml"), "{todo}");
    drop(fake);
    let findings = asked(config).await;
    let (level, found, _) = line(&findings, "kubernetes");
    assert!(level == "fail" && found.contains("cannot be reached"), "{found}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_loki_answers_with_its_labels_or_says_which_one_it_lacks() {
    let fake = FakeLoki::start().await.unwrap();
    fake.push(&[("namespace", "llm"), ("pod", "llama-0")], 1_790_000_000_000_000_000, "a line");
    let config = |more: &str| {
        format!("loki: [{{ url: \"{}\"{more} }}]\nprometheus: [{{ url: \"http://127.0.0.1:1\" }}]\n", fake.url)
    };
    let name = format!("loki {}", fake.url);
    let findings = asked(config("")).await;
    assert_eq!(line(&findings, &name).0, "ok", "{findings:#}");
    let findings = asked(config(", pod: k8s_pod")).await;
    let (level, found, todo) = line(&findings, &name);
    assert!(level == "fail" && found.contains("k8s_pod") && todo.contains("`pod`"), "{found}");
}

#[test]
fn closed_pages_and_bundles_that_cannot_be_kept_are_findings() {
    let config = "listen: 0.0.0.0:9098\npublic_url: https://triage.example\nstate_dir: $DIR\nprometheus: [{ url: \"http://127.0.0.1:1\" }]\n\
        bundle: { dir: /dev/null/bundles, link_key_file: /nonexistent }\nexporters: { allow: [] }\n";
    let (findings, _) = examined(config, None);
    let (level, found, todo) = line(&findings, "pages");
    assert!(level == "warn" && found.contains("closed") && todo.contains("pages.bearer_token_file"), "{found}");
    assert_eq!(line(&findings, "endpoints").0, "warn");
    let (level, found, todo) = line(&findings, "bundles");
    assert!(level == "fail" && found.contains("/dev/null is no directory") && todo.contains("bundle.dir"), "{found}");
    let config = "state_dir: $DIR\nprometheus: [{ url: \"http://127.0.0.1:1\" }]\n\
        bundle: { min_free_bytes: 1152921504606846976, link_key_file: /nonexistent }\n";
    let (findings, _) = examined(config, None);
    let (level, found, _) = line(&findings, "pages");
    assert!(level == "ok" && found.contains("closed"), "{found}");
    let (level, found, _) = line(&findings, "bundles");
    assert!(level == "warn" && found.contains("no room for a bundle"), "{found}");
    assert!(line(&findings, "bundle links").1.contains("/nonexistent"), "{findings:#}");
}

fn covered(name: &str) -> Coverage {
    let prometheus = shared();
    run(coverage(library(), prometheus, at(moment(name)), WINDOW, DEADLINE))
}

#[test]
fn a_fleet_with_everything_lacks_only_what_must_be_turned_on_each_with_its_line() {
    let seen = covered("healthy");
    let engines: Vec<&str> = seen.engines.iter().map(|e| e.engine.as_str()).collect();
    assert_eq!(engines, ["dcgm", "kubernetes", "vllm"]);
    let answer = |signal: &str| seen.signals.iter().find(|s| s.signal == signal).unwrap();
    assert_eq!(answer("ttft_p99").answer, SignalAvailability::Answers);
    assert_eq!(answer("lora_adapters_waiting").answer, SignalAvailability::Unused, "without LoRA nothing is missing");
    let throttled = answer("cpu_throttled");
    assert_eq!(throttled.answer, SignalAvailability::Missing);
    assert!(throttled.enable.as_deref().unwrap().contains("/metrics/cadvisor"), "{throttled:?}");
    let silent = seen.signals.iter().filter(|s| s.answer == SignalAvailability::Missing && s.enable.is_none());
    assert_eq!(silent.map(|s| s.signal.as_str()).collect::<Vec<_>>(), [""; 0], "missing without a way out");
    // Without a gateway nobody tells what gateways do, and nobody counts broken numbers unless told to.
    let open = |playbook: &str| {
        let mut checks = library().playbooks[playbook].symptom.iter().flat_map(|evidence| evidence.checks());
        checks.any(|(signal, _)| signal == "corrupted_ratio" || library().signals[signal].of == [EngineKind::Gateway])
    };
    let blind: Vec<_> =
        seen.playbooks.iter().filter(|s| s.eyes == CoverageLimit::Blind && !open(&s.playbook)).collect();
    assert!(blind.is_empty(), "{blind:#?}");
}

#[test]
fn without_exporters_the_playbooks_that_stand_on_them_are_blind_and_the_line_is_named() {
    let seen = covered("gpu-throttling-unseen");
    let blind: Vec<&str> =
        seen.playbooks.iter().filter(|s| s.eyes == CoverageLimit::Blind).map(|s| s.playbook.as_str()).collect();
    for id in ["gpu-clock-bound", "gpu-hardware-fault", "crash-loop", "unschedulable"] {
        assert!(blind.contains(&id), "{id}: {blind:?}");
    }
    for id in ["high-ttft", "kv-cache-full", "engine-stalled"] {
        assert!(!blind.contains(&id), "{id}: {blind:?}");
    }
    for (signal, line) in [("gpu_sm_clock", "run dcgm-exporter"), ("crash_looping", "run kube-state-metrics")] {
        let missing = seen.signals.iter().find(|s| s.signal == signal).unwrap();
        assert!(missing.enable.as_deref().unwrap().starts_with(line), "{missing:?}");
    }
}

#[test]
fn an_empty_prometheus_is_findings_that_say_what_must_be_scraped() {
    let output = doctor(&["--prometheus", &shared().url, "--signals"], None);
    let said = String::from_utf8_lossy(&output.stdout).split_whitespace().collect::<Vec<_>>().join(" ");
    assert_eq!(output.status.code(), Some(1), "its data is years old: {said}");
    assert!(said.contains("no engine and no exporter found") && said.contains("--disable-log-stats"), "{said}");
    assert!(said.contains("no data high-ttft"), "{said}");
}

/// What a fleet could name of each study.
fn studies(name: &str) -> [StudyCoverage; 2] {
    studies_coverage(library(), &covered(name)).studies.try_into().unwrap()
}

#[test]
fn a_fleet_names_the_published_incidents_whose_checks_have_data_and_no_others() {
    for (study, incidents) in studies("healthy").iter().zip([156, 322]) {
        let named = study.classes.iter().filter(|class| class.named_by.is_some());
        assert_eq!(study.classes.iter().map(|class| class.incidents).sum::<u32>(), incidents);
        assert_eq!((study.incidents, study.named), (incidents, named.map(|class| class.incidents).sum()), "{study:#?}");
        for class in &study.classes {
            assert_eq!(class.causes.is_empty(), class.note.is_some(), "nothing names it for a reason: {class:?}");
            assert!(!class.causes.is_empty() || class.named_by.is_none(), "{class:?}");
        }
    }
    let [inference, servers] = studies("healthy");
    assert_eq!(inference.named, 37, "time-outs of the engine: {inference:#?}");
    let ecc = servers.classes.iter().find(|class| class.class.contains("ECC errors of a GPU")).unwrap();
    assert_eq!(ecc.named_by.as_deref(), Some("gpu-hardware-fault"), "{ecc:?}");
}

#[test]
fn the_exporter_that_is_missing_comes_with_the_incidents_that_it_would_name() {
    let [inference, servers] = studies("gpu-throttling-unseen");
    assert_eq!(inference.named, 37, "the engine alone tells that it hangs: {inference:#?}");
    let unseen = servers.classes.iter().find(|class| class.class.contains("ECC errors of a GPU")).unwrap();
    assert!(unseen.named_by.is_none() && !unseen.causes.is_empty(), "{unseen:?}");
    let exporter = servers.additions.iter().find(|(line, _)| line.starts_with("run dcgm-exporter")).unwrap();
    let [_, complete] = studies("healthy");
    assert!((77..=complete.incidents - servers.named).contains(exporter.1), "{:#?}", servers.additions);
}

#[test]
fn coverage_by_studies_is_printed_and_in_the_json_without_the_signals() {
    let asked = ["--prometheus", &shared().url, "--coverage"];
    let said = doctor(&asked, None);
    let text = String::from_utf8_lossy(&said.stdout).split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(text.contains("LLM inference at Microsoft: 0 of 156 incidents (0 %)"), "its data is years old: {text}");
    assert!(text.contains("nothing names it (no sensor of the board is read)"), "{text}");
    let output = doctor(&[asked.as_slice(), &["--output", "json"]].concat(), None);
    let findings: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(findings["studies"][0]["studies"][1]["incidents"], 322, "{findings:#}");
    assert_eq!(findings["coverage"], serde_json::json!([]));
}
