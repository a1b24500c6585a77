//! What a user adds in a directory of the user's own: a signal, one more query of a shipped engine.

use std::fs;
use std::path::Path;

use llm_diagnose::check::lint;
use llm_diagnose::playbook::{Library, load};
use tempfile::TempDir;

const CATALOG: &str = "schema: 1
signals:
  page_faults: { title: page faults, unit: per_second, bad: high, fleet: sum, meaning: Pages that were read from disk. }
";

const QUERY: &str = "engine: vllm
schema: 1
signals:
  page_faults:
    query: 'sum by ($by) (rate(process_page_faults_total{$scope}[$window]))'
";

fn directory(files: &[(&str, &str)]) -> TempDir {
    let directory = tempfile::tempdir().unwrap();
    fs::create_dir(directory.path().join("signals")).unwrap();
    for (name, text) in files {
        fs::write(directory.path().join(name), text).unwrap();
    }
    directory
}

fn loaded(directory: &Path) -> Library {
    load(Some(directory)).unwrap_or_else(|problems| panic!("{problems:?}"))
}

/// Every problem, also in shipped files, which a user cannot change; the directory is called `own`.
fn problems(directory: &Path) -> Vec<String> {
    let own = directory.display().to_string();
    lint(&loaded(directory)).iter().map(|problem| problem.to_string().replace(&own, "own")).collect()
}

#[test]
fn an_own_signal_that_one_shipped_engine_tells_leaves_nothing_to_fix_in_shipped_files() {
    let own = directory(&[("signals/catalog.yaml", CATALOG), ("signals/vllm.yaml", QUERY)]);
    assert_eq!(problems(own.path()), Vec::<String>::new());
    let library = loaded(own.path());
    let vllm = &library.engines["vllm"].signals;
    assert!(vllm["page_faults"].query.is_some() && vllm["ttft_p99"].query.is_some());
    assert!(!library.engines["sglang"].signals.contains_key("page_faults"));
}

#[test]
fn an_own_query_takes_the_place_of_a_shipped_one_and_a_whole_file_that_of_the_whole() {
    let query = "max by ($by) (our_cache_usage{$scope})";
    let own = directory(&[(
        "signals/vllm.yaml",
        &format!("engine: vllm\nschema: 1\nsignals:\n  kv_cache_usage:\n    query: '{query}'\n"),
    )]);
    let vllm = &loaded(own.path()).engines["vllm"];
    assert_eq!(vllm.signals["kv_cache_usage"].query.as_deref(), Some(query));
    assert_eq!(problems(own.path()), Vec::<String>::new());
    let whole =
        "engine: vllm\nschema: 1\nkind: serving\nsource: []\ndetect: up\nreplica: [pod]\nscope: {}\nsignals: {}\n";
    let own = directory(&[("signals/vllm.yaml", whole)]);
    assert!(loaded(own.path()).engines["vllm"].signals.is_empty());
}

#[test]
fn what_is_wrong_in_own_signals_is_shown_in_the_users_files() {
    let untold = directory(&[("signals/catalog.yaml", CATALOG)]);
    let expected =
        "own/signals/catalog.yaml:3: no engine tells signal `page_faults`, not even as unsupported (signal/untold)";
    let found = problems(untold.path());
    assert!(found.len() == 1 && found[0].starts_with(expected), "{found:?}");
    let broken = QUERY.replace("$window", "$range");
    let own = directory(&[("signals/catalog.yaml", CATALOG), ("signals/vllm.yaml", &broken)]);
    let found = problems(own.path());
    assert!(found.len() == 1 && found[0].starts_with("own/signals/vllm.yaml:4: signal `page_faults`"), "{found:?}");
    let misspelt = directory(&[("signals/vllm.yaml", &QUERY.replace("signals:", "signal:"))]);
    let found = load(Some(misspelt.path())).unwrap_err();
    assert!(found[0].hint.as_deref() == Some("did you mean `signals`?"), "{found:?}");
}
