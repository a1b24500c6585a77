//! Acts on an incident's page: the real service over HTTP, with the authority and the audit of chat.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use axum::Router;
use axum::http::StatusCode;
use axum::routing::{get, post};
use llm_diagnose_lab::slack::Options;
use llm_diagnose_lab::stack::Alertmanager;
use reqwest::header::HeaderMap;
use serde_json::{Value, json};
use sqlx::{AssertSqlSafe, ConnectOptions, Executor};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;

use crate::pages::Browser;
use crate::running::{CHANNEL, NOWHERE, Running, command, group, whole};

/// Pages behind a proxy on this machine, which tells who somebody is; `keys` are more keys of `pages:`.
fn behind_proxy(keys: &str) -> String {
    format!("{NOWHERE}\npages: {{ proxy_header: X-Forwarded-User, proxy_from: [127.0.0.1], {keys} }}")
}

/// A visitor with a browser's habits: no redirects are followed, so that each answer is seen.
struct Visitor<'a> {
    run: &'a Running,
    name: &'a str,
    http: reqwest::Client,
}

impl<'a> Visitor<'a> {
    fn new(run: &'a Running, name: &'a str) -> Self {
        let http = reqwest::Client::builder().redirect(reqwest::redirect::Policy::none()).build().unwrap();
        Self { run, name, http }
    }

    async fn page(&self, path: &str) -> (u16, String) {
        let request = self.http.get(format!("{}{path}", self.run.service.url)).header("X-Forwarded-User", self.name);
        let answer = request.send().await.unwrap();
        (answer.status().as_u16(), answer.text().await.unwrap())
    }

    /// The hidden fields of the first form of a page.
    async fn sealed(&self, path: &str) -> Vec<(String, String)> {
        let (status, page) = self.page(path).await;
        assert_eq!(status, 200, "{page}");
        ["token", "once"].map(|name| (name.to_owned(), hidden(&page, name))).to_vec()
    }

    /// Sends a form; status, where it leads, and the page.
    async fn send(&self, path: &str, fields: &[(String, String)], headers: &[(&str, &str)]) -> (u16, String, String) {
        let body = url::form_urlencoded::Serializer::new(String::new()).extend_pairs(fields).finish();
        let mut request = self.http.post(format!("{}{path}", self.run.service.url));
        request = request.header("X-Forwarded-User", self.name);
        request = request.header("content-type", "application/x-www-form-urlencoded").body(body);
        let answer = headers.iter().fold(request, |request, (name, value)| request.header(*name, *value));
        let answer = answer.send().await.unwrap();
        let to = |headers: &HeaderMap| headers.get("location").map(|to| to.to_str().unwrap().to_owned());
        let (status, location) = (answer.status().as_u16(), to(answer.headers()).unwrap_or_default());
        (status, location, answer.text().await.unwrap())
    }
}

/// Where an answer leads, without the proof of who did it.
fn led(to: &str) -> String {
    to.split('.').next().unwrap().to_owned()
}

pub(crate) fn hidden(page: &str, name: &str) -> String {
    let start = format!("name=\"{name}\" value=\"");
    let (_, rest) = page.split_once(&start).unwrap_or_else(|| panic!("no {name}: {page}"));
    rest.split('"').next().unwrap().to_owned()
}

fn with(fields: &[(String, String)], more: &[(&str, &str)]) -> Vec<(String, String)> {
    fields.iter().cloned().chain(more.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned()))).collect()
}

/// The audit log, oldest first: action, person and result.
pub(crate) async fn audit(run: &Running) -> Vec<String> {
    let config = run.service.directory().join("config.yaml");
    let output = command(&["audit", "--output", "json", "--config"]).arg(config).output().await.unwrap();
    let entries: Value = serde_json::from_slice(&output.stdout)
        .unwrap_or_else(|error| panic!("{error}: {}", String::from_utf8_lossy(&output.stderr)));
    let mut entries: Vec<Value> = entries.as_array().unwrap().clone();
    entries.sort_by_key(|entry| entry["id"].as_str().unwrap().to_owned());
    let told = |entry: &Value| ["what", "who", "place", "result"].map(|key| entry[key].as_str().unwrap().to_owned());
    entries.iter().map(|entry| told(entry).join(" ")).collect()
}

