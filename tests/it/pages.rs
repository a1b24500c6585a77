//! The pages as people open them: what they say, whom they let in, and how they behave in a real browser.

mod accessible;
mod browser;
mod full;

use knowledge::clock;
use llm_diagnose_lab::stack::Prometheus;
use llm_diagnose_lab::stack::backfill::{Series, openmetrics};
use serde_json::{Value, json};
use service::config::Config;

use crate::harness::{fixture, run};
use crate::running::{CHANNEL, Running, group};
pub(crate) use browser::Browser;
use full::Full;

const NOWHERE: &str = "prometheus: [{ url: \"http://127.0.0.1:1\" }]";
const HOSTILE: &str = "<script>alert(1)</script>\u{202e}\"'><img src=x onerror=alert(2)>";

async fn incident(run: &Running, name: &str, severity: &str, pods: &[&str]) -> String {
    run.send(&group(name, "firing", severity, pods)).await["incident"].as_str().unwrap().to_owned()
}

/// Every header of an answer's policy, and the page.
async fn page(run: &Running, path: &str) -> (u16, reqwest::header::HeaderMap, String) {
    let answer = run.http.get(format!("{}{path}", run.service.url)).send().await.unwrap();
    (answer.status().as_u16(), answer.headers().clone(), answer.text().await.unwrap())
}

#[tokio::test]
async fn every_page_says_what_browsers_may_do_with_it_and_is_small() {
    let run = Running::start(NOWHERE).await;
    let id = incident(&run, "LLMHighTTFT", "critical", &["a", "b"]).await;
    let paths = ["/incidents", "/playbooks", "/health", "/nowhere", "/incidents/nope"].map(str::to_owned);
    let own = [
        format!("/incidents/{id}"),
        format!("/playbooks/high-ttft?incident={id}"),
        "/playbooks/hot-replica".to_owned(),
    ];
    for path in paths.into_iter().chain(own) {
        let (status, headers, text) = page(&run, &path).await;
        let expected = if path == "/nowhere" || path.ends_with("nope") { 404 } else { 200 };
        assert_eq!(status, expected, "{path}");
        let policy = headers["content-security-policy"].to_str().unwrap();
        assert!(policy.starts_with("default-src 'none'") && !policy.contains("unsafe"), "{path}: {policy}");
        assert!(policy.contains("form-action 'self'") && policy.contains("frame-ancestors 'none'"), "{policy}");
        assert_eq!(headers["cache-control"], "no-store", "{path}");
        assert_eq!(headers["x-content-type-options"], "nosniff", "{path}");
        assert_eq!(headers["referrer-policy"], "same-origin", "{path}");
        assert!(text.len() < 150_000, "{path} has {} bytes", text.len());
        assert_eq!(text.matches("<h1").count(), 1, "{path}");
        assert!(!text.contains(" style=") && !text.contains(" onclick="), "{path}");
        let head = run.http.head(format!("{}{path}", run.service.url)).send().await.unwrap();
        assert_eq!(head.status().as_u16(), expected, "HEAD {path}");
    }
}

#[tokio::test]
async fn whoever_has_the_page_already_is_told_so_until_it_says_something_else() {
    let run = Running::start(NOWHERE).await;
    incident(&run, "Strange", "warning", &["a"]).await;
    // The diagnosis is stored: only the alert's end, and each full hour of its duration, changes the page.
    run.wait_for(CHANNEL, |m| m.contains("Cannot tell")).await;
    let (_, headers, _) = page(&run, "/incidents?q=strange").await;
    let tag = headers["etag"].to_str().unwrap().to_owned();
    let again = async || {
        let request = run.http.get(format!("{}/incidents?q=strange", run.service.url));
        request.header("If-None-Match", &tag).send().await.unwrap().status().as_u16()
    };
    assert_eq!(again().await, 304);
    run.send(&group("Strange", "resolved", "warning", &["a"])).await;
    assert_eq!(again().await, 200);
}

