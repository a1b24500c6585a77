//! What a user adds in a directory of the user's own: skeletons, a signal, one more query of a shipped engine.

use std::fs;
use std::path::Path;
use std::process::{Command, Output};

use authoring::check::{lint, phrases, run, verifies};
use authoring::generate::skeleton_change;
use knowledge::playbook::{Library, Lint, load};
use tempfile::TempDir;

use crate::running::BINARY;

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

fn new(directory: &Path, arguments: &[&str]) -> Output {
    Command::new(BINARY).arg("new").args(arguments).arg("--into").arg(directory).output().unwrap()
}

fn said(output: &Output) -> String {
    format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr))
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
    let before = QUERY.replace("{$scope}", "{$scope, mode=\"a\"}");
    let own = directory(&[("signals/catalog.yaml", CATALOG), ("signals/vllm.yaml", &before)]);
    let found = problems(own.path());
    assert!(found.len() == 1 && found[0].ends_with("write `$scope` last in its braces: it may be empty"), "{found:?}");
    let misspelt = directory(&[("signals/vllm.yaml", &QUERY.replace("signals:", "signal:"))]);
    let found = load(Some(misspelt.path())).unwrap_err();
    assert!(found[0].hint.as_deref() == Some("did you mean `signals`?"), "{found:?}");
}

#[test]
fn an_engine_is_asked_for_each_shipped_signal_and_not_for_the_burn_rates_made_of_them() {
    let mut library = load(None).unwrap();
    library.engines.get_mut("vllm").unwrap().signals.retain(|name, _| !name.starts_with("client_error_"));
    let found: Vec<_> = lint(&library).into_iter().filter(|problem| problem.lint == Lint::SignalUnanswered).collect();
    let found: Vec<_> = found.iter().map(|problem| problem.message.as_str()).collect();
    assert_eq!(found, ["vllm does not answer `client_error_ratio`"]);
}

#[test]
fn a_fresh_skeleton_says_what_is_to_be_filled_in_and_passes_its_test() {
    let own = tempfile::tempdir().unwrap();
    let dir = own.path().join("playbooks");
    let query = "sum by ($by) (rate(vllm:page_faults_total{$scope}[$window]))";
    let skeletons: [(&[&str], &[&str]); 5] = [
        (&["playbook", "chat-slow"], &["symptoms/chat-slow.yaml", "symptoms/chat-slow.test.yaml"]),
        (
            &["playbook", "disk-busy", "--kind", "mechanism"],
            &["mechanisms/disk-busy.yaml", "mechanisms/disk-busy.test.yaml"],
        ),
        (&["cause", "swap-full"], &["causes/swap-full.yaml"]),
        (
            &["signal", "page_faults", "--engine", "vllm", "--query", query],
            &["signals/catalog.yaml", "signals/vllm.yaml"],
        ),
        (
            &[
                "signal",
                "page_misses",
                "--engine",
                "vllm",
                "--query",
                query,
                "--unit",
                "per_second",
                "--title",
                "it's: #1",
            ],
            &["signals/catalog.yaml", "signals/vllm.yaml"],
        ),
    ];
    for (arguments, files) in skeletons {
        let output = new(&dir, arguments);
        assert!(output.status.success(), "{}", said(&output));
        for file in files {
            let path = dir.join(file);
            assert!(path.is_file() && said(&output).contains(&path.display().to_string()), "{}", said(&output));
        }
        assert!(said(&output).contains(&format!("llm-diagnose check {}", dir.display())), "{}", said(&output));
    }
    let before = texts(&dir);
    for (arguments, _) in skeletons {
        let output = new(&dir, arguments);
        assert_eq!(output.status.code(), Some(2), "{}", said(&output));
    }
    assert_eq!(texts(&dir), before);

    let library = loaded(&dir);
    assert_eq!(library.signals["page_misses"].title, "it's: #1");
    assert_eq!(library.engines["vllm"].signals["page_faults"].query.as_deref(), Some(query));
    let found = lint(&library);
    let (open, others): (Vec<_>, Vec<_>) = found.iter().partition(|problem| problem.lint == Lint::FilesTodo);
    assert!(open.iter().all(|problem| problem.message == "still to be filled in"), "{open:?}");
    let others: Vec<_> = others.iter().map(|problem| problem.lint).collect();
    assert_eq!((open.len() > 20, others), (true, vec![Lint::CauseUnused]));
    let cases = run(&library).unwrap();
    let failed: Vec<_> = cases.iter().flat_map(|case| &case.failures).collect();
    assert!(failed.is_empty() && cases.iter().filter(|case| case.playbook == "chat-slow").count() == 4, "{failed:?}");
    assert_eq!(verifies(&library), []);

    // Filled in, and the cause listed, nothing is left to say.
    for (path, text) in before {
        let text = text.replace("TODO ", "").replace("TODO", "example.org");
        let text = text.replace("its exact command in back-ticks", "`kubectl get pods`");
        fs::write(path, text.replace("- cause: traffic-surge\n", "- cause: traffic-surge\n  - cause: swap-full\n"))
            .unwrap();
    }
    assert_eq!(problems(&dir), Vec::<String>::new());
}

