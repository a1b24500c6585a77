//! Which gateways stand before a pool: those whose series name its model or its engines, and none else.
//!
//! A gateway counts as evidence only when its series name this pool's model or engines. Errors of any other gateway say
//! nothing about this pool.

use std::collections::BTreeSet;

use super::gather::POD_LABELS;
use super::scope::{Scope, fits};
use crate::alert::Labels;
use crate::signal::{Backends, Engine, Matcher};

/// The label that Prometheus' discovery of Services and Endpoints is usually kept as.
pub(super) const SERVICE: &str = "service";

/// By what the engines of a pool are called.
#[derive(Debug, Default)]
pub(super) struct PoolNames {
    models: BTreeSet<String>,
    namespaces: BTreeSet<String>,
    /// `host:port`, as Prometheus scrapes them.
    instances: BTreeSet<String>,
    pods: BTreeSet<(String, Option<String>)>,
    services: BTreeSet<(String, Option<String>)>,
    /// Namespaces in which other engines serve, with the models that they serve there; none where they name no model.
    elsewhere: BTreeSet<(String, Option<String>)>,
    /// Hosts of engines that are not the pool's.
    foreign_hosts: BTreeSet<String>,
    /// The scope's job is one of serving engines.
    narrowed_by_job: bool,
}

impl PoolNames {
    /// What the alert names.
    pub(super) fn of_scope(scope: &Scope) -> Self {
        let of = |dimension: &str| scope.dimensions.get(dimension).cloned().into_iter().collect();
        Self { models: of("model"), namespaces: of("namespace"), ..Self::default() }
    }

    /// Reads a serving engine's row: it belongs to the pool and its names are kept, or it is noted as another pool's.
    pub(super) fn learn(&mut self, engine: &Engine, scope: &Scope, matchers: &[Matcher], row: &Labels) {
        // Namespaces and addresses of another cluster are other ones, even where they are called the same.
        if !in_cluster(engine, scope, row) {
            return;
        }
        let model = engine.told("model", row);
        let namespace = engine.told("namespace", row);
        let instance = row.get("instance").filter(|value| !value.is_empty());
        if !fits(matchers, row) {
            self.elsewhere.extend(namespace.map(|namespace| (namespace.clone(), model.cloned())));
            self.foreign_hosts.extend(instance.map(|instance| host(instance).to_owned()));
            return;
        }
        self.models.extend(model.cloned());
        self.namespaces.extend(namespace.cloned());
        self.instances.extend(instance.cloned());
        let pod = POD_LABELS.iter().find_map(|label| row.get(*label).filter(|value| !value.is_empty()));
        self.pods.extend(pod.map(|pod| (pod.clone(), namespace.cloned())));
        self.services.extend(row.get(SERVICE).map(|service| (service.clone(), namespace.cloned())));
        self.narrowed_by_job |= scope.dimensions.get("job").is_some_and(|job| Some(job) == engine.told("job", row));
    }

    fn has_model(&self, model: &str) -> bool {
        self.models.iter().any(|own| same_model(own, model))
    }

    /// Whether a URL, an address or a pod's name is one of the pool's engines, as a gateway of a namespace writes it.
    fn has_address(&self, address: &str, beside: Option<&String>) -> bool {
        let address = address.split_once("://").map_or(address, |(_, rest)| rest);
        let address = address.split(['/', '?']).next().unwrap_or_default();
        if address.is_empty() {
            return false;
        }
        let name = host(address);
        // A pod has an address of its own, whichever port is scraped; engines of one machine differ in the port alone.
        let shared = self.foreign_hosts.contains(name) || name == "localhost" || name.starts_with("127.");
        let same_host = || !shared && self.instances.iter().any(|own| host(own) == name);
        let mut parts = name.split('.');
        let first = parts.next().unwrap_or_default();
        let rest: Vec<&str> = parts.collect();
        // `service.namespace.svc`, `pod.service.namespace.svc`; without a namespace, the gateway's own.
        let within = |at: usize, namespace: &Option<String>| match (rest.get(at), namespace) {
            (Some(part), Some(own)) => part == own,
            (None, Some(own)) => beside.is_none_or(|gateway| gateway == own),
            (_, None) => true,
        };
        self.instances.contains(address)
            || same_host()
            || self.pods.iter().any(|(pod, namespace)| pod == first && within(1, namespace))
            || self.services.iter().any(|(service, namespace)| service == first && within(0, namespace))
    }

