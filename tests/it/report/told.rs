//! What a report says of one diagnosis: the same everywhere, each thing once, and no more than is known.

use findings::{Fix, Outcome, Screening, SymptomVerdict};
use jiff::SignedDuration;
use knowledge::alert::{Alert, AlertStatus};
use knowledge::playbook::condition_text;
use knowledge::signal::{Unit, format_value};
use logs::{Log, LogReader, Patterns};
use render::{IncidentView, ReportPageContext, diagnosis_message, incident_message, tickets_for};

use findings::endpoint::{AnswerBody, EndpointAnswer};
use findings::facts::{Distribution, Measured};

use super::*;

pub(super) fn alert(severity: Option<&str>, slo: Option<&str>) -> Alert {
    let pairs = |all: &[(&str, Option<&str>)]| {
        all.iter().filter_map(|(name, value)| Some(((*name).to_owned(), (*value)?.to_owned()))).collect()
    };
    Alert {
        status: AlertStatus::Firing,
        labels: pairs(&[("alertname", Some("LLMHighTTFT")), ("severity", severity), ("namespace", Some(CASE))]),
        annotations: pairs(&[("slo", slo)]),
        starts_at: at(moment(CASE) - 30),
        ends_at: "0001-01-01T00:00:00Z".parse().unwrap(),
        generator_url: String::new(),
        fingerprint: String::new(),
    }
}

pub(super) fn page(report: &Report) -> String {
    render::report_page(report, &ReportPageContext::default(), &Phrases::english())
}

#[test]
fn a_page_of_an_incident_that_is_being_screened_does_not_say_that_nothing_is_diagnosed() {
    let mut report = reported("a headline", SourceFindings::default());
    report.diagnosis = None;
    let mut shown = |because: Option<&str>| {
        let incident = report.incident.as_mut().unwrap();
        (incident.playbook, incident.because) = (None, because.map(str::to_owned));
        render::report_page(&report, &ReportPageContext::default(), &Phrases::english())
    };
    let (waits, nobodys) = (shown(Some("the pool is screened")), shown(None));
    assert!(nobodys.contains("Nothing was diagnosed"), "{nobodys}");
    assert!(!waits.contains("Nothing was diagnosed") && waits.contains("Looking at the evidence"), "{waits}");
}

pub(super) fn written(report: &Report) -> String {
    report_markdown(report, &Phrases::english())
}

/// A card of the page, as text between its headings.
pub(super) fn card<'a>(page: &'a str, id: &str) -> &'a str {
    let from = page.find(&format!("id=\"{id}\"")).unwrap_or_else(|| panic!("no {id}: {page}"));
    let rest = &page[from..];
    &rest[..rest.find("</section>").or_else(|| rest.find("</header>")).unwrap()]
}

fn measured(signal: &str, title: &str, unit: Unit, (before, during): (f64, f64)) -> Measured {
    Measured {
        signal: signal.to_owned(),
        title: title.to_owned(),
        unit,
        before: Some(before),
        during: Some(during),
        after: None,
        bounds: Vec::new(),
        query: None,
        why: None,
    }
}

fn numbers(measured: Vec<Measured>) -> SourceFindings {
    SourceFindings {
        facts: Some(findings::facts::PrometheusFacts { measured, ..findings::facts::PrometheusFacts::default() }),
        ..SourceFindings::default()
    }
}

pub(super) fn reported_with_alerts(alerts: &[Alert], diagnosis: &Diagnosis) -> Report {
    let window = Window { from: at(moment(CASE) - 1_800), to: at(moment(CASE)) };
    let about = ReportSubject {
        headline: "x",
        incident: None,
        alerts,
        diagnosis: Some(diagnosis),
        asked: DiagnosisParameters::default(),
        window,
        happened: &[],
    };
    build(about, SourceFindings::default(), at(moment(CASE)))
}

