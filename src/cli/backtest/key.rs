//! The identity of a run and of its parts: hashes of what results depend on.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use jiff::Timestamp;

use super::BacktestArgs;
use super::read::{FiringsFile, hash};
use service::config::Config;

use knowledge::playbook::Library;

/// Characters of an id: enough for a few thousand firings, and short enough to be typed.
const ID: usize = 12;

/// Returns a hash that differs where results may. How long a query may take and how many are sent does not count, so that a
/// run that was too impatient can go on.
pub(super) fn hash_of_run(
    args: &BacktestArgs,
    config: &Config,
    prometheus: &prom::Config,
    library: &Library,
    file: Option<&FiringsFile>,
) -> String {
    let diagnose = diagnose::Config { deadline: Duration::ZERO, ..config.diagnose.clone() };
    let source = (&prometheus.url, &prometheus.headers, &prometheus.bearer_token_file);
    let range = (&args.since, &args.until, &args.only, args.max_firings);
    let data = (&library.files, &config.engines, &config.slo);
    let file = file.map(|file| &file.hash);
    hash(&format!("{} {source:?} {range:?} {file:?} {diagnose:?} {data:?}", env!("CARGO_PKG_VERSION")))
}

/// Returns the id of a firing, or of a pool: a hash of its labels and its start.
pub(super) fn id(labels: &BTreeMap<String, String>, start: Option<Timestamp>) -> String {
    hash(&format!("{labels:?} {:?}", start.map(Timestamp::as_second))).chars().take(ID).collect()
}

/// Returns true if two paths name one file, which need not exist yet.
pub(super) fn is_same_file(a: &Path, b: &Path) -> bool {
    let place = |path: &Path| {
        let dir = path.parent().filter(|dir| !dir.as_os_str().is_empty()).unwrap_or(Path::new("."));
        let new = || Some(std::fs::canonicalize(dir).ok()?.join(path.file_name()?));
        std::fs::canonicalize(path).ok().or_else(new)
    };
    place(a).is_some_and(|a| Some(a) == place(b))
}

/// Returns the path of the state file; `None` if nothing is kept.
pub(super) fn state_path(args: &BacktestArgs) -> Option<PathBuf> {
    let beside = || {
        let mut name = args.html.as_ref()?.clone().into_os_string();
        name.push(".state");
        Some(PathBuf::from(name))
    };
    args.state.clone().or_else(beside)
}
