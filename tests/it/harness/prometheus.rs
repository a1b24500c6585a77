//! The one Prometheus of the data suites, and the product's client for it.

use std::fs::{self, File};
use std::io::Write;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::LazyLock;

use llm_diagnose_lab::sim::History;
use llm_diagnose_lab::stack;
use prom::{Config, Prometheus};

use super::{library, run, tls};

/// A Prometheus that holds the histories of all data suites; the first test that asks for it waits for its start.
pub(crate) fn shared() -> &'static Prometheus {
    static SHARED: LazyLock<KeptPrometheus> = LazyLock::new(start);
    &SHARED.client
}

/// The product's client for an address.
pub(crate) fn client(url: &str) -> Prometheus {
    tls();
    Prometheus::new(&Config { url: url.to_owned(), ..Config::default() }).unwrap()
}

/// Returns the samples of a simulated history whose metrics a signal or `up` reads.
/// All samples of a vLLM page, with buckets that no signal reads, would make the import three times as long.
pub(crate) fn simulated(history: &History) -> String {
    let queries: String = library()
        .engines
        .values()
        .flat_map(|engine| {
            engine.signals.values().filter_map(|entry| entry.query.clone()).chain([engine.detect.clone()])
        })
        .collect();
    let probes =
        library().engines.values().flat_map(|engine| engine.versions.iter().map(|probe| probe.metric.as_str()));
    let probes: Vec<&str> = probes.collect();
    let is_queried = |name: &str| {
        let always = name.starts_with("DCGM_") || name.starts_with("kube_") || name == "up";
        always || probes.contains(&name) || queries.contains(name)
    };
    let mut text = Vec::new();
    history.write(&mut text).unwrap();
    let text = String::from_utf8(text).unwrap();
    let mut filtered = String::with_capacity(text.len());
    let mut last = ("", false);
    for line in text.split_inclusive('\n').filter(|line| !line.starts_with('#')) {
        let (name, _) = line.split_once('{').unwrap();
        if last.0 != name {
            last = (name, is_queried(name));
        }
        if last.1 {
            filtered.push_str(line);
        }
    }
    filtered
}

/// A Prometheus that lives as long as the test process: a static is never dropped, but the guard sees our end by its
/// closed input, even after a crash.
pub(crate) struct KeptPrometheus {
    pub(crate) client: Prometheus,
    _guard: Child,
    _server: stack::Prometheus,
}

impl KeptPrometheus {
    pub(crate) async fn of(server: stack::Prometheus) -> Self {
        let flags = server.api("status/flags").await.unwrap();
        let guard = guard(Path::new(flags["storage.tsdb.path"].as_str().unwrap()));
        Self { client: client(&server.url), _guard: guard, _server: server }
    }
}

fn start() -> KeptPrometheus {
    let histories = tempfile::tempdir().unwrap();
    let [engines, neighbours, simulated, gone, lost] =
        ["engines", "neighbours", "simulated", "gone", "lost"].map(|name| histories.path().join(name));
    for (path, history) in [&engines, &neighbours].into_iter().zip(crate::signals::captured_histories()) {
        fs::write(path, history).unwrap();
    }
    let mut file = File::create(&simulated).unwrap();
    for history in crate::chains::histories().into_iter().chain(crate::signals::histories()) {
        file.write_all(history.as_bytes()).unwrap();
    }
    file.write_all(b"# EOF\n").unwrap();
    fs::write(&gone, crate::health::history() + "# EOF\n").unwrap();
    fs::write(&lost, crate::signals::losses() + "# EOF\n").unwrap();
    run(async {
        let builder = stack::Prometheus::builder().backfill(engines).backfill(neighbours).backfill(simulated);
        KeptPrometheus::of(builder.backfill(gone).backfill(lost).start().await.unwrap()).await
    })
}

/// A shell that waits for our end, then ends the Prometheus of this data directory and removes the directory.
fn guard(data: &Path) -> Child {
    let id = process_with(data).map_or_else(String::new, |id| id.to_string());
    Command::new("sh")
        .args(["-c", "read _; test -n \"$1\" && kill -9 \"$1\"; rm -rf \"$2\"", "guard", &id])
        .arg(data.parent().unwrap())
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap()
}

/// The id of the process that names this path on its command line; none where there is no `/proc`.
fn process_with(path: &Path) -> Option<u32> {
    let path = path.to_str()?;
    fs::read_dir("/proc").ok()?.flatten().find_map(|entry| {
        let line = fs::read(entry.path().join("cmdline")).ok()?;
        String::from_utf8_lossy(&line).contains(path).then(|| entry.file_name().to_str()?.parse().ok())?
    })
}
