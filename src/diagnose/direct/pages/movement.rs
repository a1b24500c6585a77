//! Movement between two reads: gauges whose counters stand still, the time that items stay, and their spread over ranks.

use std::collections::BTreeMap;

use super::{MetricsPages, PageRead, Reading, Values, of_ranks};
use crate::observe::gather::name;
use crate::observe::observation::reduce;
use knowledge::alert::Labels;
use knowledge::signal::{Direct, PoolAggregation};

impl Reading<'_> {
    /// Returns the gauges of a page with the function's choice of both reads.
    fn both(
        &self,
        (visit, pages): (&PageRead<'_>, &MetricsPages),
        form: &Direct,
        choose: PoolAggregation,
        out: &mut Values,
    ) -> Vec<(Labels, f64)> {
        let mut reads: BTreeMap<(&str, &Labels), Vec<f64>> = BTreeMap::new();
        for page in [Some(&pages.first), pages.second.as_ref().map(|(samples, _)| samples)].into_iter().flatten() {
            for sample in self.select(visit, page, &form.of, out) {
                reads.entry((&sample.name, &sample.labels)).or_default().push(sample.value);
            }
        }
        of_ranks(form, reads.into_iter().filter_map(|(key, all)| Some((key, reduce(choose, all.iter().copied())?))))
    }

    /// A page without the counters, or whose reads are too close, says nothing.
    pub(super) fn still(&self, form: &Direct, out: &mut Values) {
        for (visit, pages) in self.pages() {
            let grown = self.grown((visit, pages), form, &form.over, out);
            let far = pages.second.as_ref().is_some_and(|(_, seconds)| *seconds >= form.least);
            for (labels, value) in self.both((visit, pages), form, PoolAggregation::Min, out) {
                let own: Vec<f64> =
                    grown.iter().filter(|(of, _)| agree(&labels, of)).map(|(_, grown)| *grown).collect();
                let moved = own.iter().any(|grown| *grown > 0.0);
                if !own.is_empty() && (moved || far) {
                    let value = if moved { 0.0 } else { value };
                    out.rows.extend(name(self.engine, &labels).map(|name| (name, value)));
                }
            }
        }
    }

    /// A page without the counters says nothing.
    pub(super) fn stays(&self, form: &Direct, out: &mut Values) {
        for (visit, pages) in self.pages() {
            let Some((_, seconds)) = pages.second.as_ref().filter(|_| !visit.anew) else { continue };
            let mut replicas: BTreeMap<String, (f64, Option<f64>)> = BTreeMap::new();
            for (labels, value) in self.both((visit, pages), form, PoolAggregation::Mean, out) {
                let Some(name) = name(self.engine, &labels) else { continue };
                replicas.entry(name).or_default().0 += value;
            }
            for (labels, grown) in self.grown((visit, pages), form, &form.over, out) {
                if let Some(replica) = name(self.engine, &labels).and_then(|name| replicas.get_mut(&name)) {
                    *replica.1.get_or_insert(0.0) += grown.max(0.0);
                }
            }
            let stay =
                |(inside, left): (f64, f64)| if inside < form.least { 0.0 } else { inside * seconds / left.max(1.0) };
            let counted = replicas.into_iter().filter_map(|(name, (inside, left))| Some((name, (inside, left?))));
            out.rows.extend(counted.map(|(name, share)| (name, stay(share))));
        }
    }

    pub(super) fn spreads(&self, form: &Direct, out: &mut Values) {
        for (visit, pages) in self.pages() {
            let mut sums: BTreeMap<String, BTreeMap<Labels, f64>> = BTreeMap::new();
            for (labels, value) in self.both((visit, pages), form, PoolAggregation::Mean, out) {
                let Some(name) = name(self.engine, &labels) else { continue };
                *sums.entry(name).or_default().entry(labels).or_default() += value;
            }
            for (name, sums) in sums.into_iter().filter(|(_, sums)| sums.len() > 1) {
                let mean = sums.values().sum::<f64>() / sums.len() as f64;
                let most = sums.values().copied().fold(0.0, f64::max);
                out.rows.extend((mean > form.least).then_some((name, most / mean)));
            }
        }
    }
}

/// Returns true if a counter's labels contradict none of a gauge's: it may have more, or fewer.
fn agree(gauge: &Labels, counter: &Labels) -> bool {
    gauge.iter().all(|(label, value)| counter.get(label).is_none_or(|other| other == value))
}
