//! Many incidents at once: all of them are seen, in time, inside Slack's rates.

use std::time::Duration;

use llm_diagnose_lab::slack::{Message, Options, Outcome, Rate, State};
use serde_json::Value;

use crate::running::{CHANNEL, Running, group, whole};

const NOWHERE: &str = "prometheus: [{ url: \"http://127.0.0.1:1\" }]";
/// Never a digest.
const APART: &str = ", storm: { incidents: 0 }";
/// Maximum posts of one channel that are under way or being prepared at a time.
const UNDER_WAY: usize = 3;
/// In green, as the attachments carry it.
const GREEN: &str = "#2f9e6e";

/// One of many groups of the same alert.
fn one_of_many(i: usize, status: &str, severity: &str) -> Value {
    let mut group = group("LLMHighTTFT", status, severity, &[&format!("pod-{i}")]);
    group["groupKey"] = format!("{{}}:{{alertname=\"LLMHighTTFT\", pod=\"{i}\"}}").into();
    group
}

fn tops(state: &State) -> Vec<&Message> {
    state.messages(CHANNEL).filter(|message| message.thread_ts.is_none()).collect()
}

fn refused(run: &Running) -> usize {
    run.slack.calls().iter().filter(|call| matches!(call.outcome, Outcome::RateLimited(_))).count()
}

fn digest(state: &State) -> Option<&Message> {
    tops(state).into_iter().find(|message| message.content.text.contains("storm of"))
}

#[tokio::test]
async fn forty_five_incidents_at_once_are_all_seen_and_the_critical_ones_first() {
    let run = Running::start_slack(Options::default(), APART, NOWHERE).await;
    for i in 0..40 {
        run.send(&one_of_many(i, "firing", "warning")).await;
    }
    for i in 40..45 {
        run.send(&one_of_many(i, "firing", "critical")).await;
    }
    let before = run.slack.with(|s| tops(s).len());
    let all = run.slack.wait_for(|s| tops(s).len() == 45, Duration::from_secs(180)).await;
    let seen = run.slack.with(|s| tops(s).len());
    assert!(all.is_ok(), "{seen} of 45\n{}", run.service.stderr());
    assert!(refused(&run) <= 3, "{} calls answered 429", refused(&run));
    let places: Vec<usize> = run.slack.with(|s| {
        let texts = tops(s).into_iter().enumerate().filter(|(_, m)| m.content.text.starts_with("CRITICAL"));
        texts.map(|(place, _)| place).collect()
    });
    assert_eq!(places.len(), 5);
    // Posts that were under way when the critical ones came may be before them, and those that were taken up while theirs
    // were prepared; nothing else that waited is.
    assert!(places.iter().all(|place| *place < before + 2 * UNDER_WAY + 5), "{places:?} with {before} before");
    assert_eq!(run.slack.violations(), []);
}

#[tokio::test]
async fn a_storm_becomes_one_digest_that_counts_everything_and_turns_green() {
    let run = Running::start_slack(Options::default(), "", NOWHERE).await;
    for i in 0..100 {
        run.send(&one_of_many(i, "firing", "warning")).await;
    }
    let collapsed =
        |s: &State| tops(s).len() == 21 && digest(s).is_some_and(|m| m.content.text.contains("80 incidents"));
    let all = run.slack.wait_for(collapsed, Duration::from_secs(60)).await;
    assert!(all.is_ok(), "{}\n{}", all.unwrap_err(), run.service.stderr());
    let shown = run.slack.with(|s| whole(digest(s).unwrap()));
    assert!(shown.contains("80 firing"), "{shown}");
    let (_, metrics) = run.get("/metrics").await;
    assert!(metrics.contains("deliveries_total{sink=\"slack\",result=\"digested\"} 80"), "{metrics}");
    for i in 0..100 {
        run.send(&one_of_many(i, "resolved", "warning")).await;
    }
    let over = |s: &State| tops(s).iter().all(|message| whole(message).contains(GREEN));
    let all = run.slack.wait_for(over, Duration::from_secs(90)).await;
    assert!(all.is_ok(), "{}\n{}", all.unwrap_err(), run.service.stderr());
    assert_eq!(run.slack.with(|s| tops(s).len()), 21);
    assert_eq!((refused(&run), run.slack.violations()), (0, vec![]));
}

