//! What is generated and committed is fresh and is taken by the programs it is made for.

use std::collections::BTreeSet;
use std::path::Path;
use std::process::{Command, Output};

use serde_json::Value;

use crate::running::BINARY;

const RULES: &str = "config/prometheus/llm-diagnose.rules.yaml";
const OPERATORS: &str = "config/kubernetes-operator/llm-diagnose.prometheusrule.yaml";
const RULE_TESTS: &str = "config/prometheus/tests";

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

fn run(program: &str, arguments: &[&str]) -> Output {
    let output = Command::new(program).args(arguments).current_dir(root()).output();
    output.unwrap_or_else(|e| panic!("cannot run {program}: {e}; apt-get install prometheus prometheus-alertmanager"))
}

pub(crate) fn assert_passes(program: &str, arguments: &[&str]) {
    let output = run(program, arguments);
    let said = format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{program} {}: {said}", arguments.join(" "));
}

fn assert_fresh(file: &str, arguments: &[&str]) {
    let made = run(BINARY, arguments);
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    let committed = std::fs::read(root().join(file)).unwrap();
    assert!(made.stdout == committed, "{file} is stale: run `make generate`");
}

#[test]
fn the_committed_schema_of_the_webhook_is_what_is_sent() {
    assert_fresh("docs/webhook.schema.json", &["generate", "webhook-schema"]);
}

#[test]
fn the_committed_schema_of_the_report_is_what_bundles_hold() {
    assert_fresh("docs/report.schema.json", &["generate", "report-schema"]);
}

#[test]
fn the_committed_openapi_document_is_what_the_service_answers_by() {
    assert_fresh("docs/openapi.json", &["generate", "openapi"]);
}

#[test]
fn the_committed_schema_of_the_backtest_is_what_is_printed() {
    assert_fresh("docs/backtest.schema.json", &["generate", "backtest-schema"]);
}

#[test]
fn the_committed_page_of_the_lints_is_what_their_descriptions_say() {
    assert_fresh("docs/lints.md", &["generate", "lints"]);
}

#[test]
fn the_committed_rules_are_what_the_playbooks_say() {
    assert_fresh(RULES, &["generate", "rules"]);
}

/// `kubectl apply` cannot write a larger object into its annotation; prometheus-operator takes twice as much,
/// `MaxConfigMapDataSize`: <https://github.com/prometheus-operator/prometheus-operator/blob/main/pkg/operator/rules.go>
const RULE_BYTES: usize = 256 << 10;

#[test]
fn the_committed_prometheus_rules_are_the_same_rules_in_pieces_that_the_operator_takes() {
    assert_fresh(OPERATORS, &["generate", "rules", "--kind", "prometheus-rule"]);
    let text = std::fs::read_to_string(root().join(OPERATORS)).unwrap();
    let pieces: Vec<&str> = text.split("\n---\n").skip(1).collect();
    assert!(pieces.len() > 10 && pieces.iter().all(|piece| piece.len() < RULE_BYTES));
    let objects: Vec<Value> = pieces.iter().map(|piece| serde_saphyr::from_str(piece).unwrap()).collect();
    let names: BTreeSet<&str> = objects.iter().filter_map(|object| object["metadata"]["name"].as_str()).collect();
    assert!(names.len() == objects.len() && names.contains("llm-diagnose-alerts"), "{names:?}");
    let groups: Vec<Value> = objects.iter().flat_map(|object| entries(&object["spec"], "groups")).cloned().collect();
    assert!(groups == entries(&parsed(RULES), "groups"), "{OPERATORS} has other rules than {RULES}");
}

#[test]
fn the_committed_dashboard_is_what_the_playbooks_say() {
    assert_fresh("config/grafana/llm-diagnose.dashboard.json", &["generate", "dashboard"]);
}

#[test]
fn the_committed_page_of_commands_is_what_the_definition_says() {
    assert_fresh("docs/commands.md", &["generate", "commands"]);
}

