//! A user's change that a new version of the shipped data left behind: the service starts without it and says so.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::Instant;

use authoring::check::unused;
use knowledge::playbook::{Lint, Problem, load};
use llm_diagnose_lab::stack::Service;
use render::Phrases;
use serde_json::Value;

use crate::own_playbooks::directory;
use crate::running::{BINARY, CHANNEL, Running, SOON, group};

/// One change that fits, and one of a step that is not there.
const STALE: &str = "override: traffic-surge
schema: 1
escalate: our team
now:
  remove:
    - words of no step
";

/// What an editor on Windows may write.
const UTF_16: &[u8] = b"\xff\xfeo\0v\0e\0r\0";

/// The status and the check `playbooks` of `/readyz`.
async fn playbooks(run: &Running) -> (String, Option<String>) {
    let (status, body) = run.get("/readyz").await;
    assert_eq!(status, 200, "{body}");
    let body: Value = serde_json::from_str(&body).unwrap();
    let check = body["checks"].as_array().unwrap().iter().find(|check| check["name"] == "playbooks").cloned();
    let detail = check.map(|check| {
        assert_eq!((&check["ok"], &check["required"]), (&false.into(), &false.into()));
        check["detail"].as_str().unwrap().to_owned()
    });
    (body["status"].as_str().unwrap().to_owned(), detail)
}

/// Waits until the service has as many problems with its playbooks.
async fn has_problems(run: &Running, count: usize) {
    let line = format!("llm_diagnose_playbook_problems {count}");
    let until = Instant::now() + 3 * SOON;
    while !run.metrics().await.lines().any(|shown| shown == line) {
        assert!(Instant::now() < until, "{}", run.service.stderr());
        tokio::time::sleep(std::time::Duration::from_millis(50)).await;
    }
}

fn log(service: &Service) -> Vec<String> {
    service.stderr().lines().filter(|line| line.contains("is not used")).map(str::to_owned).collect()
}

#[tokio::test]
async fn a_service_starts_and_reloads_without_the_change_that_does_not_fit_and_says_so() {
    let own = directory(&[
        ("overrides/traffic-surge.yaml", STALE),
        ("overrides/high-ttft.yaml", "override: high-ttft\nschema: 1\ncauses: [{ cause: gone }]\n"),
        ("overrides/kv-cache-full.yaml", "override: kv-cache-full\nschema: 1\nescalate: us\n"),
        ("phrases/en/own.ftl", "do-now = First steps { $gone }\n"),
    ]);
    let extra = format!(
        "prometheus: [{{ url: \"http://127.0.0.1:1\" }}]\nreload_interval: 1s\nplaybooks: {{ dir: {} }}\npages: {{ authentication: none }}",
        own.path().display()
    );
    let run = Running::start(&extra).await;
    let (status, detail) = playbooks(&run).await;
    let detail = detail.unwrap();
    assert_eq!(status, "degraded");
    assert!(detail.starts_with("3 problems, first ") && detail.contains("overrides/traffic-surge.yaml:6"), "{detail}");
    assert!(detail.contains("run `llm-diagnose check "), "{detail}");
    has_problems(&run, 3).await;
    let told = log(&run.service);
    assert_eq!(told.len(), 3, "{}", run.service.stderr());
    assert!(told[0].contains("no step of `traffic-surge` under `now` has these words"), "{told:?}");
    // Alerts are taken, and what fits is in force.
    run.send(&group("Stale", "firing", "warning", &["a"])).await;
    run.wait_for(CHANNEL, |message| message.contains("Stale")).await;
    let (status, page) = run.get("/playbooks/kv-cache-pressure").await;
    let marked = page.contains("Changed by <code>overrides/traffic-surge.yaml</code>");
    assert!(page.contains("Changed by <code>overrides/kv-cache-full.yaml</code>"), "{page}");
    // A sentence that asks for what is not given gives way to the shipped one.
    assert!(status == 200 && marked && page.contains("<h3>Do now</h3>") && !page.contains("$gone"));

    // A reload obeys the same rule: one problem less, and the others keep nothing back.
    fs::write(own.path().join("phrases/en/own.ftl"), "do-now = First steps\n").unwrap();
    has_problems(&run, 2).await;
    fs::remove_file(own.path().join("overrides/high-ttft.yaml")).unwrap();
    fs::write(own.path().join("overrides/traffic-surge.yaml"), STALE.replace("words of no step", "/key/update"))
        .unwrap();
    has_problems(&run, 0).await;
    assert_eq!(playbooks(&run).await.1, None);

    // What is not read, and what is no text, is told as long as it is there.
    for (place, content) in [("causes/x.yml", &b"cause: x"[..]), ("overrides/high-ttft.yaml", UTF_16)] {
        let path = own.path().join(place);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, content).unwrap();
        has_problems(&run, 1).await;
        let detail = playbooks(&run).await.1.unwrap();
        assert!(detail.contains(place), "{detail}");
        fs::remove_file(&path).unwrap();
        has_problems(&run, 0).await;
    }
}

/// The problems of a directory for the service: lint and file's name.
fn unused_of(own: &Path) -> Vec<(Lint, String)> {
    let library = load(Some(own)).unwrap_or_else(|problems| panic!("{problems:?}"));
    let problem = |problem: Problem| (problem.lint, problem.file.rsplit('/').next().unwrap().to_owned());
    unused(&library, own).into_iter().map(problem).collect()
}

