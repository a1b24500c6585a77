//! The promise that a symptom is about, and what is left of its error budget.

use super::Phrases;
use findings::{Diagnosis, ErrorBudget, SymptomFound};
use knowledge::clock;
use knowledge::playbook::Promise;
use knowledge::signal::{Term, Unit, budget, format_value};
use message::Line;
use std::time::Duration;

/// Returns the promise with its error budget; `None` if nothing is promised.
pub(super) fn promise(diagnosis: &Diagnosis, words: &Phrases) -> Option<Line> {
    let SymptomFound { promise, error_budget, .. } = &diagnosis.symptom;
    let promised = promised(promise.as_ref()?, words);
    Some(match error_budget {
        Some(budget) => promised.plain(" ").then(spent(budget, diagnosis.at, words)),
        None => promised,
    })
}

/// Returns the promise if its error budget is known: it burns slowly too, while no check is met.
pub(super) fn burnt(diagnosis: &Diagnosis, words: &Phrases) -> Option<Line> {
    promise(diagnosis, words).filter(|_| diagnosis.symptom.error_budget.is_some())
}

/// Renders the service level promised for the pool.
fn promised(promise: &Promise, words: &Phrases) -> Line {
    let key = match promise.term {
        Term::Ttft => "promise-ttft",
        Term::InterToken => "promise-inter-token",
        Term::Request => "promise-request",
        Term::Errors => "promise-errors",
    };
    // Not rounded: 99.95 % is not 100 %.
    let share = format!("{} %", (promise.share * 1e6).round() / 1e4);
    let within = promise.within_seconds.map(|seconds| format_value(seconds, Unit::Seconds)).unwrap_or_default();
    words.line(key, &[("share", share.into()), ("within", within.into())])
}

/// Says how much of the error budget was spent, and how much is left.
fn spent(own: &ErrorBudget, at: jiff::Timestamp, words: &Phrases) -> Line {
    let left = match own.left {
        left if left <= 0.0 => words.text("budget-none-left", &[("used", percent(1.0 - left).into())]),
        // Rounded down: 99.9 % is not all of it.
        left => words.text(
            "budget-left",
            &[("left", percent((left * 100.0).floor().max(left.min(0.01) * 100.0) / 100.0).into())],
        ),
    };
    // A sample counts five minutes.
    let took = clock::human_duration(clock::between(own.since, at).max(budget::STEP));
    let reach = Duration::from_secs(own.covers_seconds);
    let is_whole = reach + Duration::from_secs(86_400) > budget::WINDOW;
    let key = if is_whole { "budget-spent" } else { "budget-spent-of-less" };
    words.line(
        key,
        &[
            ("spent", percent(own.spent).into()),
            ("took", took.into()),
            ("left", left.into()),
            ("reach", clock::human_duration(reach).into()),
        ],
    )
}

/// Formats a share: whole percent, below ten with a decimal, and never 0 % for what is more than nothing.
fn percent(share: f64) -> String {
    match share * 100.0 {
        n if n <= 0.0 => "0 %".to_owned(),
        n if n < 0.1 => "less than 0.1 %".to_owned(),
        n if n < 9.95 => format!("{} %", (n * 10.0).round() / 10.0),
        n => format!("{n:.0} %"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_promise_is_shown_and_not_rounded_up() {
        let words = Phrases::english();
        let text = |promise: Promise| promised(&promise, &words).text();
        let first = Promise { term: Term::Ttft, share: 0.9995, within_seconds: Some(2.0) };
        assert_eq!(text(first), "Promised: 99.95 % of first tokens within 2 s.");
        let errors = Promise { term: Term::Errors, share: 1.0 - 0.001, within_seconds: None };
        assert_eq!(text(errors), "Promised: 99.9 % of requests without a server error.");
    }

    #[test]
    fn an_error_budget_says_what_went_what_is_left_and_how_far_the_data_reach() {
        let at: jiff::Timestamp = "2026-03-01T00:00:00Z".parse().unwrap();
        let said = |spent_share, left, days: u64| {
            let since = "2026-02-28T23:20:00Z".parse().unwrap();
            let own = ErrorBudget { spent: spent_share, since, left, covers_seconds: days * 86_400 };
            spent(&own, at, &Phrases::english()).text()
        };
        assert_eq!(said(0.08, 0.72, 30), "Of the 30-day error budget, 8 % went in 40 min (72 % left).");
        assert_eq!(
            said(0.08, 0.72, 3),
            "Of the error budget of 3 d, 8 % went in 40 min (72 % left); the recorded data reach no further back."
        );
        assert_eq!(said(0.0, 0.9999, 30), "Of the 30-day error budget, 0 % went in 40 min (99 % left).");
        assert_eq!(said(0.0002, 0.004, 30), "Of the 30-day error budget, less than 0.1 % went in 40 min (0.4 % left).");
        assert_eq!(
            said(3.5, -0.4, 30),
            "Of the 30-day error budget, 350 % went in 40 min (nothing left, 140 % is spent)."
        );
    }
}