#[test]
fn the_committed_schema_is_what_the_types_say() {
    assert_fresh("playbooks/schema.json", &["generate", "schema"]);
    assert_fresh("docs/playbook-format.md", &["generate", "format"]);
}

#[test]
fn the_committed_runbooks_are_what_the_playbooks_say() {
    let fresh = tempfile::tempdir().unwrap();
    let directory = fresh.path().to_str().unwrap();
    assert!(run(BINARY, &["generate", "runbooks", "--output", directory]).status.success());
    let pages = |path: &Path| -> Vec<(String, String)> {
        let mut pages: Vec<_> = std::fs::read_dir(path)
            .unwrap()
            .map(|entry| entry.unwrap().path())
            .map(|p| (p.file_name().unwrap().to_string_lossy().into_owned(), std::fs::read_to_string(&p).unwrap()))
            .collect();
        pages.sort();
        pages
    };
    assert!(pages(fresh.path()) == pages(&root().join("docs/runbooks")), "docs/runbooks is stale: run `make generate`");
}

/// The files of cases for the rules, from the root.
fn rule_tests() -> Vec<String> {
    let files = std::fs::read_dir(root().join(RULE_TESTS)).unwrap();
    let mut files: Vec<String> = files
        .map(|file| format!("{RULE_TESTS}/{}", file.unwrap().file_name().to_string_lossy()))
        .filter(|file| file.ends_with(".test.yaml"))
        .collect();
    files.sort();
    files
}

fn parsed(file: &str) -> Value {
    let text = std::fs::read_to_string(root().join(file)).unwrap();
    serde_saphyr::from_str(&text).unwrap_or_else(|e| panic!("{file}: {e}"))
}

fn entries<'a>(of: &'a Value, key: &str) -> &'a [Value] {
    of[key].as_array().map(Vec::as_slice).unwrap_or_default()
}

/// Marks a file of cases that are judged by the rules of every engine: of those that it has no series of, too.
const BY_ALL_RULES: &str = "# By all rules";

/// The rules without the groups of engines of which these cases have no series: those are most of the work.
fn reached(rules: &str, cases: &str) -> String {
    let of_a_name = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == ':';
    let series: BTreeSet<&str> = cases
        .split("series: '")
        .skip(1)
        .filter_map(|own| own.split(|c| !of_a_name(c)).next())
        .filter(|name| *name != "up")
        .collect();
    assert!(!series.is_empty(), "no series");
    if cases.contains(BY_ALL_RULES) {
        return rules.to_owned();
    }
    let mut groups = rules.split_inclusive('\n').fold(vec![String::new()], |mut groups, line| {
        if line.starts_with("  - name: ") {
            groups.push(String::new());
        }
        groups.last_mut().unwrap().push_str(line);
        groups
    });
    let reads = |group: &str| group.split(|c| !of_a_name(c)).any(|name| series.contains(name));
    // Kinds are told by recorded series of any engine.
    let is_of_an_engine = |group: &str| {
        group.starts_with("  - name: llm-diagnose.record.") && !group.starts_with("  - name: llm-diagnose.record.kinds")
    };
    groups.retain(|group| !is_of_an_engine(group) || reads(group));
    groups.concat()
}

#[test]
fn cases_of_one_engine_are_judged_by_its_rules_and_marked_ones_by_all() {
    let rules = std::fs::read_to_string(root().join(RULES)).unwrap();
    let cases = "series: 'vllm:num_requests_running{namespace=\"a\"}'";
    let own = reached(&rules, cases);
    assert!(own.contains("llm-diagnose.record.vllm\n") && !own.contains("llm-diagnose.record.triton\n"));
    assert!(reached(&rules, &format!("{BY_ALL_RULES}.\n{cases}")) == rules);
    let is_whole = |file: &String| std::fs::read_to_string(root().join(file)).unwrap().contains(BY_ALL_RULES);
    assert!(rule_tests().iter().any(is_whole), "no file of cases is judged by all rules");
}

