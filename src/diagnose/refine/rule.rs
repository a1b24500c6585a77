//! rule: the playbook of an alert whose labels and annotations select none, by its rule in Prometheus.

use std::time::Instant;

use findings::Request;
use knowledge::playbook::{Library, of_expression};
use prom::Prometheus;

/// Returns the request with the playbook that it names, or else the one whose symptom its alerts' rules read; and the
/// number of queries.
pub(crate) async fn with_playbook(
    library: &Library,
    prometheus: &Prometheus,
    request: &Request,
    deadline: Instant,
) -> (Request, usize) {
    let mut resolved = request.clone();
    if !request.playbook.is_empty() || request.rules.is_empty() {
        return (resolved, 0);
    }
    match prometheus.rules_named(&request.rules, deadline).await {
        Ok(rules) => {
            let selection = rules.iter().find_map(|rule| of_expression(library, &rule.query));
            resolved.playbook = selection.map(|selection| selection.playbook).unwrap_or_default();
        }
        Err(error) => tracing::debug!(%error, "the alert's rule is not known"),
    }
    (resolved, 1)
}