pub(crate) async fn incident(run: &Running) -> String {
    run.send(&group("LLMHighTTFT", "firing", "critical", &["a", "b"])).await["incident"].as_str().unwrap().to_owned()
}

#[tokio::test]
async fn people_take_over_and_note_on_the_page_and_slack_sees_who() {
    let run = Running::start(&behind_proxy("")).await;
    let id = incident(&run).await;
    run.wait_for(CHANNEL, |m| m.contains("LLMHighTTFT") || m.contains("first tokens")).await;
    let anna = Visitor::new(&run, "anna");
    let (page, acts) = (format!("/incidents/{id}"), format!("/incidents/{id}/acts"));
    let (_, before) = anna.page(&page).await;
    assert!(before.contains(&format!("action=\"{acts}/acknowledge\"")), "{before}");
    assert!(!before.contains(&format!("{acts}/bundle")) && before.contains("nobody yet"), "{before}");

    let seal = anna.sealed(&page).await;
    let (status, to, _) = anna.send(&format!("{acts}/acknowledge"), &seal, &[]).await;
    assert_eq!((status, led(&to)), (303, format!("{page}?did=acknowledge")));
    let (_, forged) = anna.page(&format!("{page}?did=acknowledge")).await;
    assert!(!forged.contains("You are on it now"), "a link is no proof: {forged}");
    let (_, after) = anna.page(to.trim_end_matches("#head")).await;
    assert!(after.contains("You are on it now") && after.contains("anna (page)"), "{after}");
    assert!(!after.contains(&format!("action=\"{acts}/acknowledge\"")), "{after}");
    run.wait_for(CHANNEL, |m| m.contains("Acknowledged by anna (page)")).await;
    let (status, to, _) = anna.send(&format!("{acts}/acknowledge"), &seal, &[]).await;
    assert_eq!((status, led(&to)), (303, format!("{page}?did=acknowledge")), "it is still true");

    let seal = anna.sealed(&format!("{page}/note")).await;
    // The token stands across the longest length of a note: it is cleaned before it is cut.
    let text =
        format!("the router was *restarted* <!channel> {} hf_aB3dE5gH7jK9aB3dE5gH7jK9aB3dE5gH7jK9", "x".repeat(440));
    let text = text.as_str();
    for expected in ["note", "repeated"] {
        let (status, to, _) = anna.send(&format!("{acts}/note"), &with(&seal, &[("text", text)]), &[]).await;
        assert_eq!((status, led(&to)), (303, format!("{page}?did={expected}")));
    }
    run.wait_for(CHANNEL, |m| m.contains("Note of anna (page)") && m.contains("router was")).await;
    let thread = run
        .slack
        .wait_for(
            |s| s.messages(CHANNEL).any(|m| m.thread_ts.is_some() && whole(m).contains("router was")),
            crate::running::SOON,
        )
        .await;
    thread.unwrap();
    assert!(
        run.slack.messages(CHANNEL).iter().all(|m| !whole(m).contains("<!channel>") && !whole(m).contains("aB3dE5"))
    );
    let (_, shown) = anna.page(&page).await;
    assert!(shown.contains("somebody noted") && shown.contains("router was"), "{shown}");
    assert!(!shown.contains("aB3dE5"), "{shown}");
    let (status, _, empty) = anna.send(&format!("{acts}/note"), &with(&seal, &[("text", "  ")]), &[]).await;
    assert!(status == 422 && empty.contains("The note is empty"), "{empty}");

    let (status, ..) = anna.send(&format!("{acts}/again"), &anna.sealed(&page).await, &[]).await;
    assert_eq!(status, 303);
    let acknowledged = ["acknowledge page:anna http done", "acknowledge page:anna http failed"];
    let expected = acknowledged.into_iter().chain(["note page:anna http done", "again page:anna http done"]);
    assert_eq!(audit(&run).await, expected.collect::<Vec<_>>());
    assert_eq!(run.slack.violations(), []);
}

