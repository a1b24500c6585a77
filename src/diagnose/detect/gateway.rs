//! Assignment of gateways to pools.
//!
//! A gateway counts as evidence only if its series name this pool's model or engines. Errors of any other gateway say
//! nothing about this pool.

use std::collections::{BTreeMap, BTreeSet};

use crate::detect::visible_pools::pool_of;
use crate::scope::names::{AddressOwner, Place, PoolNames, same_model};
use crate::scope::{Scope, fits};
use knowledge::alert::Labels;
use knowledge::signal::{Backends, Engine, Matcher};

/// Returns the matchers of a gateway's series that are about the pool; `None` if it does not name the pool.
///
/// `own` are the rows of the series that show the gateway, `behind` those of the series that name the engines behind
/// it.
pub(crate) fn before(
    engine: &Engine,
    scope: &Scope,
    pool: &PoolNames,
    own: &[&Labels],
    behind: &[(&Backends, &Labels)],
) -> Option<Vec<Matcher>> {
    let own: Vec<&Labels> = own.iter().copied().filter(|row| pool.in_cluster(engine, row)).collect();
    if own.is_empty() {
        return None;
    }
    let behind = behind.iter().copied().filter(|(_, row)| pool.in_cluster(engine, row)).collect();
    let gateway = Gateway { engine, own, behind };
    let named = || {
        let mut matchers = gateway.by_name(pool).or_else(|| gateway.by_namespace(pool))?;
        if let Some(cluster) = scope.dimensions.get("cluster") {
            matchers.extend(gateway.of_dimension("cluster", cluster));
        }
        Some(matchers)
    };
    gateway.by_place(scope, pool).or_else(named).map(|named| engine.own_series().chain(named).collect())
}

/// A gateway, the rows of the series that show it, and those of the series that name the engines behind it.
pub(crate) type GatewayRows<'a> = (&'a Engine, Vec<&'a Labels>, Vec<(&'a Backends, &'a Labels)>);

/// The rows of one kind of gateway in the scope's cluster.
struct Gateway<'a> {
    engine: &'a Engine,
    /// Rows of the series that show it.
    own: Vec<&'a Labels>,
    /// Rows of the series that name the engines behind it.
    behind: Vec<(&'a Backends, &'a Labels)>,
}