/// The files of a directory of playbooks, with their text.
fn texts(directory: &Path) -> Vec<(std::path::PathBuf, String)> {
    let folders = ["symptoms", "mechanisms", "causes", "signals"].map(|folder| directory.join(folder));
    let files = folders.iter().flat_map(|folder| fs::read_dir(folder).unwrap()).map(|entry| entry.unwrap().path());
    files.filter(|path| path.is_file()).map(|path| (path.clone(), fs::read_to_string(path).unwrap())).collect()
}

#[test]
fn a_query_and_a_title_are_read_back_as_they_were_given() {
    let own = directory(&[]);
    let directory = own.path().join("my playbooks");
    let title = "it's \"new\": {a} # b\n\\";
    let query = "sum by ($by) ( # it's: \"why\"\n  rate(vllm:page_faults_total{a=\"b # c\", $scope}[$window])\n)";
    for id in ["page_faults", "page_misses"] {
        let output = new(&directory, &["signal", id, "--engine", "vllm", "--query", query, "--title", title]);
        assert!(output.status.success(), "{}", said(&output));
        let next = format!("llm-diagnose check '{}'\n", directory.display());
        assert!(said(&output).contains(&next), "{}", said(&output));
    }
    let library = loaded(&directory);
    for id in ["page_faults", "page_misses"] {
        assert_eq!(library.signals[id].title, title);
        assert_eq!(library.engines["vllm"].signals[id].query.as_deref().map(str::trim_end), Some(query));
    }
    assert!(lint(&library).iter().all(|problem| problem.lint == Lint::FilesTodo), "{:?}", problems(&directory));
    let mut explain = Command::new(BINARY);
    let output = explain.args(["explain", "--queries", "page_faults", "--playbooks"]).arg(&directory).output().unwrap();
    let shown = said(&output);
    let line = "sum by () ( rate(vllm:page_faults_total{a=\"b # c\", }[300s]) )";
    assert_eq!(shown.lines().collect::<Vec<_>>(), ["# it's \"new\": {a} # b \\ (vllm)", line], "{shown}");
}

#[test]
fn a_change_of_anything_shipped_has_a_skeleton_that_loads_and_passes() {
    let library = load(None).unwrap();
    let leaves = library.playbooks.values().flat_map(|playbook| &playbook.causes).filter_map(|entry| entry.id.as_ref());
    let own = tempfile::tempdir().unwrap();
    fs::create_dir(own.path().join("overrides")).unwrap();
    let ids: Vec<_> = library.playbooks.keys().chain(library.causes.keys()).chain(leaves).collect();
    for id in &ids {
        let files = skeleton_change::override_of(&library, id).unwrap();
        fs::write(own.path().join(&files[0].path), &files[0].text).unwrap();
    }
    let changed = loaded(own.path());
    let found = lint(&changed);
    assert!(found.iter().all(|problem| problem.lint == Lint::FilesTodo) && found.len() == ids.len(), "{found:?}");
    // It changes nothing until somebody edits it.
    assert_eq!((changed.replacements.len(), changed.left_out.len()), (0, 0));
    assert_eq!((&changed.playbooks, &changed.causes), (&library.playbooks, &library.causes));
    assert_eq!(verifies(&changed), []);

    // Each line is one that could stand there.
    for id in &ids {
        let path = own.path().join(format!("overrides/{id}.yaml"));
        let text = fs::read_to_string(&path).unwrap();
        let lines = text.lines().skip(2).map(|line| line.strip_prefix("# ").unwrap_or(line));
        fs::write(&path, lines.map(|line| format!("{line}\n")).collect::<String>()).unwrap();
    }
    let changed = loaded(own.path());
    assert_eq!(changed.left_out, []);
    assert!(changed.replacements.len() > 3 * ids.len(), "{} of {}", changed.replacements.len(), ids.len());
}

