//! Error budgets: `slo:` ─▶ rules that Prometheus judges ─▶ series of a pool that burns ─▶ what a message says of it.

use std::process::Command;
use std::time::{SystemTime, UNIX_EPOCH};

use llm_diagnose_lab::sim::history::History;
use llm_diagnose_lab::sim::{Fault, Fleet, FleetSpec};
use llm_diagnose_lab::stack::Prometheus;
use serde_json::{Value, json};

use crate::generated::{assert_judged, assert_passes, rules_of};
use crate::running::{BINARY, CHANNEL, Running, command, ended};

/// A promise to all, and an exception of it.
const PROMISED: &str = "  - ttft: { share: 0.99, within: 1s }\n    errors: 0.001\n  \
                        - pools: { namespace: chat, model: m }\n    ttft: { share: 0.95, within: 500ms }\n";
const MINUTE: i64 = 60;

/// A histogram's series of first tokens: those of one bound, for these minutes.
fn bucket(namespace: &str, le: &str, values: &str) -> String {
    format!(
        "      - {{ series: 'vllm:time_to_first_token_seconds_bucket{{namespace=\"{namespace}\", model_name=\"m\", \
         le=\"{le}\"}}', values: '{values}' }}\n"
    )
}

#[test]
fn a_budget_that_burns_fires_by_each_pair_of_windows_and_a_quiet_pools_one_late_request_by_none() {
    // A request a second, of which half are late from minute 60 to 84.
    let burning = [("1.0", "0+60x60 3630+30x24 4380+60x330"), ("+Inf", "0+60x416")];
    // Six requests an hour, of which one is late: more than 14.4 times as many as the promise allows.
    let quiet = [("1.0", "0x9 1x9 2x9 3x9 4x9 5x9 6x9 6x80"), ("+Inf", "0x9 1x9 2x9 3x9 4x9 5x9 6x9 7x80")];
    // Within the next bound above the promised second: not known to be late.
    let between = [("0.5", "0x145"), ("2.5", "0+60x145"), ("+Inf", "0+60x145")];
    let excepted = [("0.5", "0x416"), ("1.0", "0+60x416"), ("+Inf", "0+60x416")];
    let series = |namespace: &str, buckets: &[(&str, &str)]| -> String {
        buckets.iter().map(|(le, values)| bucket(namespace, le, values)).collect()
    };
    let fires = |namespace: &str, severity: &str, long: &str, slo: &str| {
        format!(
            "          - {{ labels: '{{long_window=\"{long}\", namespace=\"{namespace}\", playbook=\"high-ttft\", \
             severity=\"{severity}\", slo=\"{slo}\"}}', value: 1 }}\n"
        )
    };
    let all = [("critical", "1h"), ("critical", "6h"), ("warning", "1d"), ("warning", "3d")];
    let (general, own) = ("99 % of first tokens within 1 s", "95 % of first tokens within 500 ms");
    // A pair fires once there are data of as long a time as its short window.
    let fired = |known: usize, burning: &[(&str, &str)]| -> String {
        let burnt = burning.iter().map(|(severity, long)| fires("burning", severity, long, general));
        all[..known].iter().map(|(severity, long)| fires("chat", severity, long, own)).chain(burnt).collect()
    };
    let asked = "sum by (namespace, severity, playbook, long_window, slo) (ALERTS{alertname=\"LLMErrorBudgetBurn\", \
                 alertstate=\"firing\"})";
    let text = format!(
        "rule_files: [own.rules.yaml]\nevaluation_interval: 2m\ntests:\n  - interval: 1m\n    input_series:\n{}{}{}{}    \
         promql_expr_test:\n      - expr: {asked}\n        eval_time: 84m\n        exp_samples:\n{}      \
         - expr: {asked}\n        eval_time: 130m\n        exp_samples:\n{}      \
         - expr: {asked}\n        eval_time: 390m\n        exp_samples:\n{}      \
         - expr: llm:slo_burn_rate:1h{{namespace=~\"quiet|between\"}} > bool 14.4\n        eval_time: 84m\n        exp_samples:\n          \
         - {{ labels: '{{namespace=\"quiet\", model_name=\"m\", sli=\"ttft\", slo=\"{general}\"}}', value: 1 }}\n          \
         - {{ labels: '{{namespace=\"between\", model_name=\"m\", sli=\"ttft\", slo=\"{general}\"}}', value: 0 }}\n",
        series("burning", &burning),
        series("quiet", &quiet),
        series("between", &between),
        series("chat", &excepted),
        fired(2, &all[..2]),
        fired(3, &all[2..3]),
        fired(4, &all[3..]),
    );
    assert_judged(&rules_of(PROMISED), &text);
}

