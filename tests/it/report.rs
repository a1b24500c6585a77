//! The written report: what somebody who was not there reads first, and the forms of whoever takes over.

mod limits;
mod told;

use diagnose::diagnose;
use findings::Diagnosis;
use findings::cluster::{Container, Ended, Pod};
use findings::facts::Window;
use knowledge::playbook::{Lint, load};
use render::{Phrases, report_markdown, ticket};
use report::{DiagnosisParameters, Report, ReportIncident, ReportSubject, SourceFindings, build};

use crate::chains::{asked, moment};
use crate::harness::{at, library, run, shared};

const CASE: &str = "longer-prompts";

fn diagnosis() -> Diagnosis {
    run(diagnose(library(), shared(), &asked(CASE, "high-ttft")))
}

fn incident() -> ReportIncident {
    ReportIncident {
        id: "01K9W2E4Z0000000000000TEST".to_owned(),
        group_key: "{}".to_owned(),
        open: true,
        playbook: Some("high-ttft".to_owned()),
        because: Some("its name".to_owned()),
        started_at: at(moment(CASE) - 30),
        opened_at: at(moment(CASE) - 20),
        resolved_at: None,
        refired: 0,
        truncated: 0,
        seen_before: 0,
        external_url: String::new(),
        acknowledged: None,
        impact: None,
        related: Default::default(),
    }
}

fn reported(headline: &str, seen: SourceFindings) -> Report {
    reported_of(headline, &diagnosis(), seen)
}

fn reported_of(headline: &str, diagnosis: &Diagnosis, seen: SourceFindings) -> Report {
    let window = Window { from: at(moment(CASE) - 1_800), to: at(moment(CASE)) };
    let about = ReportSubject {
        headline,
        incident: Some(incident()),
        alerts: &[],
        diagnosis: Some(diagnosis),
        asked: DiagnosisParameters::default(),
        window,
        happened: &[],
    };
    build(about, seen, at(moment(CASE)))
}

fn pod(name: &str, args: &[&str]) -> Pod {
    let container = Container {
        name: "vllm".to_owned(),
        image: "vllm/vllm-openai:v0.28.1".to_owned(),
        args: args.iter().map(|&arg| arg.to_owned()).collect(),
        resources: [("limits.nvidia.com/gpu".to_owned(), "2".to_owned())].into(),
        ended: Some(Ended {
            reason: "OOMKilled".to_owned(),
            exit_code: 137,
            at: Some(at(moment(CASE) - 600)),
            message: None,
        }),
        ..Container::default()
    };
    Pod {
        namespace: CASE.to_owned(),
        name: name.to_owned(),
        owner: Some("Deployment/llama".to_owned()),
        containers: vec![container],
        ..Pod::default()
    }
}

fn cluster(pods: Vec<Pod>) -> SourceFindings {
    let kubernetes = findings::cluster::ClusterSnapshot {
        version: Some("v1.34.2".to_owned()),
        pods,
        ..findings::cluster::ClusterSnapshot::default()
    };
    SourceFindings { kubernetes: Some(kubernetes), ..SourceFindings::default() }
}

#[test]
fn the_beginning_of_the_written_report_says_what_whom_why_and_what_to_do() {
    let report = reported("llm/llama · high TTFT: first tokens come late", SourceFindings::default());
    let text = report_markdown(&report, &Phrases::english());
    let root = report.diagnosis.as_ref().unwrap().root().unwrap();
    let beginning: String = text.chars().take(2_500).collect();
    for said in
        ["high TTFT: first tokens come late", "still open", &root.title, "likely", "What to do", &root.meaning[..40]]
    {
        assert!(beginning.contains(said), "{said} is missing:\n{beginning}");
    }
    let order = ["## Why", "## What to do", "## Expected and actual", "## Not known", "## Everything that was checked"];
    let places: Vec<_> =
        order.iter().map(|heading| text.find(heading).unwrap_or_else(|| panic!("{heading}: {text}"))).collect();
    assert!(places.is_sorted(), "{places:?}");
    assert!(text.contains("histogram_quantile"), "every query stands in it");
}