    /// Whether the engines of a namespace are all the pool's.
    fn is_alone_in(&self, namespace: &str) -> bool {
        self.namespaces.contains(namespace) && !self.elsewhere.iter().any(|(other, _)| other == namespace)
    }

    /// Whether a gateway of this namespace that names a model means another pool of that model.
    fn is_anothers(&self, namespace: &str) -> bool {
        let serves = |(other, model): &(String, Option<String>)| {
            other == namespace && model.as_ref().is_some_and(|model| self.has_model(model))
        };
        !self.namespaces.contains(namespace) && self.elsewhere.iter().any(serves)
    }
}

/// The matchers of a gateway's series that are about the pool; none where it does not name the pool.
///
/// `own` are the rows of the series that show the gateway, `behind` those of the series that name what is behind it.
pub(super) fn before(
    engine: &Engine,
    scope: &Scope,
    pool: &PoolNames,
    own: &[&Labels],
    behind: &[(&Backends, &Labels)],
) -> Option<Vec<Matcher>> {
    let here = |row: &Labels| in_cluster(engine, scope, row);
    let own: Vec<&Labels> = own.iter().copied().filter(|row| here(row)).collect();
    let behind: Vec<(&Backends, &Labels)> = behind.iter().copied().filter(|(_, row)| here(row)).collect();
    if own.is_empty() {
        return None;
    }
    let named = || {
        let mut matchers =
            by_name(engine, pool, &own, &behind).or_else(|| by_namespace(engine, pool, &own, &behind))?;
        if let Some(cluster) = scope.dimensions.get("cluster") {
            matchers.extend(of_dimension(engine, &own, "cluster", cluster));
        }
        Some(matchers)
    };
    by_place(engine, scope, pool, &own).or_else(named).map(|named| engine.own_series().chain(named).collect())
}

/// Whether a row is of the scope's cluster, or names none.
fn in_cluster(engine: &Engine, scope: &Scope, row: &Labels) -> bool {
    let asked = scope.dimensions.get("cluster");
    engine.told("cluster", row).is_none_or(|cluster| asked.is_none_or(|asked| asked == cluster))
}

/// The matcher of a dimension, by the label that a row has with this value. What is shared by all carries no value.
fn of_dimension(engine: &Engine, own: &[&Labels], dimension: &str, value: &str) -> Option<Matcher> {
    let label = engine
        .scope
        .get(dimension)?
        .iter()
        .find(|label| own.iter().any(|row| row.get(*label).is_some_and(|told| told == value)))?;
    Some(Matcher { or_absent: true, ..Matcher::one(label, value) })
}

/// Of a scope without a model, everything that stands where it says.
fn by_place(engine: &Engine, scope: &Scope, pool: &PoolNames, own: &[&Labels]) -> Option<Vec<Matcher>> {
    if scope.dimensions.contains_key("model") {
        return None;
    }
    let mut matchers = Vec::new();
    for (dimension, value) in &scope.dimensions {
        match of_dimension(engine, own, dimension, value) {
            Some(matcher) => matchers.push(matcher),
            None if dimension == "namespace" => return None,
            None if dimension == "job" && pool.narrowed_by_job => return None,
            None => {}
        }
    }
    Some(matchers)
}

