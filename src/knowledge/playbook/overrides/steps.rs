//! Steps that are added, replaced or not shown.

use serde_saphyr::Spanned;

use super::{Change, StepChanges, StepReplacement, line, quoted};
use crate::playbook::{Lint, Step, is_unfinished};

/// Characters of a step's beginning in a hint.
const BEGINNING_CHARS: usize = 70;

/// A change of a shipped step.
struct ChangedStep {
    /// The index of the step.
    at: usize,
    /// The step in its place; `None` if it is not shown.
    with: Option<Step>,
    /// The indexes of other shipped steps that say the same as `with`.
    twins: Vec<usize>,
    /// True if the change is reported.
    told: bool,
}

impl Change<'_> {
    pub(super) fn steps(&mut self, key: &str, steps: &mut Vec<Step>, changes: StepChanges, elsewhere: (&str, &[Step])) {
        let StepChanges { first, last, replace, remove } = changes;
        let mut changed: Vec<ChangedStep> = Vec::new();
        let replaced = replace.into_iter().map(|StepReplacement { step, with }| (step, Some(with)));
        for (words, with) in replaced.chain(remove.into_iter().map(|words| (words, None))) {
            let with = match with.map(|with| (line(&with), with.value)).map(|(at, with)| self.own_step(key, with, at)) {
                Some(None) => continue,
                with => with.flatten(),
            };
            let same = with.as_ref().map(|with| indexes(steps, |step| differing(step, with) == Some(Vec::new())));
            let (same, named) = (same.unwrap_or_default(), having(steps, &words.value));
            if let Some(first) = same.first().filter(|_| named.is_empty() || named == same) {
                // A new version may ship it instead of the other step.
                let name = beginning(&steps[*first]);
                self.idle(Some(line(&words)), format!("`{}` has the step “{name}” already", self.id));
                continue;
            }
            let Some(mut found) = self.find(key, steps, &words, elsewhere) else { continue };
            // Of steps with one text for several engines, the one of the engine that is named.
            let engine = with.as_ref().and_then(|with| with.engine.as_ref());
            let of_engine = found.iter().copied().find(|at| engine.is_some() && steps[*at].engine.as_ref() == engine);
            if let Some(at) = of_engine {
                found = vec![at];
            }
            let at = found[0];
            if changed.iter().any(|other| other.at == at) {
                let message = format!("the step “{}” is changed twice", beginning(&steps[at]));
                self.leave(Some(line(&words)), message, "keep one of both".to_owned());
                continue;
            }
            // The same text for another engine says the same.
            let others =
                found.into_iter().skip(1).map(|at| ChangedStep { at, with: None, twins: Vec::new(), told: false });
            changed.extend(others);
            let twins = if named.iter().any(|at| same.contains(at)) { Vec::new() } else { same };
            changed.push(ChangedStep { at, with, twins, told: true });
        }
        let moved: Vec<usize> = changed.iter().map(|change| change.at).collect();
        for change in &mut changed {
            // Beside an equal step that stays it would stand twice.
            if change.twins.iter().any(|twin| !moved.contains(twin)) {
                change.with = None;
            }
            let what = format!("`{}`, {key}: the step “{}” is", self.id, beginning(&steps[change.at]));
            self.said.extend(change.told.then(|| match &change.with {
                Some(with) => match differing(&steps[change.at], with) {
                    Some(keys) => format!("{what} the same with another {}", quoted(&keys)),
                    None => format!("{what} “{}”", beginning(with)),
                },
                None => format!("{what} not shown"),
            }));
        }
        let own = |this: &mut Self, steps: Vec<Spanned<Step>>, place: &str| -> Vec<Step> {
            let steps = steps.into_iter().map(|step| (line(&step), step.value));
            let steps: Vec<Step> = steps.filter_map(|(at, step)| this.own_step(key, step, at)).collect();
            let id = this.id;
            let said = |step| format!("`{id}`, {key}: “{}” comes {place} the shipped steps", beginning(step));
            this.said.extend(steps.iter().map(said));
            steps
        };
        let (first, last) = (own(self, first, "before"), own(self, last, "after"));
        let kept = std::mem::take(steps).into_iter().enumerate().filter_map(|(at, step)| {
            match changed.iter().find(|change| change.at == at) {
                Some(change) => change.with.clone(),
                None => Some(step),
            }
        });
        *steps = first.into_iter().chain(kept).chain(last).collect();
    }

    /// Returns a user's step with its place; `None` for one that nobody has filled in.
    pub(super) fn own_step(&mut self, key: &str, step: Step, at: usize) -> Option<Step> {
        let step = Step { origin: Some(self.origin(at)), ..step };
        if is_unfinished(&step.action) || step.source.as_deref().is_some_and(is_unfinished) {
            let message = format!("a step under `{key}` is still to be filled in, and is not shown");
            let problem = self.problem(Lint::FilesTodo, Some(at), message, "write what is to be done".to_owned());
            self.left_out.push(problem);
            return None;
        }
        Some(step)
    }

    /// Returns the index of the only step with some words, or of several with one text.
    fn find(
        &mut self,
        key: &str,
        steps: &[Step],
        words: &Spanned<String>,
        elsewhere: (&str, &[Step]),
    ) -> Option<Vec<usize>> {
        let list = |steps: Vec<&Step>| {
            let line = |step| format!("\n         “{}”", beginning(step));
            steps.into_iter().map(line).collect::<String>()
        };
        let (other, other_steps) = elsewhere;
        let none = format!("no step of `{}` under `{key}` has these words", self.id);
        let (message, hint) = match having(steps, &words.value).as_slice() {
            [first, more @ ..]
                if more.iter().all(|other| plain(&steps[*other].action) == plain(&steps[*first].action)) =>
            {
                return Some([*first].into_iter().chain(more.iter().copied()).collect());
            }
            [] if !having(other_steps, &words.value).is_empty() => {
                (none, format!("one under `{other}` has them: write it there"))
            }
            [] if steps.is_empty() => (none, format!("it has no step under `{key}`: add one under `last`")),
            [] => (none, format!("its steps are{}", list(steps.iter().collect()))),
            several => (
                format!("{} steps of `{}` under `{key}` have these words", several.len(), self.id),
                format!("give more of the words of one:{}", list(several.iter().map(|at| &steps[*at]).collect())),
            ),
        };
        self.leave(Some(line(words)), message, hint);
        None
    }
}

