//! Answers to the seven questions that serving engineers ask, compiled from all sources.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use super::{
    Answers, Arguments, DeploymentInfo, Expected, Goal, Hardware, ModelInfo, Question, ReportSubject, SourceFindings,
    Workload,
};
use findings::cluster::{Container, Pod};
use findings::facts::{GpuInfo, HappenedKind, Measured, TimelineEvent, Version};
use findings::{Diagnosis, EvidenceResult, Outcome};
use knowledge::alert::{Alert, AlertStatus, active};
use knowledge::clock::human_duration;
use knowledge::playbook::condition_text;
use knowledge::signal::format_value;

/// Image names and words that identify the container of an engine or gateway.
const ENGINES: [&str; 11] = [
    "vllm",
    "sglang",
    "litellm",
    "dynamo",
    "llm-d",
    "tensorrt",
    "trtllm",
    "tritonserver",
    "text-generation-inference",
    "llama",
    "ray",
];
/// Resource names of GPUs.
const GPU_RESOURCES: [&str; 3] = ["nvidia.com/gpu", "amd.com/gpu", "gpu.intel.com/i915"];
/// The label with a node's GPU product, set by NVIDIA's GPU feature discovery.
/// Source: <https://docs.nvidia.com/datacenter/cloud-native/gpu-operator/latest/gpu-feature-discovery.html>
const GPU_PRODUCT: &str = "nvidia.com/gpu.product";
/// Maximum changes listed in the goal.
const CHANGES: usize = 8;

/// Builds the answers, with a hint for each question that cannot be answered.
pub(super) fn answers(about: &ReportSubject<'_>, findings: &SourceFindings, timeline: &[TimelineEvent]) -> Answers {
    let mut answers = Answers {
        model: model(about, findings),
        hardware: hardware(findings),
        metrics: findings.facts.as_ref().map(|facts| facts.measured.clone()).unwrap_or_default(),
        workload: workload(findings),
        deployment: deployment(about, findings),
        versions: versions(findings),
        goal: goal(about, findings, timeline),
        open: Vec::new(),
    };
    answers.open = open(&answers, findings);
    answers
}

/// Returns the pool's pods; empty without the cluster's API.
fn pods(findings: &SourceFindings) -> &[Pod] {
    findings.kubernetes.as_ref().map(|kubernetes| kubernetes.pods.as_slice()).unwrap_or_default()
}

/// Returns true if a container is an engine or a gateway, and not a sidecar.
fn serves(container: &Container) -> bool {
    let gpu = container.resources.keys().any(|key| GPU_RESOURCES.iter().any(|gpu| key.ends_with(gpu)));
    let names_engine = |text: &str| ENGINES.iter().any(|engine| text.to_lowercase().contains(engine));
    gpu || names_engine(&container.image) || container.args.iter().take(4).any(|word| names_engine(word))
}

