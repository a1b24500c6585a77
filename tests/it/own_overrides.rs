//! `overrides/`: changes to single parts of a shipped playbook or cause, and what is said where they do not fit.

use std::process::Command;

use authoring::check::{lint, verifies};
use authoring::generate::skeleton_change;
use knowledge::playbook::{Library, Lint, load};

use crate::own_playbooks::{directory, with};
use crate::running::BINARY;

const ID: &str = "schema: 1\noverride: traffic-surge\n";

fn loaded(files: &[(&str, &str)]) -> Library {
    with(files).unwrap_or_else(|problems| panic!("{problems:?}"))
}

/// The only change of a directory that is left out: its line and message, and its hint.
fn left_out(files: &[(&str, &str)]) -> (usize, String, String) {
    let problems = loaded(files).left_out;
    assert_eq!(problems.len(), 1, "{problems:?}");
    (problems[0].line, problems[0].message.clone(), problems[0].hint.clone().unwrap_or_default())
}

fn of_surge(changes: &str) -> (usize, String, String) {
    left_out(&[("overrides/traffic-surge.yaml", &format!("{ID}{changes}"))])
}

/// The problems of changes to `traffic-surge`: lint, line and message.
fn lints_of_surge(changes: &str) -> Vec<(Lint, usize, String)> {
    let library = loaded(&[("overrides/traffic-surge.yaml", &format!("{ID}{changes}"))]);
    lint(&library).into_iter().map(|problem| (problem.lint, problem.line, problem.message)).collect()
}