/// Returns the indexes of the steps with some words; the whole text counts before a part of it.
fn having(steps: &[Step], words: &str) -> Vec<usize> {
    let sought = plain(words);
    let exact = indexes(steps, |step| plain(&step.action) == sought);
    if !exact.is_empty() || sought.is_empty() {
        return exact;
    }
    indexes(steps, |step| plain(&step.action).contains(&sought))
}

fn indexes(steps: &[Step], fits: impl Fn(&Step) -> bool) -> Vec<usize> {
    steps.iter().enumerate().filter(|(_, step)| fits(step)).map(|(at, _)| at).collect()
}

/// Returns the keys in which two steps of one text differ; `None` if their texts do.
fn differing(a: &Step, b: &Step) -> Option<Vec<&'static str>> {
    // Every field stands here, so that a new one is not forgotten.
    let Step { action, engine, runs_on, gpu, only_for, only_if, changes, verify, no_verify, source, origin: _ } = a;
    let keys = [
        ("engine", *engine != b.engine),
        ("runs_on", *runs_on != b.runs_on),
        ("gpu", *gpu != b.gpu),
        ("only_for", *only_for != b.only_for),
        ("only_if", *only_if != b.only_if),
        ("changes", *changes != b.changes),
        ("verify", *verify != b.verify),
        ("no_verify", *no_verify != b.no_verify),
        ("source", *source != b.source),
    ];
    let differing = keys.into_iter().filter_map(|(key, differs)| differs.then_some(key));
    (plain(action) == plain(&b.action)).then(|| differing.collect())
}

/// Returns a text with one space between its words, and without control characters.
pub(super) fn plain(text: &str) -> String {
    let words = text.split(|c: char| c.is_whitespace() || c.is_control()).filter(|word| !word.is_empty());
    words.collect::<Vec<_>>().join(" ")
}

/// Returns the first words of a step.
pub(super) fn beginning(step: &Step) -> String {
    let text = plain(&step.action);
    match text.char_indices().nth(BEGINNING_CHARS) {
        Some((end, _)) => format!("{}…", text[..end].rsplit_once(' ').map_or(&text[..end], |(words, _)| words)),
        None => text,
    }
}
