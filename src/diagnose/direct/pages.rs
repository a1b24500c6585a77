//! Two reads of a metrics page ─▶ the values of a signal, by its direct form. Pure.

mod movement;

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;

use crate::detect::detection_result::EngineSeen;
use crate::observe::gather::{Members, name};
use crate::observe::observation::reduce;
use crate::scope::fits;
use knowledge::alert::Labels;
use knowledge::signal::{Direct, DirectOperation, Engine, Matcher, PoolAggregation, Selector};
use sources::exporter::{ExporterError, ExporterTarget, Sample};

/// Tolerance for a counter: a larger decrease shows that the process was restarted.
const RESET_TOLERANCE: f64 = 1e-9;

/// Two reads of one page.
#[derive(Debug, Clone)]
pub(super) struct MetricsPages {
    /// The first read.
    pub(super) first: Vec<Sample>,
    /// The second, with the seconds since the first.
    pub(super) second: Option<(Vec<Sample>, f64)>,
}

impl MetricsPages {
    pub(super) fn latest(&self) -> &[Sample] {
        self.second.as_ref().map_or(&self.first, |(samples, _)| samples)
    }

    /// Returns all samples.
    pub(super) fn samples_mut(&mut self) -> impl Iterator<Item = &mut Sample> {
        self.first.iter_mut().chain(self.second.iter_mut().flat_map(|(samples, _)| samples))
    }

    /// Returns true if any counter fell between the reads: the process restarted, and increases mean nothing.
    pub(super) fn anew(&self) -> bool {
        let Some((second, _)) = &self.second else { return false };
        let counts = |name: &str| ["_total", "_count", "_bucket"].iter().any(|end| name.ends_with(end));
        let before: BTreeMap<(&str, &Labels), f64> = keyed(&self.first).collect();
        keyed(second)
            .any(|(key, now)| counts(key.0) && before.get(&key).is_some_and(|then| now < then - RESET_TOLERANCE))
    }
}

fn keyed(samples: &[Sample]) -> impl Iterator<Item = ((&str, &Labels), f64)> {
    samples.iter().map(|s| ((s.name.as_str(), &s.labels), s.value))
}

/// An exporter and the result of reading it.
#[derive(Debug)]
pub(super) struct PageRead<'a> {
    pub(super) target: ExporterTarget,
    pub(super) engine: &'a Engine,
    pub(super) outcome: Result<MetricsPages, ExporterError>,
    pub(super) anew: bool,
}

impl PageRead<'_> {
    /// Returns the samples of its detection series.
    pub(super) fn detection_samples(&self) -> impl Iterator<Item = &Sample> {
        let names: BTreeSet<String> = self.engine.detected_by().into_iter().collect();
        let samples = self.outcome.as_ref().map_or(&[][..], MetricsPages::latest);
        samples.iter().filter(move |s| names.contains(&s.name))
    }
}

/// The values of one signal on all pages of an engine.
#[derive(Debug, Default, PartialEq)]
pub(super) struct Values {
    /// Replica and value; a replica may have several.
    pub(super) rows: Vec<(String, f64)>,
    /// The whole pool's value, if it cannot be derived from the rows.
    pub(super) pool: Option<f64>,
    /// Exporter and metric of values that are negative or not finite.
    pub(super) unusable: BTreeSet<(String, String)>,
}

/// The pages that a signal is read from.
pub(super) struct Reading<'a> {
    pub(super) engine: &'a Engine,
    pub(super) engine_seen: Option<&'a EngineSeen>,
    pub(super) visits: Vec<&'a PageRead<'a>>,
    pub(super) members: &'a Members,
    pub(super) at: Timestamp,
}

/// Returns true if labels contradict a matcher; an absent label contradicts nothing.
pub(super) fn contradicts(matchers: &[Matcher], labels: &Labels) -> bool {
    matchers.iter().any(|m| labels.get(&m.label).is_some_and(|value| !m.accepts(Some(value))))
}

/// Numerator and denominator of a replica's ratio.
#[derive(Debug, Default)]
struct Share {
    of: f64,
    over: f64,
}

