//! Text from outside on its whole way, and storms in which everything breaks.

use std::path::Path;
use std::time::{Duration, Instant};

use llm_diagnose_lab::slack::{Failure, FakeSlack, Message, Options, State};
use llm_diagnose_lab::stack::backfill::{Series, openmetrics};
use llm_diagnose_lab::stack::{Alertmanager, Prometheus, Service};
use serde_json::{Value, json};

use crate::running::{BINARY, CHANNEL, Running, SOON, group, label_options, tls, whole, without_authentication};

const NOWHERE: &str = "prometheus: [{ url: \"http://127.0.0.1:1\" }]";
/// What would call somebody, look like ours, or move what stands around it.
pub(crate) const HOSTILE: &str = "<!channel> <@U0ANN> <!subteam^S0ONCALL> <http://evil.example|ok> *b* _i_ ~s~ `c` :fire: :+1: & \
                       \u{202e}gnp.exe\u{202c} \u{2066}x\u{2069} \u{1b}[31m\u{7}\u{9b}2J 🔥 |x| {% \"'\\ </title><script>alert(1)</script>";

/// What must stand in no text of ours; plain text is no markup.
fn is_harmless((text, is_plain): &(String, bool)) -> bool {
    let turns = ['\u{202e}', '\u{202c}', '\u{2066}', '\u{2069}', '\u{1b}', '\u{7}', '\u{9b}'];
    let calls = ["<!channel", "<!subteam", "<http://evil"];
    // Within code nothing is an emoji; a zero-width space keeps a back-tick from beginning code.
    let bare: String = text.replace("\u{200b}`", "").split('`').step_by(2).collect();
    let emoji = [":fire:", ":+1:"].iter().any(|name| bare.contains(name));
    !text.contains(turns) && (*is_plain || !(emoji || calls.iter().any(|call| text.contains(call))))
}

/// Every text that somebody sees, of a message or a modal, and whether it is plain.
fn texts(value: &Value, out: &mut Vec<(String, bool)>) {
    match value {
        Value::Array(all) => all.iter().for_each(|one| texts(one, out)),
        Value::Object(fields) => {
            for (name, inner) in fields {
                match inner {
                    Value::String(text) if matches!(name.as_str(), "text" | "alt_text" | "title") => {
                        out.push((text.clone(), name != "text" || fields.get("type") == Some(&"plain_text".into())));
                    }
                    _ => texts(inner, out),
                }
            }
        }
        _ => {}
    }
}

fn seen(state: &State) -> Vec<(String, bool)> {
    let mut out = Vec::new();
    for message in state.messages(CHANNEL).filter(|message| message.user.is_none()) {
        out.push((message.content.text.clone(), false));
        message.content.attachments.iter().chain(&message.content.blocks).for_each(|value| texts(value, &mut out));
    }
    state.views().iter().for_each(|view| texts(&view.content, &mut out));
    out
}

fn hostile_group(model: &str) -> Value {
    let mut group = group("LLMHighTTFT", "firing", "critical", &["a", "b"]);
    group["groupKey"] = format!("{{}}:{{x=\"{HOSTILE}\"}}").into();
    group["externalURL"] = "javascript:alert(1)".into();
    for alert in group["alerts"].as_array_mut().unwrap() {
        alert["labels"]["model_name"] = model.into();
        alert["labels"]["team"] = HOSTILE.into();
        alert["labels"]["endless"] = HOSTILE.chars().cycle().take(3_000).collect::<String>().into();
        alert["annotations"] = json!({
            "summary": HOSTILE, "description": HOSTILE.repeat(20), "runbook_url": "javascript:alert(1)",
            "dashboard_url": "https://a.example/|x> <!channel>",
        });
        alert["generatorURL"] = "http://evil.example/?q=<!channel>|x".into();
    }
    group
}

