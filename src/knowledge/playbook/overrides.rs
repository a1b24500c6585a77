//! `overrides/<id>.yaml`: a user's changes to one shipped playbook or cause, without a copy of its file.
//!
//! A change names what it changes: a condition by its signal, a step by words of it. What is not there, is there twice,
//! or is changed twice is a problem, so that no change is lost in silence when the shipped data change.

use std::collections::BTreeSet;

use schemars::JsonSchema;
use serde::Deserialize;
use serde_saphyr::Spanned;

use super::{CauseEntry, Condition, Evidence, Library, Problem, SourceFile, Step, nearest, suggestion};

/// The folder of these files.
pub(super) const FOLDER: &str = "overrides";
/// Characters of a step's beginning in a hint.
const BEGINNING_CHARS: usize = 70;

/// A user's changes to one shipped playbook or cause: `overrides/<id>.yaml`.
#[derive(Debug, Clone, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Override {
    /// The id of a playbook, of a cause, or of a leaf inside a playbook; same as the file name.
    #[serde(rename = "override")]
    pub id: String,
    /// The format's version: 1.
    pub schema: u32,
    /// Conditions that get another value.
    #[serde(default)]
    pub conditions: Vec<ConditionChange>,
    /// Changes to the immediate steps.
    #[serde(default)]
    pub now: StepChanges,
    /// Changes to the steps that prevent it from coming back.
    #[serde(default)]
    pub lasting: StepChanges,
    /// For a playbook: further causes, after the shipped ones.
    #[serde(default)]
    pub causes: Vec<CauseEntry>,
    /// For a playbook: further names of alerts that enter here, as in a playbook's `matches`.
    #[serde(default)]
    pub matches: Vec<String>,
    /// The team to escalate to, instead of the shipped text; not for a leaf inside a playbook.
    pub escalate: Option<String>,
}

/// A condition that gets another value. It changes wherever it stands in the playbook or cause: in all evidence and alert
/// rules, but not in the checks of steps.
#[derive(Debug, Clone, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ConditionChange {
    /// The signal whose condition changes.
    #[schemars(with = "String")]
    pub signal: Spanned<String>,
    /// The shipped condition; may be left out if the signal has only one.
    pub was: Option<Condition>,
    /// The condition instead of it.
    pub when: Condition,
}

/// Changes to a list of steps.
#[derive(Debug, Clone, Default, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct StepChanges {
    /// Further steps, before the shipped ones.
    #[serde(default)]
    pub first: Vec<Step>,
    /// Further steps, after the shipped ones.
    #[serde(default)]
    pub last: Vec<Step>,
    /// Shipped steps that get another text.
    #[serde(default)]
    pub replace: Vec<StepReplacement>,
    /// Shipped steps that are not shown: each by words that stand in that step only.
    #[serde(default)]
    #[schemars(with = "Vec<String>")]
    pub remove: Vec<Spanned<String>>,
}

/// A shipped step that gets another text.
#[derive(Debug, Clone, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct StepReplacement {
    /// Words that stand in that step only, such as its flag.
    #[schemars(with = "String")]
    pub step: Spanned<String>,
    /// The step instead of it, whole.
    pub with: Step,
}

/// A shipped thing that a user's file replaces or changes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Replacement {
    /// The user's file.
    pub file: String,
    /// The shipped thing and its change, a clause: "`kv-cache-full`: `kv_cache_peak` is `> 0.9` instead of `> 0.95`".
    pub what: String,
}

/// The changeable parts of a playbook or cause.
struct Target<'a> {
    /// The path of its file, as in [`Library::files`].
    path: String,
    evidence: Vec<&'a mut Evidence>,
    now: &'a mut Vec<Step>,
    lasting: &'a mut Vec<Step>,
    causes: Option<&'a mut Vec<CauseEntry>>,
    matches: Option<&'a mut Vec<String>>,
    escalate: Option<&'a mut Option<String>>,
}

