//! Bundles as people get them: kept on a disk that never fills up, uploaded or linked, and made at a shell.

mod at_a_shell;
mod in_slack;
mod links;
mod load;
mod stops;

use std::collections::BTreeMap;
use std::io::{Cursor, Read};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use bundle::{
    Builds, BundleDirectory, BundleError, BundleLocation, BundleProgress, BundleService, Draft, Links, Name, NoBundle,
    Options, SourceRegistry, bundle_message, bundle_progress, make,
};
use diagnose::LogSources;
use jiff::Timestamp;
use knowledge::alert::AlertGroup;
use knowledge::clock;
use knowledge::incident::AdmissionRules;
use notify::{HistoryCache, Notifier, Rates};
use redact::RedactionCount;
use render::Phrases;
use report::{Report, ReportPart, SourceFindings, Stage};
use serde_json::Value;
use service::config::{BundleConfig, Config};
use service::{Signer, Subject};

use sources::exporter;
use sources::exporter::ExporterReader;
use store::{AdmissionPlan, Store};
use tempfile::TempDir;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::harness::{client, library};
use crate::running::{group, tls};

/// A bundle service with its files in `dir`, for a test's own desk.
pub(crate) fn bundle_service(dir: &Path, notifier: &Arc<Notifier>) -> Arc<BundleService> {
    bundle_service_with(dir, notifier, BundleConfig::default())
}

fn bundle_service_with(dir: &Path, notifier: &Arc<Notifier>, config: BundleConfig) -> Arc<BundleService> {
    // Whatever machine this runs on.
    let config = BundleConfig { min_free_bytes: config.min_free_bytes.min(1 << 62), ..config };
    Arc::new(BundleService {
        notifier: Arc::clone(notifier),
        registry: registry(notifier),
        directory: BundleDirectory::open(&config, dir).unwrap(),
        links: Links {
            signer: Arc::new(Signer::new(&[7; 32]).unwrap()),
            public_url: String::new(),
            good_for: Duration::from_secs(60),
        },
        tasks: TaskTracker::new(),
        stop: CancellationToken::new(),
        builds: Builds::default(),
    })
}

fn registry(notifier: &Notifier) -> SourceRegistry {
    let exporters = exporter::Config { learn: false, ..exporter::Config::default() };
    let config = Config { exporters, ..Config::default() };
    let (library, words) = (Arc::clone(&notifier.library), Arc::clone(&notifier.words));
    let logs = LogSources::default();
    let (reader, redactor) = (ExporterReader::new(&[]).unwrap(), notifier.redactor.clone());
    SourceRegistry::new(&config, library, words, notifier.prometheus.clone(), reader, logs, redactor)
}

/// The `summary.json` of a bundle; fails for what is no whole zip.
pub(crate) fn summary(zip: &[u8]) -> Value {
    serde_json::from_slice(&entry(zip, "summary.json")).unwrap()
}

/// A file of a bundle.
#[track_caller]
fn entry(zip: &[u8], name: &str) -> Vec<u8> {
    let mut archive = zip::ZipArchive::new(Cursor::new(zip)).unwrap();
    let mut content = Vec::new();
    archive.by_name(name).unwrap_or_else(|error| panic!("{name}: {error}")).read_to_end(&mut content).unwrap();
    content
}

/// A store with an incident, and who speaks of it.
struct Kept {
    state: TempDir,
    store: Store,
    notifier: Arc<Notifier>,
    incident: String,
}