impl Gateway<'_> {
    /// Returns the labels that hold a model's name.
    fn models(&self) -> &[String] {
        self.engine.scope.get("model").map(Vec::as_slice).unwrap_or_default()
    }

    /// Returns the matcher of a dimension, on the label that has this value in a row. Shared series lack the label.
    fn of_dimension(&self, dimension: &str, value: &str) -> Option<Matcher> {
        let has = |label: &&String| self.own.iter().any(|row| row.get(*label).is_some_and(|text| text == value));
        let label = self.engine.scope.get(dimension)?.iter().find(has)?;
        Some(Matcher { or_absent: true, ..Matcher::one(label, value) })
    }

    /// Returns the matchers of a scope without a model: everything at its place.
    fn by_place(&self, scope: &Scope, pool: &PoolNames) -> Option<Vec<Matcher>> {
        if scope.dimensions.contains_key("model") {
            return None;
        }
        let mut matchers = Vec::new();
        for (dimension, value) in &scope.dimensions {
            match self.of_dimension(dimension, value) {
                Some(matcher) => matchers.push(matcher),
                None if dimension == "namespace" => return None,
                None if dimension == "job" && pool.narrowed_by_job => return None,
                None => {}
            }
        }
        Some(matchers)
    }

    /// Returns the matchers of the rows that name the pool's models or engines.
    fn by_name(&self, pool: &PoolNames) -> Option<Vec<Matcher>> {
        let (engine, models, own) = (self.engine, self.models(), &self.own);
        let any_label = |labels: &[String], row: &Labels, is: &dyn Fn(&str) -> bool| {
            labels.iter().any(|label| row.get(label).is_some_and(|value| is(value)))
        };
        let named = |row: &Labels| any_label(models, row, &|model| pool.has_model(model));
        let is_named =
            |of: &Backends, row: &Labels| named(row) || any_label(&of.model, row, &|model| pool.has_model(model));
        let of_pool = |row: &Labels| {
            !engine.dimension_value("namespace", row).is_some_and(|namespace| pool.is_anothers(namespace))
        };
        let every = || own.iter().copied().chain(self.behind.iter().map(|(_, row)| *row));
        let naming = own.iter().copied().filter(|row| named(row) && !self.is_elsewhere(pool, row));
        // An address tells more than a name: one that is not the pool's outweighs an equal model.
        let serves = |(of, row): &&(&Backends, &Labels)| match self.owner(pool, of, row) {
            Some(AddressOwner::Pool) => true,
            Some(AddressOwner::Other) => false,
            Some(AddressOwner::Unknown) | None => is_named(of, row) && !self.is_elsewhere(pool, row),
        };
        let serving = self.behind.iter().filter(serves).map(|(_, row)| *row);
        let naming: Vec<&Labels> = naming.chain(serving).filter(|row| of_pool(row)).collect();
        if naming.is_empty() {
            return None;
        }
        let mut matchers = Vec::new();
        let values = |label: &String, rows: &[&Labels]| -> BTreeSet<String> {
            let names =
                |value: &&String| !(value.is_empty() || models.contains(label) && engine.no_model.contains(value));
            rows.iter().filter_map(|row| row.get(label).filter(names)).cloned().collect()
        };
        if let Some(label) = models.iter().find(|label| own.iter().any(|row| row.contains_key(*label))) {
            let model_names = values(label, &naming);
            // Series without the label are about all models: they count if the gateway serves only this pool.
            let or_absent = values(label, own).is_subset(&model_names);
            if !model_names.is_empty() {
                matchers.push(Matcher { label: label.clone(), values: model_names.into_iter().collect(), or_absent });
            }
        }
        // Of several gateways of one kind, those at the place that names the pool.
        let places = engine.scope.iter().filter(|(dimension, _)| *dimension != "model").flat_map(|(_, labels)| labels);
        for label in places.chain(&engine.replica) {
            let place_values = values(label, &naming);
            let all = naming.iter().all(|row| row.get(label).is_some_and(|value| !value.is_empty()));
            let other =
                |row: &Labels| row.get(label).is_some_and(|value| !value.is_empty() && !place_values.contains(value));
            if all && every().any(other) {
                matchers.push(Matcher {
                    label: label.clone(),
                    values: place_values.into_iter().collect(),
                    or_absent: false,
                });
            }
        }
        Some(matchers)
    }

    /// Returns whose the addresses of a row are; `None` if it has none.
    fn owner(&self, pool: &PoolNames, of: &Backends, row: &Labels) -> Option<AddressOwner> {
        let place = Place::of(self.engine, row);
        let addresses = of.address.iter().filter_map(|label| row.get(label)).filter(|address| !address.is_empty());
        addresses.map(|address| pool.owner_of(address, place)).min()
    }

    /// Returns true if the gateway says where it sends the model of a row, and none of these addresses can be the pool's.
    fn is_elsewhere(&self, pool: &PoolNames, row: &Labels) -> bool {
        let models = |row: &Labels| -> BTreeSet<String> {
            self.models().iter().filter_map(|label| row.get(label)).filter(|model| !model.is_empty()).cloned().collect()
        };
        let own = models(row);
        let namespace = |row: &Labels| self.engine.dimension_value("namespace", row).cloned();
        let same = |(of, other): &&(&Backends, &Labels)| {
            let of_backend = of.model.iter().filter_map(|label| other.get(label));
            let others: BTreeSet<String> = models(other).into_iter().chain(of_backend.cloned()).collect();
            namespace(row) == namespace(other) && own.iter().any(|own| others.iter().any(|one| same_model(own, one)))
        };
        let mut owners =
            self.behind.iter().filter(same).filter_map(|(of, other)| self.owner(pool, of, other)).peekable();
        owners.peek().is_some() && owners.all(|owner| owner == AddressOwner::Other)
    }

    /// Returns the matchers of a gateway that names no pool, in a namespace where all engines are the pool's.
    fn by_namespace(&self, pool: &PoolNames) -> Option<Vec<Matcher>> {
        let names_models = self.own.iter().any(|row| self.models().iter().any(|label| row.contains_key(label)));
        if names_models && !pool.models.is_empty() || !self.behind.is_empty() {
            return None;
        }
        let labels = self.engine.scope.get("namespace").map(Vec::as_slice).unwrap_or_default();
        let owned_namespaces = |label: &String| -> BTreeSet<String> {
            let namespaces = self.own.iter().filter_map(|row| row.get(label));
            namespaces.filter(|value| pool.is_alone_in(value)).cloned().collect()
        };
        let (label, values) =
            labels.iter().map(|label| (label, owned_namespaces(label))).find(|(_, values)| !values.is_empty())?;
        Some(vec![Matcher { label: label.clone(), values: values.into_iter().collect(), or_absent: false }])
    }
}