#[tokio::test]
async fn incidents_are_found_by_text_label_cause_and_state() {
    let run = Running::start(NOWHERE).await;
    let late = incident(&run, "LLMHighTTFT", "critical", &["pod-late"]).await;
    let strange = incident(&run, "Strange", "warning", &[HOSTILE]).await;
    run.send(&group("Strange", "resolved", "warning", &[HOSTILE])).await;
    run.wait_for(CHANNEL, |m| m.contains("Cannot tell")).await;
    for (query, found, not) in [
        ("q=pod-late", &late, &strange),
        ("label=pod%3Dpod-late,namespace%3Dllm", &late, &strange),
        ("cause=high-ttft", &late, &strange),
        ("state=open", &late, &strange),
        ("state=resolved", &strange, &late),
        ("q=onerror&state=resolved", &strange, &late),
    ] {
        let (status, _, text) = page(&run, &format!("/incidents?{query}")).await;
        let link = |id: &str| format!("href=\"/incidents/{id}\"");
        assert_eq!(status, 200, "{query}");
        assert!(text.contains(&link(found)) && !text.contains(&link(not)), "{query}: {text}");
    }
    let (_, _, text) = page(&run, "/incidents?q=%3Cscript%3Ealert(1)%3C%2Fscript%3E%22").await;
    assert!(!text.contains("<script>") && text.contains("value=\"&lt;script&gt;"), "{text}");
}

#[tokio::test]
async fn pages_ask_for_their_own_credentials_or_the_webhooks() {
    let secret = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(secret.path(), "s3cret").unwrap();
    let file = secret.path().display();
    let extra = format!(
        "{NOWHERE}\nwebhook: {{ bearer_token_file: {file} }}\npages: {{ username: anna, password_file: {file}, \
         proxy_header: X-Forwarded-User, proxy_from: [203.0.113.7] }}"
    );
    let run = Running::start(&extra).await;
    let url = format!("{}/incidents", run.service.url);
    let status = async |request: reqwest::RequestBuilder| request.send().await.unwrap().status().as_u16();
    let get = || run.http.get(&url);
    assert_eq!(status(get()).await, 401, "loopback is asked too, once something is configured");
    assert_eq!(status(get().basic_auth("anna", Some("wrong"))).await, 401);
    assert_eq!(status(get().basic_auth("anna", Some("s3cret"))).await, 200);
    assert_eq!(status(get().bearer_auth("s3cret")).await, 200, "the webhook's");
    assert_eq!(status(get().header("X-Forwarded-User", "eve")).await, 401, "not from the proxy's address");
    let refused = get().send().await.unwrap();
    assert!(refused.headers()["www-authenticate"].to_str().unwrap().starts_with("Basic "));
    assert!(refused.text().await.unwrap().contains("<h1"), "a page says what is missing");
}

#[tokio::test]
async fn pages_are_closed_until_somebody_says_who_may_read_them() {
    let run = Running::start(&format!("{NOWHERE}\npages: {{}}")).await;
    for path in
        ["/incidents", "/health", "/api/v1/incidents", "/playbooks", "/", "/bundles/x", "/incidents/x/tickets/vllm"]
    {
        let (status, text) = run.get(path).await;
        assert_eq!(status, 403, "{path}");
        assert!(text.contains("pages.authentication: none"), "{text}");
    }
}

#[tokio::test]
async fn a_proxy_lets_in_whom_it_names() {
    let run =
        Running::start(&format!("{NOWHERE}\npages: {{ proxy_header: X-Forwarded-User, proxy_from: [127.0.0.1] }}"))
            .await;
    let get = || run.http.get(format!("{}/incidents", run.service.url));
    assert_eq!(get().header("X-Forwarded-User", "anna").send().await.unwrap().status(), 200);
    assert_eq!(get().send().await.unwrap().status(), 403, "nobody could be asked");
}

