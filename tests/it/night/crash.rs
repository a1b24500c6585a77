//! A night that only a log explains: a replica dies again and again, its metrics tell that it does, its log why.

use std::collections::BTreeSet;
use std::io::{Cursor, Read};

use knowledge::clock;
use llm_diagnose_lab::kubernetes::{FakeKubernetes, Mode, pod};
use llm_diagnose_lab::slack::{File, State};
use serde_json::json;

use super::stage::{ANN, Night, all_of, recorded};
use crate::bundles::summary;
use crate::running::CHANNEL;

const POD: &str = "vllm-llama-8b-0";
const ALONE: &str = "a replica crashes again and again";
const WITH_LOG: &str = "a GPU ran out of memory";

/// A cluster in which the dead engine's last words stand.
async fn cluster() -> FakeKubernetes {
    let fake = FakeKubernetes::start().await.unwrap();
    let image = "vllm/vllm-openai:v0.30.1";
    let replica = |number| pod("llm", &format!("vllm-llama-8b-{number}"), image, &["--model", "m"], "gpu-1");
    let mut dying = replica(0);
    dying["status"]["containerStatuses"][0] = json!({
        "name": "main", "image": image, "imageID": "", "ready": false, "restartCount": 7,
        "state": { "waiting": { "reason": "CrashLoopBackOff", "message": "back-off" } },
        "lastState": { "terminated": { "reason": "Error", "exitCode": 1, "finishedAt": clock::now() } },
    });
    [dying, replica(1), replica(2), replica(3)].into_iter().for_each(|pod| fake.add(pod));
    let at = clock::before(clock::now(), std::time::Duration::from_secs(120));
    let lines = [
        "(EngineCore_DP0 pid=77) ERROR 11-20 03:00:23 [core.py:710] EngineCore encountered a fatal error.",
        "(EngineCore_DP0 pid=77) ERROR 11-20 03:00:23 [core.py:710] torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total capacity of 79.10 GiB",
        "(APIServer pid=12) ERROR 11-20 03:00:23 [async_llm.py:480] vllm.v1.engine.exceptions.EngineDeadError: EngineCore encountered an issue. token=hf_Zq7LEAKx9aBcD3fGh1JkLmN0pQrStUv",
    ];
    let text: String = lines.iter().map(|line| format!("{at} {line}\n")).collect();
    fake.log("llm", POD, "main", true, text);
    for number in 0..4 {
        fake.log("llm", &format!("vllm-llama-8b-{number}"), "main", false, format!("{at} INFO starting\n"));
    }
    fake
}

