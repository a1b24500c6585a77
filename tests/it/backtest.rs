//! The backtest of a day with three faults: outcomes, noise, a missing alert, thresholds, known causes, interruptions,
//! and its page.

mod day;
mod honest;

use std::collections::BTreeMap;
use std::io::Read;
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::sync::LazyLock;
use std::time::{Duration, Instant};

use ::backtest::{Backtest, DiagnosedFiring, RuleCount};
use jiff::Timestamp;
use knowledge::alert::AlertGroup;
use knowledge::incident::AdmissionRules;
use report::FiringOutcome;
use serde_json::{Value, json};
use store::{AdmissionPlan, Feedback, STORE_FILE, Store};

use crate::admission::CALM;
use crate::harness::run;
use crate::running::{BINARY, SOON, group};
use day::{BEGIN, END, HOSTILE, NOISE, minute, prometheus};

fn command(arguments: &[&str]) -> Command {
    let mut command = Command::new(BINARY);
    command.args(["backtest", "--prometheus", prometheus(), "--since", "1d", "--until", &END.to_string()]);
    command.args(["--deadline", "1m"]).args(arguments).stdin(Stdio::null());
    command
}

fn read(output: &Output) -> Backtest {
    serde_json::from_slice(&output.stdout)
        .unwrap_or_else(|error| panic!("{error}: {}", String::from_utf8_lossy(&output.stderr)))
}

fn backtest(arguments: &[&str]) -> Backtest {
    let output = command(arguments).args(["--output", "json"]).output().unwrap();
    assert_eq!(output.status.code(), Some(1), "findings: {}", String::from_utf8_lossy(&output.stderr));
    read(&output)
}

/// The backtest of the day without more arguments.
fn whole() -> &'static Backtest {
    static WHOLE: LazyLock<Backtest> = LazyLock::new(|| backtest(&[]));
    &WHOLE
}

/// Asserts that these firings have the same diagnoses; Prometheus adds up in any order, so that values differ in their last
/// digits.
fn assert_same(firings: &[DiagnosedFiring], others: &[DiagnosedFiring]) {
    let told = |firing: &DiagnosedFiring| {
        let of_alert = (firing.id.clone(), firing.rule.clone(), firing.pool.clone(), firing.starts_at);
        (of_alert, firing.outcome, firing.diagnosed_at, firing.chain.clone(), firing.missing.clone())
    };
    let all = |firings: &[DiagnosedFiring]| firings.iter().map(told).collect::<Vec<_>>();
    assert_eq!(all(firings), all(others));
    for (one, other) in firings.iter().zip(others) {
        let apart = one.probability.unwrap_or_default() - other.probability.unwrap_or_default();
        assert!(apart.abs() < 0.01, "{one:#?} {other:#?}");
    }
}

fn of<'a>(backtest: &'a Backtest, rule: &str) -> Vec<&'a DiagnosedFiring> {
    backtest.firings.iter().filter(|firing| firing.rule == rule).collect()
}

fn at(of_day: i64) -> Timestamp {
    Timestamp::from_second(minute(of_day)).unwrap()
}

