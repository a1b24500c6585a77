//! The matchers of a silence, chosen among the labels that firing alerts share.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use knowledge::alert::{Alert, AlertStatus, Labels, common_labels};

/// The label with the alert's name.
pub const ALERTNAME: &str = "alertname";
/// Maximum number of alert names in one matcher.
const NAMES: usize = 8;

/// A label matcher of a silence.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SilenceMatcher {
    /// The label name.
    pub name: String,
    /// The value, or the regular expression.
    pub value: String,
    /// True if the value is a regular expression.
    #[serde(default)]
    pub is_regex: bool,
    /// True for `=` and `=~`, false for `!=` and `!~`.
    #[serde(default = "yes")]
    pub is_equal: bool,
}

fn yes() -> bool {
    true
}

impl SilenceMatcher {
    /// Builds `name="value"`.
    pub fn equal(name: &str, value: &str) -> Self {
        Self { name: name.to_owned(), value: value.to_owned(), is_regex: false, is_equal: true }
    }

    /// Builds `name=~"a|b"`.
    pub fn one_of<'a>(name: &str, values: impl IntoIterator<Item = &'a str>) -> Self {
        let value = values.into_iter().map(regex::escape).collect::<Vec<_>>().join("|");
        Self { name: name.to_owned(), value, is_regex: true, is_equal: true }
    }

    /// Returns the matcher as Alertmanager parses it, with no other escapes than those that it knows. It understands quoted
    /// names from 0.27 on, and earlier versions send no such names.
    ///
    /// Source: `pkg/labels/parse.go` of prometheus/alertmanager.
    pub fn filter(&self) -> String {
        let quoted =
            |text: &str| format!("\"{}\"", text.replace('\\', r"\\").replace('"', "\\\"").replace('\n', r"\n"));
        let is_classic = !self.name.starts_with(|c: char| c.is_ascii_digit())
            && self.name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
        let name = if is_classic { self.name.clone() } else { quoted(&self.name) };
        format!("{name}{}{}", self.sign(), quoted(&self.value))
    }

    fn sign(&self) -> &'static str {
        match (self.is_equal, self.is_regex) {
            (true, false) => "=",
            (true, true) => "=~",
            (false, false) => "!=",
            (false, true) => "!~",
        }
    }

    /// Returns a short text that differs for every name and value: the name, a space, and 8 hexadecimal digits.
    pub fn key(&self) -> String {
        format!("{} {}", self.name, digest(std::slice::from_ref(self)))
    }
}

/// Returns 8 hexadecimal digits that differ for other matchers.
pub fn digest(matchers: &[SilenceMatcher]) -> String {
    let text: Vec<String> = matchers.iter().map(ToString::to_string).collect();
    let digest = ring::digest::digest(&ring::digest::SHA256, text.join(" ").as_bytes());
    digest.as_ref().iter().take(4).map(|byte| format!("{byte:02x}")).collect()
}

/// The matcher as people read it: characters that cannot be seen are escaped.
impl std::fmt::Display for SilenceMatcher {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}{}{:?}", self.name, self.sign(), self.value)
    }
}

/// Without the alerts' names the default matchers would match the whole pool; the matchers.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "the firing alerts have more than {NAMES} names, and without names a silence takes everything with {0}: choose labels"
)]
pub struct WholePool(pub String);

/// Returns the labels that the firing alerts share, from which matchers may be chosen. Empty if no alert fires.
pub fn common(alerts: &[Alert]) -> Labels {
    let firing: Vec<&Alert> = alerts.iter().filter(|alert| alert.status == AlertStatus::Firing).collect();
    let mut labels = common_labels(&firing);
    // Alertmanager refuses matchers that also match an absent label.
    labels.retain(|_, value| !value.is_empty());
    labels
}

/// Returns the possible matchers of a silence of the firing alerts: the labels that they share, and their names if
/// these differ, so that the silence does not match everything of their pool. Empty if no alert fires.
pub fn shared(alerts: &[Alert]) -> Vec<SilenceMatcher> {
    let common = common(alerts);
    let mut matchers: Vec<SilenceMatcher> =
        common.iter().map(|(name, value)| SilenceMatcher::equal(name, value)).collect();
    if !common.contains_key(ALERTNAME) {
        let firing = alerts.iter().filter(|alert| alert.status == AlertStatus::Firing);
        let names: BTreeSet<&str> =
            firing.map(|alert| alert.labels.get(ALERTNAME).map_or("", String::as_str)).collect();
        if (1..=NAMES).contains(&names.len()) && !names.contains("") {
            matchers.insert(0, SilenceMatcher::one_of(ALERTNAME, names));
        }
    }
    matchers
}

/// Returns the default matchers of a silence of the firing alerts: all that they share.
///
/// # Errors
/// When the alerts have too many names for one matcher: without names it would match everything of their pool.
pub fn preselected(alerts: &[Alert]) -> Result<Vec<SilenceMatcher>, WholePool> {
    let shared = shared(alerts);
    if shared.is_empty() || shared.iter().any(|matcher| matcher.name == ALERTNAME) {
        return Ok(shared);
    }
    let all: Vec<String> = shared.iter().map(ToString::to_string).collect();
    Err(WholePool(all.join(" ")))
}