#[test]
fn prometheus_takes_the_rules_of_promises_and_without_any_there_are_none() {
    let rules = tempfile::Builder::new().suffix(".yaml").tempfile().unwrap();
    std::fs::write(rules.path(), rules_of(PROMISED)).unwrap();
    assert_passes("promtool", &["check", "rules", "--lint-fatal", rules.path().to_str().unwrap()]);
    let own = rules_of(PROMISED);
    assert!(own.contains("LLMErrorBudgetBurn") && !rules_of("  []\n").contains("slo_"), "{own}");
    // Every objective has its playbook, gateways' too.
    let playbooks = own.split("- alert: LLMErrorBudgetBurn\n").skip(1).filter_map(|rule| {
        let (_, rest) = rule.split_once("playbook: \"")?;
        rest.split('"').next()
    });
    let mut playbooks: Vec<&str> = playbooks.collect();
    playbooks.dedup();
    assert_eq!(playbooks, ["high-error-rate", "gateway-errors", "high-ttft"]);
}

#[expect(clippy::disallowed_methods, reason = "the service diagnoses its own present")]
fn now() -> i64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs() as i64
}

/// A fleet whose prompts became longer ten minutes ago, with the series that the promise's rules record, up to now.
async fn burning(config: &std::path::Path) -> Prometheus {
    let to = now();
    let mut fleet = Fleet::new(FleetSpec::sized(4), 7, (to - 90 * MINUTE) as f64).unwrap();
    let mut history = History::new(30.0);
    history.record(&mut fleet, (to - 20 * MINUTE) as f64);
    fleet.inject("longer-prompts".parse::<Fault>().unwrap()).unwrap();
    history.record(&mut fleet, to as f64);
    let mut text = Vec::new();
    history.write(&mut text).unwrap();
    let text = String::from_utf8(text).unwrap();
    let mut server = Prometheus::builder().backfill_text(&text).unwrap().start().await.unwrap();
    let rules = tempfile::NamedTempFile::new().unwrap();
    let made = Command::new(BINARY).args(["generate", "rules", "--config"]).arg(config).output().unwrap();
    std::fs::write(rules.path(), made.stdout).unwrap();
    // Recorded once, the pools' requests are there for those that rest on them.
    for group in ["llm-diagnose.record.budget.vllm", "llm-diagnose.budget", "llm-diagnose.budget"] {
        server.record(rules.path(), group, to - 85 * MINUTE, to).await.unwrap();
    }
    server
}