#[tokio::test]
async fn a_night_that_only_a_log_explains_from_the_alert_to_the_bundle_opened_elsewhere() {
    let cluster = cluster().await;
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), cluster.kubeconfig()).unwrap();
    let extra = format!(
        "kubernetes: {{ enabled: true, kubeconfig: {} }}\nbundle: {{ deadline: 12s }}\n\
         diagnose: {{ refresh: 5s }}\n",
        file.path().display()
    );
    let night = Night::of(&recorded("lost-replica:replica=0"), &extra).await;

    // Nobody waits for a log that does not come; once it does, the message says more.
    cluster.set_mode_of("/log", Mode::Hang);
    night.fire_as("LLMReplicaDown").await;
    let first = all_of(&night.message_with(ALONE).await);
    assert!(!first.contains(WITH_LOG), "{first}");
    cluster.set_mode(Mode::Fine);
    let mended = all_of(&night.message_with(WITH_LOG).await);
    assert!(mended.contains(&format!("in {POD}'s log")) || mended.contains(&format!("log of {POD}")), "{mended}");
    assert!(!mended.contains("79.10") && !mended.contains("LEAK"), "no line of a log leaves: {mended}");
    let posted = night.slack.calls().into_iter().filter(|call| call.method == "chat.postMessage").count();
    assert_eq!(posted, 1, "mended, not said again: {}", night.slack.transcript(CHANNEL));

    // A part of the cluster hangs: who waits sees how far it is, and in the end what is missing.
    cluster.set_mode_of("/nodes", Mode::Hang);
    night.choose(ANN, "bundle").await;
    let progress = night.said("parts finished").await.ts;
    let is_running = |text: &str| text.contains("*done* metrics") && text.contains("*running*");
    night.until(|state| state.messages(CHANNEL).any(|m| m.ts == progress && is_running(&all_of(m)))).await;
    let told = |state: &State| state.messages(CHANNEL).find(|m| all_of(m).contains("but incomplete")).cloned();
    let mut ended = None;
    night
        .until(|state| {
            ended = told(state);
            ended.is_some()
        })
        .await;
    let ended = ended.unwrap();
    assert!(all_of(&ended).contains("*kubernetes*: "), "{ended:?}");
    night.until(|state| bundles(state.files()).len() == 1).await;
    let shared = night.said("Bundle of incident").await;
    assert_eq!((shared.thread_ts, shared.files.len()), (Some(night.message().ts), 1), "the file is in the thread");

    // All answer: the same cause in every dress, in the thread, on the page, and opened elsewhere.
    cluster.set_mode(Mode::Fine);
    night.choose(ANN, "bundle").await;
    night.until(|state| bundles(state.files()).len() == 2).await;
    let (name, bytes) = bundles(&night.slack.files()).remove(1);
    let report = summary(&bytes);
    assert_eq!(report["diagnosis"]["causes"][0]["id"], "gpu-oom", "{:#}", report["diagnosis"]["causes"]);
    for part in ["metrics", "series", "kubernetes", "logs"] {
        let made = report["parts"].as_array().unwrap().iter().find(|made| made["name"] == part).unwrap();
        assert_eq!(made["stage"], "done", "{made}");
    }
    let names = names(&bytes);
    for part in ["report.html", "report.md", "summary.json", "raw/alerts.json", "kubernetes/pods.json"] {
        assert!(names.contains(part), "{part}: {names:?}");
    }
    assert!(names.iter().any(|name| name.starts_with("series/") || name.contains(".om")), "{names:?}");
    let log = names.iter().find(|name| name.starts_with("logs/") && name.contains(POD)).unwrap();
    let log = entry(&bytes, log);
    assert!(log.contains("OutOfMemoryError") && !log.contains("LEAK"), "{log}");
    assert!(entry(&bytes, "report.html").contains(WITH_LOG));

    let directory = tempfile::tempdir().unwrap();
    let kept = directory.path().join(&name);
    std::fs::write(&kept, &bytes).unwrap();
    let (same, said) = night.cli(&["bundle", "open", "--once", kept.to_str().unwrap()]).await;
    assert!(same && said.contains("the same as in the bundle: gpu-oom"), "{said}");

    let incident = report["incident"]["id"].as_str().unwrap();
    let get = |path: String| async move { reqwest::get(path).await.unwrap().error_for_status().unwrap() };
    let page = get(format!("{}/incidents/{incident}", night.service.url)).await.text().await.unwrap();
    assert!(page.contains(&format!("/bundles/{name}")), "the page links it");
    let download = get(format!("{}/bundles/{name}", night.service.url)).await.bytes().await.unwrap();
    assert_eq!(download, bytes);

    // Over: the numbers have an end too.
    night.resolve().await;
    night.message_with("RESOLVED after").await;
    night.press(ANN, "bundle").await;
    night.until(|state| bundles(state.files()).len() == 3).await;
    let (_, bytes) = bundles(&night.slack.files()).remove(2);
    let over = summary(&bytes);
    assert_eq!(over["incident"]["open"], false);
    assert_eq!(over["diagnosis"]["causes"][0]["id"], "gpu-oom", "what was found stays");
    let (_, audit) = night.cli(&["audit"]).await;
    assert_eq!(audit.matches("U0ANN in C0LLMALERTS: bundle").count(), 3, "{audit}");
    assert!(audit.contains(&format!("page:anybody in http: download {incident} {name}")), "{audit}");
    let metrics = night.metrics().await;
    for series in ["llm_diagnose_bundles_total{result=\"incomplete\"} 1", "llm_diagnose_bundle_size_bytes_count 3"] {
        assert!(metrics.contains(series), "{series}: {metrics}");
    }
    night.show("Crash");
    assert_eq!(night.slack.violations(), []);
}

/// The bundles that Slack has, whole.
fn bundles(files: &[File]) -> Vec<(String, Vec<u8>)> {
    let whole = files.iter().filter(|file| file.is_complete && file.name.ends_with(".zip"));
    whole.filter_map(|file| Some((file.name.clone(), file.bytes.clone()?))).collect()
}

fn names(zip: &[u8]) -> BTreeSet<String> {
    zip::ZipArchive::new(Cursor::new(zip)).unwrap().file_names().map(|name| name.unwrap().into_owned()).collect()
}

fn entry(zip: &[u8], name: &str) -> String {
    let mut archive = zip::ZipArchive::new(Cursor::new(zip)).unwrap();
    let mut text = String::new();
    archive.by_name(name).unwrap().read_to_string(&mut text).unwrap();
    text
}