#[test]
fn only_an_alert_that_is_a_warning_is_called_one() {
    let diagnosis = diagnosis();
    for (severity, word) in [
        (Some("critical"), "CRITICAL"),
        (Some("warning"), "WARNING"),
        (Some("info"), "FIRING"),
        (Some("none"), "FIRING"),
        (None, "FIRING"),
    ] {
        let alerts = [alert(severity, None)];
        let view = IncidentView { alerts: &alerts, diagnosis: Some(&diagnosis), ..IncidentView::default() };
        let headline = incident_message(&view, &Phrases::english()).headline;
        assert!(headline.starts_with(&format!("{word} · ")), "{severity:?}: {headline}");
        let report = reported_with_alerts(&alerts, &diagnosis);
        let page = page(&report);
        assert!(card(&page, "head").contains(word), "{severity:?}: {page}");
        assert_eq!(page.contains("WARNING"), word == "WARNING", "{severity:?}");
        let said = match severity {
            Some(severity) => format!("LLMHighTTFT (severity {severity})"),
            None => "LLMHighTTFT (no severity label)".to_owned(),
        };
        let form = ticket(&library().tickets["vllm"], &report, &Phrases::english());
        for text in [card(&page, "head"), &written(&report), &form] {
            assert!(text.contains(&said), "{said}: {text}");
        }
    }
    // Somebody asked, and nothing fires.
    let page = page(&reported_with_alerts(&[], &diagnosis));
    assert!(card(&page, "head").contains("Confirmed") && !page.contains("FIRING"), "{page}");
}

#[test]
fn expected_is_what_was_promised_or_was_before_and_never_the_alarms_threshold() {
    let mut diagnosis = diagnosis();
    let met = diagnosis.symptom.evidence.iter_mut().find(|e| e.outcome == Outcome::Met && e.value.is_some()).unwrap();
    met.baseline = Some(0.4);
    let (title, threshold) = (met.title.clone(), condition_text(&met.when, met.unit));
    let row = |report: &Report, title: &str| {
        let row = report.answers.goal.expected.iter().find(|one| one.title == title).cloned();
        row.unwrap_or_else(|| panic!("{title}: {:?}", report.answers.goal))
    };
    let report = reported_of("x", &diagnosis, SourceFindings::default());
    let told = row(&report, &title);
    assert_eq!((told.expected.as_deref(), told.limit.as_str()), (Some("before: 400 ms"), threshold.as_str()));
    for text in [page(&report), written(&report)] {
        assert!(text.contains("before: 400 ms") && text.contains("Threshold"), "{text}");
    }
    assert!(!report.answers.open.iter().any(|(_, how)| how.contains("promised")), "the past is known");

    diagnosis.symptom.evidence.iter_mut().for_each(|e| e.baseline = None);
    let report = reported_of("x", &diagnosis, SourceFindings::default());
    assert_eq!(row(&report, &title).expected, None);
    for text in [page(&report), written(&report)] {
        assert!(text.contains("not known"), "{text}");
    }
    assert!(report.answers.open.iter().any(|(_, how)| how.contains("promised")), "{:?}", report.answers.open);
    // What the evidence was not compared with may have been measured before it began.
    let signal = diagnosis.symptom.evidence.iter().find(|e| e.title == title).unwrap().signal.clone();
    let seen = numbers(vec![measured(&signal, &title, Unit::Seconds, (0.3, 4.0))]);
    assert_eq!(row(&reported_of("x", &diagnosis, seen), &title).expected.as_deref(), Some("before: 300 ms"));

    let report = reported_with_alerts(&[alert(None, Some("99 % of first tokens within 1 s"))], &diagnosis);
    assert_eq!(row(&report, "LLMHighTTFT").expected.as_deref(), Some("promised: 99 % of first tokens within 1 s"));
}

