//! What people want to hear of an incident: nothing below a severity, reminders until somebody acknowledges, nothing more
//! until it gets worse.

use std::path::Path;
use std::time::Duration;

use knowledge::clock;
use llm_diagnose_lab::pager::FakePager;
use llm_diagnose_lab::slack::{Channel, FakeSlack, Message, Options, State};
use llm_diagnose_lab::stack::Service;
use service::config::Config;
use sqlx::AnyPool;
use store::{STORE_FILE, SummaryPeriod, SummaryPost};

use crate::running::{BINARY, CHANNEL, NOWHERE, SOON, choose, group, tls, whole, without_authentication};

const ANN: &str = "U0ANN";
const MENTION: &str = "<@U0ANN>";
/// Housekeeping comes every five seconds, a lease of it later.
const LATE: Duration = Duration::from_secs(90);

struct Site {
    service: Service,
    slack: FakeSlack,
    database: AnyPool,
}

impl Site {
    /// A service with these further keys of `slack:`, and others below them.
    async fn start(keys: &str, others: &str) -> Self {
        tls();
        let wanted = Options { allowed_mentions: vec!["@U0ANN".into()], ..Options::unlimited() };
        let slack = FakeSlack::start(wanted.channel(Channel::new("C0PAGES", "llm-pages"))).await.unwrap();
        let config = format!(
            "listen: 127.0.0.1:$PORT\nstate_dir: $DIR/state\n{NOWHERE}\n\
             slack: {{ api_url: \"{}\", channel: \"{CHANNEL}\", mention: {ANN}, act: {{ users: [{ANN}] }}, {keys} }}\n{others}\n",
            slack.base_url
        );
        let secrets = [("SLACK_BOT_TOKEN", slack.token.as_str()), ("SLACK_APP_TOKEN", "xapp-lab")];
        let config = without_authentication(&config);
        let service = Service::start(Path::new(BINARY), &["serve", "--config", "$CONFIG"], &secrets, &config);
        let service = service.await.unwrap();
        slack.wait_for(|state| state.connections() == 2, SOON).await.unwrap();
        sqlx::any::install_default_drivers();
        let database = format!("sqlite:{}", service.directory().join("state").join(STORE_FILE).display());
        Self { service, slack, database: AnyPool::connect(&database).await.unwrap() }
    }

    async fn send(&self, severity: &str, status: &str, pods: &[&str]) {
        self.send_of("LLMHighTTFT", severity, status, pods).await;
    }

    async fn send_of(&self, name: &str, severity: &str, status: &str, pods: &[&str]) {
        self.send_body(&group(name, status, severity, pods)).await;
    }

    async fn send_body(&self, body: &serde_json::Value) {
        let url = format!("{}/webhook/alertmanager", self.service.url);
        reqwest::Client::new().post(url).json(body).send().await.unwrap().error_for_status().unwrap();
    }

    async fn until(&self, met: impl FnMut(&State) -> bool) {
        let seen = self.slack.wait_for(met, LATE).await;
        seen.unwrap_or_else(|error| panic!("{error}\n{}", self.service.stderr()));
    }

    /// Sets the start of the critical period back.
    async fn is_critical_since(&self, ago: Duration) {
        let since = clock::unix_ms(clock::before(clock::now(), ago));
        sqlx::query("UPDATE incidents SET critical_ms = $1").bind(since).execute(&self.database).await.unwrap();
    }

    fn message(&self) -> Message {
        self.slack.with(|state| state.messages(CHANNEL).find(|m| m.thread_ts.is_none()).cloned()).unwrap()
    }

    /// Waits until a message of the channel says this.
    async fn says(&self, part: &str) {
        self.until(|state| state.messages(CHANNEL).any(|m| m.thread_ts.is_none() && whole(m).contains(part))).await;
    }
}

fn reminders(state: &State) -> Vec<String> {
    let all = state.messages(CHANNEL).filter(|m| m.thread_ts.is_some()).map(whole);
    all.filter(|text| text.contains("Nobody has acknowledged")).collect()
}

fn reminded_of(state: &State, ts: &str) -> usize {
    let thread = state.messages(CHANNEL).filter(|m| m.thread_ts.as_deref() == Some(ts));
    thread.filter(|m| whole(m).contains("Nobody has acknowledged")).count()
}