impl Kept {
    async fn new() -> Self {
        tls();
        let state = tempfile::tempdir().unwrap();
        let store = Store::open(&state.path().join("llm-diagnose.db")).await.unwrap();
        let incident = incident(&store, "LLMHighTTFT").await;
        let notifier = Arc::new(Notifier {
            store: store.clone(),
            slack: None,
            config: slack::Config::default(),
            words: Arc::new(Phrases::english()),
            metrics: Arc::default(),
            public_url: String::new(),
            dashboard_url: String::new(),
            prometheus: vec![(client("http://127.0.0.1:1"), BTreeMap::new())],
            library: Arc::new(library().clone()),
            diagnosing: diagnose::Config { deadline: Duration::from_secs(2), ..diagnose::Config::default() },
            pagers: Vec::new(),
            interactive: true,
            can_silence: true,
            redactor: crate::harness::redactor(false),
            rates: Rates::new(&slack::Config::default()),
            maintenance: notify::Maintenance::default(),
            history: HistoryCache::default(),
        });
        Self { state, store, notifier, incident }
    }

    async fn subject(&self) -> Subject {
        self.subject_after(&[]).await
    }

    /// The subject whose log has these events.
    async fn subject_after(&self, events: &[store::IncidentEvent]) -> Subject {
        let incident = self.store.incident(&self.incident).await.unwrap().unwrap();
        let diagnosing = diagnose::Config::default();
        Subject::of_incident(
            library(),
            incident,
            "late".to_owned(),
            events,
            &diagnosing,
            Duration::from_secs(60),
            clock::now(),
        )
    }

    fn bundles(&self) -> Vec<String> {
        let Ok(entries) = std::fs::read_dir(self.state.path().join("bundles")) else { return Vec::new() };
        let mut names: Vec<String> = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }
}

async fn incident(store: &Store, name: &str) -> String {
    let body = serde_json::to_vec(&group(name, "firing", "warning", &["a", "b"])).unwrap();
    let wanted = AdmissionPlan {
        selection: Some(("high-ttft".into(), "its name".into())),
        sinks: Vec::new(),
        filtered: Vec::new(),
        grace: Duration::ZERO,
        storm: crate::admission::CALM,
    };
    let rules = AdmissionRules { duplicate_within: Duration::ZERO, reopen_within: Duration::from_secs(600) };
    let groups = [(AlertGroup::from_webhook(&body).unwrap(), wanted)];
    store.admit(&groups, clock::now(), &rules).await.unwrap().remove(0).unwrap().incident
}

fn mode(path: &Path) -> u32 {
    std::os::unix::fs::PermissionsExt::mode(&std::fs::metadata(path).unwrap().permissions()) & 0o777
}

#[tokio::test]
async fn the_timeline_has_the_titles_of_causes_and_the_id_of_an_unknown_one() {
    let kept = Kept::new().await;
    let diagnosed =
        |cause: &str| store::IncidentEvent { at: clock::now(), what: "diagnosed".to_owned(), detail: cause.to_owned() };
    let subject = kept.subject_after(&[diagnosed("slot-limit"), diagnosed("of-a-former-version")]).await;
    let texts: Vec<&str> = subject.happened.iter().map(|happened| happened.what.as_str()).collect();
    for text in ["diagnosed: max_num_seqs reached: all batch slots are taken", "diagnosed: of-a-former-version"] {
        assert!(texts.contains(&text), "{texts:?}");
    }
}

#[tokio::test]
async fn who_asks_for_what_is_being_made_joins_and_gets_the_same_file() {
    let kept = Kept::new().await;
    let service = bundle_service(kept.state.path(), &kept.notifier);
    let [one, other] = [service.get_or_start(&kept.incident).unwrap(), service.get_or_start(&kept.incident).unwrap()];
    let (one, other) = tokio::join!(one.done(), other.done());
    let (one, other) = (one.unwrap(), other.unwrap());
    assert!(Arc::ptr_eq(&one, &other));
    assert_eq!(kept.bundles(), [one.name.to_string()]);
    assert_eq!((mode(&service.directory.dir), mode(&one.path)), (0o700, 0o600));
    let bytes = std::fs::read(&one.path).unwrap();
    assert_eq!(bytes.len() as u64, one.bytes);
    assert_eq!(summary(&bytes)["incident"]["id"], kept.incident.as_str());
    let gone = service.get_or_start("01NONE").unwrap().done().await.unwrap_err();
    assert!(matches!(*gone, NoBundle::Gone), "{gone}");
    assert_eq!(kept.bundles().len(), 1, "what failed leaves nothing");
}

