//! The errors of a log whose engine is not recognised yet: what explains a line depends on the engine.

use std::collections::BTreeMap;

use super::errors::Errors;
use super::line::LogLine;
use super::meanings::Explanation;
use super::moment::LogTime;

/// The errors of a log by the engine that may have written it.
#[derive(Debug, Default)]
pub(super) struct EngineErrors<'a> {
    /// The errors with the explanations of all files, and once the engine is known with its own.
    pub(super) settled: Errors,
    /// The errors with the explanations of one engine's file alone, for each that explained a line before the engine was
    /// recognised; `None` is without any.
    doubts: BTreeMap<Option<&'a str>, Errors>,
}

impl<'a> EngineErrors<'a> {
    /// Adds a line.
    pub(super) fn line(
        &mut self,
        line: &LogLine<'_>,
        number: u64,
        at: Option<&LogTime>,
        explanation: &Explanation<'a>,
    ) {
        let Explanation { known, general, doubted } = explanation;
        for of in doubted.iter().map(|of| Some(*of)) {
            if !self.doubts.contains_key(&of) {
                // It explained nothing before.
                let without = self.doubts.entry(None).or_insert_with(|| self.settled.clone()).clone();
                self.doubts.insert(of, without);
            }
        }
        self.settled.line(line, number, at, *known);
        for (of, errors) in &mut self.doubts {
            let own = known.filter(|_| doubted.is_empty() || of.is_some_and(|of| doubted.contains(&of)));
            errors.line(line, number, at, own.or(*general));
        }
    }

    /// Takes back what the files of other engines explained.
    pub(super) fn settle(&mut self, engine: Option<&'a str>) {
        let mut doubts = std::mem::take(&mut self.doubts);
        if let Some(errors) = doubts.remove(&engine).or_else(|| doubts.remove(&None)) {
            self.settled = errors;
        }
    }

    /// Returns the errors by every engine.
    pub(super) fn all(&mut self) -> impl Iterator<Item = &mut Errors> {
        std::iter::once(&mut self.settled).chain(self.doubts.values_mut())
    }
}