#[tokio::test]
async fn a_note_that_cannot_be_kept_is_told_and_may_be_sent_again() {
    let run = Running::start(&behind_proxy("")).await;
    let id = incident(&run).await;
    let anna = Visitor::new(&run, "anna");
    let (form, act) = (format!("/incidents/{id}/note"), format!("/incidents/{id}/acts/note"));
    let fields = with(&anna.sealed(&form).await, &[("text", "the router was restarted")]);
    let database = run.service.directory().join("state/llm-diagnose.db");
    let mut beside = sqlx::sqlite::SqliteConnectOptions::new().filename(&database).connect().await.unwrap();
    // Its text, and what its thread is told.
    for place in ["INSERT ON audit WHEN NEW.result = 'done'", "INSERT ON posts WHEN NEW.kind = 'answer'"] {
        let full = format!("CREATE TRIGGER full BEFORE {place} BEGIN SELECT RAISE(ABORT, 'no more'); END");
        beside.execute(AssertSqlSafe(full)).await.unwrap();
        let (status, _, said) = anna.send(&act, &fields, &[]).await;
        assert!(status == 503 && said.contains("href=\"/incidents/"), "{place}: {status} {said}");
        beside.execute("DROP TRIGGER full").await.unwrap();
    }
    assert_eq!(audit(&run).await, Vec::<String>::new());
    let (status, to, said) = anna.send(&act, &fields, &[]).await;
    assert_eq!((status, led(&to)), (303, format!("/incidents/{id}?did=note")), "{said}");
    assert!(anna.page(to.trim_end_matches("#head")).await.1.contains("router was restarted"));
    assert_eq!(audit(&run).await, ["note page:anna http done"]);
}

#[tokio::test]
async fn who_may_not_act_on_the_page_is_refused_with_the_reason_and_written_down() {
    let run = Running::start(&behind_proxy("act: [anna]")).await;
    let id = incident(&run).await;
    let (page, acts) = (format!("/incidents/{id}"), format!("/incidents/{id}/acts"));
    let (anna, ben) = (Visitor::new(&run, "anna"), Visitor::new(&run, "ben"));
    let (_, shown) = ben.page(&page).await;
    assert!(!shown.contains("<form") && shown.contains("Only people in <code>pages.act</code>"), "{shown}");
    for path in ["/note", "/silence"] {
        let (status, shown) = ben.page(&format!("{page}{path}")).await;
        assert!(status == 403 && shown.contains(&format!("href=\"{page}\"")), "{path}: {shown}");
    }
    // The token of somebody else is of no use, nor is that of another incident, nor none at all.
    let other = run.send(&group("Other", "firing", "warning", &["a"])).await["incident"].as_str().unwrap().to_owned();
    let seal = anna.sealed(&page).await;
    let foreign = anna.sealed(&format!("/incidents/{other}")).await;
    let own = format!("{acts}/acknowledge");
    for fields in [&foreign, &Vec::new()] {
        let (status, _, said) = anna.send(&own, fields, &[]).await;
        assert!(status == 403 && said.contains("was not made for you"), "{said}");
    }
    let (status, _, said) = ben.send(&own, &seal, &[]).await;
    assert!(status == 403 && said.contains("Only people in"), "{said}");
    let (status, _, said) = ben.send(&own, &seal, &[("Origin", "https://evil.example")]).await;
    assert!(status == 403 && said.contains("another site sent this form"), "another site writes no line: {said}");
    let host = run.service.url.trim_start_matches("http://");
    let here = format!("http://{host}");
    for header in [("Origin", "https://evil.example"), ("Origin", "null"), ("Sec-Fetch-Site", "cross-site")] {
        let (status, _, said) = anna.send(&own, &seal, &[header]).await;
        assert!(status == 403 && said.contains("another site sent this form"), "{header:?}: {said}");
    }
    let (status, ..) = anna.send(&own, &seal, &[("Origin", &here), ("Sec-Fetch-Site", "same-origin")]).await;
    assert_eq!(status, 303);
    for strange in ["nope", "escalate", "evidence"] {
        let (status, _, said) = anna.send(&format!("{acts}/{strange}"), &seal, &[]).await;
        assert!(status == 404 && said.contains("href=\"/incidents\""), "{strange}: {said}");
    }
    let long = with(&seal, &[("text", &"x".repeat(64 << 10))]);
    assert_eq!(anna.send(&format!("{acts}/note"), &long, &[]).await.0, 413);
    let (status, ..) = Visitor::new(&run, "").send(&own, &seal, &[]).await;
    assert_eq!(status, 403, "whom the proxy does not name");
    assert_eq!(audit(&run).await, ["acknowledge page:ben http refused", "acknowledge page:anna http done"]);
}