#[test]
fn a_file_that_is_no_text_is_left_out_and_named_and_fatal_only_outside_overrides_and_phrases() {
    let own = directory(&[("overrides/traffic-surge.yaml", "override: traffic-surge\nschema: 1\nescalate: us\n")]);
    fs::write(own.path().join("overrides/high-ttft.yaml"), UTF_16).unwrap();
    fs::create_dir_all(own.path().join("phrases/en/folder.ftl")).unwrap();
    fs::write(own.path().join("phrases/en/a.ftl"), UTF_16).unwrap();
    fs::write(own.path().join("phrases/en/b.ftl"), "do-now = First steps\n").unwrap();
    let expected = [(Lint::FilesUnreadable, "high-ttft.yaml".to_owned()), (Lint::PhraseRead, "a.ftl".to_owned())];
    assert_eq!(unused_of(own.path()), expected);
    assert_eq!(load(Some(own.path())).unwrap().causes["traffic-surge"].escalate.as_deref(), Some("us"));
    let words = Phrases::load(Some(own.path())).unwrap();
    assert_eq!(words.text("do-now", &[]), "First steps");

    fs::create_dir(own.path().join("causes")).unwrap();
    fs::write(own.path().join("causes/x.yaml"), UTF_16).unwrap();
    let problems = load(Some(own.path())).unwrap_err();
    assert_eq!(problems.len(), 1, "{problems:?}");
    assert!(problems[0].file.ends_with("causes/x.yaml") && problems[0].hint.is_some(), "{problems:?}");
    let missing = load(Some(&own.path().join("gone"))).unwrap_err();
    assert!(missing.len() == 1 && missing[0].message.starts_with("cannot read the playbook directory"), "{missing:?}");
}

#[test]
fn whatever_takes_no_part_is_told_by_the_service() {
    let shipped = |path: &str, from: &str, to: &str| {
        let text = fs::read_to_string(format!("playbooks/{path}")).unwrap();
        assert!(text.contains(from), "{path}: {from}");
        text.replacen(from, to, 1)
    };
    let cause = shipped("causes/longer-prompts.yaml", "cause: longer-prompts", "cause: ours");
    let cause = cause.replacen("    engine: litellm\n", "    engine: vlm\n", 1);
    let own = directory(&[
        ("report.yaml", &shipped("report.yaml", "- ttft_p50", "- gone")),
        ("causes/ours.yaml", &cause),
        ("tickets/cloud.yaml", &shipped("tickets/cloud.yaml", "gpu-fault,", "gone,")),
        ("logs/host.yaml", &shipped("logs/host.yaml", "cause: gpu-hardware-fault", "cause: gone")),
        ("tables/xid.yaml", &shipped("tables/xid.yaml", "playbooks: [gpu-hardware-fault", "playbooks: [gone")),
        (
            "signals/vllm.yaml",
            "engine: vllm\nschema: 1\nsignals:\n  kv_cache_usage: { query: \"max by ($by) (x{$scope}\" }\n  \
             kv_cache_peak: { query: \"max by ($by) (x{$scop})\" }\n  gpu_temperature: { query: \"max by ($by) (x{$scope})\" }\n",
        ),
        // A whole playbook may leave shipped causes out.
        ("mechanisms/load-shedding.yaml", &shipped("mechanisms/load-shedding.yaml", "  - cause: refused-surge\n", "")),
    ]);
    let told: BTreeSet<Lint> = unused_of(own.path()).into_iter().map(|(lint, _)| lint).collect();
    let expected = [
        Lint::CauseUnused,
        Lint::LogCause,
        Lint::ReportUnknownSignal,
        Lint::SignalKind,
        Lint::SignalPlaceholder,
        Lint::SignalPromql,
        Lint::StepEngine,
        Lint::TableUnknownPlaybook,
        Lint::TicketCause,
    ];
    assert_eq!(told, BTreeSet::from(expected));
}

#[test]
fn commands_go_on_with_what_fits_and_those_that_check_or_generate_do_not() {
    let own = directory(&[("overrides/traffic-surge.yaml", STALE)]);
    let run = |arguments: &[&str]| {
        let mut command = Command::new(BINARY);
        for argument in arguments {
            match *argument {
                "DIR" => command.arg(own.path()),
                argument => command.arg(argument),
            };
        }
        let output = command.output().unwrap();
        (output.status.code(), [output.stdout, output.stderr].map(|text| String::from_utf8(text).unwrap()))
    };
    let (code, [out, warning]) = run(&["explain", "high-ttft", "--playbooks", "DIR"]);
    assert_eq!(code, Some(0), "{warning}");
    assert!(out.contains("changed by ") && out.contains("overrides/traffic-surge.yaml"), "{out}");
    assert!(warning.starts_with("warning: 1 change to the shipped data left out, first "), "{warning}");
    for arguments in [
        vec!["check", "DIR"],
        vec!["test", "DIR"],
        vec!["generate", "rules", "--playbooks", "DIR"],
        vec!["new", "cause", "a-cause", "--into", "DIR"],
    ] {
        let (code, [out, error]) = run(&arguments);
        assert_eq!(code, Some(1), "{arguments:?}: {out}{error}");
        assert!(format!("{out}{error}").contains("overrides/traffic-surge.yaml:6: no step of"), "{out}{error}");
    }
    let (_, [out, _]) = run(&["doctor", "--playbooks", "DIR"]);
    let line = out.lines().find(|line| line.contains("playbooks")).unwrap_or_else(|| panic!("{out}"));
    assert!(line.contains("FAIL") && line.contains("1 problem"), "{line}");
    let broken = directory(&[("symptoms/x.yaml", "playbook: [")]);
    let output = Command::new(BINARY).arg("check").arg(broken.path()).output().unwrap();
    assert_eq!(output.status.code(), Some(1));
}
