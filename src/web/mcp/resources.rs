//! Resources: whole documents that a client may read and keep.

use rmcp::model::{ErrorData, ReadResourceResult, Resource, ResourceContents, ResourceTemplate};
use serde_json::json;

use super::McpSources;
use service::questions::{IncidentDetail, QuestionError};

const INCIDENTS: &str = "llm-diagnose://incidents/";
const PLAYBOOKS: &str = "llm-diagnose://playbooks/";
const JSON: &str = "application/json";
/// Maximum number of bytes of a resource's address.
const URI_BYTES: usize = 200;

/// Returns the kinds of resources.
pub(super) fn templates(has_store: bool) -> Vec<ResourceTemplate> {
    let playbook = ResourceTemplate::new(format!("{PLAYBOOKS}{{id}}"), "playbook")
        .with_description("A playbook or cause: its checks and steps, and its causes by id, each a resource of its own")
        .with_mime_type("text/plain");
    let incident = ResourceTemplate::new(format!("{INCIDENTS}{{id}}"), "incident")
        .with_description("An incident with its alerts and its diagnosis")
        .with_mime_type(JSON);
    has_store.then_some(incident).into_iter().chain([playbook]).collect()
}

/// Returns the link to an incident.
pub(super) fn of_incident(id: &str) -> Resource {
    Resource::new(format!("{INCIDENTS}{id}"), format!("incident {id}")).with_mime_type(JSON)
}

/// Returns the link to a playbook.
pub(super) fn of_playbook(id: &str) -> Resource {
    Resource::new(format!("{PLAYBOOKS}{id}"), format!("playbook {id}")).with_mime_type("text/plain")
}

/// Reads a resource.
pub(super) async fn read(sources: &McpSources, uri: &str) -> Result<ReadResourceResult, ErrorData> {
    let unknown = || ErrorData::resource_not_found(format!("there is no resource `{uri}`"), None);
    // An unknown id is compared with all known ones.
    if uri.len() > URI_BYTES {
        return Err(ErrorData::resource_not_found("there is no resource with such a long address", None));
    }
    if let Some(id) = uri.strip_prefix(PLAYBOOKS) {
        let text = authoring::explain::explain(&sources.library, id, None).map_err(|_| unknown())?;
        let text = anstream::adapter::strip_str(&text).to_string();
        return Ok(ReadResourceResult::new(vec![ResourceContents::text(text, uri)]));
    }
    let (Some(id), Some(store)) = (uri.strip_prefix(INCIDENTS), &sources.store) else { return Err(unknown()) };
    let failed = |error| ErrorData::internal_error(QuestionError::from(error).to_string(), None);
    let incident = store.incident(id).await.map_err(failed)?.ok_or_else(unknown)?;
    let unclean = |error: QuestionError| ErrorData::internal_error(error.to_string(), None);
    let (summary, incident) = sources.fleet().cleaned_incident(&incident).await.map_err(unclean)?;
    let text = json!(IncidentDetail::of(summary, incident)).to_string();
    Ok(ReadResourceResult::new(vec![ResourceContents::text(text, uri).with_mime_type(JSON)]))
}
