//! Download links: good for a while, for one bundle, from this service; everything else is told why not.

use llm_diagnose_lab::slack::Options;

use super::in_slack::Stage;
use super::summary;

const LINKED: &str = "public_url: http://127.0.0.1:$PORT\nbundle: { upload_bytes: 1 }";

async fn text(response: reqwest::Response) -> (u16, String) {
    (response.status().as_u16(), response.text().await.unwrap())
}

#[tokio::test]
async fn a_link_downloads_one_bundle_and_a_changed_one_nothing() {
    let stage = Stage::set(Options::unlimited(), "", LINKED).await;
    let link = stage.link().await;
    assert_eq!(stage.slack.files().len(), 0, "it is larger than what is uploaded");
    let response = reqwest::get(&link).await.unwrap();
    assert_eq!(response.status(), 200);
    let header = |name: &str| response.headers()[name].to_str().unwrap().to_owned();
    let name = link[link.rfind('/').unwrap() + 1..link.find('?').unwrap()].to_owned();
    assert_eq!(header("content-disposition"), format!("attachment; filename=\"{name}\""));
    assert_eq!([header("x-content-type-options"), header("content-type")], ["nosniff", "application/zip"]);
    let length: usize = header("content-length").parse().unwrap();
    let bytes = response.bytes().await.unwrap();
    assert_eq!(bytes.len(), length);
    assert_eq!(summary(&bytes)["incident"]["id"], stage.incident.as_str());

    let (path, query) = link.split_once('?').unwrap();
    let path = &path[stage.service.url.len()..];
    let other = path.replace(&stage.incident, &stage.incident.replace(|c: char| c.is_ascii_digit(), "7"));
    for (changed, status, said) in [
        (format!("{path}?{}", query.replace("expires=", "expires=9")), 403, "does not open"),
        (format!("{path}?{query}x"), 403, "does not open"),
        (format!("{path}?signature=AAAA"), 403, "does not open"),
        (format!("{other}?{query}"), 403, "does not open"),
        (format!("/bundles/..%2Fbundle-links.key?{query}"), 403, "does not open"),
        ("/bundles/..%2Fllm-diagnose.db".to_owned(), 404, "There is no such bundle"),
        ("/bundles/notes.txt".to_owned(), 404, "There is no such bundle"),
        ("/bundles/llm-diagnose-01NONE-20261120T030000Z.zip".to_owned(), 410, "is not here"),
    ] {
        let (code, answer) = text(stage.get(&changed).await).await;
        assert!(code == status && answer.contains(said), "{changed}: {code} {answer}");
    }
    // Whoever may open the pages needs no signature; on loopback that is everybody.
    assert_eq!(stage.get(path).await.status(), 200);
    let list: serde_json::Value =
        stage.get(&format!("/api/v1/incidents/{}/bundles", stage.incident)).await.json().await.unwrap();
    assert_eq!(list.as_array().map(Vec::len), Some(1), "{list}");
    assert_eq!(reqwest::get(list[0]["link"].as_str().unwrap()).await.unwrap().status(), 200);
    // Gone by retention, or made by another replica.
    std::fs::remove_file(stage.service.directory().join("state").join(&path[1..])).unwrap();
    let (code, answer) = text(reqwest::get(&link).await.unwrap()).await;
    assert!(code == 410 && answer.contains("/llm-diagnose bundle"), "{code} {answer}");
}

#[tokio::test]
async fn a_link_that_is_over_says_until_when_it_was_good() {
    let stage = Stage::set(Options::unlimited(), "", &LINKED.replace("1 }", "1, link_expires: 0s }")).await;
    let link = stage.link().await;
    // It ends with the second in which it was made.
    let expires: i64 = link.split_once("expires=").unwrap().1.split('&').next().unwrap().parse().unwrap();
    while knowledge::clock::now().as_second() <= expires {
        tokio::task::yield_now().await;
    }
    let (code, answer) = text(reqwest::get(&link).await.unwrap()).await;
    assert!(code == 410 && answer.contains("This link was good until "), "{code} {answer}");
}

#[tokio::test]
async fn a_key_of_their_own_keeps_links_good_over_restarts_and_replicas() {
    let key = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(key.path(), "a key that two replicas share\n").unwrap();
    let config = |key: &std::path::Path| LINKED.replace("1 }", &format!("1, link_key_file: {} }}", key.display()));
    let mut one = Stage::set(Options::unlimited(), "", &config(key.path())).await;
    let link = one.link().await;
    one.service.restart().await.unwrap();
    assert_eq!(reqwest::get(&link).await.unwrap().status(), 200);
    let other = Stage::set(Options::unlimited(), "", &config(key.path())).await;
    let (code, answer) = text(reqwest::get(link.replace(&one.service.url, &other.service.url)).await.unwrap()).await;
    assert!(code == 410 && answer.contains("the disk of the replica that made it"), "{code} {answer}");
    let foreign = Stage::set(Options::unlimited(), "", LINKED).await;
    let (code, answer) = text(reqwest::get(link.replace(&one.service.url, &foreign.service.url)).await.unwrap()).await;
    assert!(code == 403 && answer.contains("bundle.link_key_file"), "{code} {answer}");
}

#[tokio::test]
async fn who_downloads_what_is_written_down_and_counted_and_a_bundle_that_goes_meanwhile_is_whole() {
    let password = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(password.path(), "of the pages").unwrap();
    let pages = format!("pages: {{ username: ops, password_file: {} }}", password.path().display());
    let stage = Stage::set(Options::unlimited(), "", &format!("{LINKED}\n{pages}")).await;
    let link = stage.link().await;
    let (path, _) = link.split_once('?').unwrap();
    let name = &path[path.rfind('/').unwrap() + 1..];
    let http = reqwest::Client::new();
    assert_eq!(http.get(path).send().await.unwrap().status(), 401);
    let head = http.head(&link).send().await.unwrap();
    let length: usize = head.headers()["content-length"].to_str().unwrap().parse().unwrap();
    assert!(head.status() == 200 && length > 1_000 && head.bytes().await.unwrap().is_empty());
    assert!(!stage.audit().await.contains("download"), "who asks how large it is has not got it");

    // It is removed after the first bytes were sent: whoever has begun gets all of it, nobody else any.
    let file = stage.service.directory().join("state/bundles").join(name);
    let begun = http.get(&link).send().await.unwrap();
    assert_eq!(begun.status(), 200);
    let whole = std::fs::read(&file).unwrap();
    let by_password = http.get(path).basic_auth("ops", Some("of the pages")).send().await.unwrap();
    assert_eq!(by_password.status(), 200);
    std::fs::remove_file(&file).unwrap();
    assert_eq!(begun.bytes().await.unwrap(), whole);
    assert_eq!(by_password.bytes().await.unwrap().len(), length);
    assert_eq!(http.get(&link).send().await.unwrap().status(), 410);
    assert_eq!(http.get(format!("{link}x")).send().await.unwrap().status(), 403);
    let audit = stage.audit().await;
    for who in ["link", "page:ops"] {
        let line = format!("done      {who} in http: download {} {name}  from 127.0.0.1", stage.incident);
        assert_eq!(audit.matches(&line).count(), 1, "{line}: {audit}");
    }
    let metrics = stage.get("/metrics").await.text().await.unwrap();
    for (result, n) in [("done", 2), ("gone", 1), ("forged", 1)] {
        let series = format!("llm_diagnose_bundle_downloads_total{{result=\"{result}\"}} {n}");
        assert!(metrics.contains(&series), "{series}: {metrics}");
    }
}