#[tokio::test]
async fn a_message_says_how_much_of_the_budget_went_and_what_is_left() {
    let slo = "slo: [{ pools: { namespace: llm }, ttft: { share: 0.9, within: 1s } }]\n";
    let config = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(config.path(), format!("webhook: {{ authentication: none }}\n{slo}")).unwrap();
    let server = burning(config.path()).await;

    let diagnosed = async |config: &std::path::Path| -> (String, Value) {
        let run = async |output: &str| {
            let arguments = ["diagnose", "--playbook", "high-ttft", "--label", "namespace=llm", "--baseline", "none"];
            let mut command = command(&arguments);
            command.args(["--prometheus", &server.url, "--output", output, "--config"]).arg(config);
            String::from_utf8(ended(command).await.stdout).unwrap()
        };
        (run("text").await, serde_json::from_str(&run("json").await).unwrap())
    };
    let (text, json) = diagnosed(config.path()).await;
    let promised = "Promised: 90 % of first tokens within 1 s. Of the error budget of ";
    assert!(text.contains(promised) && text.contains("the recorded data reach no further back."), "{text}");
    let budget = &json["symptom"]["error_budget"];
    let at: jiff::Timestamp = json["at"].as_str().unwrap().parse().unwrap();
    let number = |key: &str| budget[key].as_f64().unwrap_or_else(|| panic!("{key}: {budget}"));
    // Some 85 minutes of the history are recorded, in steps of five; nothing was late before the fault.
    assert!((80.0 * 60.0..97.0 * 60.0).contains(&number("covers_seconds")), "{budget}");
    // What is left is counted in steps of five minutes, and where they begin depends on the clock: half of one, in which all are
    // late, is 0.3 of a tenth of 85 minutes.
    assert!(number("spent") > 0.1 && (number("spent") + number("left") - 1.0).abs() < 0.3, "{budget}");

    // Without a promise there is no budget, and without its series no number.
    let nothing = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(nothing.path(), "webhook: { authentication: none }\n").unwrap();
    let (text, json) = diagnosed(nothing.path()).await;
    assert!(!text.contains("budget") && json["symptom"]["error_budget"].is_null(), "{text}");
    std::fs::write(nothing.path(), format!("webhook: {{ authentication: none }}\n{}", slo.replace("1s", "2s")))
        .unwrap();
    let (text, json) = diagnosed(nothing.path()).await;
    assert!(text.contains("within 2 s.") && json["symptom"]["error_budget"].is_null(), "{text}");

    // The dashboard's row reads the same series; at the same time, because each five minutes add a step.
    let made = Command::new(BINARY).args(["generate", "dashboard", "--config"]).arg(config.path()).output().unwrap();
    let dashboard: Value = serde_json::from_slice(&made.stdout).unwrap();
    let panels = dashboard["panels"].as_array().unwrap().iter().filter(|panel| panel["targets"].is_array());
    let query = panels.take(1).map(|panel| panel["targets"][0]["expr"].as_str().unwrap()).next().unwrap();
    let all = ["$cluster", "$namespace", "$model_name"].iter().fold(query.to_owned(), |q, name| q.replace(name, ".*"));
    let left = server.query(&all, at.as_second()).await.unwrap();
    let left = left[0]["value"][1].as_str().unwrap().parse::<f64>().unwrap();
    assert!((left - number("left")).abs() < 0.1, "{left}: {budget}");

    let settings = format!("prometheus: [{{ url: \"{}\" }}]\ndiagnose: {{ baseline: none }}\n{slo}", server.url);
    let running = Running::start(&settings).await;
    let labels = json!({ "alertname": "LLMErrorBudgetBurn", "playbook": "high-ttft", "namespace": "llm", "severity": "critical" });
    let begins = jiff::Timestamp::from_second(now() - MINUTE).unwrap().to_string();
    let alert = json!({
        "status": "firing", "labels": labels, "annotations": {}, "startsAt": begins, "endsAt": "0001-01-01T00:00:00Z",
        "generatorURL": "", "fingerprint": "f00d"
    });
    running
        .send(&json!({
            "version": "4", "groupKey": "{}:{namespace=\"llm\"}", "status": "firing", "receiver": "llm", "truncatedAlerts": 0,
            "groupLabels": {}, "commonLabels": {}, "commonAnnotations": {}, "externalURL": "", "alerts": [alert]
        }))
        .await;
    running.wait_for(CHANNEL, |m| m.contains("error budget of") && m.contains(" went in ")).await;
}
