//! `overrides/`: changes to single parts of a shipped playbook or cause, and what is said where they do not fit.

use std::process::Command;

use llm_diagnose::check::lint;
use llm_diagnose::playbook::{Library, load};

use crate::own_playbooks::{directory, with};
use crate::running::BINARY;

const ID: &str = "schema: 1\noverride: traffic-surge\n";

fn loaded(files: &[(&str, &str)]) -> Library {
    with(files).unwrap_or_else(|problems| panic!("{problems:?}"))
}

/// The only problem of a directory: its line and message, and its hint.
fn refused(files: &[(&str, &str)]) -> (usize, String, String) {
    let problems = with(files).unwrap_err();
    assert_eq!(problems.len(), 1, "{problems:?}");
    (problems[0].line, problems[0].message.clone(), problems[0].hint.clone().unwrap_or_default())
}

fn of_surge(changes: &str) -> (usize, String, String) {
    refused(&[("overrides/traffic-surge.yaml", &format!("{ID}{changes}"))])
}

#[test]
fn steps_are_put_first_and_last_replaced_and_removed_and_the_others_stay() {
    let step = |text: &str| format!("{{ do: {text}, no_verify: looks, source: \"https://example.org\" }}");
    let changes = format!(
        "now:\n  first: [{}]\n  last: [{}]\n  replace:\n    - {{ step: POST /key/update, with: {} }}\n  remove: [\"Shed load   instead of queueing it with `--max-num-queued-reqs`\"]\n",
        step("one"),
        step("last"),
        step("other")
    );
    let library = loaded(&[("overrides/traffic-surge.yaml", &format!("{ID}{changes}"))]);
    let shipped = load(None).unwrap();
    let texts = |library: &Library| {
        library.causes["traffic-surge"].now.iter().map(|step| step.action.clone()).collect::<Vec<_>>()
    };
    let mut expected = texts(&shipped);
    expected[1] = "other".to_owned();
    expected.remove(3);
    expected.insert(0, "one".to_owned());
    expected.push("last".to_owned());
    assert_eq!(texts(&library), expected);
    assert_eq!(library.causes["traffic-surge"].evidence, shipped.causes["traffic-surge"].evidence);
    assert_eq!(lint(&library), []);
    let said: Vec<_> = library.replacements.iter().map(|replacement| replacement.what.as_str()).collect();
    assert_eq!(said.len(), 4, "{said:?}");
    assert!(said[0].ends_with("is “other”") && said[1].ends_with("is not shown"), "{said:?}");
}

#[test]
fn a_condition_changes_in_the_evidence_and_in_the_alert_rules_alike() {
    let text = "override: kv-cache-pressure\nschema: 1\nconditions:\n  - { signal: kv_cache_peak, was: \"> 0.85\", when: \"> 0.8\" }\n";
    let library = loaded(&[("overrides/kv-cache-pressure.yaml", text)]);
    let playbook = &library.playbooks["kv-cache-pressure"];
    let conditions = |evidence: &[llm_diagnose::playbook::Evidence]| {
        let checks = evidence.iter().flat_map(|evidence| evidence.checks());
        let of = checks.filter(|(signal, _)| *signal == "kv_cache_peak").map(|(_, when)| when.to_string());
        of.collect::<Vec<_>>()
    };
    assert_eq!(conditions(&playbook.symptom), ["> 0.8"]);
    let rules: Vec<_> = playbook.alerts.iter().map(|rule| conditions(&rule.when)).collect();
    assert_eq!(rules, [["> 0.95"], ["> 0.8"]]);
}

#[test]
fn a_leaf_inside_a_playbook_and_a_former_id_are_names_too() {
    let shipped = load(None).unwrap();
    let leaves = shipped.playbooks.values().flat_map(|playbook| &playbook.causes);
    let leaf = leaves.filter_map(|entry| entry.id.as_deref()).next().unwrap();
    let changes = "now:\n  first: [{ do: x, no_verify: looks, source: \"https://example.org\" }]\n";
    for id in [leaf, "kv-cache-exhaustion"] {
        let text = format!("override: {id}\nschema: 1\n{changes}");
        let library = loaded(&[(&format!("overrides/{id}.yaml"), &text)]);
        let (node, _) = library.node_by_id(id).unwrap();
        assert_eq!(node.now[0].action, "x", "{id}");
    }
    let text = format!("override: {leaf}\nschema: 1\nescalate: us\n");
    let (line, message, _) = refused(&[(&format!("overrides/{leaf}.yaml"), &text)]);
    assert_eq!((line, message), (3, format!("`{leaf}` has no `escalate`")));
}