/// Returns the engines behind gateways, for an alert about a gateway: matchers of a serving engine's series.
///
/// `gateways` are the gateways of the alert with their rows and, of these, the ones that name the engines behind it; `rows`
/// those of the engine. A pool is behind a gateway that has one of its addresses, or names its model and no other place.
pub(crate) fn behind(engine: &Engine, gateways: &[GatewayRows<'_>], rows: &[&Labels]) -> Option<Vec<Matcher>> {
    let own_matchers: Vec<Matcher> = engine.own_series().collect();
    let mut pools: BTreeMap<BTreeMap<String, String>, Vec<&Labels>> = BTreeMap::new();
    for row in rows.iter().copied().filter(|row| fits(&own_matchers, row)) {
        pools.entry(pool_of(engine, row)).or_default().push(row);
    }
    let is_behind = |pool: &BTreeMap<String, String>| {
        let mut names = PoolNames::default();
        for (other, rows) in &pools {
            rows.iter().for_each(|row| names.learn(engine, &Scope::default(), other == pool, row));
        }
        gateways.iter().any(|(gateway, rows, behind)| {
            let in_cluster = |row: &&Labels| names.in_cluster(gateway, row);
            let gateway = Gateway {
                engine: gateway,
                own: rows.iter().copied().filter(in_cluster).collect(),
                behind: behind.iter().copied().filter(|(_, row)| in_cluster(row)).collect(),
            };
            gateway.by_name(&names).is_some()
        })
    };
    let behind: Vec<&BTreeMap<String, String>> = pools.keys().filter(|pool| is_behind(pool)).collect();
    let all = pools_matchers(engine, &behind, rows);
    // Labels of several pools also select what none of them is: then the first stands for all.
    let others = pools.iter().filter(|(pool, _)| !behind.contains(pool)).flat_map(|(_, rows)| rows);
    let is_exact = others.into_iter().all(|row| !fits(&all, row));
    let places = if is_exact { all } else { pools_matchers(engine, behind.get(..1).unwrap_or_default(), rows) };
    (!behind.is_empty()).then(|| own_matchers.iter().cloned().chain(places).collect())
}

/// Returns matchers that select these pools of an engine.
fn pools_matchers(engine: &Engine, behind: &[&BTreeMap<String, String>], rows: &[&Labels]) -> Vec<Matcher> {
    let matcher = |(dimension, labels): (&String, &Vec<String>)| {
        let label =
            labels.iter().find(|label| rows.iter().any(|row| row.get(*label).is_some_and(|v| !v.is_empty())))?;
        let values: BTreeSet<&String> = behind.iter().filter_map(|pool| pool.get(dimension)).collect();
        let values: Vec<String> = values.into_iter().cloned().collect();
        (!values.is_empty()).then(|| Matcher { label: label.clone(), values, or_absent: false })
    };
    engine.scope.iter().filter(|(dimension, _)| *dimension != "job").filter_map(matcher).collect()
}

#[cfg(test)]
mod tests {
    use std::sync::LazyLock;

    use super::*;
    use crate::detect::read_detection::{read_detection, read_detection_of};
    use crate::gateway_pools;
    use crate::scope::fits;
    use crate::scope::names::SERVICE;
    use crate::{DetectionResult, pools};
    use knowledge::playbook::{Library, load};
    use knowledge::signal::matchers;

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

    fn found(dimensions: &[(&str, &str)], rows: &[Labels]) -> DetectionResult {
        read_detection(&LIBRARY, &scope(dimensions), rows)
    }

    /// Returns the matchers of an engine, if it counts.
    fn counts(detection: &DetectionResult, engine: &str) -> Option<String> {
        detection.engines.iter().find(|seen| seen.engine == engine).map(|seen| matchers(&seen.matchers))
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
    fn a_gateway_without_models_is_of_the_only_pool_of_its_namespace_unless_another_may_be_in_a_missing_part() {
        let gateway = row(&[("__name__", "litellm_proxy_total_requests_metric_total"), ("namespace", "llm")]);
        let rows = [vllm("llm", "a"), gateway];
        let of = |incomplete: Option<&str>| {
            let scope = scope(&[("namespace", "llm"), ("model", "a")]);
            counts(&read_detection_of(&LIBRARY, &scope, &rows, incomplete), "litellm").is_some()
        };
        assert_eq!([of(None), of(Some("a store is away"))], [true, false]);
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
        // A neighbour's GPUs are excluded for a pool that exists.
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
            // Series without a model also count the other group.
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
    fn an_address_of_another_pool_or_of_nobody_outweighs_an_equal_model() {
        let at = |namespace: &str, instance: &str| {
            let mut engine = vllm(namespace, "a");
            engine.insert("instance".into(), instance.into());
            engine
        };
        let gateway = |place: &str, api_base: &str| {
            row(&[
                ("__name__", "litellm_deployment_total_requests_total"),
                ("namespace", place),
                ("instance", "127.0.0.1:4000"),
                ("requested_model", "a"),
                ("litellm_model_name", "a"),
                ("api_base", api_base),
            ])
        };
        for (place, api_base, named) in [
            ("team-a", "http://127.0.0.1:8000/v1", true),
            ("team-b", "http://127.0.0.1:8000/v1", false),
            ("team-a", "http://localhost:8000/v1", true),
            ("team-a", "http://127.0.0.1:8001/v1", false),
            ("gateways", "http://chat.team-a.svc.cluster.local:8000/v1", true),
            ("gateways", "http://chat.staging.svc.cluster.local:8000/v1", false),
            ("team-a", "http://10.9.9.9:8000/v1", false),
        ] {
            let behind = gateway(place, api_base);
            let mut total = behind.clone();
            total.insert("__name__".into(), "litellm_proxy_total_requests_metric_total".into());
            let rows = [at("team-a", "127.0.0.1:8000"), at("team-b", "127.0.0.1:8000"), total, behind];
            let of_pool = counts(&found(&[("namespace", "team-a"), ("model", "a")], &rows), "litellm");
            assert_eq!(of_pool.is_some(), named, "{place} {api_base}");
        }
        // An alert of the gateway is about the engine at its address, not about all that have the model.
        let rows = [at("team-a", "127.0.0.1:8000"), at("team-b", "127.0.0.1:8000"), {
            let mut total = gateway("team-b", "http://127.0.0.1:8000/v1");
            total.insert("job".into(), "litellm".into());
            total
        }];
        let mut total = rows[2].clone();
        total.insert("__name__".into(), "litellm_proxy_total_requests_metric_total".into());
        let seen = found(&[("job", "litellm")], &[&rows[..], &[total]].concat());
        assert_eq!(counts(&seen, "vllm").as_deref(), Some("server=\"\",model_name=\"a\",namespace=\"team-b\""));
    }

    /// An engine, a gateway's total, and what is behind that gateway, each with its cluster and namespace.
    fn chain(engine: (&str, &str, &str), gateway: (&str, &str), api_base: &str) -> [Labels; 3] {
        let of = |cluster: &str, mut row: Labels| {
            row.insert("cluster".into(), cluster.into());
            row
        };
        let mut served = vllm(engine.1, engine.2);
        served.insert("instance".into(), "10.0.0.7:8000".into());
        served.insert(SERVICE.into(), "vllm".into());
        let litellm = |name: &str| {
            row(&[
                ("__name__", name),
                ("namespace", gateway.1),
                ("requested_model", engine.2),
                ("litellm_model_name", engine.2),
                ("api_base", api_base),
            ])
        };
        [
            of(engine.0, served),
            of(gateway.0, litellm("litellm_proxy_total_requests_metric_total")),
            of(gateway.0, litellm("litellm_deployment_total_requests_total")),
        ]
    }

    #[test]
    fn an_alert_with_the_gateways_own_labels_goes_on_to_the_engines_at_its_addresses() {
        for at in ["http://10.0.0.7:8000/v1", "http://vllm.llm.svc:8000/v1", "https://vllm.example.com/v1"] {
            let rows = chain(("A", "llm", "a"), ("A", "gateways"), at);
            let seen = found(&[("namespace", "gateways"), ("model", "a")], &rows);
            assert!(counts(&seen, "litellm").is_some() && counts(&seen, "vllm").is_some(), "{at}: {:?}", seen.notes);
        }
    }

    #[test]
    fn of_two_clusters_with_equal_addresses_a_gateway_goes_on_to_its_own() {
        let at = "http://vllm.llm.svc:8000/v1";
        let rows = [chain(("A", "llm", "a"), ("A", "gateways"), at), chain(("B", "llm", "a"), ("B", "gateways"), at)];
        let seen = found(&[("cluster", "A"), ("namespace", "gateways")], &rows.concat());
        assert!(counts(&seen, "vllm").unwrap().contains("cluster=\"A\""), "{seen:?}");
    }

    #[test]
    fn labels_of_two_pools_never_select_a_third() {
        let at = |namespace: &str| format!("http://vllm.{namespace}.svc:8000/v1");
        let own = [
            chain(("A", "team-a", "x"), ("A", "gateways"), &at("team-a")),
            chain(("A", "team-b", "y"), ("A", "gateways"), &at("team-b")),
        ];
        let mut other = chain(("A", "team-a", "y"), ("A", "elsewhere"), "http://10.9.9.9:8000/v1");
        other[0].insert("instance".into(), "10.0.0.9:8000".into());
        other[0].insert(SERVICE.into(), "other".into());
        let rows = [own.concat(), other[..1].to_vec()].concat();
        let seen = found(&[("namespace", "gateways")], &rows);
        let engine = seen.engines.iter().find(|seen| seen.engine == "vllm").unwrap();
        assert!(!fits(&engine.matchers, &other[0]), "{:?}", engine.matchers);
        assert!(fits(&engine.matchers, &own[0][0]));
    }

    #[test]
    fn an_endpoint_of_one_rank_is_its_pods() {
        let mut engine = vllm("llm", "a");
        engine.insert("pod".into(), "vllm-0".into());
        for (endpoint, named) in [
            ("vllm-0", true),
            ("vllm-0-rank-3", true),
            ("vllm-1-rank-0", false),
            ("vllm-0-rank-x", false),
            ("vllm-0-rank-", false),
        ] {
            let ready = row(&[("__name__", "inference_pool_ready_pods"), ("namespace", "llm"), ("name", "pool")]);
            let behind = row(&[
                ("__name__", "llm_d_epp_per_endpoint_queue_size"),
                ("namespace", "llm"),
                ("model_server_endpoint", endpoint),
            ]);
            // Another model in the namespace: the picker is not the pool's by its place alone.
            let rows = [engine.clone(), vllm("llm", "b"), ready, behind];
            let seen = counts(&found(&[("namespace", "llm"), ("model", "a")], &rows), "llm-d");
            assert_eq!(seen.is_some(), named, "{endpoint}");
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
        // Engines of another cluster in a namespace of the same name are not beside this pool.
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
        assert_eq!(counts(&seen, "vllm").as_deref(), Some("server=\"\",model_name=\"a\",namespace=\"llm\""));
        let by_rule = found(&[("namespace", "gateways"), ("model", "a")], &rows);
        assert_eq!(counts(&by_rule, "vllm").as_deref(), Some("server=\"\",model_name=\"a\",namespace=\"llm\""));
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
        // A gateway with only refused requests is still there.
        assert_eq!(pools(&LIBRARY, &rows[..2]), BTreeSet::from([row(&[("namespace", "gateways")])]));
        let rows = [vllm("llm", "a"), total("None"), total("a")];
        let own = BTreeSet::from([row(&[("namespace", "llm"), ("model", "a")])]);
        assert_eq!(gateway_pools(&LIBRARY, &rows, &own), BTreeSet::new());
        let seen = found(&[("namespace", "llm"), ("model", "a")], &rows);
        assert_eq!(counts(&seen, "litellm").as_deref(), Some("requested_model=~\"a|\""));
    }
}
