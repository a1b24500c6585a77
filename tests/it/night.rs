//! One whole night: an alert, what an on-call engineer does in Slack, and the end of it; every part is the real one but
//! Slack itself, which is the strict fake over Socket Mode.

mod crash;
mod stage;

use std::io::Cursor;

use llm_diagnose_lab::slack::Press;
use serde_json::Value;

use crate::running::CHANNEL;
use stage::{ANN, BEN, Night, all_of, in_any_order, link, stable};

const CALL: &str = "<!subteam^S0ONCALL> ";
const HEADLINE: &str = "CRITICAL · high TTFT: first tokens come late · llm/meta-llama/Llama-3.1-8B-Instruct · \
                        KV cache is exhausted ← prompts became longer";

/// The incident's message and its thread at the end, without numbers.
const TRANSCRIPT: &str = r##"*RESOLVED after # s · high TTFT: first tokens come late · llm/meta-llama/Llama-3.1-8B-Instruct · KV cache is exhausted ← prompts became longer*
*It was*: TTFT p99 # s
Users look at an empty answer.
Affects all # replicas.
First tokens took # s on average: # s in the queue, # s computing the prompt, # s elsewhere.
*Why*
Right cause, says @U0ANN at # UTC: prompts became longer
← *KV cache is exhausted*, began # UTC, explains # % of this time
← *prompts became longer* — likely, # %, began # UTC
*So that it does not come back*
• Ask the client with the longest prompts what changed in them (retrieved chunks, history, tool output) and agree on a length
• Cap the prompt with `--max-model-len <tokens>` at what the product needs; longer ones then get a # instead of a place in the cache
*How sure this is*
Compared with the minutes before the incident: the pool has no earlier data at the times that were tried.
*Alerts*
# resolved: *LLMHighTTFT*
first tokens come late in llm
~ Acknowledged by @U0ANN at # UTC
~ Silence ended by @U0ANN at # UTC
~ Escalated by @U0ANN at # UTC
~ Run again by @U0ANN at # UTC
[Show evidence] [Right cause] [Wrong cause] [Bundle]
green | ~ # · alert since # UTC · resolved · Incident↗ · Runbook↗ · Dashboard↗ · Prometheus↗
(edited #)
  ↳ [file: High TTFT: first tokens come late ← KV cache is exhausted ← prompts became longer · meta-llama/Llama-3.1-8B-Instruct · llm · # # UTC]
  ↳ *Not yet*: prompt length is # tokens (expected `< # baseline`)
    Step: Find the client that sends the long prompts in the gateway's access log, `kubectl -n <namespace of the gateway> logs deployment/<gateway> --since=15m`, and limit it there by key or address, not all clients; that restarts nothing
    orange | ~ Requested by @U0ANN; checks again after # and # minutes.
  ↳ *Silenced* by @U0ANN until # # UTC: `alertname="LLMHighTTFT" model_name="meta-llama/Llama-3.1-8B-Instruct" namespace="llm" severity="critical"`
    “known”
    ~ It silences # alert now.
    [End silence]
    grey | ~ While the silence lasts, Alertmanager does not report the end of these alerts. The diagnosis continues.
  ↳ @U0ANN ended the silence of `alertname="LLMHighTTFT" model_name="meta-llama/Llama-3.1-8B-Instruct" namespace="llm" severity="critical"`.
  ↳ @S0ONCALL @U0ANN asks you for help: CRITICAL · high TTFT: first tokens come late · llm/meta-llama/Llama-3.1-8B-Instruct · KV cache is exhausted ← prompts became longer
    Escalate to: The team that builds the prompts, with the mean length now and before.
    red | ~ All known facts as a file: `/llm-diagnose bundle #`
  ↳ @ann: @U0LAB why?
  ↳ *Confirmed · high TTFT: first tokens come late · llm/meta-llama/Llama-3.1-8B-Instruct · KV cache is exhausted ← prompts became longer*
  ↳ @ann: @U0LAB bundle
  ↳ [file: Bundle of incident #]
  ↳ *The bundle of # is complete: # KiB*
  ↳ *resolved* after # s
"##;

#[tokio::test]
async fn a_night_from_the_alert_to_the_verdict() {
    let night = Night::fall().await;
    night.fire().await;
    alerted(&night).await;
    acted(&night).await;
    silenced(&night).await;
    helped(&night).await;
    asked(&night).await;
    over(&night).await;
    written_down(&night).await;
    night.show("English");
    let incident = link(&all_of(&night.message()), "Incident");
    let incident = incident.path_segments().unwrap().next_back().unwrap();
    let seen = stable(&night.slack.transcript(CHANNEL), incident);
    assert_eq!(seen, in_any_order(TRANSCRIPT), "{seen}");
    assert_eq!(night.slack.violations(), []);
}

/// The message says what, who is hurt, why and what to do, calls the group once, and has the picture below it.
async fn alerted(night: &Night) {
    let message = night.message_with("prompts became longer").await;
    assert_eq!(message.content.text, format!("{CALL}{HEADLINE}"));
    let text = all_of(&message);
    for part in [
        "*Confirmed*: TTFT p99 2",
        "Affects all 4 replicas",
        "*Do now (3 of 6)*",
        "\n1. Find the client that sends the long prompts",
    ] {
        assert!(text.contains(part), "{part}: {text}");
    }
    let buttons = ["Acknowledge", "Run again", "Show evidence", "Silence", "Escalate", "Right cause", "Done"];
    assert!(buttons.iter().all(|label| text.lines().any(|line| line == *label)), "{text}");
    let to = |label: &str| link(&text, label);
    assert_eq!(to("Runbook").as_str(), "https://runbooks.example/high-ttft");
    assert!(to("Incident").as_str().starts_with("https://triage.example/incidents/01"), "{text}");
    assert!(to("Dashboard").as_str().contains("var-namespace=llm&from=17"), "{text}");
    assert!(!text.contains("|Silence>"), "to silence is offered once: {text}");
    let graph = to("Prometheus");
    let asked = |name: &str| graph.query_pairs().find(|(key, _)| key == name).unwrap().1.into_owned();
    let value = night.prometheus.query_now(&asked("g0.expr")).await.unwrap();
    let value: f64 = value[0]["value"][1].as_str().unwrap().parse().unwrap();
    assert!(value > 2.0, "the graph shows the symptom: {value}");
    assert!(asked("g0.range_input").ends_with('m') && asked("g1.end_input").len() == 19, "{graph}");

    night.until(|state| state.files().iter().any(|file| file.channel.is_some())).await;
    let file = night.slack.files().remove(0);
    let mut picture = png::Decoder::new(Cursor::new(file.bytes.as_deref().unwrap())).read_info().unwrap();
    let mut pixels = vec![0; picture.output_buffer_size().unwrap()];
    picture.next_frame(&mut pixels).unwrap();
    assert!(picture.info().width >= 800, "{:?}", picture.info());
    assert!(file.alt.contains("TTFT p99: 2") && file.alt.contains("(threshold 2 s)"), "{}", file.alt);
    let post = night
        .said("High TTFT: first tokens come late ← KV cache is exhausted ← prompts became longer · meta-llama")
        .await;
    assert_eq!((post.thread_ts.as_ref(), post.files.len()), (Some(&message.ts), 1));
}

/// Somebody takes over, looks, tries, and knows better.
async fn acted(night: &Night) {
    night.press(ANN, "acknowledge").await;
    let message = night.message_with("Acknowledged by <@U0ANN> at <!date^").await;
    assert!(!all_of(&message).lines().any(|line| line == "Acknowledge"), "{message:?}");
    let (form, shown) = night.form(BEN, "evidence").await;
    assert!(shown.contains("Evidence 1/") && shown.contains("*Ruled out*"), "{shown}");
    assert!(shown.ends_with("[Close] [Next page]"), "{shown}");
    night.slack.cancel(BEN, &form.id).await.unwrap();
    night.press(ANN, "done:0").await;
    night.message_with("Step done by <@U0ANN>").await;
    night.press(ANN, "verify:0").await;
    let told = all_of(&night.said("*Not yet*: prompt length is 2").await);
    assert!(
        told.contains("k tokens (expected `&lt; 1.2x baseline`")
            && told.contains("Step: Find the client that sends the long prompts")
    );
    let form = night.menu(ANN, "wrong").await;
    let chosen = [("cause", "traffic-surge"), ("comment", "a <!channel> batch job")];
    night.slack.submit(ANN, &form.id, &chosen).await.unwrap();
    night.said("Thank you, noted.").await;
    let text = all_of(&night.message_with("more requests arrive than before").await);
    assert!(text.contains("*Why*\n*Wrong cause*, says <@U0ANN> at <!date^"), "it stands before the cause: {text}");
    assert!(text.contains("it was: more requests arrive than before (“a &lt;!channel&gt; batch job”)"), "{text}");
    assert!(text.contains("Acknowledged by"), "{text}");
}

/// The real Alertmanager is quiet for as long as somebody wants.
async fn silenced(night: &Night) {
    let (form, shown) = night.form(ANN, "silence").await;
    assert!(shown.contains("`alertname=\"LLMHighTTFT\"`") && shown.contains("[1 hour ▾]"), "{shown}");
    night.slack.submit(ANN, &form.id, &[("duration", "1h"), ("comment", "known")]).await.unwrap();
    let told = all_of(&night.said("*Silenced* by <@U0ANN> until ").await);
    assert!(
        told.contains("It silences 1 alert now.") && told.contains("does not report the end of these alerts"),
        "{told}"
    );
    night.message_with("Silenced by <@U0ANN>").await;
    let [silence] = night.silences().await.try_into().unwrap();
    let time = |key: &str| silence[key].as_str().unwrap().parse::<jiff::Timestamp>().unwrap().as_second();
    assert_eq!(time("endsAt") - time("startsAt"), 3_600);
    let names: Vec<&str> = silence["matchers"].as_array().unwrap().iter().filter_map(|m| m["name"].as_str()).collect();
    assert_eq!((names.len(), silence["createdBy"].as_str()), (4, Some("U0ANN in Slack")));
    night.command(ANN, "silence list").await;
    let list = night.said("1 silence").await;
    let id = silence["id"].as_str().unwrap();
    night.slack.press(ANN, CHANNEL, &list.ts, Press::new("expire:0").value(id).confirmed()).await.unwrap();
    night.said("<@U0ANN> ended the silence of `alertname=\"LLMHighTTFT\"").await;
    night.message_with("Silence ended by <@U0ANN>").await;
    assert_eq!(night.silences().await, Vec::<Value>::new());
    night.command(ANN, "silence list").await;
    night.said("Nothing is silenced").await;
}

/// Others are called, by those who may.
async fn helped(night: &Night) {
    let ts = night.message().ts;
    let unsure = night.slack.press(ANN, CHANNEL, &ts, "escalate").await.unwrap_err();
    assert!(unsure.to_string().contains("The configured contact is called now"), "{unsure}");
    night.press(BEN, Press::new("escalate").confirmed()).await;
    let refused = night.said("You can read, but only the people").await;
    assert_eq!(refused.only_for.as_deref(), Some(BEN));
    night.press(ANN, Press::new("escalate").confirmed()).await;
    let call = night.said(&format!("{CALL}<@U0ANN> asks you for help: {HEADLINE}")).await;
    assert!(all_of(&call).contains("Escalate to: ") && all_of(&call).contains("/llm-diagnose bundle "), "{call:?}");
    night.message_with("Escalated by <@U0ANN>").await;
    night.press(ANN, "again").await;
    night.said("It is being diagnosed once more").await;
    let message = night.message_with("Run again by <@U0ANN>").await;
    assert!(all_of(&message).contains("Acknowledged by"), "who took over stays in sight: {message:?}");
    let posts = night.slack.calls().into_iter().filter(|call| call.method == "chat.postMessage");
    let loud = posts.filter(|call| call.args.to_string().contains("subteam")).count();
    assert_eq!(loud, 2, "once by the message, once by the escalation");
}

/// Commands and mentions.
async fn asked(night: &Night) {
    night.command(ANN, "").await;
    let health = night.said("CRITICAL · 1 pool").await;
    assert_eq!(all_of(&health).matches("queued requests").count(), 1, "{health:?}");
    night.slack.press(ANN, CHANNEL, &health.ts, "ask-0").await.unwrap();
    night.said("Confirmed · high TTFT: first tokens come late").await;
    night.command(BEN, "llm").await;
    let answer = night.said("Confirmed · high TTFT: first tokens come late").await;
    assert_eq!(answer.only_for.as_deref(), Some(BEN));
    night.command(ANN, "helth").await;
    let nearly = night.said("Did you mean health?").await;
    night.slack.press(ANN, CHANNEL, &nearly.ts, "ask-0").await.unwrap();
    night.said("CRITICAL · 1 pool").await;
    for (line, says) in [("incidents", "1 incident is open"), ("help", "In an incident's thread"), ("hig", "[llm/meta")]
    {
        night.command(ANN, line).await;
        night.said(says.trim_start_matches('[')).await;
    }
    let thread = night.message().ts;
    night.ask(ANN, "why?").await;
    let why = night.said("*Ruled out*").await;
    night.ask(ANN, "bundle").await;
    let done = night.said("The bundle of ").await;
    assert_eq!([why, done].map(|answer| answer.thread_ts), [Some(thread.clone()), Some(thread)]);
    let files = night.slack.files();
    let bundle = files.iter().find(|file| file.name.ends_with(".zip")).unwrap();
    let summary = crate::bundles::summary(bundle.bytes.as_deref().unwrap());
    assert_eq!((summary["incident"]["open"].as_bool(), summary["alerts"].as_array().unwrap().len()), (Some(true), 1));
    let timeline = summary["timeline"].as_array().unwrap().iter();
    let acts: Vec<&str> = timeline
        .filter(|happened| happened["kind"] == "act" || happened["kind"] == "silence")
        .filter_map(|act| act["what"].as_str()?.split(" (").next())
        .collect();
    assert_eq!(
        acts,
        [
            "somebody took it on",
            "somebody did a step",
            "a fix was checked again",
            "somebody found the cause wrong",
            "somebody silenced it",
            "somebody ended a silence",
            "somebody escalated it",
            "somebody had it diagnosed again"
        ]
    );
}

/// The alert ends: green, how long, what it cost, and what people said it was.
async fn over(night: &Night) {
    night.resolve().await;
    night.message_with("RESOLVED after").await;
    // What it cost is counted once it is over.
    let message = night.message_with("*During the incident* ").await;
    let text = all_of(&message);
    for part in ["*During the incident* ", "*It was*: TTFT p99", "*Wrong cause*, says", "1 resolved: *LLMHighTTFT*"] {
        assert!(text.contains(part), "{part}: {text}");
    }
    let gone = ["Acknowledge", "Silence", "Escalate", "Done", "Verify"];
    assert!(!text.lines().any(|line| gone.contains(&line)), "{text}");
    assert!(night.slack.transcript(CHANNEL).contains("\ngreen | ~ "));
    night.said("*resolved* after").await;
    let exported = tempfile::tempdir().unwrap();
    let dir = exported.path().to_str().unwrap();
    let (_, told) = night.cli(&["feedback", "--export", dir]).await;
    assert!(
        told.contains("wrong: longer-prompts ─▶ traffic-surge  U0ANN") && told.contains("wrote 1 verdict"),
        "{told}"
    );
    let (passed, told) = night.cli(&["test", dir]).await;
    assert!(!passed && told.contains("expected high-ttft ← kv-cache-full ← traffic-surge"), "{told}");
    night.press(ANN, "right").await;
    night.said("Thank you, noted.").await;
    night.message_with("Right cause, says <@U0ANN>").await;
    let (_, told) = night.cli(&["feedback", "--export", dir]).await;
    assert!(told.contains("1 of 1 judgement said right"), "{told}");
    let (passed, told) = night.cli(&["test", dir]).await;
    assert!(passed, "the last word counts: {told}");
}

/// Who did what is in the audit log, and counted.
async fn written_down(night: &Night) {
    let (_, log) = night.cli(&["audit"]).await;
    let done = ["acknowledge", "done", "verify", "wrong", "silence", "expire", "escalate", "again", "bundle", "right"];
    for what in done {
        assert!(
            log.lines().any(|l| l.contains(&format!("done      U0ANN in C0LLMALERTS: {what} 01"))),
            "{what}: {log}"
        );
    }
    assert!(log.contains("refused   U0BEN in C0LLMALERTS: escalate 01"), "{log}");
    assert_eq!(log.lines().count(), done.len() + 1, "{log}");
    let metrics = night.metrics().await;
    for what in done {
        let series = format!("llm_diagnose_acts_total{{kind=\"{what}\",result=\"done\"}} 1");
        assert!(metrics.contains(&series), "{series}: {metrics}");
    }
    let commands = "llm_diagnose_slack_inbound_total{kind=\"command\",result=\"done\"} ";
    assert!(
        metrics.contains(commands) && metrics.contains("kind=\"command\",result=\"misunderstood\"} 1"),
        "{metrics}"
    );
}

#[tokio::test]
async fn an_alert_that_comes_and_goes_is_said_once_and_does_not_fill_the_thread() {
    let night = Night::fall().await;
    night.fire().await;
    night.message_with("prompts became longer").await;
    for round in 0..4 {
        night.resolve().await;
        night.message_with("RESOLVED after").await;
        night.fire_again().await;
        let message = night.message_with(HEADLINE).await;
        assert_eq!(all_of(&message).contains("*Flapping*: it came back"), round > 0, "{round}: {message:?}");
    }
    night.resolve().await;
    let text = all_of(&night.message_with("RESOLVED after").await);
    assert!(text.contains("it came back 4 times") && text.contains("1 resolved: *LLMHighTTFT*"), "{text}");
    night.said("*fires again*, 2 times by now: it flaps").await;
    let thread = night.slack.messages(CHANNEL).into_iter().filter(|m| m.thread_ts.is_some() && m.files.is_empty());
    assert_eq!(thread.count(), 5, "resolved, again, a call, resolved, flaps: {}", night.slack.transcript(CHANNEL));
    let posted = night.slack.calls().into_iter().filter(|call| call.method == "chat.postMessage");
    assert_eq!(
        posted.filter(|call| call.args.to_string().contains("subteam")).count(),
        2,
        "at first, and when it first came back"
    );
    assert_eq!(night.slack.violations(), []);
}