#[test]
fn a_quantile_is_told_with_the_bucket_that_it_lies_in() {
    let lengths = Distribution {
        count: 200.0,
        mean: 1_300.0,
        p50: 1_500.0,
        p90: 1_900.0,
        p99: 5_000.0,
        buckets: vec![(Some(1_000.0), 0.0), (Some(2_000.0), 0.95), (Some(5_000.0), 0.01), (None, 0.04)],
        earlier: Some((400.0, 500.0)),
        metric: "vllm:request_prompt_tokens".to_owned(),
    };
    let mut latency = measured("ttft_p50", "TTFT p50", Unit::Seconds, (0.3, 20.0));
    latency.bounds = vec![0.25, 0.5, 10.0, 20.0];
    let mut seen = numbers(vec![latency]);
    seen.facts.as_mut().unwrap().input = Some(lengths);
    let report = reported("x", seen);
    for text in [page(&report), written(&report)] {
        for range in [
            "between 1k tokens and 2k tokens",
            "5k tokens or more",
            "between 0 tokens and 1k tokens",
            "300 ms (between 250 ms and 500 ms)",
            "20 s or more",
        ] {
            assert!(text.contains(range), "{range}: {text}");
        }
        assert!(!text.contains("1.5k tokens"), "nobody knows the middle of a bucket: {text}");
    }
}

#[test]
fn a_cause_that_began_after_its_effect_is_not_drawn_before_it() {
    let mut diagnosis = diagnosis();
    let root = diagnosis.root().unwrap().clone();
    let symptom = diagnosis.symptom.clone();
    let onset = diagnosis.timeline[0].clone();
    let begun =
        |id: &str, seconds| findings::Onset { id: id.to_owned(), at: at(moment(CASE) - seconds), ..onset.clone() };
    diagnosis.timeline = vec![begun(&root.id, 600), begun(&symptom.playbook, 300)];
    let place = |text: &str, what: &str| text.find(what).unwrap_or_else(|| panic!("{what}: {text}"));
    let fits = page(&reported_of("x", &diagnosis, SourceFindings::default()));
    let why = card(&fits, "why");
    assert!(place(why, &root.title) < place(why, &symptom.title) && !why.contains("chain apart"), "{why}");

    diagnosis.timeline = vec![begun(&root.id, 300), begun(&symptom.playbook, 900)];
    let report = reported_of("x", &diagnosis, SourceFindings::default());
    let shown = page(&report);
    let why = card(&shown, "why");
    assert!(place(why, &symptom.title) < place(why, &root.title) && why.contains("chain apart"), "{why}");
    let text = written(&report);
    let chain = &text[place(&text, "## Why")..];
    let chain = &chain[..place(&chain[3..], "\n## ")];
    assert!(!chain.contains("\n1. ") && place(chain, &symptom.title) < place(chain, &root.title), "{chain}");
    let terminal = render::terminal(&diagnosis_message(&diagnosis, None, &Phrases::english()));
    for text in [why, chain, &terminal] {
        assert!(text.contains("The times do not fit") && !fits.contains("The times do not fit"), "{text}");
    }
    let view = IncidentView { diagnosis: Some(&diagnosis), ..IncidentView::default() };
    let message = render::terminal(&incident_message(&view, &Phrases::english()));
    assert!(message.contains("The times do not fit"), "{message}");
    for (step_seconds, is_order) in [(30, true), (600, false)] {
        let mut coarse = diagnosis.clone();
        coarse.timeline.iter_mut().for_each(|onset| onset.step_seconds = step_seconds);
        let said = render::terminal(&diagnosis_message(&coarse, None, &Phrases::english()));
        assert_eq!(said.contains("The times do not fit"), is_order, "less than two steps is no order: {said}");
    }
    let story = &terminal[place(&terminal, "Began: ")..];
    let at = |seconds: i64| at(moment(CASE) - seconds).strftime("%H:%M").to_string();
    assert!(place(story, &at(900)) < place(story, &at(300)), "what began is told in the order of time: {story}");
}