/// Cases by these rules, as Prometheus judges them.
pub(crate) fn assert_judged(rules: &str, cases: &str) {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("own.test.yaml");
    std::fs::write(directory.path().join("own.rules.yaml"), reached(rules, cases)).unwrap();
    std::fs::write(&file, cases.replace("../llm-diagnose.rules.yaml", "own.rules.yaml")).unwrap();
    assert_passes("promtool", &["test", "rules", file.to_str().unwrap()]);
}

#[test]
fn prometheus_takes_the_rules() {
    assert_passes("promtool", &["check", "rules", RULES]);
}

/// A test for each file, so that they run side by side.
macro_rules! prometheus_judges_every_case_as_expected {
    ($($name:ident: $file:literal),*) => {
        mod prometheus_judges_every_case_as_expected {
            $(#[test]
            fn $name() {
                let read = |file: &str| std::fs::read_to_string(super::root().join(file)).unwrap();
                super::assert_judged(&read(super::RULES), &read($file));
            })*
        }

        #[test]
        fn no_file_of_cases_is_left_out() {
            assert_eq!(rule_tests(), [$($file),*]);
        }
    };
}

prometheus_judges_every_case_as_expected! {
    of_burns: "config/prometheus/tests/burns.test.yaml",
    of_engines: "config/prometheus/tests/engines.test.yaml",
    of_what_is_full_on_purpose: "config/prometheus/tests/full-on-purpose.test.yaml",
    of_gateways: "config/prometheus/tests/gateways.test.yaml",
    of_gpus: "config/prometheus/tests/gpus.test.yaml",
    of_the_hour_before: "config/prometheus/tests/hour-before.test.yaml",
    of_hours: "config/prometheus/tests/hours.test.yaml",
    of_kinds: "config/prometheus/tests/kinds.test.yaml",
    of_means: "config/prometheus/tests/means.test.yaml",
    of_near_misses: "config/prometheus/tests/near-misses.test.yaml",
    of_an_outage: "config/prometheus/tests/outage.test.yaml",
    of_recovery: "config/prometheus/tests/recovery.test.yaml",
    of_serving: "config/prometheus/tests/serving.test.yaml",
    of_what_names_no_model: "config/prometheus/tests/unnamed.test.yaml",
    of_what_is_unseen: "config/prometheus/tests/unseen.test.yaml",
    of_what_vanished: "config/prometheus/tests/vanished.test.yaml",
    of_yesterday: "config/prometheus/tests/yesterday.test.yaml"
}

#[test]
fn every_alert_has_a_case_where_it_fires_and_a_measured_near_miss() {
    let rules = parsed(RULES);
    let alerts: BTreeSet<(&str, &str)> = entries(&rules, "groups")
        .iter()
        .flat_map(|group| entries(group, "rules"))
        .filter_map(|rule| Some((rule["alert"].as_str()?, rule["labels"]["severity"].as_str()?)))
        .collect();
    assert!(alerts.len() > 30, "{alerts:?}");
    // Each list of expected samples stands beside its expression.
    let files: Vec<Value> = rule_tests().iter().map(|file| parsed(file)).collect();
    let cases: Vec<(&str, Vec<&str>)> = files
        .iter()
        .flat_map(|file| entries(file, "tests"))
        .flat_map(|test| entries(test, "promql_expr_test"))
        .map(|case| {
            let samples = entries(case, "exp_samples").iter().filter_map(|sample| sample["labels"].as_str());
            (case["expr"].as_str().unwrap(), samples.collect())
        })
        .collect();
    let (near, firing): (Vec<_>, Vec<_>) = cases.iter().partition(|(expr, _)| expr.contains(" unless "));
    let missing: Vec<String> = alerts
        .iter()
        .flat_map(|(alert, severity)| {
            let is = |severity: &str| format!("alertname=\"{alert}\", severity=\"{severity}\"");
            let (own, graver) = (is(severity), is("critical"));
            // A warning beside a graver rule fires alone somewhere: that is the graver one's near miss.
            let alone = *severity == "warning" && alerts.contains(&(*alert, "critical"));
            let fires = firing.iter().any(|(_, samples)| {
                let mut own_samples = samples.iter().filter(|labels| labels.contains(&own));
                own_samples.any(|labels| !alone || !samples.contains(&labels.replace(&own, &graver).as_str()))
            });
            let unless = format!("ALERTS{{alertname=\"{alert}\"}}");
            let misses = near.iter().any(|(expr, samples)| expr.contains(&unless) && !samples.is_empty());
            let fires = (!fires)
                .then(|| format!("{alert} ({severity}): no sample of {own}{}", if alone { " alone" } else { "" }));
            let misses = (!misses).then(|| format!("{alert}: no `llm:… unless … {unless}` with a sample"));
            fires.into_iter().chain(misses)
        })
        .collect();
    assert!(missing.is_empty(), "add to {RULE_TESTS}:\n{}", missing.join("\n"));
}