#[tokio::test]
async fn while_slack_names_who_acts_nobody_acts_on_the_page_until_it_names_them_too() {
    let keys = ", act: { users: [U0ANNA] }";
    let run = Running::start_slack(Options::unlimited(), keys, &behind_proxy("")).await;
    let id = incident(&run).await;
    let page = format!("/incidents/{id}");
    for name in ["anna", "U0ANNA"] {
        let visitor = Visitor::new(&run, name);
        let (_, shown) = visitor.page(&page).await;
        assert!(!shown.contains("<form") && shown.contains("Only people in <code>pages.act</code>"), "{shown}");
        for act in ["acknowledge", "again", "note", "silence", "bundle"] {
            let (status, _, said) = visitor.send(&format!("{page}/acts/{act}"), &[], &[]).await;
            assert!(status == 403 && said.contains("Only people in"), "{name} {act}: {said}");
        }
    }
    let written = audit(&run).await;
    assert_eq!(written.iter().filter(|line| line.ends_with(" refused")).count(), 10, "{written:?}");
    assert_eq!(written.len(), 10, "{written:?}");
    let run = Running::start_slack(Options::unlimited(), keys, &behind_proxy("act: [anna]")).await;
    let id = incident(&run).await;
    let (anna, page) = (Visitor::new(&run, "anna"), format!("/incidents/{id}"));
    let (status, ..) = anna.send(&format!("{page}/acts/acknowledge"), &anna.sealed(&page).await, &[]).await;
    assert_eq!(status, 303);
}

#[tokio::test]
async fn who_sends_too_many_forms_is_asked_to_wait_and_others_are_not() {
    let keys = ", commands_per_minute: [2, 60, 240]";
    let run = Running::start_slack(Options::unlimited(), keys, &behind_proxy("")).await;
    let id = incident(&run).await;
    let (note, act) = (format!("/incidents/{id}/note"), format!("/incidents/{id}/acts/note"));
    let (anna, ben) = (Visitor::new(&run, "anna"), Visitor::new(&run, "ben"));
    for expected in [303, 303, 429] {
        let fields = with(&anna.sealed(&note).await, &[("text", "again and again")]);
        let (status, _, said) = anna.send(&act, &fields, &[]).await;
        assert_eq!(status, expected, "{said}");
        assert!(status == 303 || said.contains("Try again in a minute") && said.contains("Back to the incident"));
    }
    let (status, ..) = ben.send(&act, &with(&ben.sealed(&note).await, &[("text", "once")]), &[]).await;
    assert_eq!(status, 303);
    let notes = ["note page:anna http done", "note page:anna http done", "note page:ben http done"];
    assert_eq!(audit(&run).await, notes);
}