/// What names the pool's models or engines.
fn by_name(
    engine: &Engine,
    pool: &PoolNames,
    own: &[&Labels],
    behind: &[(&Backends, &Labels)],
) -> Option<Vec<Matcher>> {
    let models = engine.scope.get("model").map(Vec::as_slice).unwrap_or_default();
    let says = |labels: &[String], row: &Labels, is: &dyn Fn(&str) -> bool| {
        labels.iter().any(|label| row.get(label).is_some_and(|value| is(value)))
    };
    let named = |row: &Labels| says(models, row, &|model| pool.has_model(model));
    let serves = |of: &Backends, row: &Labels| {
        let beside = engine.told("namespace", row);
        says(&of.model, row, &|model| pool.has_model(model))
            || says(&of.address, row, &|address| pool.has_address(address, beside))
    };
    let ours = |row: &Labels| !engine.told("namespace", row).is_some_and(|namespace| pool.is_anothers(namespace));
    let every = || own.iter().copied().chain(behind.iter().map(|(_, row)| *row));
    let naming: Vec<&Labels> = own.iter().copied().filter(|row| named(row)).collect();
    let serving = behind.iter().filter(|(of, row)| named(row) || serves(of, row)).map(|(_, row)| *row);
    let naming: Vec<&Labels> = naming.into_iter().chain(serving).filter(|row| ours(row)).collect();
    if naming.is_empty() {
        return None;
    }
    let mut matchers = Vec::new();
    let values = |label: &String, rows: &[&Labels]| -> BTreeSet<String> {
        let names = |value: &&String| !(value.is_empty() || models.contains(label) && engine.no_model.contains(value));
        rows.iter().filter_map(|row| row.get(label).filter(names)).cloned().collect()
    };
    if let Some(label) = models.iter().find(|label| own.iter().any(|row| row.contains_key(*label))) {
        let asked = values(label, &naming);
        // Series without the label tell of all models: they are the pool's where it has the gateway for itself.
        let or_absent = values(label, own).is_subset(&asked);
        if !asked.is_empty() {
            matchers.push(Matcher { label: label.clone(), values: asked.into_iter().collect(), or_absent });
        }
    }
    // Of several gateways of one kind, those that stand where the pool is named.
    let places = engine.scope.iter().filter(|(dimension, _)| *dimension != "model").flat_map(|(_, labels)| labels);
    for label in places.chain(&engine.replica) {
        let here = values(label, &naming);
        let all = naming.iter().all(|row| row.get(label).is_some_and(|value| !value.is_empty()));
        if all && every().any(|row| row.get(label).is_some_and(|value| !value.is_empty() && !here.contains(value))) {
            matchers.push(Matcher { label: label.clone(), values: here.into_iter().collect(), or_absent: false });
        }
    }
    Some(matchers)
}

/// A gateway that names nothing, in a namespace where all that serves is the pool's.
fn by_namespace(
    engine: &Engine,
    pool: &PoolNames,
    own: &[&Labels],
    behind: &[(&Backends, &Labels)],
) -> Option<Vec<Matcher>> {
    let models = engine.scope.get("model").map(Vec::as_slice).unwrap_or_default();
    let names_models = own.iter().any(|row| models.iter().any(|label| row.contains_key(label)));
    if names_models && !pool.models.is_empty() || !behind.is_empty() {
        return None;
    }
    let labels = engine.scope.get("namespace").map(Vec::as_slice).unwrap_or_default();
    let standing = |label: &String| -> BTreeSet<String> {
        own.iter().filter_map(|row| row.get(label)).filter(|value| pool.is_alone_in(value)).cloned().collect()
    };
    let (label, values) = labels.iter().map(|label| (label, standing(label))).find(|(_, values)| !values.is_empty())?;
    Some(vec![Matcher { label: label.clone(), values: values.into_iter().collect(), or_absent: false }])
}

/// The engines that a gateway names, for an alert that is about the gateway: matchers of a serving engine's series.
pub(super) fn behind(engine: &Engine, gateways: &[(&Engine, Vec<&Labels>)], rows: &[&Labels]) -> Option<Vec<Matcher>> {
    let models: Vec<&String> = gateways
        .iter()
        .flat_map(|(gateway, rows)| {
            let labels = gateway.scope.get("model").into_iter().flatten();
            let labels = labels.chain(gateway.backends.iter().flat_map(|backends| &backends.model));
            labels.flat_map(|label| rows.iter().filter_map(move |row| row.get(label)))
        })
        .collect();
    let labels = engine.scope.get("model")?;
    labels.iter().find_map(|label| {
        let own: BTreeSet<&String> = rows.iter().filter_map(|row| row.get(label)).collect();
        let served = own.into_iter().filter(|own| models.iter().any(|model| same_model(own, model)));
        let served: Vec<String> = served.cloned().collect();
        (!served.is_empty()).then(|| {
            let named = Matcher { label: label.clone(), values: served, or_absent: false };
            engine.own_series().chain([named]).collect()
        })
    })
}