/// Applies a user's file, after all others are loaded; a library with a problem is of no use.
pub(super) fn apply(library: &mut Library, file: &SourceFile, changes: Override, problems: &mut Vec<Problem>) {
    let id = changes.id.clone();
    let before = problems.len();
    let mut change = Change { id: &id, file, problems, said: Vec::new() };
    let paths: Vec<String> = targets(library, &id).into_iter().map(|target| target.path).collect();
    let path = match paths.as_slice() {
        [] => return change.say(None, format!("there is no playbook or cause `{id}`"), similar_ids(library, &id)),
        [one] => one.clone(),
        several => {
            let message = format!("`{id}` stands in {}", quoted(several));
            return change.say(None, message, "ids are unique over all data: rename your own one".to_owned());
        }
    };
    if let Some(own) = library.files.get(&path).filter(|file| file.own) {
        let hint = format!("make the change in {}; an override is for what is shipped", own.path);
        return change.say(None, format!("`{id}` stands in a file of your own"), hint);
    }
    let Some(target) = targets(library, &id).pop() else { return };
    change.all(target, changes);
    let said = change.said;
    problems[before..].sort_by_key(|problem| problem.line);
    library.overridden.entry(path).or_default().push(format!("{FOLDER}/{id}.yaml"));
    library.replacements.extend(said.into_iter().map(|what| Replacement { file: file.path.clone(), what }));
}

/// Returns everything with an id.
fn targets<'a>(library: &'a mut Library, id: &str) -> Vec<Target<'a>> {
    let mut found = Vec::new();
    for playbook in library.playbooks.values_mut() {
        let path = format!("{}.yaml", playbook.playbook);
        if playbook.playbook == id {
            let rules = playbook.alerts.iter_mut().flat_map(|rule| &mut rule.when);
            found.push(Target {
                path,
                evidence: playbook.symptom.iter_mut().chain(rules).collect(),
                now: &mut playbook.now,
                lasting: &mut playbook.lasting,
                causes: Some(&mut playbook.causes),
                matches: Some(&mut playbook.matches),
                escalate: Some(&mut playbook.escalate),
            });
            continue;
        }
        let leaves = playbook.causes.iter_mut().filter(|entry| entry.id.as_deref() == Some(id));
        found.extend(leaves.map(|entry| Target {
            path: path.clone(),
            evidence: entry.evidence.iter_mut().collect(),
            now: &mut entry.now,
            lasting: &mut entry.lasting,
            causes: None,
            matches: None,
            escalate: None,
        }));
    }
    found.extend(library.causes.get_mut(id).map(|cause| Target {
        path: format!("causes/{id}.yaml"),
        evidence: cause.evidence.iter_mut().collect(),
        now: &mut cause.now,
        lasting: &mut cause.lasting,
        causes: None,
        matches: None,
        escalate: Some(&mut cause.escalate),
    }));
    found
}

/// Returns the id of a playbook, a cause or a leaf that is meant by an unknown one, or the most similar ones.
pub fn similar_ids(library: &Library, id: &str) -> String {
    let leaves = library.playbooks.values().flat_map(|playbook| &playbook.causes).filter_map(|entry| entry.id.as_ref());
    let ids = library.playbooks.keys().chain(library.causes.keys()).chain(leaves).map(String::as_str);
    let ids: BTreeSet<&str> = ids.collect();
    suggestion(id, ids.iter().copied()).unwrap_or_else(|| {
        let near: Vec<String> = nearest(id, ids).into_iter().take(5).map(|id| format!("`{id}`")).collect();
        format!("the most similar ones are {}; `llm-diagnose playbooks` lists the playbooks", near.join(", "))
    })
}

/// One file's changes while they are made.
struct Change<'a> {
    id: &'a str,
    file: &'a SourceFile,
    problems: &'a mut Vec<Problem>,
    /// The changes that were made, as clauses.
    said: Vec<String>,
}

