//! Signal coverage of a Prometheus ─▶ terminal.

use anstyle::Style;

use super::Phrases;
use super::facts::{FEW, join_limited};
use super::health::{engine, gaps};
use super::text::{clean, hang, hang_line};
use findings::health::{Coverage, CoverageLimit, SignalAvailability, SignalCoverage};

/// Width of the column of a playbook's limitation.
const LIMITATION: usize = 10;

/// Renders the signals that a Prometheus has and lacks, and the playbooks that this limits, as terminal text.
pub fn coverage(coverage: &Coverage, words: &Phrases) -> String {
    let bold = Style::new().bold();
    let mut out = String::new();
    let of = |answer: SignalAvailability| coverage.signals.iter().filter(move |s| s.answer == answer);
    let count = |answer: SignalAvailability| of(answer).count();
    let engines: Vec<String> = coverage.engines.iter().map(engine).collect();
    let found = if engines.is_empty() { words.text("coverage-nothing", &[]) } else { engines.join(", ") };
    let title = words.text("coverage-title", &[("prometheus", format!("`{}`", coverage.prometheus).into())]);
    out.push_str(&format!("\n{bold}{}{bold:#}\n", clean(&title)));
    let text = words.text(
        "coverage-signals",
        &[
            ("found", found.into()),
            ("answer", count(SignalAvailability::Answers).into()),
            ("n", coverage.signals.len().into()),
            ("unused", count(SignalAvailability::Unused).into()),
            ("missing", count(SignalAvailability::Missing).into()),
        ],
    );
    hang(&mut out, "  ", "", &text);
    fn shown(s: &SignalCoverage) -> (&str, &str, Option<&str>) {
        (&s.title, s.why.as_deref().unwrap_or_default(), s.enable.as_deref())
    }
    let missing = gaps(FEW, of(SignalAvailability::Missing).map(shown), words);
    missing.iter().for_each(|gap| hang_line(&mut out, "? ", gap));
    let unused = of(SignalAvailability::Unused).map(|s| (s.title.as_str(), s.why.as_deref().unwrap_or_default(), None));
    gaps(FEW, unused, words).iter().for_each(|gap| hang_line(&mut out, "– ", gap));
    coverage.problems.iter().for_each(|problem| hang(&mut out, "  ", "! ", problem));
    if !coverage.playbooks.is_empty() {
        out.push_str(&format!("\n{bold}{}{bold:#}\n", words.text("coverage-playbooks", &[])));
    }
    let title = |name: &String| coverage.signals.iter().find(|s| s.signal == *name).map_or("", |s| s.title.as_str());
    for sight in &coverage.playbooks {
        let eyes = match sight.eyes {
            CoverageLimit::Blind => words.text("coverage-blind", &[]),
            CoverageLimit::HalfBlind => words.text("coverage-half-blind", &[]),
        };
        let missing: Vec<&str> = sight.missing.iter().map(title).collect();
        let mark = format!("{eyes:<LIMITATION$} {:<26} ", clean(&sight.playbook));
        let titles = join_limited(&missing, FEW, ", ", words).into();
        hang(&mut out, "  ", &mark, &words.text("coverage-lacks", &[("titles", titles)]));
    }
    out
}
