//! What we say of exporters that were read themselves.

use super::{FEW, few};
use crate::diagnose::{Because, DirectRead, Remark};

/// That exporters were read themselves, why, and what was odd about them.
pub(super) fn read_directly(direct: &DirectRead) -> Vec<String> {
    let why = match direct.because {
        Because::NoAnswer => "Prometheus did not answer",
        Because::InPart => "Prometheus answered in part only",
        Because::NoValues => "Prometheus has no current values of some exporters",
        Because::Asked => "As asked, without waiting for the next scrape",
    };
    let count = |n: usize, known: usize, one: &str| {
        let several = if known == 1 { one.to_owned() } else { format!("{one}s") };
        let of = if n == known { n.to_string() } else { format!("{n} of {known}") };
        (known > 0).then(|| format!("{of} {several}"))
    };
    let read: Vec<String> = [
        count(direct.engines, direct.engines_known, "engine"),
        count(direct.gpu_exporters, direct.gpu_exporters_known, "GPU exporter"),
    ]
    .into_iter()
    .flatten()
    .collect();
    let mut lines = vec![format!("{why}; read {} directly, of this moment only", read.join(" and "))];
    let mut alike: Vec<(&str, Vec<String>)> = Vec::new();
    for Remark { exporter, what } in &direct.remarks {
        match alike.iter_mut().find(|(known, _)| known == what) {
            Some((_, names)) => names.push(exporter.clone()),
            None => alike.push((what, vec![exporter.clone()])),
        }
    }
    lines.extend(alike.iter().take(2 * FEW).map(|(what, names)| format!("{} {what}", few(names))));
    if alike.len() > 2 * FEW {
        lines.push(format!("and {} more remarks on exporters", alike.len() - 2 * FEW));
    }
    if direct.left_out > 0 {
        lines.push(format!("{} more exporters were left out: too many to read at once", direct.left_out));
    }
    lines
}