#[test]
fn a_shipped_playbook_gets_a_cause_and_an_alert_more() {
    let text = "override: high-ttft\nschema: 1\nmatches: [\"OurPromise*\"]\ncauses: [{ cause: traffic-surge }]\n";
    let library = loaded(&[("overrides/high-ttft.yaml", text)]);
    let playbook = &library.playbooks["high-ttft"];
    assert_eq!(playbook.causes.last().unwrap().target(), "traffic-surge");
    assert_eq!(playbook.matches.last().unwrap(), "OurPromise*");
    let again = text.replace("cause: traffic-surge", "cause: lost-replica");
    let (line, message, _) = refused(&[("overrides/high-ttft.yaml", &again)]);
    assert_eq!((line, message.as_str()), (4, "`high-ttft` has the cause `lost-replica` already"));
}

#[test]
fn what_does_not_fit_is_told_with_its_line_and_what_would() {
    let (line, message, hint) = of_surge("conditions:\n  - { signal: request_rat, when: \"> 2\" }\n");
    assert_eq!((line, message.as_str()), (4, "`traffic-surge` has no condition on `request_rat`"));
    assert_eq!(hint, "did you mean `request_rate`?");
    let (_, message, hint) = of_surge("conditions:\n  - { signal: request_rate, when: \"> 2\" }\n");
    assert_eq!(message, "`traffic-surge` has several conditions on `request_rate`");
    assert_eq!(hint, "say which: `was:` one of `> 1.2x baseline`, `> 1.5x baseline`");
    let (_, message, hint) = of_surge("conditions:\n  - { signal: request_rate, was: \"> 9\", when: \"> 2\" }\n");
    assert_eq!(message, "`traffic-surge` has no condition `> 9` on `request_rate`");
    assert_eq!(hint, "it has `> 1.2x baseline`, `> 1.5x baseline`");
    let twice = "  - { signal: prompt_tokens_mean, when: \"< 2\" }\n";
    let (line, message, _) = of_surge(&format!("conditions:\n{twice}{twice}"));
    assert_eq!((line, message.as_str()), (5, "`< 1.3x baseline` on `prompt_tokens_mean` is changed twice"));

    let (line, message, hint) = of_surge("now:\n  remove:\n    - rpm_limits\n");
    assert_eq!((line, message.as_str()), (5, "no step of `traffic-surge` under `now` has these words"));
    assert!(hint.starts_with("its steps are “Find who sends it."), "{hint}");
    let (_, message, hint) = of_surge("now:\n  remove: [Shed load instead]\n");
    assert_eq!(message, "2 steps of `traffic-surge` under `now` have these words");
    assert!(hint.starts_with("give more of the words of one: “Shed load"), "{hint}");
    let (_, _, hint) = of_surge("now:\n  remove: [Autoscale on waiting]\n");
    assert_eq!(hint, "one under `lasting` has them: write it there");
    let (_, message, _) = of_surge("now:\n  remove: [rpm_limit, tpm_limit]\n");
    assert!(message.ends_with("is changed twice"), "{message}");
    let (_, message, _) = of_surge("");
    assert_eq!(message, "it changes nothing of `traffic-surge`");
}

#[test]
fn an_unknown_id_and_two_files_that_say_what_one_is_are_refused() {
    let text = "override: trafic-surge\nschema: 1\nescalate: us\n";
    let (line, message, hint) = refused(&[("overrides/trafic-surge.yaml", text)]);
    assert_eq!((line, message.as_str()), (1, "there is no playbook or cause `trafic-surge`"));
    assert_eq!(hint, "did you mean `traffic-surge`?");
    let (_, message, _) = refused(&[("overrides/surge.yaml", "override: traffic-surge\nschema: 1\nescalate: us\n")]);
    assert_eq!(message, "`override: traffic-surge` must equal the file name `surge`");

    let cause = std::fs::read_to_string("playbooks/causes/traffic-surge.yaml").unwrap();
    let change = format!("{ID}escalate: us\n");
    let (_, message, hint) =
        refused(&[("causes/traffic-surge.yaml", &cause), ("overrides/traffic-surge.yaml", &change)]);
    assert_eq!(message, "`traffic-surge` stands in a file of your own");
    assert!(hint.starts_with("make the change in ") && hint.contains("causes/traffic-surge.yaml"), "{hint}");

    let named = |id: &str| format!("override: {id}\nschema: 1\nescalate: us\n");
    let two = [("overrides/kv-cache-full.yaml", named("kv-cache-full"))];
    let old = ("overrides/kv-cache-exhaustion.yaml", named("kv-cache-exhaustion"));
    let (_, message, _) = refused(&[(two[0].0, &two[0].1), (old.0, &old.1)]);
    assert!(message.ends_with("has the same name: remove one of them"), "{message}");
}