/// Whether two names mean one model: providers and owners are written before it, `openai/`, `meta-llama/`.
fn same_model(one: &str, other: &str) -> bool {
    let ends = |long: &str, short: &str| long.strip_suffix(short).is_some_and(|rest| rest.ends_with('/'));
    one == other || (!one.is_empty() && !other.is_empty() && (ends(one, other) || ends(other, one)))
}

/// The host of `host:port`; an IPv6 address stands in brackets.
fn host(address: &str) -> &str {
    match address.rsplit_once(':') {
        Some((host, port)) if port.bytes().all(|b| b.is_ascii_digit()) => host,
        _ => address,
    }
}

#[cfg(test)]
mod tests {
    use std::sync::LazyLock;

    use super::*;
    use crate::diagnose::scope::read_detection;
    use crate::diagnose::{Found, gateway_pools, pools};
    use crate::playbook::{Library, load};
    use crate::signal::matchers;

    static LIBRARY: LazyLock<Library> = LazyLock::new(|| load(None).unwrap());

    fn row(labels: &[(&str, &str)]) -> Labels {
        labels.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
    }

    fn vllm(namespace: &str, model: &str) -> Labels {
        row(&[("__name__", "vllm:num_requests_running"), ("namespace", namespace), ("model_name", model)])
    }

    fn dynamo(namespace: &str, model: &str) -> Labels {
        row(&[("__name__", "dynamo_frontend_inflight_requests"), ("namespace", namespace), ("model", model)])
    }

    fn scope(dimensions: &[(&str, &str)]) -> Scope {
        Scope { dimensions: row(dimensions), ..Scope::default() }
    }

    fn found(dimensions: &[(&str, &str)], rows: &[Labels]) -> Found {
        read_detection(&LIBRARY, &scope(dimensions), rows)
    }

    /// The matchers of an engine that counts.
    fn counts(found: &Found, engine: &str) -> Option<String> {
        found.engines.iter().find(|seen| seen.engine == engine).map(|seen| matchers(&seen.matchers))
    }

    #[test]
    fn a_gateway_of_one_model_is_no_evidence_for_a_pool_of_another() {
        let rows = [vllm("llm", "a"), vllm("llm", "b"), dynamo("gateways", "a")];
        let own = found(&[("namespace", "llm"), ("model", "a")], &rows);
        assert_eq!(counts(&own, "dynamo").as_deref(), Some("model=~\"a|\""));
        let other = found(&[("namespace", "llm"), ("model", "b")], &rows);
        assert_eq!((counts(&other, "dynamo"), counts(&other, "vllm").is_some()), (None, true));
        assert!(other.apart["dynamo"].contains("model=`b`") && other.notes.contains(&other.apart["dynamo"]));
    }

    #[test]
    fn what_nobody_has_is_nobodys_engines_nobodys_gateway_and_nobodys_gpu() {
        let gpu = row(&[("__name__", "DCGM_FI_DEV_FB_USED"), ("exported_namespace", "llm")]);
        let nameless = row(&[("__name__", "dynamo_component_inflight_requests")]);
        let rows = [vllm("llm", "a"), dynamo("llm", "a"), nameless, gpu];
        let nowhere = found(&[("namespace", "nope"), ("model", "nope")], &rows);
        let telling = nowhere.engines.iter().filter(|seen| {
            rows.iter().any(|row| {
                row.values().any(|v| v.starts_with(LIBRARY.engines[&seen.engine].detect.as_str()))
                    && fits(&seen.matchers, row)
            })
        });
        assert_eq!(telling.map(|seen| seen.engine.as_str()).collect::<Vec<_>>(), Vec::<&str>::new());
        // The GPUs of a neighbour are none of a pool that is there.
        let rows = [vllm("llm", "a"), row(&[("__name__", "DCGM_FI_DEV_FB_USED"), ("exported_namespace", "train")])];
        let gpus = found(&[("namespace", "llm")], &rows);
        assert_eq!(counts(&gpus, "dcgm").as_deref(), Some("exported_namespace=~\"llm|\""));
    }