#[tokio::test]
async fn a_critical_incident_is_reminded_of_until_somebody_acknowledges_it() {
    let site = Site::start("remind: { after: 1m, times: 2 }", "").await;
    site.send("critical", "firing", &["a"]).await;
    site.says("llm").await;
    assert!(site.slack.with(|state| reminders(state).is_empty()));
    site.is_critical_since(Duration::from_secs(16 * 60)).await;
    site.until(|state| reminders(state).len() == 1).await;
    let told = site.slack.with(reminders);
    assert!(told[0].contains(MENTION) && told[0].contains("for 16 min"), "{told:?}");
    // The next one comes after the same time again.
    let was_reminded = async || {
        let earlier = clock::unix_ms(clock::before(clock::now(), Duration::from_secs(600)));
        let update = sqlx::query("UPDATE attention SET reminded_ms = $1").bind(earlier);
        update.execute(&site.database).await.unwrap();
    };
    was_reminded().await;
    site.until(|state| reminders(state).len() == 2).await;
    // No more than two come: the round that reminds of another incident leaves this one out.
    was_reminded().await;
    site.send_of("LLMHighITL", "critical", "firing", &["a"]).await;
    site.says("LLMHighITL").await;
    let second = "UPDATE incidents SET critical_ms = critical_ms - 300000 WHERE group_key LIKE '%LLMHighITL%'";
    sqlx::query(second).execute(&site.database).await.unwrap();
    site.until(|state| reminders(state).len() == 3).await;
    // Nor of an acknowledged one, until it becomes critical anew.
    site.slack.press(ANN, CHANNEL, &site.message().ts, "acknowledge").await.unwrap();
    site.says("Acknowledged by").await;
    was_reminded().await;
    site.until(|state| reminders(state).len() == 4).await;
    let first = site.message().ts;
    assert_eq!(site.slack.with(|state| reminded_of(state, &first)), 2, "{}", site.service.stderr());
    assert_eq!(site.slack.violations(), []);
}

#[tokio::test]
async fn a_snoozed_incident_is_quiet_until_it_gets_worse_and_then_calls_again() {
    let site = Site::start("remind: { after: 1m }", "").await;
    site.send("critical", "firing", &["a"]).await;
    site.says("llm").await;
    choose(&site.slack, ANN, &site.message(), "snooze").await;
    site.says("Snoozed until it gets worse by").await;
    site.says("End snooze").await;
    let snoozed = site.message();
    site.send_of("LLMHighITL", "critical", "firing", &["a"]).await;
    site.says("LLMHighITL").await;
    // The round that reminds of the other one leaves this one out.
    site.is_critical_since(Duration::from_secs(3_600)).await;
    site.until(|state| reminders(state).len() == 1).await;
    let about_it =
        |state: &State| state.messages(CHANNEL).filter(|m| m.thread_ts.as_ref() == Some(&snoozed.ts)).count();
    assert_eq!(site.slack.with(about_it), 0);
    site.send("critical", "firing", &["a", "b"]).await;
    let called = |state: &State| {
        let mut thread = state.messages(CHANNEL).filter(|m| m.thread_ts.as_ref() == Some(&snoozed.ts));
        thread.any(|m| whole(m).contains(MENTION))
    };
    site.until(called).await;
}

