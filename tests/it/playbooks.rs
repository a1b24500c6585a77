//! The shipped data is sound, and what is wrong in a user's own is said with its place and a way out.

use std::fs;

use authoring::check::{lint, run, verifies};
use authoring::explain::explain;
use knowledge::playbook::{EngineFlag, Problem, Step, load};
use knowledge::signal::EngineKind;

use crate::harness::library;

/// A playbook without a fault, to be broken by replacing its text.
const SOUND: &str = r#"playbook: mine
schema: 1
kind: mechanism
title: the cache is full
meaning: It is.
impact: It hurts.
symptom:
  - { signal: kv_cache_usage, when: "> 0.9", required: true }
causes:
  - cause: longer-prompts
now:
  - do: Look at `/metrics`
"#;

/// A signal file without a fault.
const SIGNALS: &str = r#"engine: mine
schema: 1
kind: gpu
source: [https://example.com]
detect: mine_up
replica: [pod]
scope: { namespace: [namespace] }
signals:
  gpu_temperature:
    query: 'max by ($by) (mine_celsius{$scope})'
"#;

/// What is found in a user's directory with these files, as it is printed; the directory is called `own`.
fn found(files: &[(&str, &str)]) -> String {
    let directory = tempfile::tempdir().unwrap();
    fs::create_dir(directory.path().join("signals")).unwrap();
    for (name, text) in files {
        fs::write(directory.path().join(name), text).unwrap();
    }
    let all = load(Some(directory.path())).map_or_else(|problems| problems, |library| lint(&library));
    let own = directory.path().display().to_string();
    let printed: Vec<String> =
        all.iter().filter(|p| p.file.starts_with(&own)).map(|p| p.to_string().replace(&own, "own")).collect();
    printed.join("\n")
}

/// What is found in [`SOUND`] with some of its text replaced, its test beside it.
fn found_with(from: &str, to: &str) -> String {
    assert!(SOUND.contains(from), "{from}");
    found(&[("mine.yaml", &SOUND.replace(from, to)), ("mine.test.yaml", "")])
}

/// What is found in [`SIGNALS`] with another query.
fn found_in_query(query: &str) -> String {
    found(&[("signals/mine.yaml", &SIGNALS.replace("max by ($by) (mine_celsius{$scope})", query))])
}

fn printed(problems: &[Problem]) -> Vec<String> {
    problems.iter().map(ToString::to_string).collect()
}

#[test]
fn the_shipped_data_has_no_problem() {
    assert_eq!(printed(&lint(library())), Vec::<String>::new());
}

#[test]
fn what_counts_only_without_a_past_is_told_so() {
    let text = explain(library(), "client-aborts", None).unwrap();
    assert!(text.contains("> 0.3 (only where there is no past)"), "{text}");
}

#[test]
fn every_shipped_verdict_test_passes() {
    let results = run(library()).unwrap_or_else(|problems| panic!("{}", printed(&problems).join("\n")));
    let failed: Vec<String> = results.iter().flat_map(|case| printed(&case.failures)).collect();
    assert_eq!(failed, Vec::<String>::new());
    for playbook in library().playbooks.keys() {
        let cases = results.iter().filter(|case| case.playbook == *playbook).count();
        assert!(cases >= 2, "`{playbook}` has {cases} cases: at least one that holds and one that does not");
    }
}

#[test]
fn data_without_a_fault_is_taken_as_it_is() {
    let files = [("mine.yaml", SOUND), ("mine.test.yaml", ""), ("signals/mine.yaml", SIGNALS)];
    assert_eq!(found(&files), "");
}

#[test]
fn an_unknown_signal_is_shown_with_the_one_that_was_meant() {
    let expected = r#"own/mine.yaml:8: unknown signal `kv_cach_usage` (playbook/unknown-signal)
     8 |   - { signal: kv_cach_usage, when: "> 0.9", required: true }
       = hint: did you mean `kv_cache_usage`?"#;
    assert_eq!(found_with("kv_cache_usage", "kv_cach_usage"), expected);
}

#[test]
fn an_unknown_cause_is_shown_with_the_one_that_was_meant() {
    let expected = r#"own/mine.yaml:10: unknown cause `longer-promts` (playbook/unknown-cause)
    10 |   - cause: longer-promts
       = hint: did you mean `longer-prompts`?"#;
    assert_eq!(found_with("longer-prompts", "longer-promts"), expected);
    let expected = r#"own/mine.yaml:10: unknown cause `slot-limit` (playbook/unknown-cause)
    10 |   - cause: slot-limit
       = hint: it is a playbook: write `playbook: slot-limit`"#;
    assert_eq!(found_with("longer-prompts", "slot-limit"), expected);
}

#[test]
fn a_misspelt_key_is_shown_with_the_one_that_was_meant() {
    let found = found_with("impact:", "impct:");
    let (first, rest) = found.split_once('\n').unwrap();
    assert!(first.starts_with("own/mine.yaml:6: unknown field `impct`, expected one of playbook, schema, "), "{first}");
    assert_eq!(rest, "     6 | impct: It hurts.\n       | ^\n       = hint: did you mean `impact`?");
}

#[test]
fn a_cycle_is_shown_as_a_path() {
    let other = SOUND.replace("playbook: mine", "playbook: other").replace("cause: longer-prompts", "playbook: mine");
    let mine = SOUND.replace("cause: longer-prompts", "playbook: other");
    let files = [("mine.yaml", mine.as_str()), ("other.yaml", &other), ("mine.test.yaml", ""), ("other.test.yaml", "")];
    let expected = r#"own/mine.yaml:9: its causes lead back to it: mine → other → mine (playbook/cycle)
     9 | causes:
own/other.yaml:9: its causes lead back to it: other → mine → other (playbook/cycle)
     9 | causes:"#;
    assert_eq!(found(&files), expected);
}

#[test]
fn a_flag_that_no_longer_exists_is_shown_with_its_successor() {
    let expected = r#"own/mine.yaml:12: `--guided-decoding-backend` no longer exists in vllm from 0.12 (step/dead-flag)
    12 |   - do: Set `--guided-decoding-backend xgrammar`
       = hint: use `--structured-outputs-config`"#;
    assert_eq!(
        found_with("Look at `/metrics`", "Set `--guided-decoding-backend xgrammar`\n    changes: flags"),
        expected
    );
    // A step for the versions that still have it is fine.
    let bounded = "Set `--guided-decoding-backend xgrammar`\n    engine: vllm < 0.12\n    changes: flags";
    assert_eq!(found_with("Look at `/metrics`", bounded), "");
}

#[test]
fn a_ratio_that_is_compared_with_a_percentage_is_shown() {
    let expected = r#"own/mine.yaml:8: `kv_cache_usage` is a ratio, 0..1, and is compared with 90 (evidence/unit)
     8 |   - { signal: kv_cache_usage, when: "> 90", required: true }
       = hint: write 0.9"#;
    assert_eq!(found_with("> 0.9", "> 90"), expected);
}

#[test]
fn an_or_outside_the_aggregation_is_shown() {
    let expected = r#"own/signals/mine.yaml:9: signal `gpu_temperature`: `or` joins two aggregations: in a mixed rollout the first hides the second (signal/or-outside-aggregation)
     9 |   gpu_temperature:
       = hint: write `max(new or old)`, not `max(new) or max(old)`"#;
    assert_eq!(found_in_query("max(new_celsius{$scope}) or max(old_celsius{$scope})"), expected);
    assert_eq!(found_in_query("max by ($by) (new_celsius{$scope} or old_celsius{$scope})"), "");
}

#[test]
fn promql_that_does_not_parse_and_unknown_placeholders_are_shown() {
    let expected = r#"own/signals/mine.yaml:9: signal `gpu_temperature`: the query does not parse: unclosed left parenthesis (signal/promql)
     9 |   gpu_temperature:"#;
    assert_eq!(found_in_query("max by ($by) (mine_celsius{$scope}"), expected);
    let expected = r#"own/signals/mine.yaml:9: signal `gpu_temperature`: unknown placeholder `$range` (signal/placeholder)
     9 |   gpu_temperature:
       = hint: known are `$scope`, `$workload`, `$window`, `$by`, `$target` and `$remote`"#;
    assert_eq!(found_in_query("max by ($by) (rate(mine_celsius{$scope}[$range]))"), expected);
}

#[test]
fn a_playbook_without_a_test_is_shown() {
    let expected = r#"own/mine.yaml:1: it has no verdict test beside it (playbook/missing-test)
     1 | playbook: mine
       = hint: write `mine.test.yaml` beside it: one case per cause, one healthy"#;
    assert_eq!(found(&[("mine.yaml", SOUND)]), expected);
}

#[test]
fn own_signals_join_the_shipped_catalog() {
    let directory = tempfile::tempdir().unwrap();
    fs::create_dir(directory.path().join("signals")).unwrap();
    let own = "{ title: pump pressure, unit: count, bad: high, fleet: max, of: [gpu], meaning: It presses. }";
    let catalog = format!("schema: 1\nsignals:\n  pump_pressure: {own}\n");
    fs::write(directory.path().join("signals/catalog.yaml"), catalog).unwrap();
    let library = load(Some(directory.path())).unwrap_or_else(|problems| panic!("{}", printed(&problems).join("\n")));
    assert!(library.signals.contains_key("pump_pressure") && library.signals.contains_key("kv_cache_usage"));
}

#[test]
fn every_shipped_playbook_and_cause_says_who_takes_over_what_it_gets_wrong_and_where_it_was_read() {
    let mut missing = Vec::new();
    let mut check = |id: &str, escalate: &Option<String>, gaps: &[String], references: &[String]| {
        let said = [("escalate", escalate.is_some()), ("known_gaps", !gaps.is_empty())];
        let said = said.into_iter().chain([("references", !references.is_empty())]);
        missing.extend(said.filter(|(_, there)| !there).map(|(what, _)| format!("{id}: {what}")));
    };
    for p in library().playbooks.values() {
        check(&p.playbook, &p.escalate, &p.known_gaps, &p.references);
    }
    for c in library().causes.values() {
        check(&c.cause, &c.escalate, &c.known_gaps, &c.references);
    }
    assert_eq!(missing, Vec::<String>::new());
}

/// Every step of the shipped data.
fn steps() -> impl Iterator<Item = &'static Step> {
    let written = library().playbooks.values().flat_map(|p| {
        let own = p.now.iter().chain(&p.lasting);
        own.chain(p.causes.iter().flat_map(|entry| entry.now.iter().chain(&entry.lasting)))
    });
    written.chain(library().causes.values().flat_map(|c| c.now.iter().chain(&c.lasting)))
}

