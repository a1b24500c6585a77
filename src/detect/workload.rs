//! The pool of a workload: a namespace may serve several models, and an alert of Kubernetes names none of them.

use std::time::Instant;

use crate::fleet::{FleetPool, fleet, places};
use findings::Request;
use findings::scope::{Scope, workload_of};
use knowledge::alert::Labels;
use knowledge::playbook::Library;
use prom::Prometheus;

/// Returns a request whose scope names the model that the alerts' workload serves, or served within the hour, if its
/// namespace serves several: the pods of another model are no peers. Also returns the number of queries. If the pools are
/// not known before the deadline, the namespace is judged as a whole.
pub async fn with_pool_of_workload(
    library: &Library,
    prometheus: &Prometheus,
    request: Request,
    deadline: Instant,
) -> (Request, usize) {
    let scope = &request.scope;
    if scope.workloads.is_empty()
        || !scope.dimensions.contains_key("namespace")
        || scope.dimensions.contains_key("model")
    {
        return (request, 0);
    }
    let rows = match prometheus.query(&fleet(library), request.at, deadline).await {
        Ok(rows) if rows.incomplete().is_none() => rows,
        _ => return (request, 1),
    };
    let rows: Vec<Labels> = rows.iter().map(|row| row.labels.clone()).collect();
    let model = model_of(&places(library, &rows), scope);
    let mut request = request;
    request.scope.dimensions.extend(model.map(|model| ("model".to_owned(), model)));
    (request, 1)
}

/// Returns the model of the pool of the namespace that all the workloads serve; `None` if there is no other pool, or one
/// of them serves none: it may be what fails.
fn model_of(places: &[FleetPool], scope: &Scope) -> Option<String> {
    let is_here = |place: &&FleetPool| {
        ["cluster", "namespace"].iter().all(|dimension| {
            let both = place.dimensions.get(*dimension).zip(scope.dimensions.get(*dimension));
            both.is_none_or(|(own, asked)| own == asked)
        })
    };
    let here: Vec<&FleetPool> = places.iter().filter(is_here).collect();
    let serves = |place: &FleetPool, workload: &String| place.pods.iter().any(|pod| workload_of(pod) == workload);
    let serving = here.iter().filter(|place| scope.workloads.iter().all(|workload| serves(place, workload)));
    let serving: Vec<&&FleetPool> = serving.collect();
    match serving.as_slice() {
        [only] if here.len() > 1 => only.dimensions.get("model").cloned(),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_workload_names_the_model_that_its_pods_serve_where_a_namespace_has_several() {
        let place = |namespace: &str, model: &str, pod: &str| FleetPool {
            dimensions: [("namespace", namespace), ("model", model)].map(|(k, v)| (k.to_owned(), v.to_owned())).into(),
            pods: [pod.to_owned()].into(),
            ..FleetPool::default()
        };
        let chat = place("llm", "llama", "rag-chat-7c9d8f5b6c-x2x4z");
        let both = [chat.clone(), place("llm", "qwen", "coder-0"), place("dev", "phi", "rag-chat-0")];
        let of = |labels: &[(&str, &str)]| {
            let labels = labels.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
            (
                model_of(&both, &Scope::of_labels(&labels)),
                model_of(std::slice::from_ref(&chat), &Scope::of_labels(&labels)),
            )
        };
        let llama = Some("llama".to_owned());
        assert_eq!(of(&[("namespace", "llm"), ("deployment", "rag-chat")]), (llama.clone(), None));
        assert_eq!(of(&[("namespace", "llm"), ("pod", "rag-chat-7c9d8f5b6c-abcde")]), (llama, None));
        assert_eq!(of(&[("namespace", "llm"), ("deployment", "another")]), (None, None));
        let mut both_fail = Scope::of_labels(&[("namespace".to_owned(), "llm".to_owned())].into());
        both_fail.workloads = ["rag-chat", "new-model"].map(str::to_owned).into();
        assert_eq!(model_of(&both, &both_fail), None);
    }
}
