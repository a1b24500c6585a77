//! Query parameters of the API: unknown, repeated and wrong ones are errors.

use std::error::Error;

use axum::extract::Query;
use axum::http::Uri;
use jiff::Timestamp;
use schemars::JsonSchema;
use serde::de::{DeserializeOwned, Error as _};
use serde::{Deserialize, Deserializer};

use super::problem::ApiProblem;
use crate::inquiry::{read_cursor, read_since};
use knowledge::clock;
use knowledge::incident::IncidentState;

/// Maximum number of incidents of an answer, and their number unless `limit` is given.
pub(super) const MOST: u32 = 100;
/// Maximum number of characters of a searched text.
const TEXT_CHARS: usize = 200;

/// The parameters of the list of incidents.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub(super) struct IncidentParameters {
    /// Maximum number of incidents in the answer.
    #[serde(deserialize_with = "limit")]
    #[schemars(with = "u32", range(min = 1, max = 100), extend("default" = 100))]
    pub(super) limit: Option<u32>,
    /// The `cursor` of the `next` link of an answer, for the incidents after it; with the same filters.
    #[serde(deserialize_with = "cursor")]
    #[schemars(with = "String")]
    pub(super) cursor: Option<String>,
    /// A part of the headline or of a label's value of an alert, or a whole id; in any case.
    #[serde(deserialize_with = "text")]
    #[schemars(with = "String", length(max = 200))]
    pub(super) q: Option<String>,
    /// Only open or only resolved incidents.
    #[schemars(with = "IncidentState")]
    pub(super) state: Option<IncidentState>,
    /// A value of the label `severity` of an alert: `critical`; in any case.
    #[serde(deserialize_with = "text")]
    #[schemars(with = "String", length(max = 200))]
    pub(super) severity: Option<String>,
    /// Only incidents opened at this time or later: RFC 3339, or a duration before now such as `24h`.
    #[serde(deserialize_with = "since")]
    #[schemars(with = "String")]
    pub(super) since: Option<Timestamp>,
}

/// Reads the parameters of a request.
///
/// # Errors
/// When one is unknown, repeated or wrong; with the expected ones.
pub(super) fn read<T: DeserializeOwned>(uri: &Uri) -> Result<T, ApiProblem> {
    Query::<T>::try_from_uri(uri).map(|Query(parameters)| parameters).map_err(|rejection| {
        let why = rejection.source().map_or_else(|| rejection.body_text(), ToString::to_string);
        ApiProblem::wrong(why.replacen("unknown field", "unknown parameter", 1).replacen(
            "duplicate field",
            "repeated parameter",
            1,
        ))
    })
}

fn cursor<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<String>, D::Error> {
    read_cursor(&String::deserialize(deserializer)?).map(Some).map_err(D::Error::custom)
}

fn limit<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<u32>, D::Error> {
    let text = String::deserialize(deserializer)?;
    match text.parse() {
        Ok(limit) if (1..=MOST).contains(&limit) => Ok(Some(limit)),
        _ => Err(D::Error::custom(format!("expected a number from 1 to {MOST}"))),
    }
}

fn text<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<String>, D::Error> {
    let text = String::deserialize(deserializer)?;
    match text.trim() {
        "" => Ok(None),
        long if long.chars().count() > TEXT_CHARS => {
            Err(D::Error::custom(format!("expected at most {TEXT_CHARS} characters")))
        }
        text => Ok(Some(text.to_owned())),
    }
}

fn since<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Timestamp>, D::Error> {
    read_since(&String::deserialize(deserializer)?, clock::now()).map(Some).map_err(D::Error::custom)
}