#[tokio::test]
async fn a_silence_that_failed_may_be_sent_again_and_is_made_also_when_the_browser_goes_away() {
    // It refuses the first silence with a text that has a secret, and answers the second when it is let.
    let (asked, answers) = (Arc::new(Semaphore::new(0)), Arc::new(Semaphore::new(0)));
    let (told, gate) = (asked.clone(), answers.clone());
    let create = move || {
        let (told, gate) = (told.clone(), gate.clone());
        async move {
            told.add_permits(1);
            match gate.acquire().await {
                Ok(permit) => {
                    permit.forget();
                    (StatusCode::BAD_REQUEST, "bad matcher api_key=\"tulip-ocean-42\"".to_owned())
                }
                Err(_) => (StatusCode::OK, json!({ "silenceID": "5e5f9d42-1cf3-4a35-b5cd-0a3c2d3bb8a7" }).to_string()),
            }
        }
    };
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let fake = Router::new().route("/api/v2/alerts", get(|| async { "[]" })).route("/api/v2/silences", post(create));
    let fake = tokio::spawn(async move { axum::serve(listener, fake).await });

    let run = Running::start(&format!("{}\nalertmanagers: [{{ url: \"{url}\" }}]", behind_proxy("act: [anna]"))).await;
    let mut group = group("LLMHighTTFT", "firing", "critical", &["a"]);
    group["alerts"][0]["labels"]["api_key"] = json!("tulip-ocean-42");
    let id = run.send(&group).await["incident"].as_str().unwrap().to_owned();
    let anna = Visitor::new(&run, "anna");
    let (form, act) = (format!("/incidents/{id}/silence"), format!("/incidents/{id}/acts/silence"));
    let (_, shown) = anna.page(&form).await;
    let mut values = shown.split("value=\"").skip(1).map(|rest| rest.split('"').next().unwrap());
    let label = values.find(|value| value.starts_with("alertname ")).unwrap();
    let fields = with(&anna.sealed(&form).await, &[("label", label), ("duration", "1h")]);

    answers.add_permits(1);
    let (status, _, said) = anna.send(&act, &fields, &[]).await;
    assert!(status == 502 && said.contains("Nothing was silenced") && !said.contains("tulip-ocean"), "{status} {said}");
    asked.acquire().await.unwrap().forget();

    let host = run.service.url.trim_start_matches("http://");
    let body = url::form_urlencoded::Serializer::new(String::new()).extend_pairs(&fields).finish();
    let head =
        format!("POST {act} HTTP/1.1\r\nHost: {host}\r\nX-Forwarded-User: anna\r\nContent-Length: {}", body.len());
    let mut browser = TcpStream::connect(host).await.unwrap();
    browser.write_all(format!("{head}\r\n\r\n{body}").as_bytes()).await.unwrap();
    asked.acquire().await.unwrap().forget();
    drop(browser);
    assert_eq!(run.get("/healthz").await.0, 200);
    answers.close();
    run.wait_for(CHANNEL, |m| m.contains("Silenced") && m.contains("anna (page)")).await;
    let in_thread = |m: &llm_diagnose_lab::slack::Message| m.thread_ts.is_some() && whole(m).contains("anna (page)");
    run.slack.wait_for(|s| s.messages(CHANNEL).any(in_thread), crate::running::SOON).await.unwrap();
    assert_eq!(audit(&run).await, ["silence page:anna http failed", "silence page:anna http done"]);
    fake.abort();
}

#[tokio::test]
async fn pages_without_credentials_act_for_nobody_until_the_configuration_says_so() {
    let run = Running::start(&format!("{NOWHERE}\npages: {{ authentication: none }}")).await;
    let id = incident(&run).await;
    let anybody = Visitor::new(&run, "");
    let page = format!("/incidents/{id}");
    let (_, shown) = anybody.page(&page).await;
    assert!(!shown.contains("<form") && shown.contains("pages.act: [anybody]"), "{shown}");

    let run = Running::start(&format!("{NOWHERE}\npages: {{ authentication: none, act: [anybody] }}")).await;
    let id = incident(&run).await;
    let anybody = Visitor::new(&run, "");
    let page = format!("/incidents/{id}");
    let (status, to, _) = anybody.send(&format!("{page}/acts/bundle"), &anybody.sealed(&page).await, &[]).await;
    assert_eq!((status, led(&to)), (303, format!("{page}?did=bundle")));
    run.wait_for_metric("llm_diagnose_acts_total{kind=\"bundle\",result=\"done\"}", 1.0).await;
    assert_eq!(audit(&run).await, ["bundle page:anybody http done"]);
    let (_, shown) = anybody.page(&page).await;
    assert!(shown.contains("href=\"/bundles/llm-diagnose-"), "{shown}");
}

