//! `overrides/<id>.yaml`: a user's changes to one shipped playbook or cause, without a copy of its file.
//!
//! A change names what it changes: a condition by its signal, a step by words of it. An entry that does not fit the shipped data
//! (any more) is left out and recorded in [`Library::left_out`]; all else is applied.

mod conditions;
mod steps;

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::Deserialize;
use serde_saphyr::Spanned;

use super::{CauseEntry, Condition, Evidence, Library, Lint, Problem, SourceFile, Step, StepOrigin, is_unfinished};
use conditions::Moved;
use steps::plain;

/// The folder of these files.
pub(super) const FOLDER: &str = "overrides";

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
    /// For a playbook: further causes, after the shipped ones. Of one that is listed already, `explains` and `fallback`
    /// change.
    #[serde(default)]
    #[schemars(with = "Vec<CauseEntry>")]
    pub causes: Vec<Spanned<CauseEntry>>,
    /// For a playbook: further names of alerts that enter here, as in a playbook's `matches`.
    #[serde(default)]
    #[schemars(with = "Vec<String>")]
    pub matches: Vec<Spanned<String>>,
    /// The team to escalate to, instead of the shipped text; not for a leaf inside a playbook.
    #[schemars(with = "Option<String>")]
    pub escalate: Option<Spanned<String>>,
}

/// A condition that gets another value. It changes in all evidence of the cause, or in the symptom and the alert rules of
/// the playbook (a leaf inside it has an override of its own). Checks of shipped steps that are the exact inverse of it
/// change with it.
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
    #[schemars(with = "Vec<Step>")]
    pub first: Vec<Spanned<Step>>,
    /// Further steps, after the shipped ones.
    #[serde(default)]
    #[schemars(with = "Vec<Step>")]
    pub last: Vec<Spanned<Step>>,
    /// Shipped steps that get another text.
    #[serde(default)]
    pub replace: Vec<StepReplacement>,
    /// Shipped steps that are not shown: each by words that are in that step only.
    #[serde(default)]
    #[schemars(with = "Vec<String>")]
    pub remove: Vec<Spanned<String>>,
}

/// A shipped step that gets another text.
#[derive(Debug, Clone, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct StepReplacement {
    /// Words that are in that step only, such as its flag.
    #[schemars(with = "String")]
    pub step: Spanned<String>,
    /// The step instead of it, whole.
    #[schemars(with = "Step")]
    pub with: Spanned<Step>,
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
    /// For a leaf inside a playbook: the playbook.
    parent: Option<&'a str>,
    evidence: Vec<&'a mut Evidence>,
    now: &'a mut Vec<Step>,
    lasting: &'a mut Vec<Step>,
    causes: Option<&'a mut Vec<CauseEntry>>,
    matches: Option<&'a mut Vec<String>>,
    escalate: Option<&'a mut Option<String>>,
}

/// Applies a user's files, after all others are loaded.
pub(super) fn apply(library: &mut Library, files: Vec<(SourceFile, Override)>) {
    // A leaf that one of them adds is no shipped one, whatever the order of the files.
    let added: BTreeMap<String, String> = files
        .iter()
        .flat_map(|(file, changes)| changes.causes.iter().map(move |entry| (file, entry)))
        .filter_map(|(file, entry)| Some((entry.value.id.clone()?, file.path.clone())))
        .collect();
    for (file, changes) in files {
        let id = changes.id.clone();
        let mut change = Change::new(&id, &file);
        match added.get(&id) {
            Some(path) => {
                let hint = format!("make the change in {path}; overrides are for shipped data");
                change.leave(None, format!("`{id}` is added in a file of your own"), hint);
            }
            None => change.make(library, changes),
        }
        let Change { mut left_out, remarks, said, moved, .. } = change;
        left_out.sort_by_key(|problem| problem.line);
        library.left_out.extend(left_out);
        library.remarks.extend(remarks);
        library.moved.extend(moved.into_iter().map(|moved| (id.clone(), moved.signal)));
        library.replacements.extend(said.into_iter().map(|what| Replacement { file: file.path.clone(), what }));
    }
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
                parent: None,
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
        let parent = playbook.playbook.as_str();
        found.extend(leaves.map(|entry| Target {
            path: path.clone(),
            parent: Some(parent),
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
        parent: None,
        evidence: cause.evidence.iter_mut().collect(),
        now: &mut cause.now,
        lasting: &mut cause.lasting,
        causes: None,
        matches: None,
        escalate: Some(&mut cause.escalate),
    }));
    found
}