#[tokio::test]
async fn too_many_at_once_are_refused_and_a_stop_leaves_no_file() {
    let kept = Kept::new().await;
    let service = bundle_service(kept.state.path(), &kept.notifier);
    let mut jobs = Vec::new();
    let refused = loop {
        let id = incident(&kept.store, &format!("LLMHighTTFT{}", jobs.len())).await;
        // No task runs before all are asked for: this one does not wait in between.
        jobs.push(id);
        if jobs.len() == 12 {
            break jobs.iter().map(|id| service.get_or_start(id)).collect::<Vec<_>>();
        }
    };
    let (taken, busy): (Vec<_>, Vec<_>) = refused.into_iter().partition(Result::is_ok);
    assert_eq!((taken.len(), busy.len()), (8, 4));
    assert!(busy.into_iter().all(|busy| matches!(busy, Err(NoBundle::Busy))));
    service.stop.cancel();
    for job in taken {
        let ended = job.unwrap().done().await.unwrap_err();
        assert!(matches!(*ended, NoBundle::Bundle(BundleError::Stopped)), "{ended}");
    }
    service.tasks.close();
    service.tasks.wait().await;
    assert_eq!(kept.bundles(), Vec::<String>::new());
    assert!(service.get_or_start(&jobs[0]).is_err());
}

#[tokio::test]
async fn a_full_disk_is_said_with_what_is_free_and_what_to_do_and_keeps_no_file() {
    let kept = Kept::new().await;
    let full = BundleConfig { min_free_bytes: u64::MAX / 2, ..BundleConfig::default() };
    let service = bundle_service_with(kept.state.path(), &kept.notifier, full);
    let error = service.get_or_start(&kept.incident).unwrap().done().await.unwrap_err().to_string();
    for part in ["there is no room for a bundle in ", " are free, and ", "bundle.min_free_bytes", "bundle.dir"] {
        assert!(error.contains(part), "{part}: {error}");
    }
    // A device that is always full: the disk's own answer, while it is being written.
    let name = kept.state.path().join("bundles").join("full.zip");
    let part = name.with_file_name("full.zip.part");
    std::os::unix::fs::symlink("/dev/full", &part).unwrap();
    let draft = Draft::new(name.clone(), u64::MAX, 512 << 20).unwrap();
    let error = write(&kept, &draft, u64::MAX).await;
    assert!(error.contains("there is no room") && error.contains("512 MiB must stay free"), "{error}");
    drop(draft);
    assert_eq!(kept.bundles(), Vec::<String>::new());
    // The bound that is set before, reached on the way.
    let draft = Draft::new(name.clone(), 64, 0).unwrap();
    let error = write(&kept, &draft, draft.most).await;
    assert!(error.contains("larger than 64 B") && error.contains("bundle.series_bytes"), "{error}");
    drop(draft);
    assert_eq!(kept.bundles(), Vec::<String>::new());
}

async fn write(kept: &Kept, draft: &Draft, file_bytes: u64) -> String {
    let options = Options { file_bytes, ..Options::of(&BundleConfig::default()) };
    let sources = registry(&kept.notifier).sources(&[], Vec::new(), Vec::new());
    let made = make(&sources, &kept.subject().await, &options, &draft.part, &BundleProgress::default()).await;
    draft.explain(made.unwrap_err()).to_string()
}

