//! Conditions that get another value, and the checks of steps that follow them.

use std::collections::BTreeSet;

use super::steps::beginning;
use super::{Change, ConditionChange, line, quoted};
use crate::playbook::{Comparison, Condition, Evidence, Lint, Op, Reference, Step, Verify, suggestion};

/// A condition with its new value.
pub(super) struct Moved {
    pub(super) signal: String,
    was: Condition,
    when: Condition,
    line: usize,
}

impl Change<'_> {
    pub(super) fn conditions(&mut self, evidence: Vec<&mut Evidence>, changes: &[ConditionChange]) {
        let mut conditions: Vec<(String, &mut Condition)> = Vec::new();
        evidence.into_iter().for_each(|evidence| collect(evidence, &mut conditions));
        let shipped: Vec<(String, Condition)> =
            conditions.iter().map(|(s, when)| (s.clone(), (*when).clone())).collect();
        let mut done: Vec<(&str, Condition)> = Vec::new();
        for change in changes {
            let (signal, at) = (change.signal.value.as_str(), Some(line(&change.signal)));
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
                    self.leave(at, format!("`{}` has no condition on `{signal}`", self.id), hint);
                    continue;
                }
                (None, [one]) => (*one).clone(),
                (None, several) => {
                    let hint = format!("say which: `was:` one of {}", quoted(several));
                    self.leave(at, format!("`{}` has several conditions on `{signal}`", self.id), hint);
                    continue;
                }
                (Some(was), known) if known.contains(&was) => was.clone(),
                // A new version may ship what is wanted; of several, another one may have had this value before.
                (Some(_), [one]) if **one == change.when => change.when.clone(),
                (Some(was), known) => {
                    let message = format!("`{}` has no condition `{was}` on `{signal}`", self.id);
                    self.leave(at, message, format!("it has {}", quoted(known)));
                    continue;
                }
            };
            if done.contains(&(signal, was.clone())) {
                self.leave(at, format!("`{was}` on `{signal}` is changed twice"), "keep one of both".to_owned());
                continue;
            }
            done.push((signal, was.clone()));
            if change.when == was {
                self.idle(at, format!("the condition on `{signal}` is `{was}` already"));
                continue;
            }
            let same = shipped.iter().zip(&mut conditions).filter(|((s, when), _)| s == signal && *when == was);
            same.for_each(|(_, (_, when))| **when = change.when.clone());
            self.said.push(format!("`{}`: `{signal}` is `{}` instead of `{was}`", self.id, change.when));
            let (signal, when, line) = (signal.to_owned(), change.when.clone(), line(&change.signal));
            self.moved.push(Moved { signal, was, when, line });
        }
    }

    /// Moves the checks of shipped steps that were the exact inverse of a changed condition: else a step would count as
    /// done while the fault is there, or never. Others have a margin of their own, and stay.
    pub(super) fn checks(&mut self, key: &str, steps: &mut [Step]) {
        let moved = std::mem::take(&mut self.moved);
        for step in steps {
            let (name, is_shipped) = (beginning(step), step.origin.is_none());
            let Some(verify) = &mut step.verify else { continue };
            let mut checks = Vec::new();
            flatten(verify, &mut checks);
            for (signal, when) in checks {
                // As shipped: what one change makes of a check may be the inverse of what another one changes.
                let shipped = when.clone();
                let of_signal = || moved.iter().filter(|moved| moved.signal == signal);
                let inverse = of_signal().find_map(|moved| inverse_of(&shipped, moved)).filter(|_| is_shipped);
                if let Some(inverse) = inverse {
                    let id = self.id;
                    self.said.push(format!("`{id}`, {key}: the step “{name}” has worked at `{signal} {inverse}`"));
                    *when = inverse;
                }
                for moved in of_signal().filter(|moved| overlap(when, &moved.when) && !overlap(&shipped, &moved.was)) {
                    let now = &moved.when;
                    let message = format!(
                        "`{signal} {when}` shows that the step “{name}” worked, and can hold while `{now}` does"
                    );
                    let hint = format!("replace the step under `{key}`, with another `verify`");
                    self.remarks.push(self.problem(Lint::OverrideVerify, Some(moved.line), message, hint));
                }
            }
        }
        self.moved = moved;
    }
}

/// Returns the inverse of the new condition if a check is that of the shipped one.
fn inverse_of(check: &Condition, moved: &Moved) -> Option<Condition> {
    let (check, was, when) = (check.single()?, moved.was.single()?, moved.when.single()?);
    let is_inverse = check.to == was.to && is_upper(check.op) != is_upper(was.op);
    let same_side = is_upper(when.op) == is_upper(was.op);
    (is_inverse && same_side).then(|| Condition::All(vec![Comparison { to: when.to, ..check }]))
}

/// Returns true if a value can meet both, of two opposite bounds of one kind.
fn overlap(check: &Condition, when: &Condition) -> bool {
    let Some((check, when)) = check.single().zip(when.single()) else { return false };
    let (upper, lower) = match (is_upper(check.op), is_upper(when.op)) {
        (true, false) => (check.to, when.to),
        (false, true) => (when.to, check.to),
        _ => return false,
    };
    match (upper, lower) {
        (Reference::Number(upper), Reference::Number(lower))
        | (Reference::Baseline(upper), Reference::Baseline(lower)) => lower < upper,
        _ => false,
    }
}

fn is_upper(op: Op) -> bool {
    matches!(op, Op::Below | Op::AtMost)
}

/// Adds a check and its further ones, with their signals.
fn flatten<'a>(verify: &'a mut Verify, out: &mut Vec<(String, &'a mut Condition)>) {
    out.push((verify.signal.clone(), &mut verify.when));
    verify.or.iter_mut().for_each(|other| flatten(other, out));
}

/// Adds the conditions of a check and of its alternatives, with their signals.
fn collect<'a>(evidence: &'a mut Evidence, out: &mut Vec<(String, &'a mut Condition)>) {
    if let (Some(signal), Some(when)) = (&evidence.signal, &mut evidence.when) {
        out.push((signal.clone(), when));
    }
    evidence.any.iter_mut().for_each(|evidence| collect(evidence, out));
}
