//! From a simulated fault to the picture of what decided: the right signals, the blamed replica, the onsets.

use std::collections::BTreeSet;
use std::time::Duration;

use chart::{Chart, Panel, Role, ThresholdSide, png};
use diagnose::{HistoryRequest, diagnose, evidence_history};
use findings::{Baseline, Diagnosis};
use prom::Prometheus;
use render::{Phrases, diagnosis_chart};

use crate::chains::{FAULT_SECONDS, asked, moment};
use crate::harness::{at, client, library, run, shared};

async fn chart(prometheus: &Prometheus, diagnosis: &Diagnosis, name: &str, baseline: Baseline) -> Option<Chart> {
    let wanted =
        HistoryRequest { since: at(moment(name) - 30), until: None, baseline, deadline: Duration::from_secs(30) };
    let history = evidence_history(library(), prometheus, diagnosis, &wanted).await?;
    diagnosis_chart(library(), diagnosis, &history, wanted.since, &Phrases::english())
}

fn drawn_by(prometheus: &Prometheus, name: &str, playbook: &str, baseline: Baseline) -> (Diagnosis, Option<Chart>) {
    run(async {
        let diagnosis = diagnose(library(), shared(), &asked(name, playbook)).await;
        let chart = chart(prometheus, &diagnosis, name, baseline).await;
        (diagnosis, chart)
    })
}

#[track_caller]
fn drawn(name: &str, playbook: &str) -> (Diagnosis, Chart) {
    let (diagnosis, chart) = drawn_by(shared(), name, playbook, Baseline::Earlier(Duration::from_secs(86_400)));
    let chart = chart.unwrap();
    assert!((2..=6).contains(&chart.panels.len()), "{:?}", titles(&chart));
    assert!(chart.panels.iter().all(|panel| panel.series.iter().all(|series| series.points.len() <= 240)));
    assert_eq!((chart.to, png(&chart).len() < 200_000), (diagnosis.at, true));
    (diagnosis, chart)
}

fn titles(chart: &Chart) -> Vec<&str> {
    chart.panels.iter().map(|panel| panel.title.as_str()).collect()
}

fn named(panel: &Panel, role: Role) -> Vec<&str> {
    panel.series.iter().filter(|series| series.role == role).map(|series| series.name.as_str()).collect()
}

#[test]
fn longer_prompts_are_shown_beside_what_they_do() {
    let (diagnosis, chart) = drawn("longer-prompts", "high-ttft");
    let of = |signal: &str| {
        let title = &library().signals[signal].title;
        chart
            .panels
            .iter()
            .find(|panel| panel.title == *title)
            .unwrap_or_else(|| panic!("{signal}: {:?}", titles(&chart)))
    };
    assert_eq!(chart.panels[0].title, diagnosis.symptom.evidence[0].title, "what is felt comes first");
    let prompts = of("prompt_tokens_mean");
    assert_eq!(named(prompts, Role::Pool), ["all replicas"]);
    let last = prompts.series[0].points.last().unwrap();
    let told = diagnosis.causes[0].evidence.iter().find(|e| e.signal == "prompt_tokens_mean").unwrap();
    assert_eq!((last.0, last.1), (diagnosis.at, told.value.unwrap()), "the line ends at the number in the message");
    let threshold = prompts.threshold.as_ref().unwrap();
    assert!(threshold.bad == ThresholdSide::Above && threshold.value < last.1, "{threshold:?}");
    let band = prompts.band.as_ref().unwrap();
    assert!(band.label.starts_with("before: "), "there is no yesterday in this Prometheus: {}", band.label);
    let labels: BTreeSet<&str> = chart.marks.iter().map(|mark| mark.label.as_str()).collect();
    assert_eq!(labels, BTreeSet::from([diagnosis.causes[0].title.as_str(), diagnosis.symptom.title.as_str()]));
    let began = at(moment("longer-prompts") - FAULT_SECONDS);
    assert!((began.as_second() - chart.marks[0].at.as_second()).abs() <= 120, "{:?}", chart.marks);
}

#[test]
fn a_slow_replica_is_highlighted_among_its_peers() {
    for (name, playbook) in [("bad-replica", "high-itl"), ("bad-replica-at-night", "high-itl")] {
        let (_, chart) = drawn(name, playbook);
        let told: Vec<&Panel> =
            chart.panels.iter().filter(|panel| named(panel, Role::Outlier) == ["vllm-llama-8b-1"]).collect();
        assert!(!told.is_empty(), "{name}: {chart:?}");
        assert!(told.iter().all(|panel| named(panel, Role::Replica).len() == 3), "{name}");
        assert!(told.iter().any(|panel| panel.says.contains("vllm-llama-8b-1 stands out")), "{name}");
    }
}

#[test]
fn throttled_gpus_and_lost_replicas_are_shown() {
    let (_, chart) = drawn("gpu-throttling", "high-itl");
    assert!(
        titles(&chart).iter().any(|title| title.to_lowercase().contains("thrott") || title.contains("clock")),
        "{:?}",
        titles(&chart)
    );
    let (_, chart) = drawn("gpu-power", "high-itl");
    assert!(
        chart.panels.iter().any(|panel| named(panel, Role::Outlier) == ["vllm-llama-8b-2"]),
        "{:?}",
        titles(&chart)
    );
    let (_, chart) = drawn("lost-replicas", "high-ttft");
    assert!(titles(&chart).iter().any(|title| title.contains("replica")), "{:?}", titles(&chart));
}

#[test]
fn the_same_time_earlier_is_a_band_where_there_is_one() {
    let earlier = Baseline::Earlier(Duration::from_secs(900));
    let (_, chart) = drawn_by(shared(), "longer-prompts", "high-ttft", earlier);
    let chart = chart.unwrap();
    let bands: Vec<_> = chart.panels.iter().filter_map(|panel| panel.band.as_ref()).collect();
    let seen = bands.iter().find(|band| band.label == "15 min earlier").unwrap_or_else(|| panic!("{bands:?}"));
    assert!(seen.points.iter().all(|(at, low, high)| *at <= chart.to && low <= high), "{seen:?}");
    assert!(seen.points.iter().any(|(_, low, high)| low < high), "{seen:?}");
}

#[test]
fn who_nothing_is_wrong_with_and_what_nobody_can_tell_has_no_picture() {
    let baseline = Baseline::Earlier(Duration::from_secs(86_400));
    assert_eq!(drawn_by(shared(), "healthy", "high-ttft", baseline).1, None);
    let away = client("http://127.0.0.1:1");
    assert_eq!(drawn_by(&away, "longer-prompts", "high-ttft", baseline).1, None);
    let (mut diagnosis, _) = drawn_by(shared(), "longer-prompts", "high-ttft", baseline);
    diagnosis.at = at(moment("longer-prompts") + 400 * 86_400);
    let chart = run(chart(shared(), &diagnosis, "longer-prompts", baseline));
    assert_eq!(chart, None, "a year later nothing is kept of it");
}