#[tokio::test]
async fn topics_have_digests_of_their_own_and_from_the_sixth_on_share_one() {
    let run = Running::start_slack(Options::unlimited(), ", storm: { incidents: 1 }, posts_burst: 50", NOWHERE).await;
    for i in 0..10 {
        run.send(&group(&format!("Odd{i}"), "firing", "warning", &["a"])).await;
    }
    // The first incident, five digests of one topic each, and that of the others.
    let various = "storm of 4 incidents · various symptoms";
    let shared = |s: &State| tops(s).len() == 7 && tops(s).iter().any(|m| m.content.text.contains(various));
    let all = run.slack.wait_for(shared, Duration::from_secs(30)).await;
    assert!(all.is_ok(), "{}\n{}", all.unwrap_err(), run.service.stderr());
    let alone = run.slack.with(|s| tops(s).iter().filter(|m| m.content.text.starts_with("WARNING · Odd")).count());
    assert_eq!(alone, 6, "a digest of one incident is that incident's message");
}

#[tokio::test]
async fn the_thread_of_a_digest_of_one_incident_is_told_what_changes() {
    let run = Running::start_slack(Options::unlimited(), ", storm: { incidents: 1 }, posts_burst: 50", NOWHERE).await;
    run.send(&group("First", "firing", "warning", &["a"])).await;
    run.send(&group("Second", "firing", "warning", &["a"])).await;
    let both = |s: &State| tops(s).len() == 2;
    let seen = run.slack.wait_for(both, Duration::from_secs(30)).await;
    assert!(seen.is_ok(), "{}\n{}", seen.unwrap_err(), run.service.stderr());
    let told = async |part: &str| {
        let in_thread = |s: &State| s.messages(CHANNEL).any(|m| m.thread_ts.is_some() && whole(m).contains(part));
        let seen = run.slack.wait_for(in_thread, Duration::from_secs(30)).await;
        assert!(seen.is_ok(), "{part}: {}\n{}", seen.unwrap_err(), run.service.stderr());
    };
    run.send(&group("Second", "firing", "warning", &["a", "b"])).await;
    told("+1 alert").await;
    run.send(&group("Second", "resolved", "warning", &["a", "b"])).await;
    told("*resolved*").await;
    let threads = run.slack.with(|s| s.messages(CHANNEL).filter(|m| m.thread_ts.is_some()).count());
    assert_eq!((threads, run.slack.violations()), (2, vec![]));
}

#[tokio::test]
async fn a_full_queue_goes_into_a_digest_even_where_storms_do_not() {
    let keys = ", storm: { incidents: 0 }, queue: 5, posts_burst: 1";
    let run = Running::start_slack(Options::unlimited(), keys, NOWHERE).await;
    for i in 0..30 {
        run.send(&one_of_many(i, "firing", "warning")).await;
    }
    let counted = |s: &State| {
        let digest = digest(s).and_then(|m| m.content.text.split(' ').find_map(|word| word.parse::<usize>().ok()));
        digest.is_some_and(|count| count >= 20 && count + tops(s).len() - 1 == 30)
    };
    let all = run.slack.wait_for(counted, Duration::from_secs(40)).await;
    assert!(all.is_ok(), "{}\n{}", all.unwrap_err(), run.service.stderr());
}

#[tokio::test]
async fn a_restart_in_the_middle_of_a_storm_loses_and_doubles_nothing() {
    let mut run = Running::start_slack(Options::default(), "", NOWHERE).await;
    for i in 0..60 {
        run.send(&one_of_many(i, "firing", "warning")).await;
    }
    run.slack.wait_for(|s| tops(s).len() >= 8, Duration::from_secs(30)).await.unwrap();
    run.service.terminate(Duration::from_secs(10)).await.unwrap();
    run.service.restart().await.unwrap();
    for i in 60..70 {
        run.send(&one_of_many(i, "firing", "warning")).await;
    }
    let collapsed =
        |s: &State| tops(s).len() == 21 && digest(s).is_some_and(|m| m.content.text.contains("50 incidents"));
    let all = run.slack.wait_for(collapsed, Duration::from_secs(60)).await;
    assert!(all.is_ok(), "{}\n{}", all.unwrap_err(), run.service.stderr());
    let posts = run.slack.with(|s| s.count("chat.postMessage"));
    assert_eq!(posts, 21, "every message was posted once");
}

