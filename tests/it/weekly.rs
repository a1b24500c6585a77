//! The weekly summary in Slack and at the command line: it is there once, whatever breaks, and says nothing false.

use std::path::Path;
use std::time::Duration;

use knowledge::clock;
use knowledge::incident::WEEK;
use llm_diagnose_lab::slack::{Channel, Failure, FakeSlack, Message, Options, State};
use llm_diagnose_lab::stack::Service;
use report::weekly::WeeklySummary;
use serde_json::Value;
use sqlx::AnyPool;
use store::{STORE_FILE, SummaryPeriod, SummaryPost};

use crate::running::{BINARY, CHANNEL, NOWHERE, SOON, command, ended, group, tls, whole, without_authentication};

/// A lease of a killed process ends with the next start.
const LATE: Duration = Duration::from_secs(60);

struct Site {
    service: Service,
    slack: FakeSlack,
    database: AnyPool,
}

impl Site {
    /// A service with weekly summaries, whose store is reached beside it.
    async fn start(options: Options) -> Self {
        tls();
        let slack = FakeSlack::start(options).await.unwrap();
        let config = format!(
            "listen: 127.0.0.1:$PORT\nstate_dir: $DIR/state\npublic_url: https://triage.example\n{NOWHERE}\n\
             slack: {{ api_url: \"{}\", channel: \"{CHANNEL}\", weekly: {{ timezone: Asia/Seoul }}, act: {{ users: [U0BEN] }} }}\n",
            slack.base_url
        );
        let service = Service::builder(Path::new(BINARY))
            .args(["serve", "--config", "$CONFIG"])
            .env("SLACK_BOT_TOKEN", &slack.token)
            .env("SLACK_APP_TOKEN", "xapp-lab")
            .env("LLM_DIAGNOSE_FAILPOINTS", "$DIR/failpoints")
            .config(&without_authentication(&config))
            .start()
            .await
            .unwrap();
        std::fs::create_dir(service.directory().join("failpoints")).unwrap();
        sqlx::any::install_default_drivers();
        let database = format!("sqlite:{}", service.directory().join("state").join(STORE_FILE).display());
        Self { service, slack, database: AnyPool::connect(&database).await.unwrap() }
    }

    async fn send(&self, name: &str, status: &str) {
        let url = format!("{}/webhook/alertmanager", self.service.url);
        let body = group(name, status, "critical", &["a"]);
        reqwest::Client::new().post(url).json(&body).send().await.unwrap().error_for_status().unwrap();
    }

    /// Makes the summary of the week that ends now due, as housekeeping does at its moment.
    async fn is_due(&self) -> SummaryPost {
        let until = clock::now();
        let weekly = SummaryPost::new(SummaryPeriod::Week, CHANNEL, [clock::before(until, WEEK), until]);
        let insert = "INSERT INTO weeklies (id, channel, since_ms, until_ms, state, due_ms) VALUES ($1, $2, $3, $4, 'pending', $4)";
        let insert = sqlx::query(insert).bind(&weekly.id).bind(CHANNEL);
        let insert = insert.bind(clock::unix_ms(weekly.since)).bind(clock::unix_ms(until));
        insert.execute(&self.database).await.unwrap();
        weekly
    }

    async fn until(&self, met: impl FnMut(&State) -> bool) {
        let seen = self.slack.wait_for(met, LATE).await;
        seen.unwrap_or_else(|error| panic!("{error}\n{}", self.service.stderr()));
    }