fn model(about: &ReportSubject<'_>, findings: &SourceFindings) -> ModelInfo {
    let mut names: BTreeSet<String> = BTreeSet::new();
    let mut weights: BTreeSet<String> = BTreeSet::new();
    let mut settings: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    let mut lines: BTreeMap<(Vec<String>, &'static str), BTreeSet<String>> = BTreeMap::new();
    if let Some(diagnosis) = about.diagnosis {
        names.extend(diagnosis.scope.labels.get("model").cloned());
    }
    for pod in pods(findings) {
        for container in pod.containers.iter().filter(|container| serves(container)) {
            names.extend(options(&container.args, &["--served-model-name"]));
            weights.extend(options(&container.args, &["--model", "--model-path", "--model-id"]));
            weights.extend(served(&container.args));
            let of = lines.entry((container.args.clone(), "kubernetes")).or_default();
            of.insert(pod.name.clone());
        }
    }
    for (answer, endpoint) in &findings.endpoints {
        names.extend(endpoint.models.iter().cloned());
        weights.extend(endpoint.weights.iter().cloned());
        for (name, value) in &endpoint.settings {
            settings.entry(name.clone()).or_default().insert(value.clone());
        }
        lines.entry((endpoint.arguments.clone(), "the engine itself")).or_default().insert(answer.target.clone());
    }
    // The log's start-up lines are used if no endpoint returns settings, or no source returns arguments.
    let (no_settings, no_arguments) = (settings.is_empty(), lines.keys().all(|(words, _)| words.is_empty()));
    for (log, report) in findings.logs.iter().filter(|(log, _)| !log.previous) {
        let start = &report.start;
        if no_settings {
            for (name, value) in &start.settings {
                settings.entry(format!("log.{name}")).or_default().insert(value.clone());
            }
            weights.extend(start.settings.get("model_path").cloned());
        }
        if no_arguments {
            weights.extend(options(&start.arguments, &["--model", "--model-path"]));
            lines.entry((start.arguments.clone(), "log")).or_default().insert(log.name());
        }
    }
    for (metric, rows) in findings.facts.iter().flat_map(|facts| &facts.info) {
        for (name, value) in rows.iter().flatten() {
            settings.entry(format!("{metric}.{name}")).or_default().insert(value.clone());
        }
    }
    ModelInfo {
        names: names.into_iter().collect(),
        weights: weights.into_iter().collect(),
        arguments: lines
            .into_iter()
            .filter(|((words, _), _)| !words.is_empty())
            .map(|((words, source), of)| Arguments { words, of: of.into_iter().collect(), source: source.to_owned() })
            .collect(),
        settings: settings.into_iter().map(|(name, values)| (name, values.into_iter().collect())).collect(),
    }
}

/// Returns the values of an option, written as `--name value` or `--name=value`.
fn options(args: &[String], names: &[&str]) -> Vec<String> {
    let words: Vec<&str> = args.iter().flat_map(|arg| arg.split_whitespace()).collect();
    let mut values = Vec::new();
    for (i, word) in words.iter().enumerate() {
        for name in names {
            if let Some(value) = word.strip_prefix(name).and_then(|rest| rest.strip_prefix('=')) {
                values.push(value.to_owned());
            } else if word == name
                && let Some(value) = words.get(i + 1).filter(|value| !value.starts_with('-'))
            {
                values.push((*value).to_owned());
            }
        }
    }
    values
}

/// Returns the model of `vllm serve MODEL`.
fn served(args: &[String]) -> Option<String> {
    let words: Vec<&str> = args.iter().flat_map(|arg| arg.split_whitespace()).collect();
    let at = words.windows(2).position(|pair| pair[0].ends_with("vllm") && pair[1] == "serve")?;
    words.get(at + 2).filter(|word| !word.starts_with('-')).map(|word| (*word).to_owned())
}

fn hardware(findings: &SourceFindings) -> Hardware {
    let facts = findings.facts.as_ref();
    let mut hardware = Hardware {
        gpus: facts.map(|facts| facts.gpus.clone()).unwrap_or_default(),
        interconnect: facts.and_then(|facts| facts.interconnect.clone()),
        nodes: facts.map(|facts| facts.nodes.clone()).unwrap_or_default(),
    };
    let gpu = |kind: &str, count, source: &str| GpuInfo { kind: kind.to_owned(), count, source: source.to_owned() };
    let nodes = findings.kubernetes.iter().flat_map(|kubernetes| &kubernetes.nodes);
    for node in nodes.clone() {
        let node_facts = node.labels.iter().chain(&node.allocatable).map(|(name, value)| format!("{name}={value}"));
        hardware.nodes.entry(node.name.clone()).or_default().extend(node_facts.chain(node.troubles.iter().cloned()));
    }
    if hardware.gpus.is_empty() {
        let product: BTreeMap<&str, &str> =
            nodes.filter_map(|node| Some((node.name.as_str(), node.labels.get(GPU_PRODUCT)?.as_str()))).collect();
        let mut counted: BTreeMap<&str, usize> = BTreeMap::new();
        for pod in pods(findings) {
            let kind = pod.node.as_deref().and_then(|node| product.get(node)).copied().unwrap_or("GPU of unknown kind");
            let resources = pod.containers.iter().flat_map(|c| &c.resources);
            let limits = resources.filter(|(key, _)| {
                key.strip_prefix("limits.").is_some_and(|resource| GPU_RESOURCES.contains(&resource))
            });
            let n: usize = limits.filter_map(|(_, n)| n.parse::<usize>().ok()).sum();
            *counted.entry(kind).or_default() += n;
        }
        let counted = counted.into_iter().filter(|(_, n)| *n > 0);
        hardware.gpus = counted.map(|(kind, n)| gpu(kind, n, "kubernetes")).collect();
    }
    if hardware.gpus.is_empty() {
        // Several containers of a pod, and their predecessors, may each have a log.
        let mut pods: BTreeMap<&String, BTreeSet<&String>> = BTreeMap::new();
        for (log, report) in &findings.logs {
            for kind in &report.start.gpus {
                pods.entry(kind).or_default().insert(log.pod.as_ref().unwrap_or(&log.source));
            }
        }
        let source = "log, at least one for each pod that names it";
        hardware.gpus = pods.into_iter().map(|(kind, pods)| gpu(kind, pods.len(), source)).collect();
    }
    hardware
}

fn workload(findings: &SourceFindings) -> Workload {
    let facts = findings.facts.as_ref();
    Workload {
        input: facts.and_then(|facts| facts.input.clone()),
        output: facts.and_then(|facts| facts.output.clone()),
        tenants: facts.map(|facts| facts.tenants.clone()).unwrap_or_default(),
        load: facts.map(|facts| facts.load.clone()).unwrap_or_default(),
    }
}

/// Deployment modes by the kind of an object; the most specific kind first.
const MODES: [(&str, &str); 10] = [
    ("DynamoGraphDeployment", "NVIDIA Dynamo graph"),
    ("LLMInferenceService", "KServe LLMInferenceService"),
    ("InferenceService", "KServe InferenceService"),
    ("InferencePool", "Gateway API inference pool (llm-d or alike)"),
    ("RayService", "Ray Serve"),
    ("RayCluster", "Ray cluster"),
    ("LeaderWorkerSet", "LeaderWorkerSet (one replica over several nodes)"),
    ("StatefulSet", "StatefulSet"),
    ("Deployment", "plain Deployment"),
    ("DaemonSet", "DaemonSet"),
];

fn deployment(about: &ReportSubject<'_>, findings: &SourceFindings) -> DeploymentInfo {
    let objects: Vec<String> = findings
        .kubernetes
        .iter()
        .flat_map(|kubernetes| &kubernetes.objects)
        .map(|object| {
            // The last part of `serving.kserve.io/v1alpha1/LLMInferenceService`.
            let kind = object.kind.rsplit('/').next().unwrap_or(&object.kind);
            format!("{kind} {}/{}", object.namespace, object.name)
        })
        .collect();
    let owners: BTreeSet<&str> = pods(findings).iter().filter_map(|pod| pod.owner.as_deref()).collect();
    let object_of_kind = |kind: &str| {
        let object = objects.iter().find(|object| object.split(' ').next() == Some(kind)).cloned();
        object.or_else(|| owners.iter().find(|owner| owner.split('/').next() == Some(kind)).map(|o| (*o).to_owned()))
    };
    let mode_and_object = MODES.iter().find_map(|(kind, mode)| Some((*mode, object_of_kind(kind)?)));
    let roles: BTreeSet<&str> = findings
        .facts
        .iter()
        .flat_map(|facts| &facts.replicas)
        .map(|replica| replica.role.as_str())
        .filter(|role| !role.is_empty())
        .collect();
    let split = ["prefill", "decode"].iter().all(|part| roles.contains(part));
    let mut mode = mode_and_object.as_ref().map(|(mode, _)| (*mode).to_owned()).unwrap_or_default();
    let mut because: Vec<String> = mode_and_object.into_iter().map(|(_, object)| object).collect();
    if split {
        let disaggregated = "prefill and decode apart";
        mode = if mode.is_empty() { disaggregated.to_owned() } else { format!("{mode}, {disaggregated}") };
        because.push("replicas with the roles prefill and decode".to_owned());
    }
    let pod_count = pods(findings).len();
    let ready = pods(findings).iter().filter(|pod| pod.containers.iter().all(|container| container.ready)).count();
    let count = |n: usize| u32::try_from(n).unwrap_or(u32::MAX);
    DeploymentInfo {
        mode,
        because,
        objects,
        engines: about.diagnosis.iter().flat_map(|d| &d.engines).map(|engine| engine.engine.clone()).collect(),
        replicas: (pod_count > 0).then(|| (count(pod_count), count(ready))),
    }
}

fn versions(findings: &SourceFindings) -> Vec<Version> {
    let version = |what: &str, version: &str, source: &str| Version {
        what: what.to_owned(),
        version: version.to_owned(),
        source: source.to_owned(),
    };
    let mut versions: BTreeSet<Version> =
        findings.facts.iter().flat_map(|facts| facts.versions.iter().cloned()).collect();
    for (answer, endpoint) in &findings.endpoints {
        let source = format!("{} of {}", answer.path, answer.target);
        versions.extend(endpoint.versions.iter().map(|(what, v)| version(what, v, &source)));
    }
    if let Some(kubernetes) = &findings.kubernetes {
        versions.extend(kubernetes.version.iter().map(|v| version("Kubernetes", v, "the API server's /version")));
        let node_versions = kubernetes.nodes.iter().flat_map(|node| &node.versions);
        versions.extend(node_versions.map(|(what, v)| version(what, v, "the nodes' status")));
    }
    for container in pods(findings).iter().flat_map(|pod| &pod.containers).filter(|container| serves(container)) {
        let image = container.image_id.as_ref().map_or_else(
            || container.image.clone(),
            |id| format!("{} ({})", container.image, id.rsplit('@').next().unwrap_or(id)),
        );
        versions.insert(version(&format!("image of {}", container.name), &image, "the pods' status"));
    }
    let components_known: BTreeSet<String> = versions.iter().map(|version| version.what.clone()).collect();
    for (log, report) in &findings.logs {
        let log_versions = report.start.versions.iter().filter(|(what, _)| !components_known.contains(*what));
        let source = format!("log of {}", log.name());
        versions.extend(log_versions.map(|(what, v)| version(what, v, &source)));
    }
    versions.into_iter().collect()
}

fn goal(about: &ReportSubject<'_>, findings: &SourceFindings, timeline: &[TimelineEvent]) -> Goal {
    let mut expected = Vec::new();
    // Symptoms that users notice come first.
    if let Some(diagnosis) = about.diagnosis {
        let met = diagnosis.symptom.evidence.iter().filter(|e| e.outcome == Outcome::Met);
        expected.extend(met.map(|e| of_symptom(e, &diagnosis.symptom.playbook, findings)));
    }
    let rules = findings.facts.iter().flat_map(|facts| &facts.rules);
    let alerted = rules.filter(|rule| about.alerts.iter().any(|alert| alert.name() == rule.name));
    let fires = alerted.clone().any(|rule| rule.state != "inactive");
    // If an alert has rules for several severities and any is active, the inactive ones are omitted.
    let held = |seconds: f64| human_duration(Duration::try_from_secs_f64(seconds).unwrap_or_default());
    expected.extend(alerted.filter(|rule| !fires || rule.state != "inactive").map(|rule| Expected {
        title: rule.name.clone(),
        expected: promised(about, &rule.name),
        limit: format!("{} for {}", rule.query, held(rule.for_seconds)),
        actual: rule.state.clone(),
        source: "the alert's rule".to_owned(),
    }));
    for alert in active(about.alerts) {
        let promise = promised(about, alert.name());
        if promise.is_some() && expected.iter().all(|one| one.title != alert.name()) {
            let actual = match alert.status {
                AlertStatus::Firing => "firing",
                AlertStatus::Resolved => "resolved",
            };
            expected.push(Expected {
                title: alert.name().to_owned(),
                expected: promise,
                limit: String::new(),
                actual: actual.to_owned(),
                source: "the alert".to_owned(),
            });
        }
    }
    let since = since(about);
    let changed = timeline
        .iter()
        .filter(|happened| matches!(happened.kind, HappenedKind::Rollout | HappenedKind::Restart))
        .filter(|happened| since.is_none_or(|since| happened.at <= since))
        .rev()
        .take(CHANGES)
        .map(|happened| format!("{} {}", happened.at.strftime("%H:%M:%S"), happened.what));
    let mut changed: Vec<String> = changed.collect();
    changed.reverse();
    changed.extend(about.diagnosis.into_iter().flat_map(differs));
    Goal { expected, since, changed }
}

/// Returns the earlier of the first onset and the first alert.
fn since(about: &ReportSubject<'_>) -> Option<jiff::Timestamp> {
    let onset = about.diagnosis.and_then(|d| d.timeline.iter().map(|onset| onset.at).min());
    let alert = about.incident.as_ref().map(|incident| incident.started_at);
    match (onset, alert) {
        (Some(onset), Some(alert)) => Some(onset.min(alert)),
        (one, other) => one.or(other),
    }
}

/// Builds an expectation from a symptom: its value, compared with its past. The alert threshold is a limit, not an
/// expectation.
fn of_symptom(e: &EvidenceResult, playbook: &str, findings: &SourceFindings) -> Expected {
    let format = |value: f64| format_value(value, e.unit);
    let measured = findings.facts.iter().flat_map(|facts| facts.measured.iter().chain(&facts.load));
    let before = || measured.clone().find(|measured| measured.signal == e.signal)?.before;
    Expected {
        title: e.title.clone(),
        expected: e.baseline.or_else(before).map(|past| format!("before: {}", format(past))),
        limit: condition_text(&e.when, e.unit),
        actual: e.value.map(format).unwrap_or_default(),
        source: format!("playbook {playbook}"),
    }
}

/// Returns the objective of an alert: its annotation `slo`, else its label `slo`.
fn promised(about: &ReportSubject<'_>, name: &str) -> Option<String> {
    let of = |alert: &Alert| alert.annotations.get("slo").or_else(|| alert.labels.get("slo")).cloned();
    let own = about.alerts.iter().filter(|alert| alert.name() == name);
    let slo = own.filter_map(of).find(|slo| !slo.trim().is_empty())?;
    Some(format!("promised: {}", slo.trim()))
}

/// Lists met evidence of the most likely chain whose value differs from its baseline.
fn differs(diagnosis: &Diagnosis) -> Vec<String> {
    let Some(root) = diagnosis.root() else { return Vec::new() };
    let all = root.evidence.iter().chain(root.via.iter().flat_map(|link| &link.evidence));
    let mut signals = BTreeSet::new();
    all.filter(|e| e.outcome == Outcome::Met && signals.insert(e.signal.as_str()))
        .filter_map(|e| {
            let (now, before) = (e.value?, e.baseline?);
            let format = |value| format_value(value, e.unit);
            let whose = if e.is_of_peers() { "others" } else { "before" };
            (format(now) != format(before))
                .then(|| format!("{}: {}, {whose}: {}", e.title, format(now), format(before)))
        })
        .collect()
}

/// Lists unanswered questions, each with a hint.
fn open(answers: &Answers, findings: &SourceFindings) -> Vec<(Question, String)> {
    let mut open = Vec::new();
    let mut say = |question, text: &str| open.push((question, text.to_owned()));
    let kubernetes = match &findings.kubernetes {
        None => " (`kubernetes:` in the configuration lets us read it)",
        Some(_) => "",
    };
    if answers.model.arguments.is_empty() {
        let how =
            "the engine's command line is not known: `kubectl get pod -o yaml`, or the unit or script that starts it";
        say(Question::Model, &format!("{how}{kubernetes}"));
    }
    if answers.hardware.gpus.is_empty() {
        say(Question::Hardware, "GPU type and count are not known: `nvidia-smi -L` on the nodes, or a DCGM exporter");
    }
    if answers.hardware.interconnect.is_none() {
        say(Question::Hardware, "the interconnect is not known: `nvidia-smi topo -m` on a node");
    }
    if !answers.metrics.iter().any(|measured| measured.during.is_some()) {
        say(Question::Metrics, "no numbers: Prometheus had none for this pool and time, see the parts");
    }
    let lengths = [("prompts", &answers.workload.input), ("answers", &answers.workload.output)];
    for (what, _) in lengths.iter().filter(|(_, lengths)| lengths.is_none()) {
        say(Question::Workload, &format!("the lengths of {what} are not known: the engine's histogram was not found"));
    }
    if answers.deployment.mode.is_empty() {
        say(Question::Deployment, &format!("how it is deployed is not known{kubernetes}"));
    }
    if answers.versions.is_empty() {
        say(Question::Versions, "no version was told: `GET /version` of the engine, the image's tag, `nvidia-smi`");
    }
    if answers.goal.expected.iter().all(|one| one.expected.is_none()) {
        let how = "neither a promise nor the past is known: which latency or throughput is promised, and to whom? An alert's \
                   annotation `slo` tells it here";
        say(Question::Goal, how);
    }
    open
}

/// The relative change up to which a value counts as unchanged.
const STEADY: f64 = 0.05;

/// Returns the relative change of a number, if it is large enough to be shown; infinite if it was zero before.
pub fn moved(measured: &Measured) -> Option<f64> {
    changed(measured.before?, measured.during?)
}

/// Returns the same as [`moved`], for two values.
pub fn changed(before: f64, during: f64) -> Option<f64> {
    let change = (during - before) / before.abs();
    (change.abs() > STEADY).then_some(change)
}