    #[test]
    fn a_model_group_of_another_name_is_the_pools_by_its_model_or_by_its_address() {
        let of = "litellm_deployment_total_requests_total";
        let total =
            |model: &str| row(&[("__name__", "litellm_proxy_total_requests_metric_total"), ("requested_model", model)]);
        let behind = |group: &str, model: &str, at: &str| {
            row(&[("__name__", of), ("requested_model", group), ("litellm_model_name", model), ("api_base", at)])
        };
        let mut engine = vllm("llm", "meta-llama/Llama");
        engine.insert("instance".into(), "10.0.0.7:8000".into());
        engine.insert(SERVICE.into(), "chat".into());
        let pool = [("namespace", "llm"), ("model", "meta-llama/Llama")];
        for (model, at, named) in [
            ("hosted_vllm/meta-llama/Llama", "", true),
            ("x", "http://10.0.0.7:8000/v1", true),
            ("x", "http://chat.llm.svc.cluster.local/v1", true),
            ("x", "http://chat.other.svc.cluster.local/v1", false),
            ("other/Llama", "http://10.0.0.8:8000/v1", false),
        ] {
            let rows = [engine.clone(), total("gpt"), total("chat-alias"), behind("chat-alias", model, at)];
            let seen = counts(&found(&pool, &rows), "litellm");
            // Series without a model tell of the other group too.
            assert_eq!(seen.as_deref(), named.then_some("requested_model=\"chat-alias\""), "{model} {at}");
        }
    }

    #[test]
    fn a_short_name_is_one_of_the_gateways_own_namespace() {
        let of = "litellm_deployment_total_requests_total";
        let mut engine = vllm("team-a", "a");
        engine.insert(SERVICE.into(), "vllm".into());
        engine.insert("pod".into(), "vllm-0".into());
        for (namespace, at, named) in [
            ("team-a", "http://vllm:8000/v1", true),
            ("team-b", "http://vllm:8000/v1", false),
            ("team-b", "http://vllm.team-a:8000/v1", true),
            ("team-a", "http://vllm-0.vllm:8000/v1", true),
            ("team-b", "http://vllm-0.vllm:8000/v1", false),
            ("team-b", "http://vllm-0.vllm.team-a.svc:8000/v1", true),
        ] {
            let total = row(&[
                ("__name__", "litellm_proxy_total_requests_metric_total"),
                ("namespace", namespace),
                ("requested_model", "x"),
            ]);
            let behind = row(&[("__name__", of), ("namespace", namespace), ("requested_model", "x"), ("api_base", at)]);
            let rows = [engine.clone(), total, behind];
            let seen = counts(&found(&[("namespace", "team-a"), ("model", "a")], &rows), "litellm");
            assert_eq!(seen.is_some(), named, "{namespace} {at}");
        }
    }

    #[test]
    fn of_two_clusters_in_one_prometheus_a_gateway_is_of_its_own_cluster_only() {
        let of = |cluster: &str, mut row: Labels| {
            row.insert("cluster".into(), cluster.into());
            row
        };
        let ray = || row(&[("__name__", "ray_serve_num_ongoing_http_requests"), ("namespace", "llm")]);
        let rows = [
            of("A", vllm("llm", "a")),
            of("B", vllm("llm", "a")),
            of("B", vllm("llm", "b")),
            of("A", dynamo("llm", "a")),
            of("B", dynamo("llm", "a")),
            of("A", ray()),
            of("B", ray()),
        ];
        let seen = found(&[("cluster", "A"), ("namespace", "llm"), ("model", "a")], &rows);
        assert_eq!(counts(&seen, "dynamo").as_deref(), Some("model=~\"a|\",cluster=~\"A|\""));
        // What another cluster serves in a namespace of the same name is not beside this pool.
        assert_eq!(counts(&seen, "ray-serve-llm").as_deref(), Some("namespace=\"llm\",cluster=~\"A|\""));
        let other = found(&[("cluster", "B"), ("namespace", "llm"), ("model", "a")], &rows);
        assert_eq!(counts(&other, "ray-serve-llm"), None);
        let nowhere = found(&[("cluster", "A"), ("model", "a")], &[rows[0].clone(), of("B", dynamo("llm", "a"))]);
        assert_eq!(counts(&nowhere, "dynamo"), None);
    }