#[test]
fn contradictory_access_is_refused_with_what_to_set() {
    let file = tempfile::Builder::new().suffix(".yaml").tempfile().unwrap();
    for (pages, says) in [
        ("{ username: anna }", "needs both `username` and `password_file`"),
        ("{ proxy_header: X-User }", "without `pages.proxy_from`"),
        ("{ authentication: none, bearer_token_file: /x }", "`pages.authentication: none` beside credentials"),
        ("{ proxy_from: [10.0.0.7] }", "without `pages.proxy_header`"),
        ("{ act: [\" \"] }", "`pages.act` has"),
        ("{ authentication: none, act: [anna] }", "`pages.act` names people"),
        ("{ proxy_header: X-User, proxy_from: [\"0.0.0.0/0\"] }", "let everybody send any name"),
        ("{ proxy_header: X-User, proxy_from: [proxy.example.org] }", "is a host's name"),
        (
            "{ oidc: { issuer: \"http://id.example.org\", client_id: x, groups: [anybody] } }",
            "an address with https://",
        ),
        ("{ oidc: { issuer: \"https://id.example.org\", client_id: x } }", "`pages.oidc` names nobody"),
        (
            "{ oidc: { issuer: \"https://id.example.org\", client_id: x, email_domains: [\"@a.org\"] } }",
            "write the part behind the @",
        ),
        (
            "{ oidc: { issuer: \"https://id.example.org\", client_id: x, groups: [a], session: 8d } }",
            "`pages.oidc.session` is 1m to 7d",
        ),
        ("{ proxy_header: \"X User\", proxy_from: [10.0.0.7] }", "is no name of a header"),
    ] {
        std::fs::write(file.path(), format!("pages: {pages}\n")).unwrap();
        let error = format!("{:#}", Config::load(file.path()).unwrap_err());
        assert!(error.contains(says), "{pages}: {error}");
    }
}

#[tokio::test]
async fn a_browser_sees_the_incident_end_and_keeps_what_its_reader_opened() {
    let run = Running::start(NOWHERE).await;
    let id = incident(&run, "Strange", "critical", &[HOSTILE, "b"]).await;
    let mut browser = Browser::start().await;
    browser.open(&format!("{}/incidents/{id}", run.service.url)).await;
    browser.wait_for("document.getElementById('live').dataset.state === 'live'").await;
    assert_eq!(browser.value("document.querySelectorAll('main script, main img').length").await, json!(0));
    assert_eq!(browser.value("getComputedStyle(document.body).margin").await, json!("0px"), "the style may show");
    let wide = "document.documentElement.scrollWidth <= window.innerWidth";
    let phone = json!({ "width": 360, "height": 740, "deviceScaleFactor": 1, "mobile": true });
    browser.call("Emulation.setDeviceMetricsOverride", phone).await;
    assert_eq!(browser.value(wide).await, json!(true), "a phone does not scroll sideways");
    let open = "(() => { document.querySelector('#alerts>details').open = true; \
                const one = document.querySelector('#alerts details[data-key=\"alert/1\"]'); one.open = true; \
                one.querySelector('summary').focus(); return one.open; })()";
    assert_eq!(browser.value(open).await, json!(true));
    run.send(&group("Strange", "resolved", "critical", &[HOSTILE, "b"])).await;
    browser.wait_for("document.querySelector('#head .pill').textContent.includes('RESOLVED')").await;
    browser.wait_for("document.getElementById('aloud').textContent.includes('RESOLVED')").await;
    browser.wait_for("document.querySelector('#alerts').textContent.includes('ended')").await;
    let kept = "document.querySelector('#alerts details[data-key=\"alert/1\"]').open \
                && document.activeElement.tagName === 'SUMMARY'";
    assert_eq!(browser.value(kept).await, json!(true), "what was open stays so, and the focus where it was");
    assert_eq!(browser.complaints, Vec::<String>::new());
    let elsewhere: Vec<&String> =
        browser.asked.iter().filter(|url| !url.starts_with(&run.service.url) && !url.starts_with("data:")).collect();
    assert_eq!(elsewhere, Vec::<&String>::new());
}

#[tokio::test]
async fn on_a_small_phone_the_first_incident_is_on_the_first_screen() {
    let run = Running::start(NOWHERE).await;
    incident(&run, "Strange", "critical", &["a"]).await;
    let mut browser = Browser::start().await;
    let phone = json!({ "width": 375, "height": 667, "deviceScaleFactor": 1, "mobile": true });
    browser.call("Emulation.setDeviceMetricsOverride", phone).await;
    browser.open(&format!("{}/incidents", run.service.url)).await;
    let end = "document.querySelector('.row').getBoundingClientRect().bottom <= window.innerHeight";
    assert_eq!(browser.value(end).await, json!(true));
}

