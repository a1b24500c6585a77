//! Search of a line for all known texts in one pass, whatever their number.

use std::collections::BTreeSet;

use aho_corasick::AhoCorasick;

use knowledge::playbook::{LogFact, LogFile, LogFinding, LogNumbers, LogStage};

/// The patterns of several log files of the playbooks, compiled once for any number of logs.
#[derive(Debug)]
pub struct Patterns<'a> {
    pub(super) files: Vec<&'a LogFile>,
    /// Finds the texts; `None` if they are too many, and each text is then searched by itself.
    finder: Option<AhoCorasick>,
    texts: Vec<(&'a str, PatternMeaning<'a>)>,
    /// The engine that wrote the logs, if a person named it.
    pub(super) named: Option<&'a str>,
}

/// The meaning of a text that may be in a line.
#[derive(Debug, Clone, Copy)]
pub(super) enum PatternMeaning<'a> {
    /// Identifies the engine that wrote the log.
    Known(&'a str),
    /// The mark of a stage of the process, which begins with the line.
    Stage(&'a str, LogStage),
    /// Periodic numbers.
    Statistics(&'a LogNumbers),
    /// Numbers of the start-up.
    Startup(&'a LogNumbers),
    /// A version, or another fact of the start-up.
    Fact(&'a LogFact),
    /// A finding, with the pattern that may match.
    Finding(&'a LogFinding, &'a str),
}

impl<'a> Patterns<'a> {
    /// Compiles the patterns of these files.
    pub fn new(files: impl IntoIterator<Item = &'a LogFile>) -> Self {
        let files: Vec<&LogFile> = files.into_iter().collect();
        let (mut texts, mut parts) = (Vec::new(), Vec::new());
        for file in &files {
            let known_by = file.known_by.iter().map(|text| (text.as_str(), PatternMeaning::Known(text)));
            let stages = file.stages.texts().map(|(text, stage)| (text, PatternMeaning::Stage(text, stage)));
            let statistics =
                file.statistics.iter().map(|numbers| (numbers.mark.as_str(), PatternMeaning::Statistics(numbers)));
            let startup = file.startup.iter().map(|numbers| (numbers.mark.as_str(), PatternMeaning::Startup(numbers)));
            let facts = file.facts.iter().map(|fact| (fact.mark.as_str(), PatternMeaning::Fact(fact)));
            let findings = file.findings.iter().flat_map(|finding| {
                let part = |pattern: &'a String| {
                    // The longest part is the most selective.
                    let longest = pattern.split('*').map(str::trim).max_by_key(|part| part.len())?;
                    (!longest.is_empty()).then_some((longest, PatternMeaning::Finding(finding, pattern)))
                };
                finding.lines.iter().filter_map(part)
            });
            for (part, text) in known_by.chain(stages).chain(statistics).chain(startup).chain(facts).chain(findings) {
                parts.push(part);
                texts.push((file.logs.as_str(), text));
            }
        }
        // ASCII is sufficient: engines write their messages in English.
        let finder = AhoCorasick::builder().ascii_case_insensitive(true).build(&parts).ok();
        Self { files, finder, texts, named: None }
    }

    /// Compiles the patterns of this engine's file, and of those whose lines may be in any log.
    pub fn of_engine(files: impl IntoIterator<Item = &'a LogFile>, engine: &'a str) -> Self {
        let files = files.into_iter().filter(|file| file.logs == engine || file.anywhere);
        Self { named: Some(engine), ..Self::new(files) }
    }

    /// Returns a finding of a file.
    pub(super) fn finding(&self, of: &str, id: &str) -> Option<&'a LogFinding> {
        let mut findings = self.files.iter().filter(|file| file.logs == of).flat_map(|file| &file.findings);
        findings.find(|finding| finding.id == id)
    }

    /// Returns true if the lines of this file may be in any engine's log.
    pub(super) fn anywhere(&self, of: &str) -> bool {
        self.files.iter().any(|file| file.anywhere && file.logs == of)
    }

    /// Returns the candidate texts of a line, each with its engine, in the order of the data.
    pub(super) fn of(&self, line: &str) -> Vec<(&'a str, PatternMeaning<'a>)> {
        let Some(finder) = &self.finder else { return self.texts.clone() };
        let found: BTreeSet<usize> =
            finder.find_overlapping_iter(line).map(|found| found.pattern().as_usize()).collect();
        found.into_iter().filter_map(|i| self.texts.get(i).copied()).collect()
    }
}