pub(super) fn logged(pod: &str, text: &str) -> (Log, logs::LogAnalysis) {
    let patterns = Patterns::new(library().logs.values());
    let log = Log { source: "loki".into(), pod: Some(pod.into()), text: text.into(), ..Log::default() };
    let read = LogReader::new(&patterns).text(&log.text);
    (log, read)
}

#[test]
fn versions_gpus_and_arguments_come_from_logs_where_nobody_else_tells() {
    let start = "(APIServer pid=1) INFO 11-20 18:14:58 [api_utils.py:286] non-default args: {'model': 'org/m', \
                 'max_num_seqs': 8, 'api_key': ['hush']}\n\
                 (EngineCore pid=2) INFO 11-20 18:15:31 [core.py:133] Initializing a V1 LLM engine (v0.32.0) with config: x\n\
                 WARNING 11-20 18:15:33 [fused_moe.py:683] Config file not found at /c/E=8,device_name=NVIDIA_H200.json\n";
    let sglang =
        "[2026-03-02 08:11:40] server_args=ServerArgs(model_path='org/s', mem_fraction_static=0.85, tp_size=2)\n";
    let logs = || vec![logged("llama-0", start), logged("sglang-0", sglang)];
    let report = reported_of("x", &diagnosis(), SourceFindings { logs: logs(), ..SourceFindings::default() });
    let told = &report.answers;
    let of = |what: &str| -> Vec<(&str, &str)> {
        let versions = told.versions.iter().filter(|version| version.what == what);
        versions.map(|version| (version.version.as_str(), version.source.as_str())).collect()
    };
    assert_eq!(of("vllm"), [("0.32.0", "log of llama-0")]);
    let arguments: Vec<_> = told.model.arguments.iter().map(|a| (a.words.join(" "), a.source.as_str())).collect();
    assert_eq!(arguments, [("--model org/m --max-num-seqs 8".to_owned(), "log")]);
    assert_eq!(told.model.weights, ["org/m", "org/s"]);
    assert_eq!(told.model.settings["log.mem_fraction_static"], ["0.85"]);
    let gpus: Vec<_> = told.hardware.gpus.iter().map(|gpu| (gpu.kind.as_str(), gpu.count)).collect();
    assert_eq!(gpus, [("NVIDIA_H200", 1)]);
    assert!(written(&report).contains("--max-num-seqs 8") && !written(&report).contains("hush"));

    // The container before may have been started otherwise, and runs on the same GPU.
    let before = |(log, read)| (Log { previous: true, ..log }, read);
    let other = start.replace("org/m", "org/old");
    let mut all = logs();
    all.extend([before(logged("llama-0", &other)), logged("llama-1", start), before(logged("llama-1", start))]);
    let told = reported_of("x", &diagnosis(), SourceFindings { logs: all, ..SourceFindings::default() }).answers;
    assert_eq!(told.model.weights, ["org/m", "org/s"]);
    assert_eq!(told.model.arguments[0].of, ["llama-0", "llama-1"]);
    assert_eq!((told.model.arguments.len(), told.hardware.gpus.len(), told.hardware.gpus[0].count), (1, 1, 2));
    assert_eq!(told.hardware.gpus[0].source, "log, at least one for each pod that names it");

    // What the engine itself says now is not what a log said at some start.
    let answer = findings::endpoint::EndpointInfo {
        versions: vec![("vllm".into(), "0.33.0".into())],
        arguments: vec!["--max-num-seqs".into(), "16".into()],
        settings: [("dtype".to_owned(), "auto".to_owned())].into(),
        ..Default::default()
    };
    let own = EndpointAnswer {
        engine: "vllm".into(),
        target: "llama-0".into(),
        path: "/version".into(),
        said: AnswerBody::Text(String::new()),
    };
    let seen = SourceFindings { logs: logs(), endpoints: vec![(own, answer)], ..SourceFindings::default() };
    let report = reported_of("x", &diagnosis(), seen);
    let versions: Vec<_> = report.answers.versions.iter().filter(|v| v.what == "vllm").map(|v| &v.version).collect();
    assert_eq!(versions, ["0.33.0"]);
    let arguments: Vec<_> = report.answers.model.arguments.iter().map(|a| a.words.join(" ")).collect();
    assert_eq!(arguments, ["--max-num-seqs 16"]);
    assert!(!report.answers.model.settings.contains_key("log.mem_fraction_static"));
}