#[tokio::test]
async fn in_a_maintenance_window_nobody_is_called_until_it_ends() {
    let receiver = FakePager::start("0123456789abcdef0123456789abcdef", "whsec_c2VjcmV0").await.unwrap();
    let key = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(key.path(), "0123456789abcdef0123456789abcdef").unwrap();
    let pager = format!(
        "pagers: [{{ name: on-call, kind: pagerduty, labels: {{ severity: critical }}, url: \"{}\", key_file: {} }}]",
        receiver.events_url,
        key.path().display()
    );
    let site = Site::start("", &pager).await;
    let say = async |line: &str, part: &str| {
        site.slack.command(ANN, CHANNEL, line).await.unwrap();
        site.until(|state| state.messages(CHANNEL).any(|m| m.only_for.is_some() && whole(m).contains(part))).await;
    };
    say("maintenance", "No maintenance window lasts").await;
    say("maintenance llm 2h", "Write their labels").await;
    say("maintenance namespace=llm 9d", "at most 7 days").await;
    // The message hides the address, and the window is found by it all the same.
    say("maintenance owner=anna@example.org 2h because \"new drivers\"", "mention nobody and call no pager").await;
    let mut body = group("LLMHighTTFT", "firing", "critical", &["a"]);
    body["alerts"][0]["labels"]["owner"] = "anna@example.org".into();
    site.send_body(&body).await;
    site.says("no pager is called: new drivers").await;
    assert!(site.slack.with(|state| state.messages(CHANNEL).all(|m| !whole(m).contains(MENTION))));
    let id: String = sqlx::query_scalar("SELECT id FROM maintenance").fetch_one(&site.database).await.unwrap();
    say("maintenance list", &format!("`{}`: new drivers", &id[id.len() - 4..])).await;
    assert_eq!(receiver.events().len(), 0);
    say(&format!("maintenance end {}", &id[id.len() - 4..]), "The window has ended").await;
    site.until(|state| state.messages(CHANNEL).any(|m| m.thread_ts.is_some() && whole(m).contains(MENTION))).await;
    // A further event of one alert calls nobody.
    let called = receiver.wait_for(|pager| !pager.events().is_empty(), LATE).await;
    called.unwrap_or_else(|error| panic!("{error}\n{}", site.service.stderr()));
    say("maintenance end XXXX", "No current window made by a person").await;
    let log = site.service.stderr();
    assert!(!log.contains("too far in the future"), "a window is no wrong clock: {log}");
}

#[tokio::test]
async fn an_alert_below_the_channels_severity_gets_its_message_once_it_is_severe_enough() {
    let keys = "least_severity: { \"#llm-alerts\": critical }, daily: { at: \"00:00\" }";
    let site = Site::start(keys, "").await;
    let until = clock::after(clock::now(), Duration::from_secs(60));
    site.send("warning", "firing", &["a"]).await;
    let states = async || -> Vec<String> {
        sqlx::query_scalar("SELECT state FROM deliveries").fetch_all(&site.database).await.unwrap()
    };
    assert_eq!(states().await, ["filtered"]);
    // The day's summary has it.
    let daily =
        SummaryPost::new(SummaryPeriod::Day, CHANNEL, [clock::before(until, Duration::from_secs(86_400)), until]);
    let insert = sqlx::query(
        "INSERT INTO weeklies (id, channel, since_ms, until_ms, state, due_ms, period) VALUES ($1, $2, $3, $4, 'pending', $3, 'day')",
    );
    let insert =
        insert.bind(&daily.id).bind(CHANNEL).bind(clock::unix_ms(daily.since)).bind(clock::unix_ms(daily.until));
    insert.execute(&site.database).await.unwrap();
    site.says("1 incident below the severity of this channel, 1 still open").await;
    assert_eq!(site.slack.with(|state| state.messages(CHANNEL).count()), 1, "the summary alone");
    site.send("critical", "firing", &["a", "b"]).await;
    site.says("CRITICAL").await;
    assert!(site.slack.with(|state| state.messages(CHANNEL).any(|m| whole(m).contains(MENTION))));
    assert_eq!(site.slack.violations(), []);
}

#[test]
fn a_configuration_that_would_hide_incidents_is_refused() {
    let file = tempfile::NamedTempFile::new().unwrap();
    let least = "least_severity: { \"#a\": critical }";
    for (keys, why) in [
        (format!("slack: {{ channel: \"#a\", {least} }}"), Some("needs `slack.daily`")),
        (format!("slack: {{ channel: \"#b\", {least}, daily: {{}} }}"), Some("`#a` gets no incidents")),
        (format!("slack: {{ channel: \"#a\", {least}, daily: {{ timezone: Mars/Base }} }}"), Some("IANA name")),
        (format!("slack: {{ channel: \"#a\", {least}, daily: {{}} }}"), None),
        ("slack: { channel: \"#a\", remind: { after: 10s } }".to_owned(), Some("at least 1m")),
        ("maintenance: [{ labels: {}, at: \"01:00\", lasts: 1h }]".to_owned(), Some("needs labels")),
        ("maintenance: [{ labels: { a: b }, at: \"01:00\", lasts: 1h }]".to_owned(), None),
    ] {
        std::fs::write(file.path(), format!("{keys}\n")).unwrap();
        let error = Config::load(file.path()).err().map(|error| format!("{error:#}"));
        assert_eq!(error.is_some(), why.is_some(), "{keys}: {error:?}");
        assert!(why.is_none_or(|why| error.unwrap().contains(why)), "{keys}");
    }
}