#[tokio::test]
async fn in_a_flood_of_edits_the_last_states_come_first() {
    // Slack's rate and ours are four times as fast as real ones.
    let update_rate = Some(Rate::Window { calls: 50, per: Duration::from_secs(15) });
    let options = Options { post_rate: None, update_rate, ..Options::default() };
    let keys = ", storm: { incidents: 0 }, posts_burst: 50, updates_per_minute: 180";
    let run = Running::start_slack(options, keys, "").await;
    let send = async |i: usize, status: &str, pods: &[&str]| {
        run.send(&group(&format!("Odd{i}"), status, "warning", pods)).await;
    };
    for i in 0..40 {
        send(i, "firing", &["a"]).await;
    }
    run.slack.wait_for(|s| tops(s).len() == 40, Duration::from_secs(30)).await.unwrap();
    for i in 0..40 {
        send(i, "firing", &["a", "b"]).await;
    }
    for i in 25..40 {
        send(i, "resolved", &["a", "b"]).await;
    }
    let is_last = |m: &Message| whole(m).contains("2 firing") || whole(m).contains(GREEN);
    // How many others still wait when the last of them is there.
    let mut waiting = 0;
    let green = |s: &State| {
        waiting = tops(s).iter().filter(|m| !is_last(m)).count();
        tops(s).iter().filter(|m| whole(m).contains(GREEN)).count() == 15
    };
    let all = run.slack.wait_for(green, Duration::from_secs(40)).await;
    assert!(all.is_ok(), "{}\n{}", all.unwrap_err(), run.service.stderr());
    assert!(waiting >= 5, "{waiting}");
    // And the others are not forgotten.
    let every = |s: &State| tops(s).iter().all(|m| is_last(m));
    let all = run.slack.wait_for(every, Duration::from_secs(40)).await;
    assert!(all.is_ok(), "{}\n{}", all.unwrap_err(), run.service.stderr());
    assert_eq!(refused(&run), 0);
}

#[tokio::test]
async fn a_digest_hides_what_a_rule_of_the_site_names_and_numbers_users_over_all_lines() {
    let own = tempfile::tempdir().unwrap();
    let rule = "schema: 1\nrules:\n  - id: place\n    title: a namespace\n    keys: [namespace]\n    \
                key_examples: [namespace]\n";
    std::fs::write(own.path().join("redaction.yaml"), rule).unwrap();
    let extra = format!("{NOWHERE}\nplaybooks: {{ dir: {} }}", own.path().display());
    let run = Running::start_slack(Options::unlimited(), ", storm: { incidents: 1 }, posts_burst: 50", &extra).await;
    for (i, user) in ["ann", "jane", "john", "jane"].iter().enumerate() {
        let mut one = one_of_many(i, "firing", "warning");
        one["alerts"][0]["labels"]["namespace"] = "production".into();
        one["alerts"][0]["labels"]["model"] = format!("m user_id={user}").into();
        run.send(&one).await;
    }
    let shown = |s: &State| {
        digest(s).map(whole).is_some_and(|text| {
            text.contains("storm of 3 incidents")
                && text.contains("[redacted: place]/m user_id=[redacted: user-1] — 2 firing")
                && text.contains("[redacted: place]/m user_id=[redacted: user-2] — 1 firing")
        })
    };
    let seen = run.slack.wait_for(shown, Duration::from_secs(30)).await;
    let text = run.slack.with(|s| digest(s).map(whole)).unwrap_or_default();
    assert!(seen.is_ok(), "{text}\n{}", run.service.stderr());
    assert!(!["production", "jane", "john"].iter().any(|secret| text.contains(secret)), "{text}");
}
