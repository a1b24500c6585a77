//! The place of a question: the pool that a target or labels mean, and its Prometheus.

use std::collections::BTreeMap;
use std::time::Instant;

use futures::future::join_all;
use jiff::Timestamp;

use super::text::given;
use super::{Fleet, QuestionError, ShortText, target};
use diagnose::health::{DIMENSIONS, places, selected_places};
use diagnose::{FleetPool, Scope};
use knowledge::alert::Labels;
use sources::prom::Prometheus;

/// The expected way to name a pool.
const HOW_TO_NAME: &str = "name a pool by `target`, or by the labels cluster, namespace, model_name or pod";

/// The labels in a question.
pub(super) type QuestionLabels = BTreeMap<ShortText, ShortText>;

/// The Prometheus of a pool, by its index, and the pool.
pub(super) type Place = (usize, Scope);

/// Returns true if a scope has a label that tells pools apart by their health.
fn names_pool(scope: &Scope) -> bool {
    scope.dimensions.keys().any(|dimension| DIMENSIONS.contains(&dimension.as_str()))
}

impl Fleet<'_> {
    /// Returns the place that a question means. Without `whole`, it must name a pool: labels of a replica or a job are
    /// resolved to its pool.
    pub(super) async fn place(
        &self,
        target: Option<&ShortText>,
        labels: &QuestionLabels,
        at: Timestamp,
        whole: bool,
    ) -> Result<Place, QuestionError> {
        let typed = given(target);
        if typed.is_none() && labels.is_empty() && !whole {
            return Err(QuestionError::Wrong(HOW_TO_NAME.to_owned()));
        }
        let wrong = |error: anyhow::Error| QuestionError::of_target(&error);
        let labels: Labels = labels.iter().map(|(name, value)| (name.to_string(), value.to_string())).collect();
        target::known_labels(self.prometheus.iter().map(|(_, own)| own), &labels).map_err(wrong)?;
        let of_labels = Scope::of_labels(&labels);
        let deadline = self.diagnosing.deadline;
        let (source, mut scope) = match typed {
            Some(typed) => {
                let found = target::find(self.library, &self.sources(), typed, at, deadline).await;
                let (source, place, pod) = found.and_then(|matches| target::only(matches, typed)).map_err(wrong)?;
                (source, place.scope(pod.as_deref()))
            }
            None => (self.source_of(&labels, &of_labels, at).await?, Scope::default()),
        };
        scope.dimensions.extend(of_labels.dimensions);
        scope.replicas.extend(of_labels.replicas);
        let (prometheus, own) = self.prometheus.get(source).ok_or_else(QuestionError::no_prometheus)?;
        target::known_values(self.library, (prometheus, own), &labels, at, deadline).await.map_err(wrong)?;
        if typed.is_none() {
            self.resolve(prometheus, &mut scope, at, whole).await?;
        }
        Ok((source, scope))
    }

    /// Adds the dimensions of the pool to which the scope's job and replicas belong.
    ///
    /// # Errors
    /// Unless the scope names a pool, or `whole` allows that it does not: when there is no such pool, or several.
    async fn resolve(
        &self,
        prometheus: &Prometheus,
        scope: &mut Scope,
        at: Timestamp,
        whole: bool,
    ) -> Result<(), QuestionError> {
        let lenient = whole || names_pool(scope);
        if lenient && scope.replicas.is_empty() && !scope.dimensions.contains_key("job") {
            return Ok(());
        }
        let named: Vec<&str> = scope.replicas.iter().chain(scope.dimensions.values()).map(String::as_str).collect();
        let named = named.join(", ");
        let until = Instant::now() + self.diagnosing.deadline;
        let wrong = match selected_places(self.library, prometheus, scope, at, until).await {
            _ if named.is_empty() => HOW_TO_NAME.to_owned(),
            Ok(places) => match places.as_slice() {
                [place] => {
                    for (dimension, value) in &place.dimensions {
                        scope.dimensions.entry(dimension.clone()).or_insert_with(|| value.clone());
                    }
                    return Ok(());
                }
                [] => format!("no pool has `{named}`: {HOW_TO_NAME}"),
                several => {
                    let names: Vec<String> = several.iter().take(target::MOST_NAMES).map(FleetPool::name).collect();
                    format!("`{named}` is in {} pools ({}): {HOW_TO_NAME}", several.len(), names.join(", "))
                }
            },
            // What asks next will say so, too.
            Err(_) if lenient => return Ok(()),
            Err(error) => return Err(QuestionError::Unanswered(error.to_string())),
        };
        // An alert's `pod` or `instance` may be an exporter's.
        if lenient { Ok(()) } else { Err(QuestionError::Wrong(wrong)) }
    }

    /// Returns the index of the Prometheus that these labels mean: by its own labels, else by the pools that it has.
    async fn source_of(&self, labels: &Labels, scope: &Scope, at: Timestamp) -> Result<usize, QuestionError> {
        if labels.is_empty() || self.prometheus.len() < 2 {
            return Ok(0);
        }
        let is_own = |(_, own): &(Prometheus, Labels)| {
            !own.is_empty() && own.iter().all(|(name, value)| labels.get(name) == Some(value))
        };
        if let Some(source) = self.prometheus.iter().position(is_own) {
            return Ok(source);
        }
        let until = Instant::now() + self.diagnosing.deadline;
        let asked = self.prometheus.iter().map(|(prometheus, _)| places(self.library, prometheus, at, until));
        // With a label of a pool, a replica may be an exporter's.
        let fits = |pool: &FleetPool| match names_pool(scope) {
            true => DIMENSIONS
                .iter()
                .all(|d| scope.dimensions.get(*d).is_none_or(|value| pool.dimensions.get(*d) == Some(value))),
            false => pool.is_in(scope),
        };
        let has = join_all(asked).await.into_iter().map(|pools| pools.is_ok_and(|pools| pools.iter().any(fits)));
        let found: Vec<usize> = has.enumerate().filter_map(|(source, has)| has.then_some(source)).collect();
        match found.as_slice() {
            [] => Ok(0),
            [one] => Ok(*one),
            several => {
                let names: Vec<&str> =
                    several.iter().filter_map(|i| Some(self.prometheus.get(*i)?.0.name.as_str())).collect();
                let why = format!(
                    "the labels select pools of several Prometheus servers ({}): add a label that tells them apart, \
                     such as cluster",
                    names.join(", ")
                );
                Err(QuestionError::Wrong(why))
            }
        }
    }
}