/// Minutes of a case's time.
fn minutes(case: &Value) -> u64 {
    let told = case["eval_time"].as_str().unwrap_or_default();
    humantime::parse_duration(told).unwrap_or_else(|e| panic!("{told}: {e}")).as_secs() / 60
}

#[test]
fn every_alert_that_fires_in_a_case_is_over_once_its_cause_is() {
    let rules = parsed(RULES);
    let alerts: BTreeSet<&str> = entries(&rules, "groups")
        .iter()
        .flat_map(|group| entries(group, "rules"))
        .filter_map(|rule| rule["alert"].as_str())
        .collect();
    let files: Vec<Value> = rule_tests().iter().map(|file| parsed(file)).collect();
    let groups: Vec<&[Value]> =
        files.iter().flat_map(|file| entries(file, "tests")).map(|test| entries(test, "promql_expr_test")).collect();
    let recovers = |alert: &str| {
        let fires = |case: &&Value| {
            let named = format!("alertname=\"{alert}\"");
            let mut samples = entries(case, "exp_samples").iter().filter_map(|sample| sample["labels"].as_str());
            samples.any(|labels| labels.contains(&named))
        };
        // Of all alerts, or of some by name; the series go on, for without them everything is silent.
        let over = |case: &Value| {
            let expr = case["expr"].as_str().unwrap_or_default();
            let asked = expr == "ALERTS" || (expr.starts_with("ALERTS{alertname=") && expr.contains(alert));
            asked && entries(case, "exp_samples").is_empty()
        };
        groups.iter().any(|cases| {
            let first = cases.iter().filter(fires).map(minutes).min();
            first.is_some_and(|first| cases.iter().any(|case| over(case) && minutes(case) > first))
        })
    };
    let missing: Vec<&&str> = alerts.iter().filter(|alert| !recovers(alert)).collect();
    assert!(alerts.len() > 30 && missing.is_empty(), "add to {RULE_TESTS} a case in which it ends: {missing:?}");
}

/// The rules of these promises.
pub(crate) fn rules_of(slo: &str) -> String {
    let config = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(config.path(), format!("slo:\n{slo}")).unwrap();
    let made = run(BINARY, &["generate", "rules", "--config", config.path().to_str().unwrap()]);
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    String::from_utf8(made.stdout).unwrap()
}