    /// Waits until the row of a summary is in this state; its note.
    async fn ends(&self, weekly: &SummaryPost, state: &str) -> Option<String> {
        let row = async || {
            let row = sqlx::query_as("SELECT state, note FROM weeklies WHERE id = $1").bind(&weekly.id);
            row.fetch_one(&self.database).await.unwrap()
        };
        let seen = async {
            loop {
                let (now, note): (String, Option<String>) = row().await;
                if now == state {
                    return note;
                }
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
        };
        let seen = tokio::time::timeout(LATE, seen).await;
        seen.unwrap_or_else(|_| panic!("it is not {state}: {}", self.service.stderr()))
    }
}

fn summaries(state: &State) -> Vec<&Message> {
    state.messages(CHANNEL).filter(|message| whole(message).contains("Week in")).collect()
}

#[tokio::test]
async fn a_summary_stands_once_with_a_link_in_each_line_also_when_slacks_answer_is_lost() {
    let site = Site::start(Options::unlimited()).await;
    site.send("LLMHighTTFT", "firing").await;
    site.send("LLMHighITL", "firing").await;
    site.until(|s| s.messages(CHANNEL).count() == 2).await;
    site.send("LLMHighITL", "resolved").await;
    // The thread is told too, so that the next post is the summary.
    let told = |s: &State| s.messages(CHANNEL).any(|m| m.thread_ts.is_some());
    site.until(|s| told(s) && s.messages(CHANNEL).any(|m| whole(m).contains("RESOLVED"))).await;
    site.slack.fail_next("chat.postMessage", Failure::Reset, 1);
    let weekly = site.is_due().await;
    site.ends(&weekly, "done").await;
    let told = site.slack.with(|s| summaries(s).into_iter().map(whole).collect::<Vec<_>>());
    let [told] = &told[..] else { panic!("{told:?}\n{}", site.service.stderr()) };
    for said in ["2 incidents (0 the week before), 1 still open", "First message", "Acknowledged: none", "Still open"] {
        assert!(told.contains(said), "{said}: {told}");
    }
    assert!(told.contains("https://triage.example/incidents/"), "{told}");
    assert!(!told.contains("<!"), "it calls nobody: {told}");
    let looks = site.slack.calls().iter().filter(|call| call.method == "conversations.history").count();
    assert!(looks >= 2, "before the first post, and after its answer was lost: {looks}");
}

#[tokio::test]
async fn a_process_that_dies_between_post_and_record_posts_no_second_one() {
    let mut site = Site::start(Options::unlimited()).await;
    std::fs::write(site.service.directory().join("failpoints").join("weekly posted"), "").unwrap();
    let weekly = site.is_due().await;
    site.service.exit(SOON).await.unwrap();
    site.service.restart().await.unwrap();
    site.ends(&weekly, "done").await;
    assert_eq!(site.slack.with(|s| summaries(s).len()), 1, "{}", site.service.stderr());
    // A backup from before the post does not know of it.
    sqlx::query("UPDATE weeklies SET state = 'pending', posted_ts = NULL, posted_to = NULL")
        .execute(&site.database)
        .await
        .unwrap();
    site.ends(&weekly, "done").await;
    assert_eq!(site.slack.with(|s| summaries(s).len()), 1, "{}", site.service.stderr());
    assert!(site.slack.with(|s| whole(summaries(s)[0])).contains("no incident (0 the week before)"));
}

#[tokio::test]
async fn a_channel_that_refuses_it_gets_it_once_the_app_is_invited_and_no_other_one_does() {
    let mut options = Options::unlimited().channel(Channel::new("C0CRIT", "critical"));
    options.channels.iter_mut().for_each(|channel| channel.is_member = format!("#{}", channel.name) != CHANNEL);
    let site = Site::start(options).await;
    let weekly = site.is_due().await;
    site.until(|s| s.messages("D0BEN").any(|m| whole(m).contains("cannot post"))).await;
    site.slack.invite("U0BEN", CHANNEL).await.unwrap();
    site.ends(&weekly, "done").await;
    assert_eq!(site.slack.with(|s| (summaries(s).len(), s.messages("#critical").count())), (1, 0));
    // A day after its week nobody wants it any more.
    let old = site.is_due().await;
    let day = "UPDATE weeklies SET state = 'pending', until_ms = until_ms - 90000000, due_ms = 0 WHERE id = $1";
    sqlx::query(day).bind(&old.id).execute(&site.database).await.unwrap();
    let note = site.ends(&old, "failed").await;
    assert!(note.is_some_and(|note| note.contains("its time has passed")));
}

#[tokio::test]
async fn the_command_line_prints_what_will_be_posted() {
    let site = Site::start(Options::unlimited()).await;
    site.send("LLMHighTTFT", "firing").await;
    site.until(|s| s.messages(CHANNEL).count() == 1).await;
    let config = site.service.directory().join("config.yaml");
    let config = config.to_str().unwrap();
    let run = async |more: &[&str]| ended(command(&[&["weekly", "--config", config], more].concat())).await;
    let text = run(&[]).await;
    let text = String::from_utf8(text.stdout).unwrap();
    assert!(text.contains("Week in #llm-alerts: 1 incident (0 the week before), 1 still open"), "{text}");
    let json = run(&["--channel", CHANNEL, "--output", "json"]).await;
    let value: Value = serde_json::from_slice(&json.stdout).unwrap();
    assert_eq!(value["schema"], "llm-diagnose/weekly/v1");
    let summary: WeeklySummary = serde_json::from_value(value).unwrap();
    assert_eq!((summary.incidents, summary.still_open.len()), (1, 1));
    let other = run(&["--channel", "llm-alerts"]).await;
    assert!(other.status.success());
    let warning = String::from_utf8(other.stderr).unwrap();
    assert!(warning.contains("the configuration sends no incident to llm-alerts"), "{warning}");
    let none =
        ended(command(&["weekly", "--state-dir", site.service.directory().join("state").to_str().unwrap()])).await;
    assert_eq!(none.status.code(), Some(2));
    assert!(String::from_utf8(none.stderr).unwrap().contains("--channel"));
}