#[test]
fn the_cluster_answers_model_hardware_deployment_and_versions() {
    let args =
        ["vllm", "serve", "meta-llama/Llama-3.1-8B-Instruct", "--served-model-name=llama", "--max-num-seqs", "256"];
    let report = reported("x", cluster(vec![pod("a", &args), pod("b", &args), pod("c", &args[..4])]));
    let answers = &report.answers;
    assert_eq!(answers.model.weights, ["meta-llama/Llama-3.1-8B-Instruct"]);
    assert!(answers.model.names.contains(&"llama".to_owned()));
    let of: Vec<_> = answers.model.arguments.iter().map(|line| line.of.len()).collect();
    assert_eq!(of.iter().sum::<usize>(), 3);
    assert_eq!(of.len(), 2, "command lines that differ are told apart");
    assert_eq!((answers.hardware.gpus[0].count, answers.deployment.mode.as_str()), (6, "plain Deployment"));
    assert!(answers.versions.iter().any(|v| v.version.contains("vllm/vllm-openai:v0.28.1")), "{:?}", answers.versions);
    assert!(report.timeline.iter().any(|one| one.what.contains("OOMKilled") && one.what.contains("137")));
    let text = report_markdown(&report, &Phrases::english());
    assert!(text.contains("--max-num-seqs 256"), "{text}");
}

#[test]
fn what_nobody_told_is_named_with_the_way_to_find_out() {
    let report = reported("x", SourceFindings::default());
    let open: Vec<&str> = report.answers.open.iter().map(|(_, how)| how.as_str()).collect();
    for how in ["kubectl get pod", "nvidia-smi -L", "nvidia-smi topo -m", "GET /version"] {
        assert!(open.iter().any(|text| text.contains(how)), "{how}: {open:?}");
    }
}

#[test]
fn every_form_is_filled_in_its_own_order() {
    let report = reported("x", SourceFindings::default());
    for form in library().tickets.values() {
        let text = ticket(form, &report, &Phrases::english());
        let places: Vec<_> =
            form.fields.iter().map(|field| text.find(&format!("## {}\n", field.name)).unwrap()).collect();
        assert!(places.is_sorted(), "{}", form.ticket);
        assert!(text.contains(&report.diagnosis.as_ref().unwrap().root().unwrap().title), "{}", form.ticket);
        assert!(text.len() < 60_000, "{} has {} bytes, and GitHub takes 65,536", form.ticket, text.len());
    }
    assert!(library().tickets.len() >= 5);
}

#[test]
fn hostile_names_stay_text_in_the_written_report_and_in_tickets() {
    let evil = "x](http://evil) ![p](http://evil/p.png) <script>alert(1)</script> @everyone ``` | \u{202e}";
    let report = reported(evil, cluster(vec![pod(evil, &["vllm", "--model", evil])]));
    let written = report_markdown(&report, &Phrases::english());
    let tickets = library().tickets.values().map(|form| ticket(form, &report, &Phrases::english()));
    for text in tickets.chain([written]) {
        let outside = outside_of_code(&text);
        assert!(!outside.replace("\\]", "").contains("](http://evil"), "{outside}");
        assert!(
            !outside.contains("<script") && !outside.contains("@everyone") && !text.contains('\u{202e}'),
            "{outside}"
        );
    }
}

/// A Markdown text without its fences and code spans.
fn outside_of_code(text: &str) -> String {
    let mut out = String::new();
    let mut fence: Option<usize> = None;
    for line in text.lines() {
        let ticks = line.chars().take_while(|c| *c == '`').count();
        match fence {
            Some(opened) if ticks >= opened && line.trim_matches('`').is_empty() => fence = None,
            Some(_) => {}
            None if ticks >= 3 && !line[ticks..].contains('`') => fence = Some(ticks),
            None => out.push_str(&without_spans(line)),
        }
        out.push('\n');
    }
    out
}

fn without_spans(line: &str) -> String {
    let (mut out, mut rest) = (String::new(), line);
    while let Some(at) = rest.find('`') {
        out.push_str(&rest[..at]);
        let ticks = rest[at..].chars().take_while(|c| *c == '`').count();
        if out.ends_with('\\') {
            rest = &rest[at + 1..];
            continue;
        }
        let after = &rest[at + ticks..];
        let run = "`".repeat(ticks);
        let end = after
            .match_indices(&run)
            .find(|(i, _)| !after[..*i].ends_with('`') && !after[i + ticks..].starts_with('`'));
        rest = match end {
            Some((i, _)) => &after[i + ticks..],
            None => after,
        };
    }
    out + rest
}

#[test]
fn forms_that_are_wrong_are_refused_with_their_line() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::create_dir(dir.path().join("tickets")).unwrap();
    let wrong = "ticket: own\nschema: 1\ntitle: Ours\nengines: [vlm]\ncauses: [kernel-falt]\nfields:\n  - name: Empty\nsource: []\n";
    std::fs::write(dir.path().join("tickets/own.yaml"), wrong).unwrap();
    let library = load(Some(dir.path())).unwrap();
    let lints: Vec<Lint> = authoring::check::lint(&library).iter().map(|problem| problem.lint).collect();
    assert_eq!(lints, [Lint::TicketEngine, Lint::TicketCause, Lint::TicketEmpty, Lint::TicketSource]);
}