#[test]
fn old_bundles_go_first_and_what_a_crash_left_is_removed() {
    let state = tempfile::tempdir().unwrap();
    let dir = state.path().join("bundles");
    let config = BundleConfig {
        keep: Duration::from_secs(3_600),
        keep_bytes: 250,
        min_free_bytes: 0,
        ..BundleConfig::default()
    };
    let directory = BundleDirectory::open(&config, state.path()).unwrap();
    let now: Timestamp = "2026-11-20T12:00:00Z".parse().unwrap();
    let put = |of: &str, ago: u64, bytes: usize| {
        let name = Name { of: of.to_owned(), at: clock::before(now, Duration::from_secs(ago)) };
        std::fs::write(directory.path(&name), vec![0; bytes]).unwrap();
    };
    for (of, ago, bytes) in [("A", 3_700, 10), ("B", 3_000, 100), ("C", 2_000, 100), ("D", 1_000, 100)] {
        put(of, ago, bytes);
    }
    std::fs::write(dir.join("notes.txt"), "somebody's own").unwrap();
    let names = || directory.list(None).unwrap().into_iter().map(|kept| kept.name.of).collect::<Vec<_>>();
    assert_eq!(names(), ["A", "B", "C", "D"]);
    let draft = directory.begin("E", now).unwrap();
    assert_eq!(names(), ["C", "D"], "A is too old; with B all together are too large");
    // Another start finds one that is being written, and one that nobody writes any more.
    let left = dir.join("llm-diagnose-F-20261120T110000Z.zip.part");
    std::fs::write(&left, "half").unwrap();
    BundleDirectory::open(&config, state.path()).unwrap();
    assert!(!left.exists() && draft.part.exists());
    std::fs::write(&draft.part, "whole").unwrap();
    let path = draft.publish(true).unwrap();
    assert_eq!(std::fs::read(&path).unwrap(), b"whole");
    assert_eq!(directory.list(Some("E")).unwrap().len(), 1);
    assert!(dir.join("notes.txt").exists(), "what is not ours stays");
    let taken = Draft::new(path.clone(), 1, 0).unwrap().publish(false);
    assert!(taken.is_err_and(|error| error.to_string().contains("llm-diagnose-E")));
    assert_eq!(std::fs::read(&path).unwrap(), b"whole");
    let own = service::own_key(state.path()).unwrap();
    assert_eq!(own.len(), 32);
}

fn part(name: &str, stage: Stage, note: &str) -> ReportPart {
    ReportPart { name: name.to_owned(), stage, note: note.to_owned(), bytes: 0, took_seconds: 0.0 }
}

#[tokio::test]
async fn who_waits_sees_which_parts_are_over_and_in_the_end_what_is_missing_and_what_was_taken_out() {
    let parts = vec![
        part("series", Stage::Running, ""),
        part("metrics", Stage::Done, ""),
        part("logs", Stage::Failed, "Loki cannot be reached"),
        part("events", Stage::Partial, ""),
        part("kubernetes", Stage::Skipped, "not configured"),
    ];
    let shown = |message: &message::Message| anstream::adapter::strip_str(&render::terminal(message)).to_string();
    let english = Phrases::english();
    let told = shown(&bundle_progress(&parts, &english));
    for expected in ["4 of 5 parts finished", "done metrics", "running series", "failed logs", "skipped kubernetes"] {
        assert!(told.contains(expected), "{expected}: {told}");
    }
    assert!(shown(&bundle_progress(&[], &english)).contains("waits for its turn"));
    let kept = Kept::new().await;
    let subject = kept.subject().await;
    let redacted = |place: &str, rule: &str, count| RedactionCount { place: place.into(), rule: rule.into(), count };
    let report = Report {
        complete: false,
        parts,
        redacted: vec![redacted("logs/a.log", "hf-token", 2), redacted("incident.json", "hf-token", 1)],
        ..report::build(subject.about(), SourceFindings::default(), clock::now())
    };
    let place = || BundleLocation::File("a.zip".to_owned());
    let told = shown(&bundle_message(&report, 3 << 20, "4XQ7", place(), None, &english));
    for expected in [
        "The bundle of 4XQ7 is made, but incomplete: 3 MiB",
        "logs: Loki cannot be reached",
        "events: the reason is unknown",
        "does not apply: kubernetes",
        "3 secrets or names were redacted in 2 files: hf-token 3",
    ] {
        assert!(told.contains(expected), "{expected}: {told}");
    }
}