#[test]
fn signals_for_an_engine_that_is_not_there_are_refused() {
    let text = "engine: vlm\nschema: 1\nsignals:\n  kv_cache_usage: { query: up }\n";
    let (line, message, hint) = refused(&[("signals/vlm.yaml", text)]);
    assert_eq!((line, message.as_str()), (1, "there is no engine `vlm` to add signals to"));
    assert_eq!(hint, "did you mean `vllm`?");
}

#[test]
fn a_mistake_in_an_own_step_is_shown_in_the_own_file() {
    let step = "now:\n  first:\n    - { do: Set `--no-such-flag`, engine: vlm, no_verify: looks, source: \"https://example.org\" }\n";
    let library = loaded(&[("overrides/traffic-surge.yaml", &format!("{ID}{step}"))]);
    let found = lint(&library);
    assert_eq!(found.len(), 1, "{found:?}");
    assert!(found[0].file.ends_with("overrides/traffic-surge.yaml") && found[0].line == 5, "{found:?}");
    assert_eq!(found[0].hint.as_deref(), Some("did you mean `vllm`?"));
}

#[test]
fn the_same_data_again_replace_nothing() {
    let own = directory(&[("causes/traffic-surge.yaml", "")]);
    std::fs::copy("playbooks/causes/traffic-surge.yaml", own.path().join("causes/traffic-surge.yaml")).unwrap();
    assert_eq!(load(Some(own.path())).unwrap().replacements, []);
}

#[test]
fn a_shipped_case_that_comes_out_differently_is_told_and_an_own_one_fails() {
    let change =
        "override: high-ttft\nschema: 1\nconditions:\n  - { signal: ttft_p99, was: \"> 2\", when: \"> 0.5\" }\n";
    let own = directory(&[("overrides/high-ttft.yaml", change)]);
    let test = || {
        let output = Command::new(BINARY).arg("test").arg(own.path()).output().unwrap();
        (output.status.code(), String::from_utf8_lossy(&output.stdout).into_owned())
    };
    let (code, said) = test();
    assert_eq!(code, Some(0), "{said}");
    assert!(said.contains("with your files, ") && said.contains("symptoms/high-ttft.test.yaml:"), "{said}");
    let case = "playbook: high-ttft\nhealthy: [pool]\ncases: [{ name: one, expect: { symptom: absent } }]\n";
    std::fs::write(own.path().join("ours.test.yaml"), case).unwrap();
    let (code, said) = test();
    assert_eq!(code, Some(1), "{said}");
    assert!(said.contains("symptom is Confirmed, expected Absent") && said.contains("1 failed"), "{said}");
}

#[test]
fn check_names_what_differs_and_what_is_not_read() {
    let own = directory(&[
        ("overrides/traffic-surge.yaml", &format!("{ID}escalate: us\n")),
        (
            "signals/vllm.yaml",
            "engine: vllm\nschema: 1\nsignals:\n  kv_cache_usage: { query: \"max by ($by) (x{$scope})\" }\n",
        ),
        ("phrases/en/a.ftl", "do-now = First\n"),
        ("phrases/en/b.ftl", "do-now = Now\n"),
        ("override/x.yaml", "x\n"),
        ("causes/x.yml", "x\n"),
        (".git/x.yml", "x\n"),
        ("notes/readme.md", "x\n"),
    ]);
    let output = Command::new(BINARY).arg("check").arg(own.path()).output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout).replace(&own.path().display().to_string(), "own");
    let heads: Vec<_> = said.lines().filter(|line| line.trim_start().starts_with("own/")).collect();
    let expected = [
        "own/phrases/en/b.ftl:1: `do-now` is said twice: own/phrases/en/a.ftl has it too, and the last one counts (phrase/twice)",
        "own/causes/x.yml:1: it is not read (files/unread)",
        "own/override:1: the folder `override` is not read (files/unread)",
        "  own/signals/vllm.yaml: the entry of `kv_cache_usage` for vllm",
        "  own/overrides/traffic-surge.yaml: `traffic-surge` is escalated to: us",
        "  own/phrases/en/b.ftl: the phrase `do-now`",
    ];
    assert_eq!(heads, expected, "{said}");
    assert_eq!(output.status.code(), Some(1));
}