#[test]
fn a_phrase_and_another_query_are_written_with_what_is_shipped() {
    let own = directory(&[]);
    for key in ["do-now", "do-now-some"] {
        let output = new(own.path(), &["phrase", key]);
        assert!(output.status.success(), "{}", said(&output));
    }
    let text = fs::read_to_string(own.path().join("phrases/en/own.ftl")).unwrap();
    assert_eq!(text, "do-now = Do now\ndo-now-some = Do now ({ $shown } of { $n })\n");
    let output = new(own.path(), &["phrase", "do-now"]);
    assert!(said(&output).contains("has a phrase `do-now`: change it there"), "{}", said(&output));
    let query = ["signal", "kv_cache_usage", "--engine", "vllm", "--query", "max by ($by) (x{$scope})", "--replace"];
    assert!(new(own.path(), &query).status.success());
    let vllm = &loaded(own.path()).engines["vllm"];
    assert_eq!(vllm.signals["kv_cache_usage"].query.as_deref(), Some("max by ($by) (x{$scope})"));
    let shipped = &load(None).unwrap().engines["vllm"];
    assert_eq!(vllm.signals["kv_cache_usage"].enable, shipped.signals["kv_cache_usage"].enable);
    assert_eq!((problems(own.path()), phrases(Some(own.path()))), (vec![], vec![]));
}

#[test]
fn a_phrase_is_not_written_where_another_file_of_the_user_has_it() {
    let own = directory(&[]);
    fs::create_dir_all(own.path().join("phrases/en")).unwrap();
    fs::write(own.path().join("phrases/en/ours.ftl"), "do-now = First\n").unwrap();
    let output = new(own.path(), &["phrase", "do-now"]);
    assert!(said(&output).contains("ours.ftl has a phrase `do-now`: change it there"), "{}", said(&output));
    fs::write(own.path().join("phrases/en/own.ftl"), "").unwrap();
    assert!(new(own.path(), &["phrase", "why"]).status.success());
}

#[test]
fn an_entry_of_ones_own_says_what_it_loses_of_the_shipped_one() {
    let entry =
        "engine: vllm\nschema: 1\nsignals:\n  stalled_requests: { query: \"max by ($by) (x{$scope})\", since: ours }\n";
    let own = directory(&[("signals/vllm.yaml", entry)]);
    let replacements = loaded(own.path()).replacements;
    assert_eq!(replacements[0].what, "the entry of `stalled_requests` for vllm, without its `window`");
}

#[test]
fn a_skeleton_is_written_whole_or_not_at_all() {
    let own = directory(&[("chat-slow.test.yaml", "playbook: chat-slow\ncases: []\n")]);
    let output = new(own.path(), &["playbook", "chat-slow"]);
    assert_eq!(output.status.code(), Some(2), "{}", said(&output));
    assert!(said(&output).contains("chat-slow.test.yaml exists"), "{}", said(&output));
    assert!(!own.path().join("symptoms").exists());
}

const MISSES: [&str; 6] = ["signal", "page_misses", "--engine", "vllm", "--query", "up{$scope}"];

#[test]
fn a_signal_that_cannot_be_written_leaves_the_file_as_it_was() {
    let own = directory(&[("signals/catalog.yaml", CATALOG), ("signals/vllm.yaml", QUERY)]);
    // No file may grow, as on a full disk.
    let full = "trap '' XFSZ; ulimit -f 0; exec \"$0\" \"$@\"";
    let mut command = Command::new("sh");
    let output = command.args(["-c", full, BINARY, "new"]).args(MISSES).arg("--into").arg(own.path()).output().unwrap();
    assert!(!output.status.success() && said(&output).contains("cannot write"), "{}", said(&output));
    assert_eq!(fs::read_to_string(own.path().join("signals/catalog.yaml")).unwrap(), CATALOG);
    assert_eq!(fs::read_to_string(own.path().join("signals/vllm.yaml")).unwrap(), QUERY);
}