impl Reading<'_> {
    /// Returns the values of a form; empty if no page has the samples for it.
    pub(super) fn values(&self, form: &Direct) -> Values {
        let mut values = Values::default();
        match form.read {
            DirectOperation::Gauge | DirectOperation::Peak | DirectOperation::Bits => self.gauges(form, &mut values),
            DirectOperation::Still => self.still(form, &mut values),
            DirectOperation::Stay => self.stays(form, &mut values),
            DirectOperation::Spread => self.spreads(form, &mut values),
            DirectOperation::Recent => self.recent(form, &mut values),
            DirectOperation::Rate => self.rates(form, &mut values),
            DirectOperation::Increase => self.increases(form, &mut values),
            DirectOperation::Quantile => self.quantiles(form, &mut values),
            DirectOperation::Serving => {
                let answered = self.visits.iter().filter(|v| v.detection_samples().any(|s| self.in_scope(&s.labels)));
                values.rows = answered.filter_map(|v| Some((name(self.engine, &v.target.labels)?, 1.0))).collect();
            }
            DirectOperation::Down => self.down(&mut values),
        }
        if let Some(fleet) = form.by {
            let mut replicas: BTreeMap<String, Vec<f64>> = BTreeMap::new();
            values.rows.drain(..).for_each(|(name, value)| replicas.entry(name).or_default().push(value));
            let combined = |(name, all): (String, Vec<f64>)| Some((name, reduce(fleet, all.iter().copied())?));
            values.rows = replicas.into_iter().filter_map(combined).collect();
        }
        values.rows.iter_mut().for_each(|(_, value)| *value *= form.scale);
        values.pool = values.pool.map(|value| value * form.scale);
        values
    }

    fn in_scope(&self, labels: &Labels) -> bool {
        let matchers = self.engine_seen.map_or(&[][..], |engine_seen| &engine_seen.matchers);
        if self.engine.kind.is_pool() {
            // Some series of an engine carry no model; the page's detection series identify its pool.
            !contradicts(matchers, labels)
        } else {
            fits(matchers, labels) && self.members.have(labels)
        }
    }

    /// Returns the successful visits of exporters in the scope.
    fn pages(&self) -> impl Iterator<Item = (&PageRead<'_>, &MetricsPages)> {
        let own =
            |v: &PageRead<'_>| !self.engine.kind.is_pool() || v.detection_samples().any(|s| self.in_scope(&s.labels));
        self.visits.iter().copied().filter(move |v| own(v)).filter_map(|v| Some((v, v.outcome.as_ref().ok()?)))
    }

    /// Returns the samples of the first selector that matches any; impossible values are left out.
    fn select<'s>(
        &self,
        visit: &PageRead<'_>,
        page: &'s [Sample],
        list: &[String],
        out: &mut Values,
    ) -> Vec<&'s Sample> {
        for selector in list.iter().filter_map(|text| Selector::parse(text).ok()) {
            let samples = page.iter().filter(|s| selector.fits(&s.name, &s.labels) && self.in_scope(&s.labels));
            let (fine, unusable): (Vec<_>, Vec<_>) = samples.partition(|s| s.value.is_finite() && s.value >= 0.0);
            out.unusable.extend(unusable.iter().map(|s| (visit.target.name(), s.name.clone())));
            if !fine.is_empty() || !unusable.is_empty() {
                return fine;
            }
        }
        Vec::new()
    }

    fn gauges(&self, form: &Direct, out: &mut Values) {
        for (visit, pages) in self.pages() {
            let mut reads: BTreeMap<(&str, &Labels), Vec<f64>> = BTreeMap::new();
            for page in [Some(&pages.first), pages.second.as_ref().map(|(samples, _)| samples)].into_iter().flatten() {
                let over = self.select(visit, page, &form.over, out);
                let only = form.only.as_ref().map(|only| (self.select(visit, page, &only.of, out), only));
                for sample in self.select(visit, page, &form.of, out) {
                    let beside = |list: &[&Sample]| -> Vec<f64> {
                        list.iter().filter(|s| alike(form, &s.labels, &sample.labels)).map(|s| s.value).collect()
                    };
                    if let Some((companions, limits)) = &only {
                        let companions = beside(companions);
                        if !companions.is_empty() && !companions.iter().any(|value| limits.allows(*value)) {
                            continue;
                        }
                    }
                    let total: f64 = beside(&over).iter().sum();
                    let value = match form.mask {
                        // Bit masks are exposed as floats; a value that a float cannot hold exactly is no mask.
                        Some(mask) => f64::from(sample.value < 2f64.powi(53) && (sample.value as u64) & mask != 0),
                        None if form.over.is_empty() => sample.value,
                        None if total > 0.0 => sample.value / total,
                        None => continue,
                    };
                    reads.entry((&sample.name, &sample.labels)).or_default().push(value);
                }
            }
            let fleet = if form.read == DirectOperation::Peak { PoolAggregation::Max } else { PoolAggregation::Mean };
            let values = reads.into_iter().filter_map(|(key, all)| Some((key, reduce(fleet, all.iter().copied())?)));
            let values = of_ranks(form, values);
            if values.is_empty() {
                self.zeros(visit, pages, form, out);
            }
            out.rows.extend(values.iter().filter_map(|(labels, value)| Some((name(self.engine, labels)?, *value))));
        }
    }

    fn zeros(&self, visit: &PageRead<'_>, pages: &MetricsPages, form: &Direct, out: &mut Values) {
        let samples_present = self.select(visit, pages.latest(), &form.zero, out);
        let names: BTreeSet<String> = samples_present.iter().filter_map(|s| name(self.engine, &s.labels)).collect();
        out.rows.extend(names.into_iter().map(|name| (name, 0.0)));
    }

    fn recent(&self, form: &Direct, out: &mut Values) {
        let (now, within) = (self.at.as_millisecond() as f64 / 1e3, form.within.unwrap_or_default());
        for (visit, pages) in self.pages() {
            for sample in self.select(visit, pages.latest(), &form.of, out) {
                let new = now - sample.value < within;
                out.rows.extend(name(self.engine, &sample.labels).map(|name| (name, f64::from(new))));
            }
            self.zeros(visit, pages, form, out);
        }
    }

    /// Returns the increase of each series of `list`; a series that appeared between the reads grew from zero.
    fn grown(
        &self,
        (visit, pages): (&PageRead<'_>, &MetricsPages),
        form: &Direct,
        list: &[String],
        out: &mut Values,
    ) -> Vec<(Labels, f64)> {
        let Some((second, _)) = pages.second.as_ref().filter(|_| !visit.anew) else { return Vec::new() };
        let before: BTreeMap<(&str, &Labels), f64> = keyed(&pages.first).collect();
        let now = self.select(visit, second, list, out);
        let then = |s: &Sample| before.get(&(s.name.as_str(), &s.labels)).copied().unwrap_or_default();
        let valid_before = now.into_iter().filter(|s| then(s) >= 0.0);
        let grown = valid_before.map(|s| ((s.name.as_str(), &s.labels), s.value - then(s)));
        of_ranks(form, grown.filter(|(_, grown)| grown.is_finite()))
    }

    fn rates(&self, form: &Direct, out: &mut Values) {
        for (visit, pages) in self.pages() {
            let Some((_, seconds)) = pages.second.as_ref().filter(|(_, seconds)| *seconds > 0.0) else { continue };
            let mut replicas: BTreeMap<String, f64> = BTreeMap::new();
            for (labels, grown) in self.grown((visit, pages), form, &form.of, out) {
                if let Some(name) = name(self.engine, &labels) {
                    *replicas.entry(name).or_default() += grown.max(0.0) / seconds;
                }
            }
            if replicas.is_empty() && !visit.anew {
                self.zeros(visit, pages, form, out);
            }
            out.rows.extend(replicas);
        }
    }

    fn increases(&self, form: &Direct, out: &mut Values) {
        let counters: Vec<Selector> = form.of.iter().filter_map(|text| Selector::parse(text).ok()).collect();
        let is_counted = |pages: &MetricsPages| {
            pages.latest().iter().any(|sample| counters.iter().any(|counter| counter.names(&sample.name)))
        };
        let mut replicas: BTreeMap<String, Share> = BTreeMap::new();
        // A page without the counter is no 0: its process does not count these events.
        for (visit, pages) in self.pages().filter(|(_, pages)| is_counted(pages)) {
            for (labels, grown) in self.grown((visit, pages), form, &form.over, out) {
                let Some(name) = name(self.engine, &labels) else { continue };
                replicas.entry(name).or_default().over += grown.max(0.0);
            }
            for (labels, grown) in self.grown((visit, pages), form, &form.of, out) {
                // A ratio needs its denominator.
                let share = name(self.engine, &labels).and_then(|name| replicas.get_mut(&name));
                if let Some(share) = share {
                    share.of += grown.max(0.0);
                }
            }
        }
        let ratio = |share: &Share| (share.over >= form.least).then(|| share.of / share.over);
        let all = replicas
            .values()
            .fold(Share::default(), |all, one| Share { of: all.of + one.of, over: all.over + one.over });
        out.pool = ratio(&all);
        out.rows.extend(replicas.iter().filter_map(|(name, share)| Some((name.clone(), ratio(share)?))));
    }

    fn quantiles(&self, form: &Direct, out: &mut Values) {
        let q = form.q.unwrap_or(0.5);
        let mut replicas: BTreeMap<String, Vec<(f64, f64)>> = BTreeMap::new();
        for (visit, pages) in self.pages() {
            for (labels, grown) in self.grown((visit, pages), form, &form.of, out) {
                let bound = labels.get("le").and_then(|le| le.parse::<f64>().ok()).filter(|le| !le.is_nan());
                if let (Some(bound), Some(name)) = (bound, name(self.engine, &labels)) {
                    replicas.entry(name).or_default().push((bound, grown.max(0.0)));
                }
            }
        }
        let all: Vec<(f64, f64)> = replicas.values().flatten().copied().collect();
        out.pool = quantile(q, all, form.least);
        out.rows
            .extend(replicas.into_iter().filter_map(|(name, buckets)| Some((name, quantile(q, buckets, form.least)?))));
    }

    /// Adds one row for each exporter of the scope that can be decided: 1 if it is down. A failed connection may be
    /// our own network, so it counts only if another exporter answered.
    fn down(&self, out: &mut Values) {
        let answered = self.pages().next().is_some();
        for visit in &self.visits {
            let down = match &visit.outcome {
                Ok(_) if visit.detection_samples().any(|s| self.in_scope(&s.labels)) => 0.0,
                Err(error) if error.is_gone() && self.known(&visit.target) => match error {
                    ExporterError::Unreachable(_) if !answered => continue,
                    _ => 1.0,
                },
                _ => continue,
            };
            out.rows.extend(name(self.engine, &visit.target.labels).map(|name| (name, down)));
        }
    }

    /// Returns true if the exporter is expected: configured, or listed within the last hour.
    fn known(&self, target: &ExporterTarget) -> bool {
        target.seen.is_none_or(|seen| self.at.duration_since(seen).as_secs() <= 3_600)
    }
}

