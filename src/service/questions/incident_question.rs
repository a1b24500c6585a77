//! The question for a list of incidents, with its filters, its size and the cursor of a page.

use std::borrow::Cow;
use std::fmt;

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use jiff::Timestamp;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::{Error, Visitor};
use serde::{Deserialize, Deserializer};
use ulid::Ulid;

use super::ShortText;
use super::text::given;
use knowledge::clock;
use knowledge::incident::IncidentState;
use render::IncidentFilter;
use store::IncidentQuery;

/// Maximum number of incidents in a list.
const MOST: u32 = 100;
/// The first character of a decoded cursor: the kind of its content.
const CURSOR: char = 'i';

/// The incidents of a list.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct IncidentQuestion {
    /// Maximum number of incidents in the answer; without it 100, and 10 for a model.
    #[schemars(with = "Limit")]
    pub limit: Option<Limit>,
    /// The cursor that an answer had for its next page, for the incidents after it; with the same filters.
    #[serde(deserialize_with = "cursor")]
    #[schemars(with = "ShortText")]
    pub cursor: Option<String>,
    /// A part of the headline, or of a label's value of the incident's first 20 alerts; or a whole id; in any case.
    #[schemars(with = "ShortText")]
    pub q: Option<ShortText>,
    /// Only open or only resolved incidents.
    #[schemars(with = "IncidentState")]
    pub state: Option<IncidentState>,
    /// A value of the label `severity` of an alert: `critical`; in any case.
    #[schemars(with = "ShortText")]
    pub severity: Option<ShortText>,
    /// Only incidents opened at this time or later: RFC 3339, or a duration before now such as `24h`.
    #[serde(deserialize_with = "since")]
    #[schemars(with = "ShortText")]
    pub since: Option<Timestamp>,
}

impl IncidentQuestion {
    /// Returns the search that answers it, for so many incidents unless it has a number of its own.
    pub(super) fn search(&self, unless: u32) -> IncidentSearch {
        let Self { limit, cursor, q, state, severity, since } = self;
        let text = |text: &Option<ShortText>| given(text.as_ref()).unwrap_or_default().to_owned();
        let query = IncidentQuery { state: *state, since: *since, before: cursor.clone().unwrap_or_default() };
        let filter = IncidentFilter { q: text(q), ..IncidentFilter::default() };
        IncidentSearch { query, filter, severity: text(severity), most: limit.map_or(unless, |Limit(most)| most) }
    }
}

/// A number of incidents, from 1 to [`MOST`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limit(u32);

impl JsonSchema for Limit {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        "Limit".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "type": "integer", "minimum": 1, "maximum": MOST })
    }
}

impl<'de> Deserialize<'de> for Limit {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(LimitVisitor)
    }
}

/// Reads a number from JSON, or from the text of a query parameter.
struct LimitVisitor;

impl Visitor<'_> for LimitVisitor {
    type Value = Limit;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "a number from 1 to {MOST}")
    }

    fn visit_u64<E: Error>(self, number: u64) -> Result<Limit, E> {
        let limit = u32::try_from(number).ok().filter(|limit| (1..=MOST).contains(limit));
        limit.map(Limit).ok_or_else(|| E::custom(format!("expected a number from 1 to {MOST}")))
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<Limit, E> {
        self.visit_u64(text.parse().unwrap_or_default())
    }
}

/// Returns the opaque cursor after an incident.
pub(super) fn cursor_after(id: &str) -> String {
    URL_SAFE_NO_PAD.encode(format!("{CURSOR}{id}"))
}

/// Reads a cursor as the id of the incident before it.
fn cursor<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<String>, D::Error> {
    let read = |text: ShortText| {
        let decoded = URL_SAFE_NO_PAD.decode(&*text).ok().and_then(|bytes| String::from_utf8(bytes).ok());
        let id = decoded.as_deref().and_then(|decoded| decoded.strip_prefix(CURSOR));
        let id = id.filter(|id| Ulid::from_string(id).is_ok()).map(str::to_owned);
        id.ok_or_else(|| D::Error::custom("expected a cursor as an answer had it"))
    };
    Option::<ShortText>::deserialize(deserializer)?.map(read).transpose()
}

/// Reads a time, or a duration before now.
fn since<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Timestamp>, D::Error> {
    let read = |text: ShortText| {
        let ago = || humantime::parse_duration(&text).ok().map(|ago| clock::before(clock::now(), ago));
        text.parse().ok().or_else(ago).ok_or_else(|| {
            D::Error::custom(
                "expected a time as 2026-11-20T14:05:00Z (in an address `+` is %2B), or a duration such as 24h",
            )
        })
    };
    Option::<ShortText>::deserialize(deserializer)?.map(read).transpose()
}

/// A search for incidents, newest first.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct IncidentSearch {
    /// The conditions that the store has an index for, and where the page begins.
    pub query: IncidentQuery,
    /// The conditions on their content.
    pub filter: IncidentFilter,
    /// A value of the label `severity` of an alert, in any case; empty for all.
    pub severity: String,
    /// Maximum number of incidents on the page.
    pub most: u32,
}

impl IncidentSearch {
    /// Returns true if it needs the content of incidents.
    pub(super) fn needs_content(&self) -> bool {
        self.filter.needs_content() || !self.severity.is_empty()
    }
}