#[test]
fn a_step_stands_once() {
    let mut diagnosis = diagnosis();
    let step =
        |action: &str| Fix { action: action.to_owned(), cause: "x".to_owned(), cost: None, verify: None, source: None };
    diagnosis.fix.now = vec![step("Drain the odd replica\nand add two"), step("Call somebody")];
    diagnosis.fix.lasting = vec![step("Drain the odd replica and add two."), step("Write it down")];
    // Replicas that fail alike say the same in their logs.
    let crash = "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB.";
    let read = LogReader::new(&Patterns::new([&library().logs["vllm"]])).text(crash);
    let action = read.root().and_then(|found| found.action.clone()).unwrap_or_else(|| panic!("{read:?}"));
    let log = |pod: &str| (Log { pod: Some(pod.to_owned()), ..Log::default() }, read.clone());
    let of_logs = page(&reported_of(
        "x",
        &diagnosis,
        SourceFindings { logs: vec![log("a"), log("b")], ..SourceFindings::default() },
    ));
    let words = action.split('`').max_by_key(|piece| piece.len()).unwrap().trim();
    assert_eq!(card(&of_logs, "logs").matches(words).count(), 1, "{words}: {of_logs}");
    let report = reported_of("x", &diagnosis, SourceFindings::default());
    let form = ticket(&library().tickets["platform"], &report, &Phrases::english());
    for text in [page(&report), written(&report), form] {
        for once in ["Drain the odd replica", "Call somebody", "Write it down"] {
            assert_eq!(text.matches(once).count(), 1, "{once}: {text}");
        }
    }
}

#[test]
fn tickets_are_for_those_whom_the_cause_concerns_and_for_the_named_one() {
    let mut report = reported("x", SourceFindings::default());
    let of = |report: &Report, named: &[&str]| {
        let named: Vec<String> = named.iter().map(|&name| name.to_owned()).collect();
        tickets_for(library(), report, &named).map(|form| form.ticket.clone()).collect::<Vec<_>>()
    };
    assert_eq!(of(&report, &[]), [""; 0], "clients made their prompts longer");
    assert_eq!(of(&report, &["sglang"]), ["sglang"], "whoever is named gets one");
    for (root, whom) in [
        ("kernel-fault", vec!["vllm"]),
        ("gpu-hardware-fault", vec!["cloud", "nvidia", "platform"]),
        ("client-aborts", vec![]),
        ("unschedulable", vec!["cloud", "platform"]),
    ] {
        report.diagnosis.as_mut().unwrap().causes[0].id = root.to_owned();
        assert_eq!(of(&report, &[]), whom, "{root}");
    }
    report.diagnosis.as_mut().unwrap().causes.clear();
    assert_eq!(of(&report, &[]), ["platform"], "nobody knows why: it stays inside");
}

