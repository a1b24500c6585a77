//! The operations of the API: one table for the router, the index and the OpenAPI document.

use axum::routing::{MethodRouter, get, post};
use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::Serialize;

use super::bundles::IncidentBundle;
use super::{ApiIndex, incidents, questions};
use crate::state::Shared;
use findings::health::Health;
use service::questions::{
    DiagnosisAnswer, DiagnosisQuestion, HealthQuestion, IncidentDetail, IncidentQuestion, IncidentSummary,
};

/// The methods of operations.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
pub(super) enum ApiMethod {
    /// Reads.
    #[serde(rename = "GET")]
    Get,
    /// Asks a question with a body.
    #[serde(rename = "POST")]
    Post,
}

/// An operation.
pub(super) struct Operation {
    pub(super) method: ApiMethod,
    /// The path below `/api`, in the notation that router and OpenAPI share.
    pub(super) path: &'static str,
    /// The name of the function in generated clients.
    pub(super) id: &'static str,
    /// A sentence without its full stop.
    pub(super) summary: &'static str,
    /// More about it; may be empty.
    pub(super) description: &'static str,
    pub(super) route: fn() -> MethodRouter<Shared>,
    /// The schema of the object whose fields are the query parameters.
    pub(super) parameters: Option<fn(&mut SchemaGenerator) -> Schema>,
    /// The schema of the body.
    pub(super) body: Option<fn(&mut SchemaGenerator) -> Schema>,
    /// The schema of the answer with status 200; any object without one.
    pub(super) answer: Option<fn(&mut SchemaGenerator) -> Schema>,
    /// The headers of that answer.
    pub(super) headers: &'static [&'static str],
    /// The statuses of its errors beside those that every operation has.
    pub(super) problems: &'static [u16],
}

impl Operation {
    /// Creates an operation that reads, without parameters.
    fn get(path: &'static str, id: &'static str, summary: &'static str, route: fn() -> MethodRouter<Shared>) -> Self {
        Self {
            method: ApiMethod::Get,
            path,
            id,
            summary,
            description: "",
            route,
            parameters: None,
            body: None,
            answer: None,
            headers: &[],
            problems: &[],
        }
    }
}

/// Returns all operations.
pub(super) fn operations() -> Vec<Operation> {
    let bundles = Operation {
        description: "Oldest first, those on the disk of the replica that answers.",
        answer: Some(SchemaGenerator::subschema_for::<Vec<IncidentBundle>>),
        problems: &[400, 503],
        ..Operation::get("/v1/incidents/{id}/bundles", "list_bundles", "The bundles of an incident", || {
            get(super::bundles::list)
        })
    };
    vec![
        Operation {
            answer: Some(SchemaGenerator::subschema_for::<ApiIndex>),
            ..Operation::get("/v1", "get_index", "The addresses of the API", || get(super::index))
        },
        Operation::get("/v1/openapi.json", "get_openapi", "This document", || get(super::openapi_document)),
        Operation {
            description: "Newest first. The header `Link` with `rel=\"next\"` names the next page, relative to the request; \
                          without it there are no more. A search with `q` or `severity` reads a bounded number of incidents for a page, \
                          so a page may hold fewer than `limit` although there is a next one.",
            parameters: Some(IncidentQuestion::json_schema),
            answer: Some(SchemaGenerator::subschema_for::<Vec<IncidentSummary>>),
            headers: &["ETag", "Link"],
            problems: &[400, 503],
            ..Operation::get("/v1/incidents", "list_incidents", "Incidents", || get(incidents::list))
        },
        Operation {
            answer: Some(SchemaGenerator::subschema_for::<IncidentDetail>),
            headers: &["ETag"],
            problems: &[400, 404, 503],
            ..Operation::get(
                "/v1/incidents/{id}",
                "get_incident",
                "An incident with its alerts and its diagnosis",
                || get(incidents::get_incident),
            )
        },
        bundles,
        Operation {
            description: "200 for any state: it is in the body. In `summary` the checks are those at warning or critical.",
            parameters: Some(HealthQuestion::json_schema),
            answer: Some(SchemaGenerator::subschema_for::<Health>),
            problems: &[400, 500, 503, 504],
            ..Operation::get("/v1/health", "get_health", "The health of the fleet, or of a part of it", || {
                get(questions::health)
            })
        },
        Operation {
            method: ApiMethod::Post,
            description: "Reads Prometheus, exporters and logs now; nothing is stored or sent. A few run at one time: above \
                          that the answer is 503.",
            body: Some(SchemaGenerator::subschema_for::<DiagnosisQuestion>),
            answer: Some(SchemaGenerator::subschema_for::<DiagnosisAnswer>),
            problems: &[400, 413, 415, 422, 500, 502, 503, 504],
            ..Operation::get("/v1/diagnose", "diagnose", "A diagnosis of a pool, or by a playbook", || {
                post(questions::diagnose)
            })
        },
    ]
}
