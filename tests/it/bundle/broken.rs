//! Each source broken one by one: a bundle all the same, that says which thing failed and why.

use std::process::{Command, Stdio};
use std::time::Duration;

use bundle::Sources;
use llm_diagnose_lab::kubernetes::Mode;
use llm_diagnose_lab::sources::{FakeEngine, Manner};
use report::Stage;
use sources::loki;
use sources::loki::Loki;

use super::run;
use super::site::{Bundle, Site, ago, alert, connected, nothing, options, subject};
use crate::harness::{client, shared};
use crate::running::BINARY;

/// Short, so that hanging ones are waited for; long enough for the others on a busy machine.
const DEADLINE: Duration = Duration::from_secs(12);
/// Nobody listens there.
const NOWHERE: &str = "http://127.0.0.1:1";

/// The bundle of these sources: made in time, whole but for these parts.
async fn made(sources: &Sources, broken: &[&str]) -> Bundle {
    let bundle = Bundle::of(sources, &subject(vec![alert()]), &options(DEADLINE)).await;
    assert!(bundle.took < DEADLINE + Duration::from_secs(10), "{:?}", bundle.took);
    bundle.assert_whole_but(broken);
    for name in ["README.txt", "report.html", "report.md", "summary.json", "raw/missing.json"] {
        assert!(bundle.entries.contains_key(name), "{name} of {:?}", bundle.names());
    }
    let (page, text) = (bundle.text("report.html"), bundle.text("report.md"));
    for part in broken {
        assert!(page.contains(part) && text.contains(part), "{part}: {text}");
        let missing = bundle.text("raw/missing.json");
        assert!(missing.contains(&format!("\"part\": \"{part}\"")), "{part}: {missing}");
    }
    bundle
}

/// All sources but Prometheus, whose answers take a while on a busy machine.
async fn without(site: &Site) -> Sources {
    Sources { prometheus: None, ..site.sources().await }
}

/// Something in the way.
fn manners() -> [Manner; 6] {
    [
        Manner::Status(500, "out of order".to_owned()),
        Manner::Hang,
        Manner::Garbage,
        Manner::Login,
        Manner::Huge(300 << 20),
        Manner::Drip,
    ]
}

#[test]
fn without_prometheus_the_cluster_the_engines_and_the_logs_tell_what_they_know() {
    run(async {
        let made_without = async |manner: Option<Manner>| {
            let site = Site::new().await;
            let server = FakeEngine::start(&[]).await.unwrap();
            let url = if manner.is_some() { &server.url } else { NOWHERE };
            manner.into_iter().for_each(|manner| server.behave(manner));
            let sources = Sources { prometheus: Some(client(url)), ..site.sources().await };
            let bundle = made(&sources, &["metrics", "series", "endpoints", "diagnosis"]).await;
            for part in ["metrics", "series", "diagnosis"] {
                assert!(bundle.part(part).note.contains("Prometheus") || part == "series", "{:?}", bundle.part(part));
            }
            assert_eq!(bundle.part("series").stage, Stage::Failed);
            assert_eq!(bundle.part("endpoints").stage, Stage::Partial, "the given ones were asked all the same");
            assert!(bundle.entries.contains_key("kubernetes/pods.json") && bundle.report().logs.len() >= 2);
        };
        let [a, b, c, d, e, f] = manners().map(|manner| made_without(Some(manner)));
        futures::join!(a, b, c, d, e, f, made_without(None));
    });
}

#[test]
fn engines_that_fail_are_named_with_the_path_and_the_reason() {
    run(async {
        let with = async |manner: Manner| {
            let site = Site::new().await;
            site.engines[0].behave(manner);
            let bundle = made(&without(&site).await, &["endpoints"]).await;
            let note = &bundle.part("endpoints").note;
            assert!(note.contains("of vllm-llama-8b-0"), "{note}");
            assert_eq!(bundle.part("endpoints").stage, Stage::Partial);
            assert!(bundle.entries.contains_key("endpoints/vllm-llama-8b-1/vllm-version.json"), "{:?}", bundle.names());
        };
        let [a, b, c, d, e, f] = manners().map(with);
        futures::join!(a, b, c, d, e, f);
        let mut site = Site::new().await;
        let sources = without(&site).await;
        site.engines.remove(0).stop().await;
        let bundle = made(&sources, &["endpoints"]).await;
        assert!(bundle.part("endpoints").note.contains("of vllm-llama-8b-0"), "{:?}", bundle.part("endpoints"));
    });
}