/// Of two pools with the same load, the alerts that fire by the rules of these promises.
fn promised(slo: &str, firing: &[(&str, &str, &str)]) {
    // First tokens within 1 s, of which nobody else's pool promises less than 2 s; one request of 500 fails.
    let series = |namespace: &str| {
        let bucket = |le: &str, values: &str| {
            format!(
                "      - {{ series: 'vllm:time_to_first_token_seconds_bucket{{namespace=\"{namespace}\", model_name=\"m\", \
                 le=\"{le}\"}}', values: '{values}' }}\n"
            )
        };
        let answers = |status: &str, values: &str| {
            format!(
                "      - {{ series: 'http_requests_total{{namespace=\"{namespace}\", job=\"v\", instance=\"{namespace}\", \
                 handler=\"/v1/completions\", status=\"{status}\"}}', values: '{values}' }}\n"
            )
        };
        let running = format!(
            "      - {{ series: 'vllm:num_requests_running{{namespace=\"{namespace}\", model_name=\"m\", job=\"v\", \
             instance=\"{namespace}\"}}', values: '3x60' }}\n"
        );
        [bucket("0.5", "0x60"), bucket("1.0", "0+60x60"), bucket("+Inf", "0+60x60"), running]
            .into_iter()
            .chain([answers("2xx", "0+998x60"), answers("5xx", "0+2x60")])
            .collect::<String>()
    };
    let fires = |(alert, severity, namespace): &(&str, &str, &str)| {
        let labels = format!("alertname=\"{alert}\", severity=\"{severity}\", namespace=\"{namespace}\"");
        format!("          - {{ labels: '{{{labels}}}', value: 1 }}\n")
    };
    let text = format!(
        "rule_files: [own.rules.yaml]\nevaluation_interval: 4m\ntests:\n  - interval: 1m\n    input_series:\n{}{}    \
         promql_expr_test:\n      - expr: count by (alertname, severity, namespace) (ALERTS{{alertstate=\"firing\", alertname!=\"LLMErrorBudgetBurn\"}})\n        \
         eval_time: 50m\n        exp_samples:\n{}",
        series("chat"),
        series("other"),
        firing.iter().map(fires).collect::<String>()
    );
    assert_judged(&rules_of(slo), &text);
}

#[test]
fn a_promise_has_rules_of_its_own_that_its_pools_alone_are_judged_by() {
    promised(
        "  - pools: { namespace: chat, model: m }\n    ttft: { share: 0.95, within: 500ms }\n    errors: 0.001\n",
        &[
            ("LLMHighTTFT", "critical", "chat"),
            ("LLMElevatedTTFT", "warning", "chat"),
            ("LLMHighErrorRate", "warning", "chat"),
        ],
    );
}

#[test]
fn an_exception_is_judged_by_its_own_promise_and_by_the_rest_of_the_general_one() {
    promised(
        "  - ttft: { share: 0.95, within: 500ms }\n    errors: 0.001\n  - pools: { namespace: other }\n    \
         ttft: { share: 0.95, within: 5s }\n",
        &[
            ("LLMHighTTFT", "critical", "chat"),
            ("LLMElevatedTTFT", "warning", "chat"),
            ("LLMHighErrorRate", "warning", "chat"),
            ("LLMHighErrorRate", "warning", "other"),
        ],
    );
}

#[test]
fn an_exception_with_everybodys_numbers_still_has_its_rules() {
    let config = tempfile::NamedTempFile::new().unwrap();
    let text = "slo:\n  - errors: 0.001\n  - pools: { namespace: other }\n    errors: 0.01\n";
    std::fs::write(config.path(), text).unwrap();
    let made = run(BINARY, &["generate", "rules", "--config", config.path().to_str().unwrap()]);
    let rules = String::from_utf8(made.stdout).unwrap();
    let own: Vec<&str> = rules
        .split("      - alert: ")
        .filter(|rule| {
            rule.starts_with("LLMHighErrorRate\n")
                && rule.contains("and on (namespace) llm:error_burn{namespace=\"other\"}")
        })
        .collect();
    assert!(
        !own.is_empty(),
        "{}",
        rules.split("      - alert: ").find(|rule| rule.starts_with("LLMHighErrorRate")).unwrap()
    );
}

