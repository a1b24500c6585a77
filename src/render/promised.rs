//! The service level that is promised for a pool.

use super::Phrases;
use knowledge::playbook::Promise;
use knowledge::signal::{Term, Unit, format_value};
use message::Line;

/// Renders the service level promised for the pool.
pub(super) fn promised(promise: &Promise, words: &Phrases) -> Line {
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
}