#[test]
fn steps_are_put_first_and_last_replaced_and_removed_and_the_others_stay() {
    let step = |text: &str| format!("{{ do: {text} log, no_verify: looks, source: \"https://example.org\" }}");
    let changes = format!(
        "now:\n  first: [{}]\n  last: [{}]\n  replace:\n    - {{ step: /key/update, with: {} }}\n  remove: [\"Shed load   instead of queueing it with `--max-num-queued-reqs`\"]\n",
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
    expected[0] = "other log".to_owned();
    expected.remove(4);
    expected.insert(0, "one log".to_owned());
    expected.push("last log".to_owned());
    assert_eq!(texts(&library), expected);
    assert_eq!(library.causes["traffic-surge"].evidence, shipped.causes["traffic-surge"].evidence);
    assert_eq!(lint(&library), []);
    let said: Vec<_> = library.replacements.iter().map(|replacement| replacement.what.as_str()).collect();
    assert_eq!(said.len(), 4, "{said:?}");
    assert!(said[0].ends_with("is “other log”") && said[1].ends_with("is not shown"), "{said:?}");
}

#[test]
fn a_condition_changes_in_the_evidence_and_in_the_alert_rules_alike() {
    let text = "override: kv-cache-pressure\nschema: 1\nconditions:\n  - { signal: kv_cache_peak, was: \"> 0.85\", when: \"> 0.8\" }\n";
    let library = loaded(&[("overrides/kv-cache-pressure.yaml", text)]);
    let playbook = &library.playbooks["kv-cache-pressure"];
    let conditions = |evidence: &[knowledge::playbook::Evidence]| {
        let checks = evidence.iter().flat_map(|evidence| evidence.checks());
        let of = checks.filter(|(signal, _)| *signal == "kv_cache_peak").map(|(_, when)| when.to_string());
        of.collect::<Vec<_>>()
    };
    assert_eq!(conditions(&playbook.symptom), ["> 0.8"]);
    let rules: Vec<_> = playbook.alerts.iter().map(|rule| conditions(&rule.when)).collect();
    assert_eq!(rules, [["> 0.95"], ["> 0.8"]]);
}

#[test]
fn after_a_change_no_value_is_a_symptom_and_shows_that_the_step_worked() {
    for (when, inverse) in [("> 0.8", "< 0.8"), ("> 0.95", "< 0.95"), (">= 0.7", "< 0.7")] {
        let text = format!(
            "override: kv-cache-pressure\nschema: 1\nconditions:\n  - {{ signal: kv_cache_peak, was: \"> 0.85\", when: \"{when}\" }}\n"
        );
        let library = loaded(&[("overrides/kv-cache-pressure.yaml", &text)]);
        let verify = library.playbooks["kv-cache-pressure"].now[0].verify.as_ref().unwrap();
        assert_eq!((verify.signal.as_str(), verify.when.to_string().as_str()), ("kv_cache_peak", inverse));
        assert_eq!(lint(&library), []);
        let said = &library.replacements[1].what;
        assert!(said.starts_with("`kv-cache-pressure`, now: the step “Scale out before the cache"), "{said}");
        assert!(said.ends_with(&format!("has worked at `kv_cache_peak {inverse}`")), "{said}");
    }
}

#[test]
fn of_two_changes_of_one_signal_a_check_follows_the_one_that_it_was_the_inverse_of() {
    let changes = [
        "{ signal: kv_cache_peak, was: \"> 0.85\", when: \"> 0.95\" }",
        "{ signal: kv_cache_peak, was: \"> 0.95\", when: \"> 0.98\" }",
    ];
    for [first, second] in [changes, [changes[1], changes[0]]] {
        let text = format!("override: kv-cache-pressure\nschema: 1\nconditions:\n  - {first}\n  - {second}\n");
        let library = loaded(&[("overrides/kv-cache-pressure.yaml", &text)]);
        let verify = library.playbooks["kv-cache-pressure"].now[0].verify.as_ref().unwrap();
        assert_eq!(verify.when.to_string(), "< 0.95", "{text}");
        assert_eq!(lint(&library), []);
    }
    // Where the other one goes below it, a value can be both.
    let text = "override: kv-cache-pressure\nschema: 1\nconditions:\n  - { signal: kv_cache_peak, was: \"> 0.85\", when: \"> 0.9\" }\n  - { signal: kv_cache_peak, was: \"> 0.95\", when: \"> 0.8\" }\n";
    let found = lint(&loaded(&[("overrides/kv-cache-pressure.yaml", text)]));
    assert_eq!(
        found.iter().map(|problem| (problem.lint, problem.line)).collect::<Vec<_>>(),
        [(Lint::OverrideVerify, 5)]
    );
}

#[test]
fn a_step_of_the_same_text_with_another_check_is_a_change() {
    let shipped = load(None).unwrap().causes["longer-prompts"].now[0].clone();
    let replace = |verify: &str| {
        let (text, source) = (shipped.action.replace('\'', "''"), shipped.source.as_deref().unwrap());
        format!(
            "override: longer-prompts\nschema: 1\nnow:\n  replace:\n    - step: '{text}'\n      with: {{ do: '{text}', engine: litellm, verify: {{ signal: prompt_tokens_mean, when: \"{verify}\" }}, source: \"{source}\" }}\n"
        )
    };
    let library = loaded(&[("overrides/longer-prompts.yaml", &replace("< 1.05x baseline"))]);
    assert_eq!(library.causes["longer-prompts"].now[0].verify.as_ref().unwrap().when.to_string(), "< 1.05x baseline");
    assert_eq!(lint(&library), []);
    let said = &library.replacements[0].what;
    assert!(said.ends_with("is the same with another `verify`"), "{said}");
    // The whole step as shipped is no change.
    let library = loaded(&[("overrides/longer-prompts.yaml", &replace("< 1.2x baseline"))]);
    assert_eq!((library.left_out.len(), library.replacements.len()), (0, 0), "{:?}", library.left_out);
    let lints: Vec<_> = lint(&library).iter().map(|problem| problem.lint).collect();
    assert_eq!(lints, [Lint::OverrideIdle]);
}

#[test]
fn a_step_that_stands_beside_the_one_that_it_replaces_stands_once() {
    let shipped = load(None).unwrap();
    let [first, second] = [&shipped.causes["longer-prompts"].now[0], &shipped.causes["longer-prompts"].now[1]];
    let keys = std::fs::read_to_string("playbooks/causes/longer-prompts.yaml").unwrap();
    let (_, steps) = keys.split_once("\nnow:\n").unwrap();
    let (_, second_yaml) = steps.split_once("\n  - ").unwrap();
    let second_yaml =
        second_yaml.split("\n  - ").next().unwrap().split("\nlasting:").next().unwrap().replace("\n", "\n      ");
    let words: String = first.action.chars().take(60).collect();
    let text = format!(
        "override: longer-prompts\nschema: 1\nnow:\n  replace:\n    - step: '{}'\n      with:\n          {second_yaml}\n",
        words.replace('\'', "''")
    );
    let library = loaded(&[("overrides/longer-prompts.yaml", &text)]);
    let expected: Vec<_> = shipped.causes["longer-prompts"].now[1..].iter().map(|step| &step.action).collect();
    let now: Vec<_> = library.causes["longer-prompts"].now.iter().map(|step| &step.action).collect();
    assert_eq!(now, expected, "{second:?}");
}

#[test]
fn a_cause_that_is_listed_already_takes_what_an_entry_says_beside_it() {
    let of = |changes: &str| {
        let text = format!("override: high-ttft\nschema: 1\ncauses:\n  - {changes}\n");
        loaded(&[("overrides/high-ttft.yaml", &text)])
    };
    let entry = |library: &Library, target: &str| {
        library.playbooks["high-ttft"].causes.iter().find(|entry| entry.target() == target).unwrap().clone()
    };
    let library = of("{ playbook: lost-replica, explains: [queue_time_mean], fallback: true }");
    let changed = entry(&library, "lost-replica");
    assert_eq!((changed.explains, changed.fallback), (vec!["queue_time_mean".to_owned()], true));
    assert_eq!(
        library.replacements[0].what,
        "`high-ttft`: its cause `lost-replica` has another `explains`, `fallback`"
    );
    // What an entry does not say stays as it is.
    let library = of("{ playbook: slot-limit }");
    assert_eq!((entry(&library, "slot-limit").explains.len(), library.replacements.len()), (1, 0));
    // Two leaves of one id are two things.
    let leaf = |id: &str| {
        let text = format!(
            "override: auth-failures\nschema: 1\ncauses: [{{ id: {id}, title: ours, evidence: [{{ signal: ttft_p99, when: \"> 9\", required: true }}] }}]\n"
        );
        left_out(&[("overrides/auth-failures.yaml", &text)])
    };
    let (line, message, hint) = leaf("key-guessing");
    assert_eq!((line, message.as_str()), (3, "`auth-failures` has a cause `key-guessing` already, another one"));
    assert!(hint.contains("`overrides/key-guessing.yaml`"), "{hint}");
}

#[test]
fn a_check_with_a_margin_that_the_change_uses_up_is_told() {
    let text = "override: longer-prompts\nschema: 1\nconditions:\n  - { signal: prompt_tokens_mean, was: \"> 1.3x baseline\", when: \"> 1.1x baseline\" }\n";
    let library = loaded(&[("overrides/longer-prompts.yaml", text)]);
    let verify = library.causes["longer-prompts"].now[0].verify.as_ref().unwrap();
    assert_eq!(verify.when.to_string(), "< 1.2x baseline");
    let found = lint(&library);
    assert_eq!(found.len(), 4, "{found:?}");
    assert!(found.iter().all(|problem| (problem.lint, problem.line) == (Lint::OverrideVerify, 4)), "{found:?}");
    assert_eq!(lint(&loaded(&[("overrides/longer-prompts.yaml", &text.replace("1.1x", "1.25x"))])), []);
}

#[test]
fn what_a_new_version_ships_too_is_no_problem_for_the_service() {
    let conditions = "conditions:\n  - { signal: gateway_auth_error_ratio, was: \"< 0.06\", when: \"< 0.05\" }\n";
    let said = "the condition on `gateway_auth_error_ratio` is `< 0.05` already".to_owned();
    assert_eq!(lints_of_surge(conditions), [(Lint::OverrideIdle, 4, said)]);
    assert_eq!(lints_of_surge(""), [(Lint::OverrideIdle, 2, "it changes nothing of `traffic-surge`".to_owned())]);
    let playbook = |changes: &str| {
        let text = format!("override: high-ttft\nschema: 1\n{changes}");
        let library = loaded(&[("overrides/high-ttft.yaml", &text)]);
        assert_eq!((library.left_out.len(), library.replacements.len()), (0, 0));
        lint(&library).into_iter().map(|problem| problem.message).collect::<Vec<_>>()
    };
    assert_eq!(
        playbook("causes: [{ playbook: lost-replica }]\n"),
        ["`high-ttft` has the cause `lost-replica` already"]
    );
    assert_eq!(
        playbook("causes: [{ playbook: kv-cache-full }]\n"),
        ["`high-ttft` has the cause `kv-cache-full` already"]
    );
}

#[test]
fn what_fits_is_applied_although_something_else_in_the_file_does_not() {
    let changes = "escalate: us\nnow:\n  remove:\n    - words of no step\n    - /key/update\n";
    let library = loaded(&[("overrides/traffic-surge.yaml", &format!("{ID}{changes}"))]);
    let shipped = load(None).unwrap();
    let (cause, before) = (&library.causes["traffic-surge"], &shipped.causes["traffic-surge"]);
    assert_eq!((cause.escalate.as_deref(), cause.now.len()), (Some("us"), before.now.len() - 1));
    assert_eq!((library.left_out.len(), library.left_out[0].line), (1, 6));
    for broken in ["override: [", "override: traffic-surge\nschema: 2\n"] {
        let library = loaded(&[("overrides/traffic-surge.yaml", broken)]);
        assert_eq!((library.left_out.len(), &library.causes), (1, &shipped.causes), "{broken}");
    }
}

#[test]
fn a_step_that_is_still_to_be_filled_in_is_not_shown() {
    let step = "now:\n  first:\n    - { do: TODO what to do, no_verify: looks, source: \"https://example.org\" }\n";
    let library = loaded(&[("overrides/traffic-surge.yaml", &format!("{ID}{step}"))]);
    assert_eq!(library.causes, load(None).unwrap().causes);
    assert_eq!(lints_of_surge(step), [(Lint::FilesTodo, 5, "still to be filled in".to_owned())]);
}

#[test]
fn a_step_of_an_added_leaf_that_is_still_to_be_filled_in_is_not_shown() {
    let text = "override: high-ttft\nschema: 1\ncauses:\n  - id: ours\n    title: ours\n    evidence: [{ signal: ttft_p99, when: \"> 9\", required: true }]\n    now:\n      - { do: TODO what to do, no_verify: looks }\n      - { do: Look, no_verify: looks, source: \"https://example.org\" }\n";
    let library = loaded(&[("overrides/high-ttft.yaml", text)]);
    let steps: Vec<_> = library.node_by_id("ours").unwrap().0.now.iter().map(|step| step.action.as_str()).collect();
    assert_eq!(steps, ["Look"]);
    let told: Vec<_> = library.left_out.iter().map(|problem| (problem.lint, problem.line)).collect();
    assert_eq!(told, [(Lint::FilesTodo, 4)]);
}

#[test]
fn a_leaf_inside_a_playbook_is_a_name_too() {
    let shipped = load(None).unwrap();
    let leaves = shipped.playbooks.values().flat_map(|playbook| &playbook.causes);
    let leaf = leaves.filter_map(|entry| entry.id.as_deref()).next().unwrap();
    let changes = "now:\n  first: [{ do: x, no_verify: looks, source: \"https://example.org\" }]\n";
    for id in [leaf, "kv-cache-full"] {
        let text = format!("override: {id}\nschema: 1\n{changes}");
        let library = loaded(&[(&format!("overrides/{id}.yaml"), &text)]);
        let (node, _) = library.node_by_id(id).unwrap();
        assert_eq!(node.now[0].action, "x", "{id}");
    }
    let text = format!("override: {leaf}\nschema: 1\nescalate: us\n");
    let (line, message, hint) = left_out(&[(&format!("overrides/{leaf}.yaml"), &text)]);
    assert_eq!((line, message), (3, format!("`{leaf}` has no `escalate`")));
    assert!(hint.starts_with("a leaf escalates with its playbook: `overrides/"), "{hint}");
}

#[test]
fn a_shipped_playbook_gets_a_cause_and_an_alert_more() {
    let text = "override: high-ttft\nschema: 1\nmatches: [\"OurPromise*\"]\ncauses: [{ cause: traffic-surge }]\n";
    let library = loaded(&[("overrides/high-ttft.yaml", text)]);
    let playbook = &library.playbooks["high-ttft"];
    assert_eq!(playbook.causes.last().unwrap().target(), "traffic-surge");
    assert_eq!(playbook.matches.last().unwrap(), "OurPromise*");
    let leaf = "override: high-ttft\nschema: 1\ncauses: [{ id: a-leaf, title: ours, evidence: [{ signal: ttft_p99, when: \"> 9\", required: true }] }]\n";
    let change = "override: a-leaf\nschema: 1\nnow: { first: [] , last: [{ do: x, no_verify: looks }] }\n";
    let (_, message, hint) = left_out(&[("overrides/high-ttft.yaml", leaf), ("overrides/a-leaf.yaml", change)]);
    assert_eq!(message, "`a-leaf` is added in a file of your own");
    assert!(hint.contains("overrides/high-ttft.yaml"), "{hint}");
}

#[test]
fn what_does_not_fit_is_told_with_its_line_and_what_would() {
    let (line, message, hint) = of_surge("conditions:\n  - { signal: request_rat, when: \"> 2\" }\n");
    assert_eq!((line, message.as_str()), (4, "`traffic-surge` has no condition on `request_rat`"));
    assert_eq!(hint, "did you mean `request_rate`?");
    let (_, message, hint) = of_surge("conditions:\n  - { signal: request_rate, when: \"> 2\" }\n");
    assert_eq!(message, "`traffic-surge` has several conditions on `request_rate`");
    assert_eq!(hint, "say which: `was:` one of `> 1.2x baseline`, `> 1.5x baseline`, `> 2.5x baseline`");
    let (_, message, hint) = of_surge("conditions:\n  - { signal: request_rate, was: \"> 9\", when: \"> 2\" }\n");
    assert_eq!(message, "`traffic-surge` has no condition `> 9` on `request_rate`");
    assert_eq!(hint, "it has `> 1.2x baseline`, `> 1.5x baseline`, `> 2.5x baseline`");
    // Of several conditions, that one may have had this value before; the wish for the other one is not fulfilled.
    let gone = "conditions:\n  - { signal: request_rate, was: \"> 1.4x baseline\", when: \"> 1.5x baseline\" }\n";
    assert_eq!(of_surge(gone).1, "`traffic-surge` has no condition `> 1.4x baseline` on `request_rate`");
    let twice = "  - { signal: gateway_auth_error_ratio, when: \"< 0.2\" }\n";
    let (line, message, _) = of_surge(&format!("conditions:\n{twice}{twice}"));
    assert_eq!((line, message.as_str()), (5, "`< 0.05` on `gateway_auth_error_ratio` is changed twice"));

    let (line, message, hint) = of_surge("now:\n  remove:\n    - rpm_limits\n");
    assert_eq!((line, message.as_str()), (5, "no step of `traffic-surge` under `now` has these words"));
    assert!(hint.starts_with("its steps are\n         “Find the client that sends most"), "{hint}");
    let (_, message, hint) = of_surge("now:\n  remove: [Shed load instead]\n");
    assert_eq!(message, "2 steps of `traffic-surge` under `now` have these words");
    assert!(hint.starts_with("give more of the words of one:\n         “Shed load"), "{hint}");
    let (_, _, hint) = of_surge("now:\n  remove: [Autoscale on waiting]\n");
    assert_eq!(hint, "one under `lasting` has them: write it there");
    let (_, message, _) = of_surge("now:\n  remove: [rpm_limit, /key/update]\n");
    assert!(message.ends_with("is changed twice"), "{message}");
}

#[test]
fn an_unknown_id_and_a_change_of_a_file_of_ones_own_are_left_out() {
    let text = "override: trafic-surge\nschema: 1\nescalate: us\n";
    let (line, message, hint) = left_out(&[("overrides/trafic-surge.yaml", text)]);
    assert_eq!((line, message.as_str()), (1, "there is no playbook or cause `trafic-surge`"));
    assert_eq!(hint, "did you mean `traffic-surge`?");
    let (_, message, _) = left_out(&[("overrides/surge.yaml", "override: traffic-surge\nschema: 1\nescalate: us\n")]);
    assert_eq!(message, "`override: traffic-surge` must equal the file name `surge`");

    let cause = std::fs::read_to_string("playbooks/causes/traffic-surge.yaml").unwrap();
    let change = format!("{ID}escalate: us\n");
    let (_, message, hint) =
        left_out(&[("causes/traffic-surge.yaml", &cause), ("overrides/traffic-surge.yaml", &change)]);
    assert_eq!(message, "`traffic-surge` is in your own file");
    assert!(hint.starts_with("make the change in ") && hint.contains("causes/traffic-surge.yaml"), "{hint}");
}

#[test]
fn signals_for_an_engine_that_is_not_there_are_left_out() {
    let text = "engine: vlm\nschema: 1\nsignals:\n  kv_cache_usage: { query: up }\n";
    let (line, message, hint) = left_out(&[("signals/vlm.yaml", text)]);
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
fn a_misleading_check_of_an_own_step_is_found_however_the_step_is_written() {
    for action in ["\"Say \\\"no\\\" to it\"", "'Don''t scale by hand'", ">\n        Do\n        this\n     "] {
        let verify = "verify: { signal: request_rate, when: \"> 0\" }\n      source: https://example.org\n";
        let text = format!("{ID}now:\n  first:\n    - do: {action}\n      {verify}");
        let library = loaded(&[("overrides/traffic-surge.yaml", &text)]);
        let found = verifies(&library);
        assert_eq!(found.len(), 1, "{text}: {found:?}");
        assert!(found[0].file.ends_with("overrides/traffic-surge.yaml") && found[0].line == 5, "{found:?}");
        assert!(found[0].message.contains("holds although `traffic-surge` is found"), "{found:?}");
    }
}

#[test]
fn shipped_steps_that_a_skeleton_lists_are_not_tried_on_a_users_cases() {
    let skeleton = skeleton_change::override_of(&load(None).unwrap(), "traffic-surge").unwrap().remove(0);
    // A rate that is normal here, and above what the shipped steps call relieved.
    let case = "playbook: high-ttft\nhealthy: [pool]\nbaseline: { request_rate: 5 }\ncases:\n  - { name: ours, now: { ttft_p99: 9, request_rate: 9, waiting_per_replica: 9 }, past: { request_rate: 1 }, expect: { symptom: confirmed } }\n";
    let library = loaded(&[(&skeleton.path, &skeleton.text), ("ours.test.yaml", case)]);
    assert_eq!(verifies(&library), []);
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
fn a_shipped_case_of_a_playbook_that_is_replaced_whole_fails() {
    let copy = std::fs::read_to_string("playbooks/symptoms/high-ttft.yaml").unwrap();
    let own = directory(&[("symptoms/high-ttft.yaml", &copy.replace("when: \"> 2\"", "when: \"> 50\""))]);
    let output = Command::new(BINARY).arg("test").arg(own.path()).output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(said.contains("symptom is Absent, expected Confirmed"), "{said}");
}

#[test]
fn a_directory_without_cases_is_told_that_nothing_of_it_was_tested() {
    let own = directory(&[("overrides/traffic-surge.yaml", &format!("{ID}escalate: us\n"))]);
    let output = Command::new(BINARY).arg("test").arg(own.path()).output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    assert_eq!(output.status.code(), Some(0), "{said}");
    assert!(said.contains(" 0 failed\nnone of them is yours: write cases into "), "{said}");
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
        ("causes/storage/x.yaml", "x\n"),
        ("overrides/team-a/x.yaml", "x\n"),
        ("phrase/en/own.ftl", "x\n"),
        ("phrases/de/own.ftl", "x\n"),
        ("phrases/en/own.ftl.yaml", "x\n"),
        ("X.YAML", "x\n"),
        ("own.ftl", "x\n"),
        (".git/x.yml", "x\n"),
        ("notes/readme.md", "x\n"),
    ]);
    let output = Command::new(BINARY).arg("check").arg(own.path()).output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout).replace(&own.path().display().to_string(), "own");
    let heads: Vec<_> = said.lines().filter(|line| line.trim_start().starts_with("own/")).collect();
    let expected = [
        "own/phrases/en/b.ftl:1: `do-now` is said twice: own/phrases/en/a.ftl has it too, and the last one counts (phrase/twice)",
        "own/X.YAML:1: the file is not read (files/unread)",
        "own/causes/storage/x.yaml:1: the file is not read (files/unread)",
        "own/causes/x.yml:1: the file is not read (files/unread)",
        "own/override/x.yaml:1: the file is not read (files/unread)",
        "own/overrides/team-a/x.yaml:1: the file is not read (files/unread)",
        "own/own.ftl:1: the file is not read (files/unread)",
        "own/phrase/en/own.ftl:1: the file is not read (files/unread)",
        "own/phrases/de/own.ftl:1: the file is not read (files/unread)",
        "own/phrases/en/own.ftl.yaml:1: the file is not read (files/unread)",
        "  own/signals/vllm.yaml: the entry of `kv_cache_usage` for vllm",
        "  own/overrides/traffic-surge.yaml: `traffic-surge` is escalated to: us",
        "  own/phrases/en/b.ftl: the phrase `do-now`",
    ];
    assert_eq!(heads, expected, "{said}");
    assert_eq!(output.status.code(), Some(1));
}