#[tokio::test]
async fn a_silence_from_the_page_shows_its_labels_first_and_asks_again_if_it_takes_more() {
    let alertmanager = Alertmanager::builder().start().await.unwrap();
    let labels = |name: &str, pod: &str| json!({ "labels": { "alertname": name, "namespace": "llm", "severity": "critical", "pod": pod } });
    let alerts = [labels("LLMHighTTFT", "a"), labels("LLMHighTTFT", "b"), labels("Other", "a")];
    alertmanager.post_alerts(&alerts).await.unwrap();
    let extra = behind_proxy("act: [anna]");
    let run = Running::start(&format!("{extra}\nalertmanagers: [{{ url: \"{}\" }}]", alertmanager.url)).await;
    let id = incident(&run).await;
    let anna = Visitor::new(&run, "anna");
    let (form, act) = (format!("/incidents/{id}/silence"), format!("/incidents/{id}/acts/silence"));
    let (_, shown) = anna.page(&form).await;
    let label = |name: &str| {
        let values = shown.split("value=\"").skip(1).map(|rest| rest.split('"').next().unwrap().to_owned());
        values.into_iter().find(|value| value.starts_with(&format!("{name} "))).unwrap()
    };
    let (name, namespace) = (label("alertname"), label("namespace"));
    assert!(shown.contains("alertname=&quot;LLMHighTTFT&quot;"), "{shown}");
    let seal = anna.sealed(&form).await;
    for wrong in [
        &[("duration", "1h")][..],
        &[("label", &name), ("custom", "soon")],
        &[("label", "alertname 00000000"), ("duration", "1h")],
    ] {
        let (status, _, said) = anna.send(&act, &with(&seal, wrong), &[]).await;
        assert!(status == 422 && said.contains("role=\"alert\""), "{wrong:?}: {said}");
    }
    // Everything of the namespace: one more alert.
    let wide = [("label", namespace.as_str()), ("duration", "4h"), ("comment", "<b>known</b>")];
    let (status, _, asks) = anna.send(&act, &with(&seal, &wide), &[]).await;
    assert!(status == 200 && asks.contains("name=\"confirm\"") && asks.contains("&lt;b&gt;known"), "{asks}");
    assert_eq!(alertmanager.silences().await.unwrap().as_array().unwrap().len(), 0);

    // A token across the longest comment: it is cleaned before it is cut.
    let comment = format!("known {} hf_aB3dE5gH7jK9aB3dE5gH7jK9aB3dE5gH7jK9", "seen ".repeat(196));
    let own = with(&seal, &[("label", &name), ("duration", "1h"), ("custom", "90m"), ("comment", &comment)]);
    for expected in ["silence", "repeated"] {
        let (status, to, said) = anna.send(&act, &own, &[]).await;
        assert_eq!((status, led(&to)), (303, format!("/incidents/{id}?did={expected}")), "{said}");
    }
    let silences = alertmanager.silences().await.unwrap();
    assert_eq!(silences.as_array().unwrap().len(), 1, "{silences}");
    assert_eq!(silences[0]["createdBy"], "anna on the page of llm-diagnose");
    assert!(silences[0]["comment"].as_str().unwrap().contains(&id), "{silences}");
    run.wait_for(CHANNEL, |m| m.contains("Silenced") && m.contains("anna (page)")).await;
    run.slack
        .wait_for(|s| s.messages(CHANNEL).any(|m| whole(m).contains("“known seen")), crate::running::SOON)
        .await
        .unwrap();
    let shown: String = run.slack.messages(CHANNEL).iter().map(whole).collect();
    assert!(!shown.contains("hf_aB3dE5") && !silences.to_string().contains("hf_aB3dE5"), "{shown}");
    assert_eq!(audit(&run).await, ["silence page:anna http done"]);
}

