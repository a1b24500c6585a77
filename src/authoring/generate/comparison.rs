//! Evidence as an expression over the recorded series.

use anyhow::{Context, Result, anyhow, bail};

use super::recording::{RecordingRule, tells};
use super::yaml::indented;
use knowledge::playbook::{AlertScope, Condition, Evidence, Library, Reference};
use knowledge::signal::{Engine, EngineKind};

/// The problem of evidence that compares nothing.
pub(super) const NO_SIGNAL: &str = "each entry of `when` needs either `signal` with `when`, or `any`";

/// The way in which comparisons read recorded series.
pub(super) struct ComparedSeries<'a> {
    /// Names a series.
    pub(super) name: &'a dyn Fn(RecordingRule<'_>) -> String,
    /// Returns what a comparison leaves out.
    pub(super) without: &'a dyn Fn(RecordingRule<'_>, &Condition) -> String,
}

/// All pools of the series themselves.
pub(super) const PLAIN: ComparedSeries<'static> =
    ComparedSeries { name: &|recorded| recorded.name(), without: &|_, _| String::new() };

/// An expression with the labels and the origin of its result.
pub(super) struct Part {
    pub(super) expr: String,
    pub(super) labels: Vec<String>,
    /// The kinds of engines that report it.
    pub(super) kinds: Vec<EngineKind>,
    /// True if only the orchestrator reports it, which knows no models.
    pub(super) orchestrator: bool,
}

/// Returns the comparisons of evidence; several alternatives are joined.
///
/// # Errors
/// If Prometheus alone cannot evaluate one.
pub(super) fn part(
    library: &Library,
    evidence: &Evidence,
    each: AlertScope,
    series: &ComparedSeries<'_>,
) -> Result<Part> {
    if let (Some(signal), Some(when)) = (&evidence.signal, &evidence.when) {
        let recorded = RecordingRule { signal, each };
        let mut own = compared(library, recorded, when, series)?;
        if evidence.without_past {
            own.expr = format!("{} unless ({} offset 1d) >= 0", own.expr, (series.name)(recorded));
        }
        return Ok(own);
    }
    let mut alternatives =
        evidence.any.iter().map(|e| part(library, e, each, series)).collect::<Result<Vec<_>, _>>()?.into_iter();
    let mut joined = alternatives.next().context(NO_SIGNAL)?;
    let mut either = vec![indented(&joined.expr)];
    for other in alternatives {
        joined.labels.retain(|label| other.labels.contains(label));
        joined.kinds.retain(|kind| other.kinds.contains(kind));
        joined.orchestrator &= other.orchestrator;
        either.push(indented(&other.expr));
    }
    joined.expr = format!("(\n{}\n)", either.join("\n  or\n"));
    Ok(joined)
}

/// Returns all series of a signal, whatever their value.
///
/// # Errors
/// If no engine tells the signal in PromQL alone.
pub(super) fn whole(library: &Library, recorded: RecordingRule<'_>, series: &ComparedSeries<'_>) -> Result<Part> {
    let tellers: Vec<&Engine> = library.engines.values().filter(|engine| tells(engine, recorded.signal)).collect();
    if tellers.is_empty() {
        bail!("no engine tells `{}` in PromQL alone", recorded.signal);
    }
    Ok(Part {
        expr: (series.name)(recorded),
        labels: recorded.labels(library),
        kinds: tellers.iter().map(|engine| engine.kind).collect(),
        orchestrator: tellers.iter().all(|engine| engine.kind == EngineKind::Platform),
    })
}

fn compared(
    library: &Library,
    recorded: RecordingRule<'_>,
    when: &Condition,
    series: &ComparedSeries<'_>,
) -> Result<Part> {
    let refused = |why: &str| anyhow!("`{} {when}` {why}", recorded.signal);
    let whole = whole(library, recorded, series)?;
    if when.comparisons().is_empty() {
        return Err(refused("compares with no number"));
    }
    let name = &whole.expr;
    let comparisons: Vec<String> = when
        .comparisons()
        .iter()
        .map(|comparison| {
            let op = comparison.op.symbol();
            match comparison.to {
                Reference::Number(limit) => Ok(format!("{op} {limit}")),
                // The same time a day earlier, as in a diagnosis.
                Reference::Baseline(times) => Ok(format!("{op} {times} * ({name} offset 1d)")),
                Reference::Peers(_) => Err(refused("compares replicas with each other")),
            }
        })
        .collect::<Result<_, _>>()?;
    let expr = comparisons.iter().fold(name.clone(), |expr, comparison| {
        if expr == *name { format!("{expr} {comparison}") } else { format!("({expr}) {comparison}") }
    });
    let without = (series.without)(recorded, when);
    let expr = if without.is_empty() { expr } else { format!("(\n{}\n)", indented(&format!("{expr}{without}"))) };
    Ok(Part { expr, ..whole })
}