#[tokio::test]
async fn without_scripts_the_page_says_the_same_and_reloads_by_itself() {
    let run = Running::start(NOWHERE).await;
    let id = incident(&run, "Strange", "critical", &["a"]).await;
    let mut browser = Browser::start().await;
    browser.call("Emulation.setScriptExecutionDisabled", json!({ "value": true })).await;
    browser.open(&format!("{}/incidents/{id}", run.service.url)).await;
    let said = browser.value("document.querySelector('h1').textContent").await;
    assert_eq!(said, json!("Strange"));
    let reloads = "document.querySelector('noscript meta[http-equiv=refresh]') !== null";
    assert_eq!(browser.value(reloads).await, Value::Bool(true));
    assert_eq!(browser.complaints, Vec::<String>::new());
}

#[test]
fn a_report_is_a_file_that_asks_nobody() {
    use findings::Diagnosis;
    use findings::facts::Window;
    use render::{Phrases, ReportPageContext, report_page};
    use report::{DiagnosisParameters, ReportSubject, SourceFindings, build};

    let diagnosis: Diagnosis = serde_json::from_str(&fixture("diagnoses/longer-prompts.high-ttft.json")).unwrap();
    let window = Window { from: diagnosis.at, to: diagnosis.at };
    let about = ReportSubject {
        headline: "x",
        incident: None,
        alerts: &[],
        diagnosis: Some(&diagnosis),
        asked: DiagnosisParameters::default(),
        window,
        happened: &[],
    };
    let report = build(about, SourceFindings::default(), diagnosis.at);
    let page = report_page(&report, &ReportPageContext::default(), &Phrases::english());
    assert!(!page.contains("<script") && !page.contains("src=") && !page.contains("href=\"/"), "{page}");
    assert!(page.contains("Content-Security-Policy") && page.contains("prompts became longer"));
    assert!(page.len() < 150_000, "{}", page.len());
}

/// Writes a page into PAGES_SHOW, a directory, for whoever wants to look at it.
fn show(name: &str, page: &str) {
    if let Some(directory) = std::env::var_os("PAGES_SHOW") {
        std::fs::write(std::path::Path::new(&directory).join(name), page).unwrap();
    }
}

#[test]
fn a_report_with_every_section_reads_on_a_phone_by_night_and_without_a_mouse() {
    use render::Phrases;

    let odd = format!("{HOSTILE}שלום{}", "long".repeat(40));
    // It is started outside of the runtime that asks it.
    crate::harness::shared();
    let full = run(Full::of("longer-prompts", "high-ttft", &odd));
    assert!(full.diagnosis().root().is_some());
    let dir = tempfile::tempdir().unwrap();
    let page = full.page(&Phrases::english());
    show("full.html", &page);
    assert!(page.len() < 400_000, "{}", page.len());
    std::fs::write(dir.path().join("full.html"), page).unwrap();
    run(async {
        let mut browser = Browser::start().await;
        browser.open(&format!("file://{}/full.html", dir.path().display())).await;
        for section in SECTIONS {
            let there = format!("document.querySelector('section#{section} h2') !== null");
            assert_eq!(browser.value(&there).await, json!(true), "{section} is missing");
        }
        let markup = "document.querySelectorAll('main script, main img, main style').length";
        assert_eq!(browser.value(markup).await, json!(0), "nothing from outside is markup");
        assert_eq!(browser.value(JUMPS).await, json!([]), "headings go down by one");
        assert_eq!(browser.value(NAMELESS).await, json!([]), "pictures have names");
        let reached =
            "[...document.querySelectorAll('summary, a[href], pre, .scroll')].filter(e => e.tabIndex < 0).length";
        assert_eq!(browser.value(reached).await, json!(0), "all that opens, leads or scrolls is reached by keys");
        for width in [360, 768, 1280] {
            let screen = json!({ "width": width, "height": 740, "deviceScaleFactor": 1, "mobile": width < 500 });
            browser.call("Emulation.setDeviceMetricsOverride", screen).await;
            browser.value("document.querySelectorAll('details').forEach(one => { one.open = true; })").await;
            let wide = browser.value(WIDE).await;
            assert_eq!(wide, json!([]), "scrolls sideways at {width} px");
        }
        browser.call("Emulation.setEmulatedMedia", json!({ "media": "print" })).await;
        let shown = "getComputedStyle(document.querySelector('.toc')).display";
        assert_eq!(browser.value(shown).await, json!("none"), "paper has nothing to press");
        browser.call("Emulation.setEmulatedMedia", json!({ "media": "" })).await;
        assert_eq!(browser.complaints, Vec::<String>::new());
        let elsewhere: Vec<&String> =
            browser.asked.iter().filter(|url| !url.starts_with("file:") && !url.starts_with("data:")).collect();
        assert_eq!(elsewhere, Vec::<&String>::new());
    });
}