#[test]
fn a_cluster_that_fails_costs_the_clusters_part_alone() {
    run(async {
        let with = async |mode: Mode| {
            let site = Site::new().await;
            let sources = without(&site).await;
            site.cluster.set_mode(mode);
            let bundle = made(&sources, &["kubernetes"]).await;
            assert_eq!(bundle.part("kubernetes").stage, Stage::Failed, "{mode:?} {:?}", bundle.part("kubernetes"));
            assert_eq!(bundle.part("logs").note, "2 logs", "those of Loki and of the file");
            assert!(bundle.entries.contains_key("endpoints/vllm-llama-8b-0/vllm-version.json"), "{:?}", bundle.names());
        };
        let modes = [Mode::Hang, Mode::Forbidden, Mode::Unauthorized, Mode::Status(500), Mode::Garbage, Mode::Huge];
        let [a, b, c, d, e, f] = modes.map(with);
        futures::join!(a, b, c, d, e, f);
        let site = Site::new().await;
        let sources = Sources { kubernetes: Some(connected(NOWHERE).await), ..without(&site).await };
        assert_eq!(made(&sources, &["kubernetes"]).await.part("kubernetes").stage, Stage::Failed);
    });
}

#[test]
fn a_loki_that_fails_leaves_the_logs_of_the_others() {
    run(async {
        let with = async |manner: Manner| {
            let site = Site::new().await;
            let sources = without(&site).await;
            site.loki.behave(manner);
            let bundle = made(&sources, &["logs"]).await;
            let part = bundle.part("logs");
            assert!(part.stage == Stage::Partial && part.note.starts_with("5 logs; Loki: "), "{part:?}");
        };
        let [a, b, c, d, e, f] = manners().map(with);
        futures::join!(a, b, c, d, e, f);
        let site = Site::new().await;
        let loki = Loki::new(&loki::Config { url: NOWHERE.to_owned(), ..loki::Config::default() }).unwrap();
        let bundle = made(&Sources { loki: Some(loki), ..without(&site).await }, &["logs"]).await;
        assert!(bundle.part("logs").note.contains("Loki: "), "{:?}", bundle.part("logs"));
    });
}

#[test]
fn files_that_cannot_be_read_are_named_and_what_is_no_text_does_no_harm() {
    run(async {
        let site = Site::new().await;
        let absent = site.dir.path().join("absent.log");
        let garbage = site.dir.path().join("garbage.log");
        std::fs::write(&garbage, [0, 0xff, 0xfe, b'\n', 0x1b, b'[', b'3', b'1', b'm', 0x80]).unwrap();
        let files = vec![site.log_file(), absent, garbage];
        let bundle = made(&Sources { files, ..without(&site).await }, &["logs"]).await;
        assert!(bundle.part("logs").note.contains("absent.log: "), "{:?}", bundle.part("logs"));
        let huge = site.dir.path().join("huge.log");
        std::fs::write(&huge, "INFO 11-20 03:00:00 [x.py:1] the same again and again\n".repeat(200_000)).unwrap();
        let sources = Sources { files: vec![huge], ..without(&site).await };
        let short = bundle::Options { log_bytes: 1 << 20, ..options(DEADLINE) };
        let bundle = Bundle::of(&sources, &subject(vec![alert()]), &short).await;
        let part = bundle.part("logs");
        assert!(part.note.contains("huge.log: a part was left out") && part.bytes < 2 << 20, "{part:?}");
    });
}

#[test]
fn sources_that_nobody_configured_are_skipped_and_nothing_is_missing() {
    run(async {
        let bundle = Bundle::of(&nothing(), &subject(vec![alert()]), &options(DEADLINE)).await;
        bundle.assert_whole_but(&[]);
        for part in &bundle.report().parts {
            assert_eq!(part.stage, if part.name == "report" { Stage::Done } else { Stage::Skipped }, "{part:?}");
        }
        assert!(bundle.text("report.md").contains("LLMHighTTFT"), "the alert is all there is");
        let site = Site::new().await;
        let bundle = Bundle::of(
            &Sources { prometheus: None, ..site.sources().await },
            &subject(vec![alert()]),
            &options(DEADLINE),
        )
        .await;
        bundle.assert_whole_but(&[]);
    });
}

#[test]
fn the_exit_status_tells_whole_from_not_whole_and_from_no_prometheus() {
    let whole = shared().url.clone();
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("c.yaml"), "exporters: { learn: false }\nbundle: { min_free_bytes: 0 }\n").unwrap();
    let at = ago(0).to_string();
    let ran = |more: &[&str]| {
        let mut command = Command::new(BINARY);
        command.args(["bundle", "--playbook", "high-ttft", "--label", "namespace=longer-prompts", "--at", &at]);
        command.args(["-o", "b.zip", "--force", "--config", "c.yaml", "--prometheus"]).args(more);
        command.current_dir(dir.path()).stdin(Stdio::null()).env_remove("PROMETHEUS_URL").output().unwrap()
    };
    for (more, code, said) in [
        (&[whole.as_str()][..], 0, "is complete"),
        (&[&whole, "--logs", "absent.log"], 1, "absent.log"),
        (&[NOWHERE], 3, "cannot be asked"),
    ] {
        let output = ran(more);
        let all = format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
        assert_eq!(output.status.code(), Some(code), "{more:?}: {all}");
        assert!(all.contains(said), "{said}: {all}");
    }
}
