//! The place of a question: the pool that a target or labels mean, and its Prometheus.

use std::collections::BTreeMap;
use std::time::Instant;

use jiff::Timestamp;

use super::pools::PoolList;
use super::text::given;
use super::{Fleet, QuestionError, ShortText, target};
use detect::FleetPool;
use diagnose::health::{DIMENSIONS, HealthSource, selected_places};
use findings::Scope;
use knowledge::alert::Labels;
use prom::Prometheus;

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
    /// Returns the place that a question means. It must name a pool, unless it names nothing and `whole` allows that:
    /// labels of a replica or a job are resolved to its pool.
    pub(super) async fn place(
        &self,
        target: Option<&ShortText>,
        labels: &QuestionLabels,
        at: Timestamp,
        whole: bool,
    ) -> Result<Place, QuestionError> {
        let typed = given(target);
        // Programs fill an optional target with an empty text.
        let is_blank = labels.values().any(|value| value.trim().is_empty());
        if is_blank || (typed.is_none() && labels.is_empty() && !whole) {
            return Err(QuestionError::Wrong(HOW_TO_NAME.to_owned()));
        }
        let wrong = |error: anyhow::Error| QuestionError::of_target(&error);
        let labels: Labels = labels.iter().map(|(name, value)| (name.to_string(), value.to_string())).collect();
        target::known_labels(self.prometheus.iter().map(|(_, own)| own), &labels).map_err(wrong)?;
        let of_labels = Scope::of_labels(&labels);
        let candidates = self.candidates(&labels, &of_labels)?;
        // An unresponsive Prometheus costs its deadline once.
        let deadline = self.diagnosing.deadline;
        let until = Instant::now() + deadline;
        // While one of several does not answer, there is time to ask the one that has the pool.
        let (source, mut scope) = match typed {
            Some(typed) => self.target_place(&candidates, typed, &of_labels, at, until - deadline / 2).await?,
            None => {
                (self.source_of(&candidates, &labels, &of_labels, at, until - deadline / 2).await?, Scope::default())
            }
        };
        scope.dimensions.extend(of_labels.dimensions);
        scope.replicas.extend(of_labels.replicas);
        let (prometheus, own) = self.prometheus.get(source).ok_or_else(QuestionError::no_prometheus)?;
        let left = until.saturating_duration_since(Instant::now());
        target::known_values(self.library, (prometheus, own), &labels, at, left).await.map_err(wrong)?;
        if typed.is_none() {
            self.resolve((prometheus, own), &mut scope, at, until, whole).await?;
        }
        Ok((source, scope))
    }

    /// Returns the indices of the Prometheus servers whose own labels do not contradict these.
    fn candidates(&self, labels: &Labels, scope: &Scope) -> Result<Vec<usize>, QuestionError> {
        let asked = |name: &String| labels.get(name).or_else(|| scope.dimensions.get(name));
        let contradicts =
            |own: &Labels| own.iter().any(|(name, value)| asked(name).is_some_and(|asked| asked != value));
        let fits: Vec<usize> = (0..self.prometheus.len()).filter(|i| !contradicts(&self.prometheus[*i].1)).collect();
        if !fits.is_empty() {
            return Ok(fits);
        }
        let one =
            |own: &Labels| own.iter().map(|(name, value)| format!("{name}={value}")).collect::<Vec<_>>().join(" ");
        let mut known: Vec<String> = self.prometheus.iter().map(|(_, own)| one(own)).collect();
        known.truncate(target::MOST_NAMES);
        match known.is_empty() {
            true => Err(QuestionError::no_prometheus()),
            false => {
                Err(QuestionError::Wrong(format!("no Prometheus has these labels; there is {}", known.join(", "))))
            }
        }
    }

    /// Returns the place of a typed name, among those that the labels select.
    async fn target_place(
        &self,
        candidates: &[usize],
        typed: &str,
        of_labels: &Scope,
        at: Timestamp,
        until: Instant,
    ) -> Result<Place, QuestionError> {
        let wrong = |error: anyhow::Error| QuestionError::of_target(&error);
        let sources: Vec<HealthSource<'_>> =
            candidates.iter().filter_map(|i| self.prometheus.get(*i)).map(|(one, own)| (one, own)).collect();
        let left = until.saturating_duration_since(Instant::now());
        let mut matches = target::find(self.library, &sources, typed, at, left).await.map_err(wrong)?;
        matches.retain(|found| {
            let own = sources.get(found.source).map(|(_, own)| *own);
            found.place.is_in(&without_own(of_labels, own))
        });
        if matches.is_empty() {
            let labels = of_labels.dimensions.iter().map(|(name, value)| format!("{name}={value}"));
            let labels: Vec<String> = labels.chain(of_labels.replicas.iter().cloned()).collect();
            let why = format!("no pool called `{typed}` has {}", labels.join(", "));
            return Err(QuestionError::Wrong(why));
        }
        let only = target::only(matches, typed).map_err(wrong)?;
        let source = candidates.get(only.source).copied().ok_or_else(QuestionError::no_prometheus)?;
        Ok((source, only.scope()))
    }

    /// Adds the dimensions of the pool to which the scope's job and replicas belong.
    ///
    /// # Errors
    /// When no pool has them, or several have; when the scope selects nothing, unless `whole` allows that.
    async fn resolve(
        &self,
        (prometheus, own): HealthSource<'_>,
        scope: &mut Scope,
        at: Timestamp,
        until: Instant,
        whole: bool,
    ) -> Result<(), QuestionError> {
        let wanted = without_own(scope, Some(own));
        let is_by_series = !wanted.replicas.is_empty() || wanted.dimensions.contains_key("job");
        if !is_by_series && names_pool(&wanted) || (whole && wanted == Scope::default()) {
            return Ok(());
        }
        if wanted == Scope::default() {
            return Err(QuestionError::Wrong(HOW_TO_NAME.to_owned()));
        }
        let named: Vec<&str> = wanted.replicas.iter().chain(wanted.dimensions.values()).map(String::as_str).collect();
        let named = named.join(", ");
        let places = selected_places(self.library, prometheus, &wanted, at, until).await;
        let places = places.map_err(|error| QuestionError::Unanswered(error.to_string()))?;
        match places.as_slice() {
            [place] => {
                for (dimension, value) in &place.dimensions {
                    scope.dimensions.entry(dimension.clone()).or_insert_with(|| value.clone());
                }
                Ok(())
            }
            [] => Err(QuestionError::Wrong(format!("no pool has `{named}`: {HOW_TO_NAME}"))),
            several => {
                let names: Vec<String> = several.iter().take(target::MOST_NAMES).map(FleetPool::name).collect();
                let (n, names) = (several.len(), names.join(", "));
                Err(QuestionError::Wrong(format!("`{named}` is in {n} pools ({names}): {HOW_TO_NAME}")))
            }
        }
    }

    /// Returns the index of the Prometheus that these labels mean: by its own labels, else by the pools that it has.
    async fn source_of(
        &self,
        candidates: &[usize],
        labels: &Labels,
        scope: &Scope,
        at: Timestamp,
        until: Instant,
    ) -> Result<usize, QuestionError> {
        let first = candidates.first().copied().ok_or_else(QuestionError::no_prometheus)?;
        if labels.is_empty() || candidates.len() < 2 {
            return Ok(first);
        }
        let all: Vec<(usize, &(Prometheus, Labels))> =
            candidates.iter().filter_map(|i| Some((*i, self.prometheus.get(*i)?))).collect();
        let is_own = |own: &Labels| !own.is_empty() && own.keys().all(|name| labels.contains_key(name));
        if let Some((source, _)) = all.iter().find(|(_, (_, own))| is_own(own)) {
            return Ok(*source);
        }
        let clients: Vec<&Prometheus> = all.iter().map(|(_, (prometheus, _))| prometheus).collect();
        let PoolList { places, mut unanswered } = PoolList::of(self.library, &clients, at, until).await;
        let has_pool = |i: usize, own: &Labels| {
            let wanted = without_own(scope, Some(own));
            places.iter().any(|(source, pool)| *source == i && pool.is_in(&wanted))
        };
        let found: Vec<usize> = all
            .iter()
            .enumerate()
            .filter(|(i, (_, (_, own)))| has_pool(*i, own))
            .map(|(_, (source, _))| *source)
            .collect();
        match (found.as_slice(), unanswered.pop()) {
            ([], Some((_, error))) => Err(QuestionError::Unanswered(error.to_string())),
            // The labels' values are unknown: the first one says which there are.
            ([], None) => Ok(first),
            ([one], _) => Ok(*one),
            (several, _) => {
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

/// Returns the scope without the dimensions that a Prometheus' own labels tell: its series need not carry them.
fn without_own(scope: &Scope, own: Option<&Labels>) -> Scope {
    let mut scope = scope.clone();
    scope.dimensions.retain(|dimension, _| own.is_none_or(|own| !own.contains_key(dimension)));
    scope
}