#[test]
fn each_firing_is_diagnosed_as_it_was_at_that_time_and_all_of_them_tell_what_to_change() {
    let backtest = whole();
    assert_eq!((backtest.from.as_second(), backtest.to.as_second(), &backtest.stopped), (BEGIN, END, &None));
    assert_eq!(backtest.problems, Vec::<String>::new());

    let [prompts, gone] = of(backtest, "LLMHighTTFT")[..] else { panic!("{:#?}", backtest.firings) };
    assert_eq!(prompts.outcome, FiringOutcome::Confirmed, "{prompts:#?}");
    assert_eq!(prompts.chain, ["high-ttft", "kv-cache-full", "longer-prompts"]);
    assert!(prompts.headline.starts_with("CRITICAL · high TTFT: first tokens come late · llm"), "{}", prompts.headline);
    assert_eq!((prompts.condition_since, prompts.starts_at), (at(244), at(246)));
    assert_eq!(prompts.after_seconds, prompts.diagnosed_at.as_second().abs_diff(minute(244)));
    assert_eq!(gone.outcome, FiringOutcome::Blind, "{gone:#?}");
    let [missing] = &gone.missing[..] else { panic!("{gone:#?}") };
    assert_eq!(missing.why, "no series has namespace `gone`");
    let queue = of(backtest, "LLMQueueBuildup")[0];
    assert_eq!(queue.chain.last().map(String::as_str), Some("traffic-surge"), "{queue:#?}");
    // The shipped rule holds for five minutes; nothing here shows when its condition began.
    assert_eq!((queue.condition_since, queue.starts_at), (at(601), at(606)));
    let noise = of(backtest, "ChatFeelsSlow");
    assert_eq!(noise.iter().map(|f| f.starts_at).collect::<Vec<_>>(), NOISE.map(at));
    assert!(noise.iter().all(|f| f.outcome == FiringOutcome::NothingAbnormal), "{noise:#?}");
    let once = |rule: &str| [RuleCount { rule: rule.to_owned(), firings: 1 }];
    // A name that ends like a secret's is a name all the same.
    assert_eq!(backtest.left_out.elsewhere, once("NodeAPIToken"));
    assert_eq!(backtest.left_out.before, once("CPUThrottlingHigh"));
    let volume = of(backtest, "VolumeAlmostFull")[0];
    assert_eq!(volume.outcome, FiringOutcome::NotJudged, "no playbook knows what it is about: {volume:#?}");

    let noisy: Vec<_> = backtest.rules.iter().filter(|rule| rule.is_noise).map(|rule| rule.rule.as_str()).collect();
    assert_eq!(noisy, ["ChatFeelsSlow"]);
    assert_eq!((backtest.counts.confirmed, backtest.counts.nothing_abnormal, backtest.counts.blind), (2, 3, 1));
    let pool = backtest.pools.iter().find(|pool| pool.pool.starts_with("llm/")).unwrap();
    assert_eq!((pool.counts.total(), pool.counts.confirmed), (6, 2), "{:#?}", backtest.pools);

    // The third fault, of which no alert told: nobody looks at the one that fires all day.
    assert!(backtest.alerted_times >= 2, "the other faults: {}", backtest.alerted_times);
    let [unalerted] = &backtest.unalerted[..] else { panic!("{:#?}", backtest.unalerted) };
    let episode = &unalerted.episodes[0];
    assert!((at(955)..at(975)).contains(&episode.from) && episode.to >= at(1_000), "{unalerted:#?}");
    assert_eq!(episode.chain.last().map(String::as_str), Some("limit-lowered"), "{unalerted:#?}");
    assert!(!unalerted.alerts.is_empty() && unalerted.pool.starts_with("llm/"), "{unalerted:#?}");

    assert_eq!((unalerted.times, unalerted.looked_at), (1, 1));

    let ladder = backtest.ladders.iter().find(|ladder| ladder.signal == "ttft_p99").unwrap();
    let times: Vec<usize> = ladder.rungs.iter().map(|rung| rung.times).collect();
    let shipped = ladder.rungs.iter().find(|rung| rung.threshold == 2.0).unwrap();
    assert!(shipped.shipped.iter().any(|source| source == "symptom of high-ttft"), "{ladder:#?}");
    assert!((2..=4).contains(&shipped.times), "the faults: {:#?}", ladder.rungs);
    assert!(times.len() >= 5 && ladder.rungs.windows(2).all(|two| two[0].seconds >= two[1].seconds), "{times:?}");
    assert!(!ladder.values.is_empty() && ladder.values.len() <= 242, "{}", ladder.values.len());
    assert!(backtest.load.queries > 100 && backtest.load.queries < backtest.load.most_queries);
}

#[test]
fn known_causes_give_precision_and_recall() {
    let file = tempfile::NamedTempFile::new().unwrap();
    let when = |of_day: i64| at(of_day).to_string();
    let labels = format!(
        "LLMHighTTFT {}: longer-prompts\nLLMQueueBuildup {}: longer-outputs\nChatFeelsSlow {}: none\nNeverFired {}: none\n",
        when(250),
        when(610),
        when(NOISE[0]),
        when(5)
    );
    std::fs::write(file.path(), labels).unwrap();
    let backtest = backtest(&["--labels", file.path().to_str().unwrap()]);
    let of = |cause: &str| {
        let row = backtest.accuracy.iter().find(|row| row.cause == cause).unwrap();
        (row.precision, row.recall)
    };
    assert_eq!(of("longer-prompts"), (Some(1.0), Some(1.0)));
    assert_eq!(of("longer-outputs"), (None, Some(0.0)));
    assert_eq!(of("traffic-surge"), (Some(0.0), None));
    assert_eq!(of("none"), (Some(1.0), Some(1.0)));
    let problem = &backtest.problems[0];
    assert!(problem.contains("1 label of the file fit no diagnosed firing: NeverFired"), "{problem}");
}