/// An Alertmanager without alerts that closes the connection once it has been asked for a silence.
async fn silent_alertmanager(asked: Arc<AtomicUsize>) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            let mut head = [0; 4];
            if stream.read_exact(&mut head).await.is_err() {
                continue;
            }
            match &head {
                b"POST" => {
                    asked.fetch_add(1, Ordering::SeqCst);
                }
                _ => {
                    let answer = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 2\r\nConnection: close\r\n\r\n[]";
                    stream.write_all(answer).await.unwrap();
                    // Read to the end: closed before, it would take the answer back.
                    let _ = stream.read_to_end(&mut Vec::new()).await;
                }
            }
        }
    });
    url
}

#[tokio::test]
async fn a_silence_of_which_nobody_knows_whether_it_is_there_is_asked_of_no_peer_and_counts_as_sent() {
    let asked = Arc::new(AtomicUsize::new(0));
    let (first, second) = (silent_alertmanager(asked.clone()).await, silent_alertmanager(asked.clone()).await);
    let both = format!("alertmanagers: [{{ url: \"{first}\" }}, {{ url: \"{second}\" }}]");
    let run = Running::start(&format!("{}\n{both}", behind_proxy("act: [anna]"))).await;
    let id = incident(&run).await;
    let anna = Visitor::new(&run, "anna");
    let (form, act) = (format!("/incidents/{id}/silence"), format!("/incidents/{id}/acts/silence"));
    let (_, shown) = anna.page(&form).await;
    let mut values = shown.split("value=\"").skip(1).map(|rest| rest.split('"').next().unwrap());
    let label = values.find(|value| value.starts_with("alertname ")).unwrap();
    let fields = with(&anna.sealed(&form).await, &[("label", label), ("duration", "1h")]);
    let (status, _, said) = anna.send(&act, &fields, &[]).await;
    assert!(status == 504 && said.contains("It is not known whether Alertmanager created"), "{status} {said}");
    assert!(said.contains("Back to the incident") && !said.contains("Nothing was"), "{said}");
    let (status, to, _) = anna.send(&act, &fields, &[]).await;
    assert_eq!((status, led(&to)), (303, format!("/incidents/{id}?did=repeated")));
    assert_eq!(asked.load(Ordering::SeqCst), 1);
    assert_eq!(audit(&run).await, ["silence page:anna http begun"]);
}

#[tokio::test]
async fn without_a_script_a_browser_takes_over_writes_a_note_and_comes_back() {
    let run = Running::start(&behind_proxy("")).await;
    let id = incident(&run).await;
    let mut browser = Browser::start().await;
    browser.call("Network.setExtraHTTPHeaders", json!({ "headers": { "X-Forwarded-User": "anna" } })).await;
    browser.call("Emulation.setScriptExecutionDisabled", json!({ "value": true })).await;
    let page = format!("{}/incidents/{id}", run.service.url);
    browser.open(&page).await;
    browser.value("document.querySelector('form[action$=acknowledge] button').click()").await;
    browser.wait_for("document.querySelector('.done')?.textContent.includes('You are on it')").await;
    browser.value("document.querySelector('a.button[href$=note]').click()").await;
    browser.wait_for("document.querySelector('textarea') !== null").await;
    browser.value("document.querySelector('textarea').value = 'seen at three'").await;
    browser.value("document.querySelector('form button').click()").await;
    browser.wait_for("document.querySelector('.done')?.textContent.includes('Your note')").await;
    assert_eq!(browser.value("location.pathname").await, json!(format!("/incidents/{id}")));
    assert_eq!(browser.complaints, Vec::<String>::new());
}
