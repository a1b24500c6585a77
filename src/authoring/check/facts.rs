//! Lints of the data behind reports: `report.yaml`, and `histograms`, `info` and `changes` of the engines' files.

use super::file_lint::FileLint;
use super::promql;
use knowledge::playbook::{Library, Lint, Problem};
use knowledge::signal::Engine;
use knowledge::signal::TenantSeries;

/// Checks that names are in the catalog, queries parse and bind, and labels are named once.
pub(super) fn facts(library: &Library, problems: &mut Vec<Problem>) {
    let mut lint = FileLint { library, path: "report.yaml", problems };
    for name in library.report.all() {
        lint.known(Lint::ReportUnknownSignal, name, ("signal", name), &library.signals);
    }
    for engine in library.engines.values() {
        let Some(file) = library.files.get(&format!("signals/{}.yaml", engine.engine)) else { continue };
        let mut say = |lint, needle: &str, message, hint| problems.push(Problem::at(lint, file, needle, message, hint));
        for names in engine.histograms.values() {
            let wrong = |name: &&String| names.is_empty() || name.ends_with("_bucket") || name.contains(['{', ' ']);
            for name in names.iter().filter(wrong) {
                let hint = Some("write its name without `_bucket`, `_sum` or `_count`".to_owned());
                say(Lint::HistogramName, name, format!("`{name}` is no name of a histogram"), hint);
            }
        }
        let infos = engine.info.iter().map(|info| (info.metric.as_str(), info.query.as_str()));
        let changes = engine.changes.values().map(|query| ("changes", query.as_str()));
        let queries = infos.chain(changes);
        let queries = queries.chain(tenants(engine));
        for (needle, query) in queries {
            if let Some((lint, message, hint)) = promql::problem(engine, query) {
                say(lint, needle, format!("`{needle}`: {message}"), hint);
            }
        }
        for info in &engine.info {
            let tells = !info.tells.is_empty() || !info.versions.is_empty() || info.interconnect.is_some();
            if !tells && !info.shown && !info.counts_gpus {
                let message = format!("`{}` is asked for nothing", info.metric);
                say(Lint::InfoIdle, &info.metric, message, Some("write `tells:`, `versions:` or `shown: true`".into()));
            }
        }
    }
}

/// Returns the queries that tell an engine's tenants apart.
fn tenants(engine: &Engine) -> Vec<(&str, &str)> {
    let Some(TenantSeries { requests, failed, first_token, tokens, .. }) = &engine.tenants else { return Vec::new() };
    let queries = [requests, failed, first_token].into_iter().chain(tokens);
    queries.map(|query| ("tenants", query.as_str())).collect()
}