async fn model_in_prometheus(model: &str) -> Prometheus {
    let now = knowledge::clock::now().as_second() / 60 * 60;
    let pool = |model: &str, pod: &str| {
        let labels = [("namespace", "llm"), ("model_name", model), ("pod", pod), ("job", "vllm"), ("instance", pod)];
        let of = |name: &str, value: f64| Series::new(name, &labels).steady(now - 600, now + 60, 15, value);
        vec![of("vllm:num_requests_running", 1.0), of("vllm:num_requests_waiting", 90.0), of("up", 1.0)]
    };
    let other = format!("{model} and another");
    let series = [pool(model, "a"), pool(&other, "b")];
    Prometheus::builder().backfill_text(&openmetrics(series.into_iter().flatten())).unwrap().start().await.unwrap()
}

#[tokio::test]
async fn text_from_outside_calls_nobody_links_nowhere_and_turns_nothing_wherever_it_is_shown() {
    tls();
    let model = HOSTILE.replace('\u{1b}', "").chars().cycle().take(700).collect::<String>();
    let (alertmanager, prometheus) =
        (Alertmanager::builder().start().await.unwrap(), model_in_prometheus(&model).await);
    let slack =
        FakeSlack::start(Options { allowed_mentions: vec!["@U0ANN".into()], ..Options::unlimited() }).await.unwrap();
    let config = format!(
        "listen: 127.0.0.1:$PORT\nstate_dir: $DIR/state\nprometheus: [{{ url: \"{}\" }}]\n\
         slack: {{ api_url: \"{}\", channel: \"{CHANNEL}\", act: {{ groups: [S0ONCALL] }}, commands_per_minute: [600, 600, 600] }}\n\
         alertmanagers: [{{ url: \"{}\" }}]\n",
        prometheus.url, slack.base_url, alertmanager.url
    );
    let secrets = [("SLACK_BOT_TOKEN", slack.token.as_str()), ("SLACK_APP_TOKEN", "xapp-lab")];
    let service = Service::start(
        Path::new(BINARY),
        &["serve", "--config", "$CONFIG"],
        &secrets,
        &without_authentication(&config),
    )
    .await
    .unwrap();
    let http = reqwest::Client::new();
    let url = format!("{}/webhook/alertmanager", service.url);
    http.post(url).json(&hostile_group(&model)).send().await.unwrap().error_for_status().unwrap();
    let with_buttons = |s: &State| s.messages(CHANNEL).any(|m| whole(m).contains("\"silence\""));
    slack.wait_for(with_buttons, SOON).await.unwrap_or_else(|e| panic!("{e}\n{}", service.stderr()));
    let ts = slack.messages(CHANNEL)[0].ts.clone();
    let opened = async |form: &str| {
        let of = |s: &State| s.views().iter().any(|view| view.is_open && view.content["callback_id"] == form);
        slack.wait_for(of, SOON).await.unwrap_or_else(|e| panic!("{form}: {e}\n{}", service.stderr()));
        slack.view("U0ANN").unwrap()
    };
    slack.press("U0ANN", CHANNEL, &ts, "silence").await.unwrap();
    let view = opened("silence").await;
    let labels = label_options(&view.content, &["alertname", "namespace"]);
    let sent = [("labels", labels.as_str()), ("duration", "1h"), ("comment", HOSTILE)];
    let ack = slack.submit("U0ANN", &view.id, &sent).await.unwrap();
    assert_eq!(ack.body, None, "{ack:?}");
    slack.wait_for(|s| s.messages(CHANNEL).any(|m| whole(m).contains("Silenced")), SOON).await.unwrap();
    slack.wait_for(|s| s.messages(CHANNEL).any(|m| whole(m).contains("\"evidence\"")), SOON).await.unwrap();
    slack.press("U0ANN", CHANNEL, &ts, "evidence").await.unwrap();
    opened("evidence").await;
    for text in [
        HOSTILE,
        "health",
        "incidents",
        "silence list",
        "diagnose llm",
        "llm here",
        "nobody's",
        "explain log <!channel>",
    ] {
        let before = slack.with(|s| s.messages(CHANNEL).count());
        slack.command("U0ANN", CHANNEL, text).await.unwrap();
        let answered = slack.wait_for(|s| s.messages(CHANNEL).count() > before, SOON).await;
        assert!(answered.is_ok(), "{text}\n{}", service.stderr());
    }
    for text in [HOSTILE, "why?", "status", "bundle", "again"] {
        let before = slack.with(|s| s.messages(CHANNEL).filter(|m| m.user.is_none()).count());
        slack.mention("U0ANN", CHANNEL, Some(&ts), text).await.unwrap();
        let more = |s: &State| s.messages(CHANNEL).filter(|m| m.user.is_none()).count() > before;
        let answered = slack.wait_for(more, SOON).await;
        assert!(answered.is_ok(), "{text}\n{}", service.stderr());
    }
    for text in slack.with(seen) {
        assert!(is_harmless(&text), "{text:?}");
    }
    assert_eq!(slack.violations(), []);
    let mut pages = String::new();
    for path in ["/incidents", "/api/v1/incidents"] {
        pages.push_str(&http.get(format!("{}{path}", service.url)).send().await.unwrap().text().await.unwrap());
    }
    let id = pages.split("/incidents/").nth(1).unwrap().split('"').next().unwrap().to_owned();
    let page = http.get(format!("{}/incidents/{id}", service.url)).send().await.unwrap().text().await.unwrap();
    assert!(page.contains("&lt;script&gt;") || page.contains("LLMHighTTFT"), "{page}");
    for page in [page, pages.split("{\"").next().unwrap().to_owned()] {
        assert!(!page.contains("<script>") && !page.contains("href=\"javascript:"), "{page}");
        assert!(!page.contains(['\u{202e}', '\u{1b}', '\u{9b}']), "{page:?}");
    }
    slack.command("U0ANN", CHANNEL, "capacity llm").await.unwrap();
    let other = json!({
        "matchers": [{ "name": "x", "value": HOSTILE, "isRegex": false, "isEqual": true }], "createdBy": HOSTILE,
        "comment": HOSTILE, "startsAt": "2026-11-20T00:00:00Z", "endsAt": "2036-11-20T00:00:00Z",
    });
    let silences = format!("{}/api/v2/silences", alertmanager.url);
    http.post(silences).json(&other).send().await.unwrap().error_for_status().unwrap();
    let file = service.directory().join("adverse.yaml");
    let filled = config.replace("$PORT", "0").replace("$DIR", service.directory().to_str().unwrap());
    std::fs::write(&file, filled).unwrap();
    for arguments in [&["audit"][..], &["incidents"], &["silence", "list"], &["doctor"]] {
        let mut run = tokio::process::Command::new(BINARY);
        run.args(arguments).arg("--config").arg(&file).env("SLACK_BOT_TOKEN", "xoxb-lab");
        let output = run.output().await.unwrap();
        let shown = String::from_utf8(output.stdout).unwrap();
        assert!(!shown.is_empty(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
        assert!(!shown.contains(['\u{202e}', '\u{2066}', '\u{1b}', '\u{7}', '\u{9b}']), "{arguments:?}: {shown:?}");
    }
    let log = service.stderr();
    for secret in ["xoxb-lab", "xapp-lab", "evil.example", "gnp.exe", "panicked"] {
        assert!(!log.contains(secret), "{secret}: {log}");
    }
}

/// One of many groups of the same alert.
fn one_of_many(i: usize) -> Value {
    let mut group = group("LLMHighTTFT", "firing", "warning", &[&format!("pod-{i}.")]);
    group["groupKey"] = format!("{{}}:{{alertname=\"LLMHighTTFT\", pod=\"{i}\"}}").into();
    group
}

fn tops(state: &State) -> Vec<&Message> {
    state.messages(CHANNEL).filter(|message| message.thread_ts.is_none()).collect()
}

/// How often each of so many incidents has a message of its own.
fn shown(state: &State, n: usize) -> Vec<usize> {
    let all: Vec<String> = tops(state).into_iter().map(whole).collect();
    (0..n).map(|i| all.iter().filter(|text| text.contains(&format!("pod-{i}."))).count()).collect()
}

/// Kills it at ten moments of a storm: after the given numbers of calls.
async fn killed_ten_times(run: &mut Running, storm: usize) {
    let mut sent = 0;
    for (round, calls) in [1_usize, 2, 4, 5, 9, 12, 13, 19, 23, 31].into_iter().enumerate() {
        while sent < storm * (round + 1) / 10 {
            run.send(&one_of_many(sent)).await;
            sent += 1;
        }
        let far = |s: &State| s.calls().iter().filter(|call| call.method.starts_with("chat.")).count() >= calls;
        // The last ones may have nothing left to say.
        let _ = run.slack.wait_for(far, Duration::from_secs(3)).await;
        run.service.kill9().await.unwrap();
        run.service.restart().await.unwrap();
    }
}

#[tokio::test]
async fn killed_ten_times_in_a_storm_every_incident_has_its_message_and_only_what_was_on_its_way_has_two() {
    let options = Options { latency: Duration::from_millis(30), ..Options::unlimited() };
    let mut run = Running::start_slack(options, ", storm: { incidents: 0 }, posts_burst: 50", NOWHERE).await;
    killed_ten_times(&mut run, 60).await;
    let all = |s: &State| shown(s, 60).iter().all(|n| *n >= 1);
    let ended = run.slack.wait_for(all, Duration::from_secs(60)).await;
    let counts = run.slack.with(|s| shown(s, 60));
    assert!(ended.is_ok(), "{counts:?}\n{}", run.service.stderr());
    // Between Slack's answer and our commit a kill doubles what was on its way, 16 messages at most, and nothing else.
    assert!(counts.iter().all(|n| *n <= 1 + 10) && counts.iter().sum::<usize>() <= 60 + 10 * 16, "{counts:?}");
    assert_eq!(run.slack.violations(), []);
    assert!(!run.service.stderr().contains("panicked"), "{}", run.service.stderr());
}

#[tokio::test]
async fn killed_ten_times_a_storm_still_ends_in_messages_and_digests_that_count_everything() {
    let options = Options { latency: Duration::from_millis(30), ..Options::unlimited() };
    let mut run = Running::start_slack(options, ", posts_burst: 50", NOWHERE).await;
    killed_ten_times(&mut run, 60).await;
    let (_, listed) = run.get("/api/v1/incidents").await;
    assert!(listed.contains("LLMHighTTFT"), "{listed}");
    let counted = |s: &State| {
        let digests = tops(s).into_iter().filter_map(|m| {
            let (_, rest) = m.content.text.split_once("storm of ")?;
            rest.split(' ').next()?.parse::<usize>().ok()
        });
        let own = shown(s, 60).iter().filter(|n| **n >= 1).count();
        digests.max().unwrap_or_default() + own >= 60
    };
    let all = run.slack.wait_for(counted, Duration::from_secs(60)).await;
    assert!(all.is_ok(), "{}\n{}", all.unwrap_err(), run.service.stderr());
    assert_eq!(run.slack.violations(), []);
}

#[tokio::test]
async fn a_stop_in_a_storm_with_open_sockets_and_commands_ends_in_time_and_quietly() {
    tls();
    // Takes connections and never answers.
    let silent = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let slack = FakeSlack::start(Options::default()).await.unwrap();
    let config = format!(
        "listen: 127.0.0.1:$PORT\nstate_dir: $DIR/state\nprometheus: [{{ url: \"http://{}\" }}]\n\
         slack: {{ api_url: \"{}\", channel: \"{CHANNEL}\" }}\n",
        silent.local_addr().unwrap(),
        slack.base_url
    );
    let secrets = [("SLACK_BOT_TOKEN", slack.token.as_str()), ("SLACK_APP_TOKEN", "xapp-lab")];
    let mut service = Service::start(
        Path::new(BINARY),
        &["serve", "--config", "$CONFIG"],
        &secrets,
        &without_authentication(&config),
    )
    .await
    .unwrap();
    slack.wait_for(|s| s.connections() == 2, SOON).await.unwrap();
    let (http, url) = (reqwest::Client::new(), format!("{}/webhook/alertmanager", service.url));
    for i in 0..30 {
        http.post(&url).json(&one_of_many(i)).send().await.unwrap().error_for_status().unwrap();
    }
    slack.fail_next("chat.postMessage", Failure::Hang, 4);
    for text in ["health", "playbook high-ttft", "capacity llm", "doctor"] {
        slack.command("U0ANN", CHANNEL, text).await.unwrap();
    }
    let began = Instant::now();
    let status = service.terminate(Duration::from_secs(12)).await.unwrap();
    let (took, log) = (began.elapsed(), service.stderr());
    assert!(status.success() && took < Duration::from_secs(10), "{status} after {took:?}\n{log}");
    for bad in ["panicked", "xoxb-lab", "xapp-lab", "first tokens are late"] {
        assert!(!log.contains(bad), "{bad}: {log}");
    }
}

#[tokio::test]
async fn a_store_that_takes_nothing_more_is_answered_with_503_and_taken_up_again() {
    let run = Running::start(NOWHERE).await;
    run.send(&one_of_many(0)).await;
    run.wait_for(CHANNEL, |m| m.contains("pod-0.")).await;
    // Another program holds the database, as a backup may.
    let database = run.service.directory().join("state/llm-diagnose.db");
    let options = sqlx::sqlite::SqliteConnectOptions::new().filename(&database);
    let mut holder = sqlx::ConnectOptions::connect(&options).await.unwrap();
    sqlx::Executor::execute(&mut holder, "BEGIN EXCLUSIVE").await.unwrap();
    let (status, _) = run.webhook(serde_json::to_vec(&one_of_many(1)).unwrap()).await;
    assert_eq!(status, 503);
    assert!(!run.service.stderr().contains("panicked"), "{}", run.service.stderr());
    sqlx::Executor::execute(&mut holder, "ROLLBACK").await.unwrap();
    run.send(&one_of_many(1)).await;
    run.wait_for(CHANNEL, |m| m.contains("pod-1.")).await;
}

#[tokio::test]
async fn a_slack_that_answers_html_and_forgets_the_token_gets_the_message_in_the_end() {
    let run = Running::start(NOWHERE).await;
    run.slack.fail_next("chat.postMessage", Failure::Status(200), 1);
    run.slack.fail_next("chat.postMessage", Failure::Error("token_revoked".into()), 1);
    run.slack.fail_next("chat.postMessage", Failure::Status(500), 1);
    run.send(&one_of_many(0)).await;
    run.wait_for(CHANNEL, |m| m.contains("pod-0.")).await;
    let log = run.service.stderr();
    assert!(log.contains("token_revoked") && log.contains("the answer is not Slack's"), "{log}");
    assert!(!log.contains("xoxb-lab") && !log.contains("<html"), "{log}");
    assert_eq!(run.slack.with(|s| tops(s).len()), 1);
}

#[tokio::test]
async fn a_default_channel_that_is_archived_is_said_and_tried_again() {
    let run = Running::start(NOWHERE).await;
    run.slack.fail_next("chat.postMessage", Failure::Error("is_archived".into()), 1);
    run.send(&one_of_many(0)).await;
    let refused = "llm_diagnose_deliveries_total{sink=\"slack\",result=\"refused\"} 1";
    let said = async { while !run.get("/metrics").await.1.contains(refused) {} };
    tokio::time::timeout(SOON, said).await.unwrap_or_else(|_| panic!("{}", run.service.stderr()));
    assert!(run.service.stderr().contains("is_archived"), "{}", run.service.stderr());
    run.wait_for(CHANNEL, |m| m.contains("pod-0.")).await;
}

#[tokio::test]
async fn a_digest_that_a_person_deletes_comes_back_with_the_next_news() {
    let run = Running::start_slack(Options::unlimited(), ", storm: { incidents: 1 }, posts_burst: 50", NOWHERE).await;
    for i in 0..5 {
        run.send(&one_of_many(i)).await;
    }
    let counts = |n: usize| move |s: &State| tops(s).iter().any(|m| m.content.text.contains(&format!("storm of {n} ")));
    run.slack.wait_for(counts(4), SOON).await.unwrap_or_else(|e| panic!("{e}\n{}", run.service.stderr()));
    let is_digest = |m: &&Message| m.content.text.contains("storm of 4 ");
    let ts = run.slack.with(|s| tops(s).into_iter().find(is_digest).unwrap().ts.clone());
    assert!(run.slack.delete(CHANNEL, &ts));
    run.send(&one_of_many(5)).await;
    run.slack.wait_for(counts(5), SOON).await.unwrap_or_else(|e| panic!("{e}\n{}", run.service.stderr()));
    assert_eq!(run.slack.violations(), []);
}