/// The sections of a report that knows everything.
const SECTIONS: [&str; 15] = [
    "why",
    "do",
    "picture",
    "evidence",
    "not",
    "unchecked",
    "timeline",
    "answers",
    "logs",
    "topology",
    "alerts",
    "rules",
    "parts",
    "redacted",
    "tickets",
];
/// Headings that skip a level.
const JUMPS: &str = "[...document.querySelectorAll('h1,h2,h3,h4')].map(h => [Number(h.tagName[1]), h.textContent])\
    .filter(([level], i, all) => level > (i ? all[i - 1][0] : 0) + 1).map(([, text]) => text)";
/// Pictures without a name.
const NAMELESS: &str = "[...document.querySelectorAll('svg, figure')].filter(one => !one.closest('[aria-hidden]') && \
    !one.getAttribute('aria-label') && !one.querySelector('title') && !one.closest('figure[aria-label]'))\
    .map(one => one.outerHTML.slice(0, 80))";
/// What stands out of the page sideways.
const WIDE: &str = "document.documentElement.scrollWidth <= window.innerWidth ? [] : \
    [...document.querySelectorAll('main *')].filter(one => one.getBoundingClientRect().right > window.innerWidth + 1 && \
    !one.closest('.scroll, figure')).map(one => one.outerHTML.slice(0, 120)).slice(0, 5)";

#[tokio::test]
async fn the_page_of_a_web_site_whose_name_leads_here_sees_nothing() {
    let run = Running::start(&format!("{NOWHERE}\npublic_url: https://triage.example.org")).await;
    let id = incident(&run, "Strange", "critical", &["a"]).await;
    let status = async |path: &str, host: &str| {
        let request = run.http.get(format!("{}{path}", run.service.url)).header("Host", host);
        request.send().await.unwrap().status().as_u16()
    };
    let own = [format!("/incidents/{id}"), format!("/api/v1/incidents/{id}"), format!("/incidents/{id}/tickets/vllm")];
    for path in own.iter().map(String::as_str).chain(["/", "/incidents", "/health", "/bundles/x"]) {
        assert_eq!(status(path, "rebound.example.net").await, 403, "{path}");
        assert_ne!(status(path, "localhost").await, 403, "{path}");
        assert_ne!(status(path, "triage.example.org").await, 403, "{path}");
    }
    assert_eq!(status("/healthz", "rebound.example.net").await, 200);
    let alert = run.http.post(format!("{}/webhook/alertmanager", run.service.url)).header("Host", "anything.svc");
    let alert = alert.json(&group("Other", "firing", "warning", &["b"])).send().await.unwrap();
    assert_eq!(alert.status(), 200, "the webhook does not care");
}

#[tokio::test]
async fn a_page_without_prometheus_comes_in_time_and_says_so() {
    // It takes connections and never answers.
    let silent = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", silent.local_addr().unwrap());
    let run = Running::start(&format!("prometheus: [{{ url: \"{url}\" }}]")).await;
    let id = incident(&run, "LLMHighTTFT", "critical", &["a"]).await;
    let began = std::time::Instant::now();
    let (status, _, text) = page(&run, &format!("/incidents/{id}")).await;
    assert!(began.elapsed() < std::time::Duration::from_secs(6), "{:?}", began.elapsed());
    assert_eq!(status, 200);
    assert!(text.contains("They come with the next update"), "{text}");
    assert!(text.contains("llm-diagnose bundle") && text.contains("There are no bundles here yet"), "{text}");
}