/// Returns true if labels are the same but for those that the form leaves out.
fn alike(form: &Direct, a: &Labels, b: &Labels) -> bool {
    let kept = |labels: &Labels| {
        labels
            .iter()
            .filter(|(label, _)| !form.without.contains(label))
            .map(|(k, v)| (k.clone(), v.clone()))
            .collect::<Vec<_>>()
    };
    a == b || (!form.without.is_empty() && kept(a) == kept(b))
}

/// Merges series that only differ in the rank; the largest value counts.
fn of_ranks<'a>(form: &Direct, values: impl Iterator<Item = ((&'a str, &'a Labels), f64)>) -> Vec<(Labels, f64)> {
    let mut ranks: BTreeMap<(&str, Labels), f64> = BTreeMap::new();
    for ((metric, labels), value) in values {
        let mut labels = labels.clone();
        labels.retain(|label, _| !form.without.contains(label));
        let most = ranks.entry((metric, labels)).or_insert(value);
        *most = most.max(value);
    }
    ranks.into_iter().map(|((_, labels), value)| (labels, value)).collect()
}

/// Returns the quantile of bucket increases, interpolated like PromQL's `histogram_quantile`; `None` for too few
/// observations.
fn quantile(q: f64, mut buckets: Vec<(f64, f64)>, least: f64) -> Option<f64> {
    buckets.sort_by(|a, b| a.0.total_cmp(&b.0));
    let mut merged: Vec<(f64, f64)> = Vec::new();
    for (bound, count) in buckets {
        match merged.last_mut().filter(|last| last.0 == bound) {
            Some(last) => last.1 += count,
            None => merged.push((bound, count)),
        }
    }
    let mut most = 0.0;
    for bucket in &mut merged {
        most = bucket.1.max(most);
        bucket.1 = most;
    }
    let (last, total) = merged.last().copied()?;
    if last.is_finite() || merged.len() < 2 || total < least {
        return None;
    }
    let rank = q * total;
    let at = merged.iter().position(|(_, count)| *count >= rank)?;
    let (upper, count) = merged[at];
    if !upper.is_finite() {
        return at.checked_sub(1).map(|i| merged[i].0);
    }
    let (lower, below) = at.checked_sub(1).map_or((0.0, 0.0), |i| merged[i]);
    if at == 0 && upper <= 0.0 {
        return Some(upper);
    }
    Some(lower + (upper - lower) * ((rank - below) / (count - below).max(f64::MIN_POSITIVE)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_quantile_is_what_prometheus_would_say() {
        let buckets = vec![(0.1, 0.0), (0.5, 50.0), (1.0, 90.0), (f64::INFINITY, 100.0)];
        assert_eq!(quantile(0.5, buckets.clone(), 10.0), Some(0.5));
        assert_eq!(quantile(0.25, buckets.clone(), 10.0), Some(0.1 + 0.4 * 0.5));
        assert_eq!(quantile(0.99, buckets.clone(), 10.0), Some(1.0));
        assert_eq!(quantile(0.5, buckets.clone(), 101.0), None);
        assert_eq!(quantile(0.5, buckets[..3].to_vec(), 10.0), None);
    }
}
