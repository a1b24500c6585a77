//! A reviewed incident as a verdict test: the values that its diagnosis used, and the chain that a person confirmed.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;

use findings::{Diagnosis, EvidenceResult, Outcome};
use knowledge::playbook::{Condition, Library};
use store::{Feedback, Incident};

/// Builds the text of a `<name>.test.yaml` with one case, for `llm-diagnose test`.
///
/// # Errors
/// If the incident has no diagnosis, or its playbook does not lead to the cause.
pub fn verdict_test(library: &Library, incident: &Incident, feedback: &Feedback) -> Result<String, String> {
    let (Some(playbook), Some(diagnosis)) = (incident.entered(), &incident.diagnosis) else {
        return Err("it was never diagnosed".to_owned());
    };
    let chain = path(library, playbook, &feedback.cause)
        .ok_or_else(|| format!("`{}` is no cause that `{playbook}` leads to", feedback.cause))?;
    // If several chains lead to the cause, the diagnosed one is used.
    let chain = match diagnosis.causes.iter().find(|cause| cause.id == feedback.cause) {
        Some(cause) => cause.chain.clone(),
        None => chain,
    };
    let values = values(library, diagnosis);
    let flow = |values: &BTreeMap<String, f64>| {
        let pairs: Vec<String> = values.iter().map(|(name, value)| format!("{name}: {value}")).collect();
        format!("{{ {} }}", pairs.join(", "))
    };
    let mut text = String::new();
    let judged = if feedback.is_right { "confirmed" } else { "corrected" };
    let name = format!("incident {}, {judged} by a person on {}", incident.id, feedback.at.strftime("%Y-%m-%d"));
    // Writing into a String cannot fail.
    let _ = writeln!(
        text,
        "# Made by `llm-diagnose feedback --export`: the values that the diagnosis of {} saw.",
        diagnosis.at
    );
    if !feedback.comment.trim().is_empty() {
        let comment: String = feedback.comment.chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
        let _ = writeln!(text, "# {}", comment.trim());
    }
    let _ = writeln!(text, "playbook: {playbook}\nbaseline: {}\ncases:", flow(&values.past));
    let _ = writeln!(text, "  - name: {}", quoted(&name));
    if !values.now.is_empty() {
        let now: Vec<String> = values.now.iter().map(|(name, value)| format!("{name}: {value}")).collect();
        let _ = writeln!(text, "    now: {{ {} }}", now.join(", "));
    }
    if !values.replicas.is_empty() {
        let one = |(signal, some): (&String, &BTreeMap<String, f64>)| {
            let pairs: Vec<String> = some.iter().map(|(name, value)| format!("{}: {value}", quoted(name))).collect();
            format!("{signal}: {{ {} }}", pairs.join(", "))
        };
        let all: Vec<String> = values.replicas.iter().map(one).collect();
        let _ = writeln!(text, "    replicas: {{ {} }}", all.join(", "));
    }
    let _ = writeln!(
        text,
        "    expect: {{ symptom: {}, chain: [{}] }}",
        diagnosis.symptom.verdict.as_str(),
        chain.join(", ")
    );
    Ok(text)
}

fn quoted(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}

/// Returns the shortest path from the playbook to the cause.
fn path(library: &Library, playbook: &str, cause: &str) -> Option<Vec<String>> {
    let mut visited = BTreeSet::from([playbook.to_owned()]);
    let mut queue = std::collections::VecDeque::from([(library.playbook_node(playbook)?, vec![playbook.to_owned()])]);
    while let Some((node, chain)) = queue.pop_front() {
        if node.id == cause {
            return Some(chain);
        }
        for next in node.causes.iter().filter_map(|entry| library.node(entry)) {
            if visited.insert(next.id.to_owned()) {
                let chain = chain.iter().cloned().chain([next.id.to_owned()]).collect();
                queue.push_back((next, chain));
            }
        }
    }
    None
}

#[derive(Default)]
struct Values {
    past: BTreeMap<String, f64>,
    /// A number, or `no data`.
    now: BTreeMap<String, String>,
    replicas: BTreeMap<String, BTreeMap<String, f64>>,
}

/// Collects the values in a diagnosis. For compared replicas it has the deviating ones and the peers' median.
fn values(library: &Library, diagnosis: &Diagnosis) -> Values {
    let causes = diagnosis.causes.iter().flat_map(|c| c.evidence.iter().chain(c.via.iter().flat_map(|v| &v.evidence)));
    let because = diagnosis.ruled_out.iter().filter_map(|cause| cause.because.as_ref());
    let mut out = Values::default();
    for e in diagnosis.symptom.evidence.iter().chain(causes).chain(because) {
        if !library.signals.contains_key(&e.signal) {
            continue;
        }
        let when = e.when.parse::<Condition>().ok();
        if when.as_ref().is_some_and(Condition::needs_peers) {
            if let Some(replicas) = compared(e) {
                out.replicas.entry(e.signal.clone()).or_insert(replicas);
            }
            continue;
        }
        match (e.value, &when) {
            (Some(value), _) if value.is_finite() => {
                out.now.insert(e.signal.clone(), value.to_string());
            }
            // Answered without rows, which `absent` and `present` are about.
            (None, Some(Condition::Absent | Condition::Present | Condition::NoData))
                if e.outcome != Outcome::NoData =>
            {
                out.now.entry(e.signal.clone()).or_insert_with(|| "no data".to_owned());
            }
            _ => {}
        }
        if let Some(past) = e.baseline.filter(|past| past.is_finite()) {
            out.past.insert(e.signal.clone(), past);
        }
    }
    out
}

/// Builds replicas for a comparison with peers: the deviating ones, and enough others with the peers' median.
fn compared(e: &EvidenceResult) -> Option<BTreeMap<String, f64>> {
    let peers = e.baseline.filter(|peers| peers.is_finite())?;
    let deviants = e.replicas.iter().map(|replica| (replica.name.clone(), replica.value));
    let mut all: BTreeMap<String, f64> = deviants.filter(|(_, value)| value.is_finite()).collect();
    if all.is_empty() {
        all.insert("replica".to_owned(), e.value.filter(|value| value.is_finite())?);
    }
    // The median of the others must be the peers' value, so they are the majority.
    for i in 0..=all.len() + 1 {
        all.insert(format!("peer-{i}"), peers);
    }
    Some(all)
}