#[test]
fn users_feedback_tells_the_cause_of_the_same_alert_though_it_was_sent_with_more_labels() {
    let dir = tempfile::tempdir().unwrap();
    let mut body = group("LLMQueueBuildup", "firing", "critical", &["a"]);
    let labels = [
        ("alertname", "LLMQueueBuildup"),
        ("namespace", "llm"),
        ("model_name", day::MODEL),
        ("severity", "critical"),
        ("playbook", "queue-buildup"),
        ("cluster", "eu-1"),
    ];
    body["alerts"][0]["labels"] =
        labels.into_iter().collect::<BTreeMap<_, _>>().into_iter().collect::<serde_json::Value>();
    body["alerts"][0]["startsAt"] = json!(at(606).to_string());
    run(async {
        let store = Store::open(&dir.path().join(STORE_FILE)).await.unwrap();
        let plan = AdmissionPlan {
            selection: None,
            sinks: Vec::new(),
            filtered: Vec::new(),
            grace: Duration::ZERO,
            storm: CALM,
        };
        let group = AlertGroup::from_webhook(&serde_json::to_vec(&body).unwrap()).unwrap();
        let (within, reopen) = (Duration::from_secs(60), Duration::from_secs(600));
        let rules = AdmissionRules { duplicate_within: within, reopen_within: reopen };
        let admitted = store.admit(&[(group, plan)], at(607), &rules).await.unwrap().remove(0).unwrap();
        let incident = admitted.incident;
        let (who, named, cause) = ("U0ANN".to_owned(), "traffic-surge".to_owned(), "traffic-surge".to_owned());
        let feedback = Feedback { incident, who, at: at(620), is_right: true, named, cause, comment: String::new() };
        store.give_feedback(&feedback).await.unwrap();
        store.close().await;
    });
    let config = dir.path().join("config.yaml");
    std::fs::write(&config, format!("state_dir: {}\n", dir.path().display())).unwrap();
    let backtest = backtest(&["--config", config.to_str().unwrap(), "--feedback"]);
    let known: Vec<_> = backtest.firings.iter().filter_map(|f| Some((f.rule.as_str(), f.truth.as_deref()?))).collect();
    assert_eq!(known, [("LLMQueueBuildup", "traffic-surge")]);
    assert_eq!(backtest.accuracy[0].precision, Some(1.0), "{:?}", backtest.accuracy);
}

