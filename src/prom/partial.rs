//! Answers about a part of the data: what a server says about stores that it could not read.
//!
//! Thanos and Prometheus write `warnings` beside a success, a cluster of VictoriaMetrics sets `isPartial`. PromQL's own
//! annotations are among the warnings and do not concern stores.
//! Sources: Thanos, "Partial Response"; VictoriaMetrics, "Cluster availability"; Prometheus, `util/annotations`.

use schemars::JsonSchema;
use serde::Deserialize;

use knowledge::clip::clip;

/// Maximum characters of a warning that are kept.
const SAID_CHARS: usize = 200;
/// The words for a server that only sets a flag.
pub(super) const UNNAMED: &str = "not every store answered";
/// Thanos' warning where no store covers the time that was asked for: nothing is known to be away.
const NO_STORE: &str = "No StoreAPIs matched";

/// The meaning of an answer about a part of the data.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum PartialAnswers {
    /// It rules nothing out by what it lacks.
    #[default]
    Note,
    /// A warning about stores is only shown as a note; verdicts are as if the data were complete. For pairs of stores of
    /// which each has all data.
    Ignore,
}

/// The part of the data that an answer lacks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MissingPart {
    /// The server's words, untrusted, at most 200 characters.
    pub said: String,
    /// False if it is only to be shown ([`PartialAnswers::Ignore`]).
    pub counts: bool,
}

impl MissingPart {
    pub(super) fn new(said: &str) -> Self {
        Self { said: clip(&shortened(said), SAID_CHARS), counts: true }
    }

    /// Returns true if only no store covers the time that was asked for: older data than are kept.
    pub fn is_beyond_all_stores(&self) -> bool {
        is_beyond_all_stores(&self.said)
    }
}

/// Returns true for the warning that no store covers the time that was asked for.
pub(super) fn is_beyond_all_stores(warning: &str) -> bool {
    warning.contains(NO_STORE)
}

/// Returns true for a warning that PromQL writes about a query, and not a store about its data.
pub(super) fn is_annotation(warning: &str) -> bool {
    warning.starts_with("PromQL ") || warning.ends_with(" annotations omitted")
}

/// Returns a warning on one line, without the labels of the store between its address and its error.
fn shortened(warning: &str) -> String {
    let plain: String = warning
        .chars()
        .map(|c| match c {
            '`' => '\'',
            c if c.is_control() => ' ',
            c => c,
        })
        .collect();
    match (plain.find(" LabelSets: "), plain.find(": rpc error")) {
        (Some(from), Some(to)) if from < to => format!("{} …{}", &plain[..from], &plain[to..]),
        _ => plain,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A warning as Thanos 0.36 writes it while a sidecar is away.
    const THANOS: &str = "receive series from Addr: 10.96.192.138:10901 LabelSets: {prometheus=\"monitoring/eu\", \
        prometheus_replica=\"prometheus-eu-0\"},{replica=\"thanos-ruler-0\"} MinTime: 1730222825216 MaxTime: \
        9223372036854775807: rpc error: code = Unavailable desc = connection error: desc = \"transport: Error while \
        dialing: dial tcp 10.96.192.138:10901: connect: connection refused\"";

    #[test]
    fn a_warning_names_its_store_and_its_error_on_one_short_line() {
        let part = MissingPart::new(THANOS);
        assert!(
            part.said.starts_with("receive series from Addr: 10.96.192.138:10901 …: rpc error: code = Unavailable")
        );
        assert!(part.said.chars().count() <= SAID_CHARS && part.counts, "{part:?}");
        assert_eq!(knowledge::gap::store_named(&part.said), Some("10.96.192.138:10901"));
        assert_eq!(
            [
                knowledge::gap::store_named(UNNAMED),
                knowledge::gap::store_named("Addr: "),
                knowledge::gap::store_named("Addr: , x")
            ],
            [None; 3]
        );
        assert_eq!(MissingPart::new("a\n`b`\u{7}").said, "a 'b' ");
    }

    #[test]
    fn what_promql_says_about_a_query_is_no_missing_part() {
        for text in [
            "PromQL info: metric might not be a counter, name does not end in _total/_sum/_count/_bucket: \"a\" (1:6)",
            "PromQL warning: quantile value should be between 0 and 1, got 2 (1:20)",
            "12 more info annotations omitted",
        ] {
            assert!(is_annotation(text), "{text}");
        }
        assert!(!is_annotation(THANOS) && !is_annotation("results truncated due to limit"));
    }
}