#[test]
fn a_number_changed_by_the_same_factor_wherever_it_is_told() {
    for (ratio, factor) in [(2.2, Some("2.2x")), (1.07, Some("1.1x")), (1.03, None)] {
        let mut diagnosis = diagnosis();
        let compared = diagnosis.causes[0].evidence.iter_mut().find(|e| e.outcome == Outcome::Met && e.value.is_some());
        let e = compared.unwrap();
        let (before, during) = (1_000.0, 1_000.0 * ratio);
        (e.baseline, e.value) = (Some(before), Some(during));
        let share = measured("kv_cache_usage", "KV cache usage", Unit::Ratio, (0.2, 0.2 * ratio));
        let seen = numbers(vec![measured(&e.signal, &e.title, e.unit, (before, during)), share]);
        let (title, now) = (e.title.clone(), format_value(during, e.unit));
        let report = reported_of("x", &diagnosis, seen);
        let alerts = [alert(Some("critical"), None)];
        let view = IncidentView { alerts: &alerts, diagnosis: Some(&diagnosis), ..IncidentView::default() };
        let slack = serde_json::to_string(&render::slack(&incident_message(&view, &Phrases::english()))).unwrap();
        let (page, written) = (page(&report), written(&report));
        let told =
            factor.map_or_else(|| format!("{title} unchanged at {now}"), |factor| format!("{title} {now} ({factor}, "));
        for text in [slack.as_str(), card(&page, "why"), &written] {
            assert!(text.contains(&told), "{told}: {text}");
        }
        // The number and the share: both by the factor.
        let told = factor.map_or_else(|| "≈".to_owned(), |factor| format!("▲ {factor}"));
        for text in [card(&page, "answers"), &written] {
            assert_eq!(text.matches(&told).count(), 2, "{told}: {text}");
        }
    }
}

#[test]
fn what_was_looked_at_is_the_moment_that_was_judged() {
    let diagnosis = diagnosis();
    let mut report = reported_with_alerts(&[], &diagnosis);
    report.window.to = diagnosis.at + SignedDuration::from_mins(30);
    let page = page(&report);
    let head = card(&page, "head");
    assert!(head.contains(&diagnosis.at.to_string()) && !head.contains(&report.window.to.to_string()), "{head}");
}

#[test]
fn without_a_cause_the_nearest_one_is_told_once_and_without_a_symptom_only_that() {
    let mut diagnosis = diagnosis();
    diagnosis.causes.clear();
    diagnosis.nearest = diagnosis.ruled_out.iter().take(1).cloned().collect();
    let words = Phrases::english();
    let near = words.text("nearest", &[("cause", diagnosis.nearest[0].title.as_str().into())]);
    let why = |diagnosis: &Diagnosis| {
        let report = reported_of("x", diagnosis, SourceFindings::default());
        let (page, text) = (page(&report), written(&report));
        let chain = text.split("## Why").nth(1).unwrap().split("\n## ").next().unwrap();
        [card(&page, "why").to_owned(), chain.to_owned()]
    };
    for told in why(&diagnosis) {
        assert!(told.contains(&words.text("why-none", &[])) && told.contains(&near), "{told}");
    }
    let whole = render::terminal(&diagnosis_message(&diagnosis, None, &words));
    let whole = whole.split_whitespace().collect::<Vec<_>>().join(" ");
    assert_eq!(whole.matches(&diagnosis.nearest[0].title).count(), 1, "{whole}");

    diagnosis.symptom.verdict = SymptomVerdict::Absent;
    diagnosis.symptom.evidence.iter_mut().for_each(|check| check.outcome = Outcome::NotMet);
    for told in why(&diagnosis) {
        assert!(told.contains("not confirmed: TTFT") && !told.contains(&words.text("why-none", &[])), "{told}");
    }
}

#[test]
fn a_bundle_that_is_opened_again_is_screened_from_what_was_asked() {
    let mut diagnosis = diagnosis();
    let entered = |diagnosis: &Diagnosis| {
        let request = bundle::open::request(&reported_of("x", diagnosis, SourceFindings::default())).unwrap();
        (request.playbook, request.screen)
    };
    assert_eq!(entered(&diagnosis), ("high-ttft".to_owned(), false));
    for (asked, playbook) in [(Some("queue-buildup".to_owned()), "queue-buildup"), (None, "")] {
        let screening = Screening { asked, ..Screening::default() };
        diagnosis.screening = Some(screening);
        assert_eq!(entered(&diagnosis), (playbook.to_owned(), true));
    }
}