#[test]
fn every_shipped_step_says_where_it_comes_from() {
    let sourced = |step: &Step| step.source.as_ref().is_some_and(|url| url.starts_with("https://"));
    let unsourced: Vec<&str> = steps().filter(|step| !sourced(step)).map(|s| s.action.as_str()).collect();
    assert_eq!(unsourced, Vec::<&str>::new());
}

/// What is wrong with a step of [`SOUND`] whose fault a test finds twice: once with preemptions, once without.
fn unable(verify: &str) -> Vec<String> {
    let directory = tempfile::tempdir().unwrap();
    let step = format!("  - do: Look at `/metrics`\n    {verify}\n");
    let test = r#"playbook: mine
baseline: { kv_cache_usage: 0.5, preemption_rate: 0, requests_waiting: 1, prompt_tokens_mean: 1800 }
cases:
  - name: full, and some are thrown out
    now: { kv_cache_usage: 0.95, preemption_rate: 1, requests_waiting: 9 }
    expect: { symptom: confirmed }
  - name: full, and nobody is thrown out
    now: { kv_cache_usage: 0.95, requests_waiting: 9 }
    expect: { symptom: confirmed }
"#;
    fs::write(directory.path().join("mine.yaml"), SOUND.replace("  - do: Look at `/metrics`\n", &step)).unwrap();
    fs::write(directory.path().join("mine.test.yaml"), test).unwrap();
    let library = load(Some(directory.path())).unwrap();
    let own = verifies(&library).into_iter().filter(|p| p.file.ends_with("mine.yaml"));
    own.map(|p| p.message).collect()
}

