//! A user's change that a new version of the shipped data left behind: the service starts without it and says so.

use std::fs;
use std::process::Command;
use std::time::Instant;

use llm_diagnose_lab::stack::Service;
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
    // A sentence that asks for what is not given gives way to the shipped one.
    assert!(status == 200 && marked && page.contains("<h3>Do now</h3>") && !page.contains("$gone"));

    // A reload obeys the same rule: one problem less, and the others keep nothing back.
    fs::write(own.path().join("phrases/en/own.ftl"), "do-now = First steps\n").unwrap();
    has_problems(&run, 2).await;
    fs::remove_file(own.path().join("overrides/high-ttft.yaml")).unwrap();
    fs::write(own.path().join("overrides/traffic-surge.yaml"), STALE.replace("words of no step", "POST /key/update"))
        .unwrap();
    has_problems(&run, 0).await;
    assert_eq!(playbooks(&run).await.1, None);
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