    #[test]
    fn of_two_pools_of_one_model_the_gateway_beside_one_is_not_the_others() {
        let rows = [vllm("prod", "a"), vllm("staging", "a"), dynamo("staging", "a")];
        let of = |namespace: &str| counts(&found(&[("namespace", namespace), ("model", "a")], &rows), "dynamo");
        assert_eq!((of("prod"), of("staging").is_some()), (None, true));
    }

    #[test]
    fn a_gateway_that_names_nothing_counts_where_all_that_serves_beside_it_is_the_pool() {
        let ray = row(&[("__name__", "ray_serve_num_ongoing_http_requests"), ("namespace", "llm")]);
        let alone = found(&[("namespace", "llm"), ("model", "a")], &[vllm("llm", "a"), ray.clone()]);
        assert_eq!(counts(&alone, "ray-serve-llm").as_deref(), Some("namespace=\"llm\""));
        let two = found(&[("namespace", "llm"), ("model", "a")], &[vllm("llm", "a"), vllm("llm", "b"), ray]);
        assert_eq!(counts(&two, "ray-serve-llm"), None);
    }

    #[test]
    fn an_alert_of_a_gateway_is_about_the_engines_that_it_names() {
        let with_job = |mut row: Labels, job: &str| {
            row.insert("job".into(), job.into());
            row
        };
        let rows = [
            with_job(vllm("llm", "a"), "vllm"),
            with_job(vllm("llm", "b"), "vllm"),
            with_job(dynamo("gateways", "a"), "frontend"),
        ];
        let seen = found(&[("job", "frontend")], &rows);
        assert_eq!(counts(&seen, "vllm").as_deref(), Some("server=\"\",model_name=\"a\""));
        let by_rule = found(&[("namespace", "gateways"), ("model", "a")], &rows);
        assert_eq!(counts(&by_rule, "vllm").as_deref(), Some("server=\"\",model_name=\"a\""));
        let of_engines = found(&[("job", "vllm")], &rows[..2]);
        assert!(counts(&of_engines, "vllm").unwrap().contains("job=\"vllm\""));
    }

    #[test]
    fn a_gateway_of_no_pool_is_shown_by_itself() {
        let rows = [vllm("llm", "a"), dynamo("gateways", "a"), dynamo("gateways", "hosted")];
        let pools = BTreeSet::from([row(&[("namespace", "llm"), ("model", "a")])]);
        let alone = row(&[("namespace", "gateways"), ("model", "hosted")]);
        assert_eq!(gateway_pools(&LIBRARY, &rows, &pools), BTreeSet::from([alone.clone()]));
        let seen = read_detection(&LIBRARY, &Scope { dimensions: alone, ..Scope::default() }, &rows);
        assert_eq!(seen.engines.iter().map(|seen| seen.engine.as_str()).collect::<Vec<_>>(), ["dynamo"]);
    }

    #[test]
    fn a_value_that_names_no_model_is_no_pool_and_no_other_model() {
        let total = |model: &str| {
            row(&[
                ("__name__", "litellm_proxy_total_requests_metric_total"),
                ("namespace", "gateways"),
                ("requested_model", model),
            ])
        };
        let rows = [total("None"), total("other"), total("a")];
        let alone = BTreeSet::from([row(&[("namespace", "gateways"), ("model", "a")])]);
        assert_eq!(gateway_pools(&LIBRARY, &rows, &BTreeSet::new()), alone);
        assert_eq!(pools(&LIBRARY, &rows), alone);
        // One that had only refused requests is still there.
        assert_eq!(pools(&LIBRARY, &rows[..2]), BTreeSet::from([row(&[("namespace", "gateways")])]));
        let rows = [vllm("llm", "a"), total("None"), total("a")];
        let own = BTreeSet::from([row(&[("namespace", "llm"), ("model", "a")])]);
        assert_eq!(gateway_pools(&LIBRARY, &rows, &own), BTreeSet::new());
        let seen = found(&[("namespace", "llm"), ("model", "a")], &rows);
        assert_eq!(counts(&seen, "litellm").as_deref(), Some("requested_model=~\"a|\""));
    }
}
