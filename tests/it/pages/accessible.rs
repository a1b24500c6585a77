//! What a page costs, and whether everybody can use it: axe-core finds nothing, in light, dark and on a phone.

use render::Phrases;
use serde_json::{Value, json};

use super::browser::Browser;
use super::full::Full;
use super::{NOWHERE, incident};
use crate::api::client;
use crate::harness::run;
use crate::running::Running;

/// Maximum bytes of the page of a pool of 100 replicas.
const BYTES: usize = 200_000;

#[test]
fn a_page_of_a_hundred_replicas_has_at_most_200_kilobytes_and_shows_its_answer_first() {
    // It is started outside of the runtime that asks it.
    crate::harness::shared();
    let full = run(Full::of("longer-prompts", "high-ttft", "odd")).of_replicas(100);
    let page = full.served(&Phrases::english());
    super::show("hundred.html", &page);
    assert!(page.len() <= BYTES, "{} bytes", page.len());
    let at = |text: &str| page.find(text).unwrap_or_else(|| panic!("no {text}"));
    let order = ["id=\"head\"", "id=\"why\"", "id=\"do\"", "id=\"picture\"", "id=\"timeline\"", "id=\"answers\""];
    let order: Vec<usize> = order.into_iter().map(at).chain([at("id=\"evidence\""), at("<script")]).collect();
    assert!(order.is_sorted(), "{order:?}");
    assert_eq!(page.matches("<script").count(), 1, "nothing waits for a script");
    assert!(!page.contains("<link rel=\"stylesheet") && !page.contains("src="), "nothing else is loaded");
}

/// What axe-core finds on the page that is open.
async fn findings(browser: &mut Browser, axe: &str) -> Value {
    browser.value(axe).await;
    let asked = json!({
        "expression": "axe.run(document, { resultTypes: ['violations'] }).then(found => \
            found.violations.map(one => one.id + ': ' + one.nodes.map(node => node.html.slice(0, 160)).join(' | ')))",
        "awaitPromise": true, "returnByValue": true,
    });
    browser.call("Runtime.evaluate", asked).await["result"]["value"].clone()
}

#[tokio::test]
async fn axe_finds_nothing_on_any_page() {
    let printed = client("axe.py", &[]);
    assert!(printed.status.success(), "{}", String::from_utf8_lossy(&printed.stderr));
    // Its last value is not JSON.
    let axe = format!("{};0", String::from_utf8(printed.stdout).unwrap());
    let run = Running::start(&format!("{NOWHERE}\npages: {{ authentication: none, act: [anybody] }}")).await;
    let id = incident(&run, "LLMHighTTFT", "critical", &["a", "b"]).await;
    let mut browser = Browser::start().await;
    let paths = [
        "/incidents".to_owned(),
        "/incidents?q=nothing".to_owned(),
        format!("/incidents/{id}"),
        format!("/incidents/{id}/silence"),
        format!("/incidents/{id}/note"),
        "/playbooks".to_owned(),
        "/playbooks/high-ttft".to_owned(),
        "/health".to_owned(),
        "/nowhere".to_owned(),
    ];
    for (scheme, width) in [("light", 1280), ("dark", 360)] {
        let screen = json!({ "width": width, "height": 740, "deviceScaleFactor": 1, "mobile": width < 500 });
        browser.call("Emulation.setDeviceMetricsOverride", screen).await;
        let features = json!({ "features": [{ "name": "prefers-color-scheme", "value": scheme }] });
        browser.call("Emulation.setEmulatedMedia", features).await;
        for path in &paths {
            browser.open(&format!("{}{path}", run.service.url)).await;
            browser.value("document.querySelectorAll('details').forEach(one => { one.open = true; })").await;
            assert_eq!(findings(&mut browser, &axe).await, json!([]), "{path}, {scheme}, {width} px");
        }
    }
}

#[test]
fn axe_finds_nothing_on_a_report_with_every_section() {
    crate::harness::shared();
    let full = run(Full::of("longer-prompts", "high-ttft", "odd"));
    let page = full.page(&Phrases::english());
    let printed = client("axe.py", &[]);
    assert!(printed.status.success(), "{}", String::from_utf8_lossy(&printed.stderr));
    let axe = format!("{};0", String::from_utf8(printed.stdout).unwrap());
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("full.html"), page).unwrap();
    run(async {
        let mut browser = Browser::start().await;
        for scheme in ["light", "dark"] {
            let features = json!({ "features": [{ "name": "prefers-color-scheme", "value": scheme }] });
            browser.call("Emulation.setEmulatedMedia", features).await;
            browser.open(&format!("file://{}/full.html", dir.path().display())).await;
            browser.value("document.querySelectorAll('details').forEach(one => { one.open = true; })").await;
            assert_eq!(findings(&mut browser, &axe).await, json!([]), "{scheme}");
        }
    });
}