/// Waits until the state file has so many finished parts.
fn wait_for_parts(state: &Path, parts: usize, child: &mut Child) {
    let until = Instant::now() + 3 * SOON;
    loop {
        let lines = std::fs::read_to_string(state).unwrap_or_default().lines().count();
        if lines > parts {
            return;
        }
        assert!(child.try_wait().unwrap().is_none(), "it ended before it was interrupted");
        assert!(Instant::now() < until, "{lines} lines");
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn a_killed_run_goes_on_where_it_was_and_ends_with_the_same_result() {
    let dir = tempfile::tempdir().unwrap();
    let state = dir.path().join("state");
    // The pause lets the kill come before the end.
    let slow = ["--state", state.to_str().unwrap(), "--concurrency", "1", "--pause", "500ms"];
    let mut child = command(&slow).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    wait_for_parts(&state, 2, &mut child);
    child.kill().unwrap();
    child.wait().unwrap();
    let kept = std::fs::read_to_string(&state).unwrap();
    let resumed = backtest(&slow[..2]);
    assert!(resumed.load.resumed >= 2, "{:?}", resumed.load);
    assert!(!state.exists(), "a complete run leaves no state");
    let kept =
        kept.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok()?.get_mut("firing").map(Value::take));
    for firing in kept.map(|firing| serde_json::from_value::<DiagnosedFiring>(firing).unwrap()) {
        let own: Vec<_> = resumed.firings.iter().filter(|own| own.id == firing.id).cloned().collect();
        assert_same(&own, &[firing]);
    }
    assert_same(&resumed.firings, &whole().firings);
    assert_eq!((&resumed.rules, &resumed.unalerted), (&whole().rules, &whole().unalerted));
    assert_eq!(resumed.alerted_times, whole().alerted_times);
    let rungs = |backtest: &Backtest| backtest.ladders.iter().map(|ladder| ladder.rungs.clone()).collect::<Vec<_>>();
    assert_eq!(rungs(&resumed), rungs(whole()));
}

#[test]
fn ctrl_c_leaves_what_is_done() {
    let dir = tempfile::tempdir().unwrap();
    let page = dir.path().join("backtest.html");
    let arguments = ["--html", page.to_str().unwrap(), "--concurrency", "1", "--pause", "1s", "--output", "json"];
    let mut child = command(&arguments).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let state = dir.path().join("backtest.html.state");
    wait_for_parts(&state, 1, &mut child);
    assert!(Command::new("kill").args(["-INT", &child.id().to_string()]).status().unwrap().success());
    let output = child.wait_with_output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(said.contains("the same command continues from there"), "{said}");
    let partial = read(&output);
    assert_eq!(partial.stopped.as_deref(), Some("it was interrupted"));
    assert!((1..7).contains(&partial.firings.len()), "{:#?}", partial.firings);
    assert!(state.exists() && std::fs::read_to_string(&page).unwrap().contains("it was interrupted"));
}

#[test]
fn the_page_is_one_file_with_pictures_in_which_labels_are_text() {
    let dir = tempfile::tempdir().unwrap();
    let page = dir.path().join("backtest.html");
    let backtest = backtest(&["--html", page.to_str().unwrap()]);
    assert!(backtest.firings.iter().any(|firing| firing.labels.values().any(|value| value == HOSTILE)));
    let html = std::fs::read_to_string(&page).unwrap();
    assert!(html.contains("<svg") && html.contains("Content-Security-Policy"), "{}", html.len());
    assert!(!html.contains("<script") && !html.contains("<img") && !html.contains(" src="), "{html}");
    assert!(!html.contains("href=\"http") && !html.contains("href=\"/"), "a file has no server: {html}");
    for part in [
        "ChatFeelsSlow",
        "noise: 3 of 3",
        "VolumeAlmostFull",
        "not judged",
        "high TTFT: first tokens come late",
        "2023-11-15 04:06:00 UTC",
    ] {
        assert!(html.contains(part), "{part} in {html}");
    }
    assert!(html.len() < 400_000, "{}", html.len());
}

#[test]
fn a_hostile_name_of_an_alert_stays_text_everywhere() {
    let dir = tempfile::tempdir().unwrap();
    let [file, page] = ["firings.jsonl", "page.html"].map(|name| dir.path().join(name));
    let alert = json!({
        "status": "resolved", "startsAt": at(300).to_string(), "endsAt": at(310).to_string(),
        "labels": { "alertname": format!("{HOSTILE}\u{1b}[31m\u{202e}"), "namespace": "llm", "api_token": "sk-1234567890abcdefghij" },
    });
    std::fs::write(&file, format!("{alert}\n")).unwrap();
    let arguments = ["--firings", file.to_str().unwrap(), "--html", page.to_str().unwrap()];
    let output = command(&arguments).output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    let text = String::from_utf8(output.stdout).unwrap();
    let html = std::fs::read_to_string(&page).unwrap();
    let json =
        String::from_utf8(command(&[arguments[0], arguments[1], "--output", "json"]).output().unwrap().stdout).unwrap();
    assert!(json.contains("<script>") && !json.contains("sk-1234567890"), "{json}");
    assert!(text.contains("<script>") && html.contains("&lt;script&gt;"), "{text}");
    for (said, what) in [(&text, "text"), (&html, "page")] {
        assert!(!said.contains(['\u{1b}', '\u{202e}']) && !said.contains("sk-1234567890"), "{what}: {said}");
    }
    assert!(!html.contains("<script") && !html.contains("<img"), "{html}");
}

#[test]
fn a_maximum_of_firings_or_queries_is_kept_and_told() {
    let few = backtest(&["--max-firings", "3"]);
    let mut rules: Vec<_> = few.firings.iter().map(|firing| firing.rule.as_str()).collect();
    rules.sort_unstable();
    assert_eq!(rules, ["ChatFeelsSlow", "LLMHighTTFT", "LLMQueueBuildup"], "one of each rule first");
    assert_eq!(few.left_out.over_maximum.iter().map(|count| count.firings).sum::<usize>(), 4);
    assert!(few.limits.iter().any(|limit| limit.starts_with("4 firings beyond the maximum")), "{:?}", few.limits);
    let cheap = backtest(&["--max-queries", "60", "--concurrency", "1"]);
    assert!(cheap.stopped.as_deref().unwrap().contains("its 60 queries are used up"), "{:?}", cheap.stopped);
    assert!(!cheap.firings.is_empty(), "what has begun is finished");
    assert!(cheap.load.queries < whole().load.queries / 2, "{:?}", cheap.load);
}

#[test]
fn an_unreachable_prometheus_and_wrong_use_have_their_own_status() {
    let run = |arguments: &[&str]| {
        let mut child = Command::new(BINARY);
        child.arg("backtest").args(arguments).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = child.spawn().unwrap();
        let mut said = String::new();
        child.stderr.take().unwrap().read_to_string(&mut said).unwrap();
        (child.wait().unwrap().code(), said)
    };
    let (status, said) = run(&["--prometheus", "http://127.0.0.1:1"]);
    assert!(status == Some(3) && said.contains("127.0.0.1:1"), "{status:?} {said}");
    let (status, said) = run(&["--firings", "/nowhere.jsonl"]);
    assert!(status == Some(2) && said.contains("/nowhere.jsonl"), "{status:?} {said}");
    let (status, said) = run(&["--feedback"]);
    assert!(status == Some(2) && said.contains("--config"), "{status:?} {said}");
}