/// One file's changes while they are made.
struct Change<'a> {
    id: &'a str,
    file: &'a SourceFile,
    /// The changes that do not fit.
    left_out: Vec<Problem>,
    /// The lints about the others.
    remarks: Vec<Problem>,
    /// The changes that were made, as clauses.
    said: Vec<String>,
    /// The conditions that were changed.
    moved: Vec<Moved>,
}

impl<'a> Change<'a> {
    fn new(id: &'a str, file: &'a SourceFile) -> Self {
        Self { id, file, left_out: vec![], remarks: vec![], said: vec![], moved: vec![] }
    }
}

impl Change<'_> {
    fn problem(&self, lint: Lint, line: Option<usize>, message: String, hint: String) -> Problem {
        let line = line.unwrap_or_else(|| self.file.line_of(self.id)).max(1);
        Problem::on_line(lint, self.file, line, message, Some(hint))
    }

    /// Records a change that does not fit; at the line of the id without one of its own.
    fn leave(&mut self, line: Option<usize>, message: String, hint: String) {
        self.left_out.push(self.problem(Lint::OverrideUnfit, line, message, hint));
    }

    /// Records a change that makes no difference: often a new version ships it.
    fn idle(&mut self, line: Option<usize>, message: String) {
        let hint = "remove it: the shipped data say the same".to_owned();
        self.remarks.push(self.problem(Lint::OverrideIdle, line, message, hint));
    }

    fn make(&mut self, library: &mut Library, changes: Override) {
        let id = self.id;
        let paths: Vec<String> = targets(library, id).into_iter().map(|target| target.path).collect();
        let path = match paths.as_slice() {
            [] => {
                return self.leave(None, format!("there is no playbook or cause `{id}`"), library.similar_ids(id));
            }
            [one] => one.clone(),
            several => {
                let files = several.iter().filter_map(|path| Some(library.files.get(path)?.path.as_str()));
                let message = format!("`{id}` is in {}", files.collect::<Vec<_>>().join(" and in "));
                return self.leave(None, message, "ids are unique over all data: rename your own one".to_owned());
            }
        };
        if let Some(own) = library.files.get(&path).filter(|file| file.own) {
            let hint = format!("make the change in {}; overrides are for shipped data", own.path);
            return self.leave(None, format!("`{id}` is in your own file"), hint);
        }
        let Some(target) = targets(library, id).pop() else { return };
        self.all(target, changes);
        if !self.said.is_empty() {
            library.overridden.entry(path).or_default().push(format!("{FOLDER}/{id}.yaml"));
        }
    }

    fn all(&mut self, target: Target<'_>, changes: Override) {
        // Every field is listed here, so that a new one is not forgotten.
        let Override { id: _, schema: _, conditions, now, lasting, causes, matches, escalate } = changes;
        let id = self.id;
        let is_empty = conditions.is_empty() && causes.is_empty() && matches.is_empty() && escalate.is_none();
        if is_empty && now == StepChanges::default() && lasting == StepChanges::default() {
            // A skeleton says so by its TODO.
            if !is_unfinished(&self.file.text) {
                self.idle(None, format!("it changes nothing of `{id}`"));
            }
            return;
        }
        self.conditions(target.evidence, &conditions);
        let elsewhere = target.lasting.clone();
        self.steps("now", target.now, now, ("lasting", &elsewhere));
        let elsewhere = target.now.clone();
        self.steps("lasting", target.lasting, lasting, ("now", &elsewhere));
        self.checks("now", target.now);
        self.checks("lasting", target.lasting);

        let has_no = |key: &str| format!("`{id}` has no `{key}`");
        let parent = target.parent.map(|parent| format!("`{FOLDER}/{parent}.yaml`"));
        match (target.causes, causes.first()) {
            (Some(list), _) => self.causes(list, causes),
            (None, Some(first)) => {
                let hint = match &parent {
                    Some(parent) => format!("a leaf is the end of a chain; {parent} adds another one beside it"),
                    None => format!("a leaf is the end of a chain; add the cause to a playbook that has `{id}`"),
                };
                self.leave(Some(line(first)), has_no("causes"), hint);
            }
            (None, None) => {}
        }
        match (target.matches, matches.first()) {
            (Some(list), _) => self.matches(list, matches),
            (None, Some(first)) => {
                let hint = "alerts enter playbooks: write it in an override of a playbook".to_owned();
                self.leave(Some(line(first)), has_no("matches"), hint);
            }
            (None, None) => {}
        }
        match (target.escalate, escalate) {
            (Some(team), Some(escalate)) if team.as_ref() == Some(&escalate.value) => {
                self.idle(Some(line(&escalate)), format!("`{id}` is escalated to that already"));
            }
            (Some(team), Some(escalate)) => {
                self.said.push(format!("`{id}` is escalated to: {}", plain(&escalate.value)));
                *team = Some(escalate.value);
            }
            (None, Some(escalate)) => {
                let hint = format!("a leaf escalates with its playbook: {}", parent.unwrap_or_default());
                self.leave(Some(line(&escalate)), has_no("escalate"), hint);
            }
            (_, None) => {}
        }
    }

    fn causes(&mut self, list: &mut Vec<CauseEntry>, causes: Vec<Spanned<CauseEntry>>) {
        let id = self.id;
        for entry in causes {
            let at = line(&entry);
            let mut entry = entry.value;
            let target = entry.target().to_owned();
            if let Some(listed) = list.iter_mut().find(|listed| listed.target() == target) {
                self.listed(listed, entry, at);
                continue;
            }
            for (key, steps) in [("now", &mut entry.now), ("lasting", &mut entry.lasting)] {
                let own = std::mem::take(steps).into_iter();
                *steps = own.filter_map(|step| self.own_step(key, step, at)).collect();
            }
            self.said.push(format!("`{id}` has the cause `{target}` too"));
            list.push(entry);
        }
    }

    /// Changes what is said beside a cause that is listed already; keys that the entry does not have stay as they are.
    fn listed(&mut self, listed: &mut CauseEntry, mut entry: CauseEntry, at: usize) {
        let (id, target) = (self.id, entry.target().to_owned());
        entry.fallback |= listed.fallback;
        if entry.explains.is_empty() {
            entry.explains.clone_from(&listed.explains);
        }
        let beside = CauseEntry { fallback: entry.fallback, explains: entry.explains.clone(), ..listed.clone() };
        if entry == *listed {
            self.idle(Some(at), format!("`{id}` has the cause `{target}` already"));
        } else if entry == beside {
            let keys =
                [("explains", entry.explains != listed.explains), ("fallback", entry.fallback != listed.fallback)];
            let keys: Vec<&str> = keys.into_iter().filter_map(|(key, differs)| differs.then_some(key)).collect();
            self.said.push(format!("`{id}`: its cause `{target}` has another {}", quoted(&keys)));
            *listed = entry;
        } else {
            let message = format!("`{id}` has a cause `{target}` already, another one");
            let hint = format!("give yours another id, or change that one in `{FOLDER}/{target}.yaml`");
            self.leave(Some(at), message, hint);
        }
    }

    fn matches(&mut self, list: &mut Vec<String>, matches: Vec<Spanned<String>>) {
        let mut names = Vec::new();
        for name in matches {
            if list.contains(&name.value) {
                self.idle(Some(line(&name)), format!("the alerts `{}` enter `{}` already", name.value, self.id));
            } else {
                names.push(plain(&name.value));
                list.push(name.value);
            }
        }
        if !names.is_empty() {
            self.said.push(format!("the alerts {} enter `{}` too", names.join(", "), self.id));
        }
    }

    fn origin(&self, line: usize) -> StepOrigin {
        StepOrigin { file: format!("{FOLDER}/{}.yaml", self.id), line }
    }
}

fn line<T>(at: &Spanned<T>) -> usize {
    usize::try_from(at.referenced.line()).unwrap_or(1)
}

/// Returns a list of things in back-ticks.
pub(super) fn quoted(list: &[impl std::fmt::Display]) -> String {
    list.iter().map(|item| format!("`{item}`")).collect::<Vec<_>>().join(", ")
}