#[cfg(unix)]
#[test]
fn a_write_protected_file_is_refused_and_left_as_it_was() {
    use std::os::unix::fs::PermissionsExt;

    let own = directory(&[("signals/catalog.yaml", CATALOG), ("signals/vllm.yaml", QUERY)]);
    let catalog = own.path().join("signals/catalog.yaml");
    fs::set_permissions(&catalog, fs::Permissions::from_mode(0o444)).unwrap();
    // The superuser may write it all the same.
    if fs::OpenOptions::new().write(true).open(&catalog).is_ok() {
        return;
    }
    let output = new(own.path(), &MISSES);
    assert!(!output.status.success() && said(&output).contains("cannot write"), "{}", said(&output));
    assert_eq!(fs::read_to_string(&catalog).unwrap(), CATALOG);
}

#[cfg(unix)]
#[test]
fn a_file_that_grows_stays_a_link_and_keeps_its_permissions() {
    use std::os::unix::fs::{PermissionsExt, symlink};

    let shared = directory(&[("signals/catalog.yaml", CATALOG)]);
    let catalog = shared.path().join("signals/catalog.yaml");
    fs::set_permissions(&catalog, fs::Permissions::from_mode(0o606)).unwrap();
    let own = directory(&[("signals/vllm.yaml", QUERY)]);
    let link = own.path().join("signals/catalog.yaml");
    symlink(&catalog, &link).unwrap();
    let output = new(own.path(), &MISSES);
    assert!(output.status.success(), "{}", said(&output));
    assert!(fs::symlink_metadata(&link).unwrap().is_symlink());
    assert_eq!(fs::metadata(&catalog).unwrap().permissions().mode() & 0o777, 0o606);
    assert!(loaded(own.path()).signals.contains_key("page_misses"));
    let entries = [&shared, &own].map(|directory| fs::read_dir(directory.path().join("signals")).unwrap());
    let mut names: Vec<_> = entries.into_iter().flatten().map(|entry| entry.unwrap().file_name()).collect();
    names.sort();
    assert_eq!(names, ["catalog.yaml", "catalog.yaml", "vllm.yaml"]);
}

#[test]
fn what_cannot_be_added_is_refused_with_the_reason() {
    let own = directory(&[]);
    let cases: [(&[&str], &str); 13] = [
        (&["playbook", "Chat Slow"], "`Chat Slow` is no id: expected lower-case words joined by `-`"),
        (&["playbook", "../outside"], "`../outside` is no id"),
        (&["cause", "null"], "`null` is no id: YAML reads it as no value"),
        (&["playbook", "high-ttft"], "`high-ttft` is taken"),
        (&["playbook", "health"], "`health` is taken"),
        (&["cause", "slot-limit"], "`slot-limit` is taken"),
        (&["playbook", "chat-slow", "--kind", "leaf"], "expected `symptom` or `mechanism`"),
        (&["signal", "page-faults", "--engine", "vllm", "--query", "x"], "joined by `_`"),
        (&["signal", "page_faults", "--engine", "vllm", "--query", " "], "it is empty"),
        (&["signal", "page_faults", "--engine", "vlm", "--query", "x"], "did you mean `vllm`?"),
        (&["signal", "kv_cache_usage", "--engine", "vllm", "--query", "x"], "`vllm` tells `kv_cache_usage` already"),
        (&["override", "trafic-surge"], "did you mean `traffic-surge`?"),
        (&["phrase", "do-nwo"], "there is no phrase `do-nwo`: did you mean `do-now`?"),
    ];
    for (arguments, expected) in cases {
        let output = new(own.path(), arguments);
        assert_eq!(output.status.code(), Some(2), "{arguments:?}");
        assert!(said(&output).contains(expected), "{arguments:?}: {}", said(&output));
    }
    assert_eq!(fs::read_dir(own.path().join("signals")).unwrap().count(), 0);
}
