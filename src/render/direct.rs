//! Notes on exporters that were scraped directly.

use super::Phrases;
use super::facts::{FEW, few, group_by_key};
use findings::{DirectRead, DirectReadReason};
use message::Line;

/// Says that exporters were scraped directly, why, and which problems they had.
pub(super) fn read_directly(direct: &DirectRead, words: &Phrases) -> Vec<Line> {
    let key = match direct.because {
        DirectReadReason::NoPrometheus => "direct-no-prometheus",
        DirectReadReason::NoAnswer => "direct-no-answer",
        DirectReadReason::InPart => "direct-in-part",
        DirectReadReason::NoValues => "direct-no-values",
        DirectReadReason::Asked => "direct-asked",
    };
    let count = |n: usize, known: usize, all: &str, part: &str| {
        (known > 0).then(|| match n == known {
            true => words.text(all, &[("n", n.into())]),
            false => words.text(part, &[("n", n.into()), ("known", known.into())]),
        })
    };
    let engines = count(direct.engines, direct.engines_known, "direct-engines", "direct-engines-of");
    let gpus = count(direct.gpu_exporters, direct.gpu_exporters_known, "direct-gpus", "direct-gpus-of");
    let read = match (engines, gpus) {
        (Some(engines), Some(gpus)) => words.text("direct-both", &[("engines", engines.into()), ("gpus", gpus.into())]),
        (engines, gpus) => engines.or(gpus).unwrap_or_default(),
    };
    let mut lines = vec![words.line(key, &[("read", read.into())])];
    let alike = group_by_key(direct.remarks.iter().map(|remark| (&remark.what, &remark.exporter)));
    lines.extend(alike.iter().take(2 * FEW).map(|(what, names)| {
        words.line("direct-remark", &[("names", few(names, words).into()), ("what", Line::of(what).into())])
    }));
    if alike.len() > 2 * FEW {
        lines.push(words.line("direct-more-remarks", &[("n", (alike.len() - 2 * FEW).into())]));
    }
    if direct.left_out > 0 {
        lines.push(words.line("direct-left-out", &[("n", direct.left_out.into())]));
    }
    lines
}
