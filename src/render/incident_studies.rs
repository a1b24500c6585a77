//! Coverage by published studies ─▶ terminal.

use anstyle::Style;

use super::text::{clean, hang};
use super::{PhraseArgument, Phrases};
use findings::incident_studies::{ClassCoverage, StudiesCoverage};

/// Renders how many incidents of each study a fleet could name, as terminal text.
pub fn studies(coverage: &StudiesCoverage, words: &Phrases) -> String {
    let bold = Style::new().bold();
    let title = words.text("studies-title", &[("prometheus", format!("`{}`", coverage.prometheus).into())]);
    let mut out = format!("\n{bold}{}{bold:#}\n", clean(&title));
    for study in &coverage.studies {
        let percent = format!("{:.0}", 100.0 * f64::from(study.named) / f64::from(study.incidents.max(1)));
        let (n, of) = (study.named as usize, study.incidents as usize);
        let args =
            [("study", study.study.clone().into()), ("n", n.into()), ("of", of.into()), ("percent", percent.into())];
        hang(&mut out, "  ", "", &words.text("studies-named", &args));
        let mut additions: Vec<_> = study.additions.iter().collect();
        additions.sort_by_key(|(_, more)| std::cmp::Reverse(**more));
        for (line, more) in additions {
            let args = [("more", (*more as usize).into()), ("line", line.clone().into())];
            hang(&mut out, "    ", "+ ", &words.text("studies-addition", &args));
        }
        for class in &study.classes {
            let (mark, key) = match (&class.named_by, class.causes.is_empty()) {
                (Some(_), _) => ("✓ ", "studies-class-named"),
                (None, false) => ("? ", "studies-class-unseen"),
                (None, true) => ("– ", "studies-class-nothing"),
            };
            hang(&mut out, "    ", mark, &words.text(key, &class_args(class)));
        }
    }
    hang(&mut out, "  ", "", &words.text("studies-foot", &[]));
    out
}

fn class_args(class: &ClassCoverage) -> [(&'static str, PhraseArgument); 3] {
    let by = class.named_by.clone().unwrap_or_else(|| match &class.note {
        Some(note) if class.causes.is_empty() => note.clone(),
        _ => class.causes.join(", "),
    });
    [("n", (class.incidents as usize).into()), ("class", class.class.clone().into()), ("by", by.into())]
}