impl Change<'_> {
    /// Adds a problem at the place of a value; at the line of the id without one.
    fn say(&mut self, at: Option<&Spanned<String>>, message: String, hint: String) {
        let line = at.map_or_else(|| self.file.line_of(self.id), |at| line(at).max(1));
        self.problems.push(Problem::on_line("override/unfit", self.file, line, message, Some(hint)));
    }

    fn all(&mut self, target: Target<'_>, changes: Override) {
        // Every field stands here, so that a new one is not forgotten.
        let Override { id: _, schema: _, conditions, now, lasting, causes, matches, escalate } = changes;
        self.conditions(target.evidence, &conditions);
        let elsewhere = target.lasting.clone();
        self.steps("now", target.now, now, ("lasting", &elsewhere));
        let elsewhere = target.now.clone();
        self.steps("lasting", target.lasting, lasting, ("now", &elsewhere));
        for (key, is_set, fits) in [
            ("causes", !causes.is_empty(), target.causes.is_some()),
            ("matches", !matches.is_empty(), target.matches.is_some()),
            ("escalate", escalate.is_some(), target.escalate.is_some()),
        ] {
            if is_set && !fits {
                let hint = format!("write it in an override of a playbook that has `{}` as a cause", self.id);
                self.problems.push(Problem::at(
                    "override/unfit",
                    self.file,
                    key,
                    format!("`{}` has no `{key}`", self.id),
                    Some(hint),
                ));
            }
        }
        if let Some(list) = target.causes {
            for entry in causes {
                let target = entry.target().to_owned();
                if list.iter().any(|listed| listed.target() == target) {
                    let message = format!("`{}` has the cause `{target}` already", self.id);
                    self.problems.push(Problem::at("override/unfit", self.file, &target, message, None));
                    continue;
                }
                self.said.push(format!("`{}` has the cause `{target}` too", self.id));
                list.push(entry);
            }
        }
        if let Some(list) = target.matches.filter(|_| !matches.is_empty()) {
            self.said.push(format!("`{}` is entered by {} too", self.id, matches.join(", ")));
            list.extend(matches);
        }
        if let (Some(team), Some(escalate)) = (target.escalate, escalate) {
            self.said.push(format!("`{}` is escalated to: {escalate}", self.id));
            *team = Some(escalate);
        }
        if self.said.is_empty() && self.problems.is_empty() {
            self.say(
                None,
                format!("it changes nothing of `{}`", self.id),
                "remove the file, or say what to change".into(),
            );
        }
    }

    fn conditions(&mut self, evidence: Vec<&mut Evidence>, changes: &[ConditionChange]) {
        let mut conditions: Vec<(String, &mut Condition)> = Vec::new();
        evidence.into_iter().for_each(|evidence| collect(evidence, &mut conditions));
        let shipped: Vec<(String, Condition)> =
            conditions.iter().map(|(s, when)| (s.clone(), (*when).clone())).collect();
        let mut done: Vec<(&str, Condition)> = Vec::new();
        for change in changes {
            let signal = change.signal.value.as_str();
            let mut of_signal: Vec<&Condition> = Vec::new();
            for (_, when) in shipped.iter().filter(|(of, _)| of == signal) {
                if !of_signal.contains(&when) {
                    of_signal.push(when);
                }
            }
            let was = match (&change.was, of_signal.as_slice()) {
                (_, []) => {
                    let known: BTreeSet<&str> = shipped.iter().map(|(signal, _)| signal.as_str()).collect();
                    let hint = suggestion(signal, known.iter().copied()).unwrap_or_else(|| {
                        format!("its conditions are on {}", known.into_iter().collect::<Vec<_>>().join(", "))
                    });
                    self.say(Some(&change.signal), format!("`{}` has no condition on `{signal}`", self.id), hint);
                    continue;
                }
                (None, [one]) => (*one).clone(),
                (None, several) => {
                    let hint = format!("say which: `was:` one of {}", quoted(several));
                    let message = format!("`{}` has several conditions on `{signal}`", self.id);
                    self.say(Some(&change.signal), message, hint);
                    continue;
                }
                (Some(was), known) if known.contains(&was) => was.clone(),
                (Some(was), known) => {
                    let message = format!("`{}` has no condition `{was}` on `{signal}`", self.id);
                    self.say(Some(&change.signal), message, format!("it has {}", quoted(known)));
                    continue;
                }
            };
            if done.contains(&(signal, was.clone())) {
                let message = format!("`{was}` on `{signal}` is changed twice");
                self.say(Some(&change.signal), message, "keep one of both".to_owned());
                continue;
            }
            let same = shipped.iter().zip(&mut conditions).filter(|((s, when), _)| s == signal && *when == was);
            same.for_each(|(_, (_, when))| **when = change.when.clone());
            if change.when != was {
                self.said.push(format!("`{}`: `{signal}` is `{}` instead of `{was}`", self.id, change.when));
            }
            done.push((signal, was));
        }
    }

    fn steps(&mut self, key: &str, steps: &mut Vec<Step>, changes: StepChanges, elsewhere: (&str, &[Step])) {
        let StepChanges { first, last, replace, remove } = changes;
        // By index of the shipped step: what becomes of it.
        let mut changed: Vec<(usize, Option<Step>)> = Vec::new();
        let replaced = replace.into_iter().map(|StepReplacement { step, with }| (step, Some(with)));
        for (words, with) in replaced.chain(remove.into_iter().map(|words| (words, None))) {
            let Some(at) = self.find(key, steps, &words, elsewhere) else { continue };
            let what = format!("`{}`, {key}: the step “{}” is", self.id, beginning(&steps[at]));
            self.said.push(match &with {
                Some(with) => format!("{what} “{}”", beginning(with)),
                None => format!("{what} not shown"),
            });
            if changed.iter().any(|(other, _)| *other == at) {
                let message = format!("the step “{}” is changed twice", beginning(&steps[at]));
                self.say(Some(&words), message, "keep one of both".to_owned());
            }
            changed.push((at, with));
        }
        for (steps, place) in [(&first, "before"), (&last, "after")] {
            let added = steps
                .iter()
                .map(|step| format!("`{}`, {key}: “{}” stands {place} the shipped steps", self.id, beginning(step)));
            self.said.extend(added);
        }
        let kept = std::mem::take(steps).into_iter().enumerate().filter_map(|(at, step)| {
            match changed.iter().find(|(index, _)| *index == at) {
                Some((_, with)) => with.clone(),
                None => Some(step),
            }
        });
        *steps = first.into_iter().chain(kept).chain(last).collect();
    }

    /// Returns the index of the only step with some words; the whole text counts before a part of it.
    fn find(
        &mut self,
        key: &str,
        steps: &[Step],
        words: &Spanned<String>,
        elsewhere: (&str, &[Step]),
    ) -> Option<usize> {
        let sought = plain(&words.value);
        let having = |steps: &[Step]| -> Vec<usize> {
            let texts: Vec<String> = steps.iter().map(|step| plain(&step.action)).collect();
            let by = |fits: &dyn Fn(&String) -> bool| -> Vec<usize> {
                texts.iter().enumerate().filter(|(_, text)| fits(text)).map(|(at, _)| at).collect()
            };
            let exact = by(&|text| *text == sought);
            if exact.is_empty() && !sought.is_empty() { by(&|text| text.contains(&sought)) } else { exact }
        };
        let list = |steps: Vec<&Step>| {
            steps.iter().map(|step| format!("“{}”", beginning(step))).collect::<Vec<_>>().join(", ")
        };
        let (other, other_steps) = elsewhere;
        match having(steps).as_slice() {
            [one] => return Some(*one),
            [] if !having(other_steps).is_empty() => {
                let message = format!("no step of `{}` under `{key}` has these words", self.id);
                self.say(Some(words), message, format!("one under `{other}` has them: write it there"));
            }
            [] => {
                let message = format!("no step of `{}` under `{key}` has these words", self.id);
                let hint = match steps {
                    [] => format!("it has no step under `{key}`: add one under `last`"),
                    steps => format!("its steps are {}", list(steps.iter().collect())),
                };
                self.say(Some(words), message, hint);
            }
            several => {
                let message = format!("{} steps of `{}` under `{key}` have these words", several.len(), self.id);
                let hint =
                    format!("give more of the words of one: {}", list(several.iter().map(|at| &steps[*at]).collect()));
                self.say(Some(words), message, hint);
            }
        }
        None
    }
}

fn line<T>(at: &Spanned<T>) -> usize {
    usize::try_from(at.referenced.line()).unwrap_or(1)
}

/// Adds the conditions of a check and of its alternatives, with their signals.
fn collect<'a>(evidence: &'a mut Evidence, out: &mut Vec<(String, &'a mut Condition)>) {
    if let (Some(signal), Some(when)) = (&evidence.signal, &mut evidence.when) {
        out.push((signal.clone(), when));
    }
    evidence.any.iter_mut().for_each(|evidence| collect(evidence, out));
}

fn quoted(list: &[impl std::fmt::Display]) -> String {
    list.iter().map(|item| format!("`{item}`")).collect::<Vec<_>>().join(", ")
}

/// Returns a text with one space between its words.
fn plain(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// Returns the first words of a step.
fn beginning(step: &Step) -> String {
    let text = plain(&step.action);
    match text.char_indices().nth(BEGINNING_CHARS) {
        Some((end, _)) => format!("{}…", text[..end].rsplit_once(' ').map_or(&text[..end], |(words, _)| words)),
        None => text,
    }
}