#[test]
fn a_verify_that_holds_in_one_case_with_the_fault_or_not_on_a_healthy_fleet_is_shown() {
    let held = "`preemption_rate < 0.05` holds although `mine` is found: mine: full, and nobody is thrown out";
    assert_eq!(unable(r#"verify: { signal: preemption_rate, when: "< 0.05" }"#), [held]);
    let both =
        r#"verify: { signal: preemption_rate, when: "< 0.05", or: [{ signal: kv_cache_usage, when: "< 0.9" }] }"#;
    assert_eq!(unable(both), [""; 0]);
    let useless =
        r#"verify: { signal: kv_cache_usage, when: "< 0.9", or: [{ signal: preemption_rate, when: "< 0.05" }] }"#;
    assert_eq!(unable(useless), ["`preemption_rate` shows in none of the 2 cases in which `mine` is found"]);
    let unhealthy = "`requests_waiting < 1` does not hold on the healthy fleet of: mine";
    assert_eq!(unable(r#"verify: { signal: requests_waiting, when: "< 1" }"#), [unhealthy]);
}

#[test]
fn a_users_case_judges_no_shipped_step_and_what_is_normal_on_the_users_fleet_is_no_fault_of_one() {
    let directory = tempfile::tempdir().unwrap();
    let test = r#"playbook: slot-limit
baseline:
  { waiting_per_replica: 2, running_plateau: 0.5, kv_cache_peak: 0.5, requests_deferred: 0, stalled_requests: 0 }
cases:
  - name: two always wait here, and today forty do
    now: { waiting_per_replica: 40, running_plateau: 0.97 }
    expect: { symptom: confirmed }
"#;
    fs::write(directory.path().join("ours.test.yaml"), test).unwrap();
    let with = |more: &[(&str, &str)]| {
        more.iter().for_each(|(name, text)| fs::write(directory.path().join(name), text).unwrap());
        let library = load(Some(directory.path())).unwrap();
        let failed = run(&library).unwrap().into_iter().flat_map(|case| printed(&case.failures));
        (failed.collect::<Vec<_>>(), verifies(&library))
    };
    let (failed, unable) = with(&[]);
    assert_eq!((failed, printed(&unable)), (vec![], vec![]));
    // The user's own step is judged by it.
    let own = fs::read_to_string("playbooks/mechanisms/slot-limit.yaml").unwrap();
    let (_, unable) = with(&[("slot-limit.yaml", &own)]);
    let held = |p: &Problem| {
        p.message.contains("`waiting_per_replica < 0.25` does not hold on the healthy fleet of: slot-limit")
    };
    assert!(unable.iter().any(held), "{}", printed(&unable).join("\n"));
}

#[test]
fn a_users_one_case_need_not_show_again_what_shipped_cases_show_of_a_copied_playbook() {
    let directory = tempfile::tempdir().unwrap();
    fs::copy("playbooks/symptoms/high-itl.yaml", directory.path().join("high-itl.yaml")).unwrap();
    let test = r#"playbook: high-itl
baseline: { itl_p99: 0.045 }
cases:
  - name: answers stutter
    now: { itl_p99: 0.3 }
    expect: { symptom: confirmed }
"#;
    fs::write(directory.path().join("ours.test.yaml"), test).unwrap();
    let library = load(Some(directory.path())).unwrap();
    assert_eq!(printed(&verifies(&library)), Vec::<String>::new());
}

#[test]
fn a_word_for_a_missing_verify_that_the_data_contradicts_is_shown() {
    let now = |step: &str| found_with("  - do: Look at `/metrics`\n", &format!("  - do: {step}\n"));
    let lasting = |step: &str| found_with("now:\n  - do: Look at `/metrics`\n", &format!("lasting:\n  - do: {step}\n"));
    for fine in [
        now("\"Look: `kubectl get pods --show-labels`\"\n    no_verify: looks"),
        now("Scale out with `/scale`\n    no_verify: symptom"),
        lasting("Alert on it\n    no_verify: prevents"),
    ] {
        assert_eq!(fine, "");
    }
    for (printed, expected) in [
        (now("Run `kubectl cordon n`\n    no_verify: looks"), "`looks` changes nothing, and `kubectl cordon n` does"),
        (now("Run `dcgmi diag -r 3`\n    no_verify: looks"), "`looks` changes nothing, and `dcgmi diag -r 3` does"),
        (now("Ask `POST /key/update`\n    no_verify: looks"), "`looks` changes nothing, and `POST /key/update` does"),
        (lasting("Look at `/metrics`\n    no_verify: looks"), "a step that only looks prevents nothing"),
        (now("Alert on it\n    no_verify: prevents"), "`prevents` changes nothing today"),
        (lasting("Scale out with `/scale`\n    no_verify: symptom"), "`symptom` is for steps that relieve at once"),
        (
            now("Scale out with `/scale`\n    no_verify: unseen"),
            "`unseen`, but `kv_cache_usage` shows it when it gets better",
        ),
    ] {
        assert!(printed.contains(expected) && printed.contains("(step/no-verify)"), "{expected}: {printed}");
    }
}

#[test]
fn what_shows_that_a_step_worked_does_not_hold_while_the_fault_is_there_and_holds_on_a_healthy_fleet() {
    assert_eq!(printed(&verifies(library())), Vec::<String>::new());
}

/// How many flags and variables of engines texts name, and those that the table does not have for the engine.
fn flags_without_a_row<'a>(texts: &[(Option<&'a str>, &'a str)]) -> (usize, Vec<(&'a str, &'a str)>) {
    const TOOLS: [&str; 15] = [
        "kubectl",
        "amd-smi",
        "nvidia-smi",
        "dcgmi",
        "py-spy",
        "curl",
        "dmesg",
        "llm-diagnose",
        "docker",
        "openssl",
        "etcdctl",
        "sacct",
        "sbatch",
        "journalctl",
        "systemctl",
    ];
    let word = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_');
    let is_flag =
        |word: &str| word.len() > 2 && ["--", "VLLM_", "SGLANG_", "DYN_"].iter().any(|prefix| word.starts_with(prefix));
    let rows = &library().tables.engine_flags.rows;
    let (mut named, mut unknown) = (0, Vec::new());
    for (engine, text) in texts {
        let engine = engine.and_then(|engine| engine.split_whitespace().next());
        let code = text.split('`').skip(1).step_by(2);
        let own = code.filter(|span| !TOOLS.iter().any(|tool| span.split_whitespace().any(|word| word == *tool)));
        for flag in own.flat_map(|span| span.split(|c| !word(c))).filter(|word| is_flag(word)) {
            named += 1;
            if !rows.iter().any(|row| row.flag == flag && engine.is_none_or(|engine| row.engine == engine)) {
                unknown.push((flag, *text));
            }
        }
    }
    (named, unknown)
}

#[test]
fn every_flag_and_variable_that_a_step_or_a_meaning_names_stands_in_the_table_for_its_engine() {
    let steps = steps().map(|step| (step.engine.as_deref(), step.action.as_str()));
    let playbooks = library().playbooks.values().flat_map(|p| {
        let entries = p.causes.iter().filter_map(|entry| entry.meaning.as_deref());
        [p.meaning.as_str(), &p.impact].into_iter().chain(entries).chain(p.known_gaps.iter().map(String::as_str))
    });
    let causes = library().causes.values();
    let causes =
        causes.flat_map(|c| std::iter::once(c.meaning.as_str()).chain(c.known_gaps.iter().map(String::as_str)));
    // `enable:` says which flag of an engine or a gateway turns a signal on.
    let programs = library().engines.values().filter(|e| matches!(e.kind, EngineKind::Serving | EngineKind::Gateway));
    let enable = programs.flat_map(|engine| {
        let of_signals = engine.signals.values().filter_map(|signal| signal.enable.as_deref());
        let texts = engine.enable.as_deref().into_iter().chain(of_signals);
        texts.map(|text| (Some(engine.engine.as_str()), text))
    });
    let enable: Vec<_> = enable.collect();
    let dead = |row: &&EngineFlag| row.gone.is_some();
    for row in library().tables.engine_flags.rows.iter().filter(dead) {
        let own = enable.iter().filter(|(engine, _)| *engine == Some(row.engine.as_str()));
        let naming = own.filter(|(_, text)| text.split('`').any(|span| span.split([' ', '=']).any(|w| w == row.flag)));
        let only_old: Vec<_> = naming.filter(|(_, text)| !text.contains("older")).collect();
        assert!(only_old.is_empty(), "{} is gone: {only_old:?}", row.flag);
    }
    let texts: Vec<_> =
        steps.chain(playbooks.chain(causes).map(|text| (None, text))).chain(enable.iter().copied()).collect();
    let (named, unknown) = flags_without_a_row(&texts);
    assert!(named > 100, "{named}");
    assert_eq!(unknown, []);
    // A misspelt flag, and one of another engine, are found.
    let misspelt = "Lower `--max-num-seq 64`";
    assert_eq!(flags_without_a_row(&[(None, misspelt)]), (1, vec![("--max-num-seq", misspelt)]));
    let anothers = "Lower `--max-num-seqs 64`";
    assert_eq!(flags_without_a_row(&[(Some("sglang >= 0.5"), anothers)]), (1, vec![("--max-num-seqs", anothers)]));
}

#[test]
fn a_flag_that_the_stated_version_does_not_have_yet_is_found() {
    let step = "  - do: Cap it with `--max-num-queued-reqs`\n    engine: vllm >= 0.20\n    changes: flags\n";
    let expected = "`--max-num-queued-reqs` exists in vllm only from 0.29 (step/new-flag)";
    let printed = found_with("  - do: Look at `/metrics`\n", step);
    assert!(printed.contains(expected) && printed.contains("write `engine: vllm >= 0.29`"), "{printed}");
    assert_eq!(found_with("  - do: Look at `/metrics`\n", &step.replace("0.20", "0.30")), "");
}