#[test]
fn the_queue_of_a_declared_batch_fires_nothing_and_that_of_its_exception_does() {
    // None of them times its queue, so that the alert's first alternative has no series.
    let waiting = |namespace: &str, model: &str| {
        format!(
            "      - {{ series: 'vllm:num_requests_waiting{{namespace=\"{namespace}\", model_name=\"{model}\", job=\"v\", \
             instance=\"{model}\"}}', values: '100x60' }}\n"
        )
    };
    let fires = |severity: &str, namespace: &str, model: &str| {
        let labels = format!("severity=\"{severity}\", namespace=\"{namespace}\", model_name=\"{model}\"");
        format!("          - {{ labels: '{{{labels}}}', value: 1 }}\n")
    };
    let pools = [("batch", "bulk"), ("batch", "chatty"), ("other", "m")];
    let firing = pools[1..].iter().flat_map(|(of, model)| ["critical", "warning"].map(|how| fires(how, of, model)));
    let text = format!(
        "rule_files: [own.rules.yaml]\nevaluation_interval: 4m\ntests:\n  - interval: 1m\n    input_series:\n{}    \
         promql_expr_test:\n      - expr: count by (severity, namespace, model_name) (ALERTS{{alertstate=\"firing\", alertname=~\"LLMQueueBuildup(Untimed)?\"}})\n        \
         eval_time: 50m\n        exp_samples:\n{}",
        pools.iter().map(|(namespace, model)| waiting(namespace, model)).collect::<String>(),
        firing.collect::<String>()
    );
    let declared = "  []\npools:\n  - { labels: { namespace: batch }, kind: batch }\n  \
                    - { labels: { namespace: batch, model: chatty }, kind: chat }\n";
    assert_judged(&rules_of(declared), &text);
}

#[test]
fn alertmanager_takes_the_example() {
    assert_passes("amtool", &["check-config", "config/alertmanager/llm-diagnose.yaml"]);
}

#[test]
fn every_generated_alert_leads_back_to_its_playbook() {
    let library = knowledge::playbook::load(None).unwrap();
    let rules = std::fs::read_to_string(root().join(RULES)).unwrap();
    let mut checked = 0;
    for playbook in library.playbooks.values() {
        for alert in &playbook.alerts {
            let name = &alert.alert;
            let rule = rules.split("      - alert: ").find(|rule| rule.starts_with(&format!("{name}\n"))).unwrap();
            assert!(rule.contains(&format!("playbook: \"{}\"", playbook.playbook)), "{rule}");
            assert!(
                root().join(format!("docs/runbooks/{}.md", playbook.playbook)).exists(),
                "{name} has no runbook page"
            );
            checked += 1;
        }
    }
    assert!(checked >= 10, "{checked}");
}

#[test]
fn a_promise_about_whole_answers_holds_for_an_engine_that_tells_only_their_mean() {
    let rules = rules_of("  - pools: { namespace: chat, model: m }\n    request: { share: 0.95, within: 5s }\n");
    // Two pools of Triton whose answers take 6 s.
    let series = |namespace: &str| {
        let labels = format!("namespace=\"{namespace}\", model=\"m\", job=\"t\", instance=\"{namespace}\"");
        format!(
            "      - {{ series: 'nv_inference_request_duration_us{{{labels}}}', values: '0+360000000x60' }}\n      \
             - {{ series: 'nv_inference_request_success{{{labels}}}', values: '0+60x60' }}\n"
        )
    };
    let warning = "alertname=\"LLMHighE2ELatency\", severity=\"warning\", namespace=\"chat\"";
    let text = format!(
        "rule_files: [own.rules.yaml]\nevaluation_interval: 4m\ntests:\n  - interval: 1m\n    input_series:\n{}{}    \
         promql_expr_test:\n      - expr: count by (alertname, severity, namespace) (ALERTS{{alertstate=\"firing\"}})\n        \
         eval_time: 50m\n        exp_samples:\n          - {{ labels: '{{{warning}}}', value: 1 }}\n",
        series("chat"),
        series("other"),
    );
    assert_judged(&rules, &text);
}