#[tokio::test]
async fn a_ticket_is_text_without_secrets_and_its_page_lists_it() {
    let run = Running::start(NOWHERE).await;
    let secret = format!("hf_{}", "aB3dE5gH7jK9".repeat(3));
    let id = incident(&run, "LLMHighTTFT", "critical", &[&secret, HOSTILE]).await;
    let (_, _, text) = page(&run, &format!("/incidents/{id}")).await;
    let address = format!("/incidents/{id}/tickets/platform");
    assert!(text.contains(&format!("href=\"{address}\"")), "{text}");
    let (status, headers, ticket) = page(&run, &address).await;
    assert_eq!((status, headers["content-type"].to_str().unwrap()), (200, "text/plain; charset=utf-8"));
    assert_eq!(headers["x-content-type-options"], "nosniff");
    assert!(ticket.contains("[redacted: hf-token") && !ticket.contains("aB3dE5gH7jK9"), "{ticket}");
    // The page and its JSON cross the same border, for labels whose names alone tell too.
    let mut alert = group("LLMHighITL", "firing", "critical", &[&secret]);
    alert["alerts"][0]["labels"]["api_key"] = json!("quiet harbour");
    alert["alerts"][0]["annotations"]["description"] = json!("LABELS = map[api_key:quiet harbour pod:a]");
    let id = run.send(&alert).await["incident"].as_str().unwrap().to_owned();
    for path in
        [format!("/incidents/{id}"), format!("/api/v1/incidents/{id}"), format!("/incidents/{id}/tickets/platform")]
    {
        let (status, _, text) = page(&run, &path).await;
        assert!(status == 200 && text.contains("[redacted: "), "{path}: {text}");
        assert!(!text.contains("aB3dE5gH7jK9") && !text.contains("harbour"), "{path}: {text}");
    }
    for nothing in ["/incidents/nope/tickets/platform".to_owned(), format!("/incidents/{id}/tickets/nope")] {
        assert_eq!(page(&run, &nothing).await.0, 404, "{nothing}");
    }
}

#[tokio::test]
async fn lists_of_incidents_and_pools_show_no_secret_of_a_label() {
    let secret = format!("hf_{}", "aB3dE5gH7jK9".repeat(3));
    let now = clock::now().as_second();
    let labels =
        [("job", "vllm"), ("instance", "a:8000"), ("namespace", "llm"), ("model_name", &*secret), ("pod", &*secret)];
    let of = |name, value| Series::new(name, &labels).steady(now - 1_800, now + 600, 15, value);
    let history = [of("vllm:num_requests_waiting", 50.0), of("vllm:num_requests_running", 9.0), of("up", 1.0)];
    let prometheus = Prometheus::builder().backfill_text(&openmetrics(history)).unwrap().start().await.unwrap();
    let run = Running::start(&format!("prometheus: [{{ url: \"{}\" }}]", prometheus.url)).await;
    let mut alert = group("LLMHighTTFT", "firing", "critical", &["a"]);
    let labels = &mut alert["alerts"][0]["labels"];
    labels["model_name"] = json!(secret);
    // Only the name of a label betrays this one, which stands in another label too.
    labels["api_key"] = json!("quiet harbour");
    labels["cluster"] = json!("quiet harbour");
    let id = run.send(&alert).await["incident"].as_str().unwrap().to_owned();
    let shows = ["/incidents", "/incidents?q=LLMHighTTFT", "/api/v1/incidents", "/health", "/api/v1/health"];
    let beside =
        [format!("/api/v1/health?namespace=llm&model={secret}"), format!("/playbooks/high-ttft?incident={id}")];
    for path in shows.map(str::to_owned).into_iter().chain(beside) {
        let (status, _, text) = page(&run, &path).await;
        assert_eq!(status, 200, "{path}: {text}");
        assert!(!text.contains("aB3dE5gH7jK9") && !text.contains("harbour"), "{path}: {text}");
        assert!(text.contains("[redacted: hf-token") || !shows.contains(&&*path), "{path}: {text}");
    }
}
