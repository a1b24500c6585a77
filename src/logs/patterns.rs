//! Which of all known texts stand in a line, found in one pass whatever their number.

use regex::{RegexSet, RegexSetBuilder};

use crate::playbook::{LogFact, LogFile, LogFinding, LogNumbers};

/// The compiled texts, and what is remembered of them while lines are searched; beyond, the search only becomes slower.
const COMPILED_BYTES: usize = 8 << 20;
const REMEMBERED_BYTES: usize = 8 << 20;

/// The texts of several log files of the playbooks, prepared once for any number of logs.
#[derive(Debug)]
pub struct Patterns<'a> {
    pub(super) files: Vec<&'a LogFile>,
    /// None when the texts are too many for one automaton: then each is looked for by itself.
    set: Option<RegexSet>,
    texts: Vec<(&'a str, Text<'a>)>,
}

/// What a text of a line tells, if all of it is there.
#[derive(Debug, Clone, Copy)]
pub(super) enum Text<'a> {
    /// Whose log it is.
    Known(&'a str),
    /// Periodic numbers.
    Statistics(&'a LogNumbers),
    /// Numbers of the start.
    Startup(&'a LogNumbers),
    /// A version, or how the engine was started.
    Fact(&'a LogFact),
    /// A finding, by this one of its patterns.
    Finding(&'a LogFinding, &'a str),
}

impl<'a> Patterns<'a> {
    /// Prepares the texts of these files.
    pub fn new(files: impl IntoIterator<Item = &'a LogFile>) -> Self {
        let files: Vec<&LogFile> = files.into_iter().collect();
        let (mut texts, mut parts) = (Vec::new(), Vec::new());
        for file in &files {
            let known = file.known_by.iter().map(|text| (text.as_str(), Text::Known(text)));
            let statistics = file.statistics.iter().map(|numbers| (numbers.mark.as_str(), Text::Statistics(numbers)));
            let startup = file.startup.iter().map(|numbers| (numbers.mark.as_str(), Text::Startup(numbers)));
            let facts = file.facts.iter().map(|fact| (fact.mark.as_str(), Text::Fact(fact)));
            let findings = file.findings.iter().flat_map(|finding| {
                let part = |pattern: &'a String| {
                    // The longest part is the rarest one.
                    let longest = pattern.split('*').map(str::trim).max_by_key(|part| part.len())?;
                    (!longest.is_empty()).then_some((longest, Text::Finding(finding, pattern)))
                };
                finding.lines.iter().filter_map(part)
            });
            for (part, text) in known.chain(statistics).chain(startup).chain(facts).chain(findings) {
                parts.push(regex::escape(part));
                texts.push((file.logs.as_str(), text));
            }
        }
        let mut builder = RegexSetBuilder::new(&parts);
        // ASCII is enough: engines write their own texts in English.
        let builder = builder.case_insensitive(true).unicode(false);
        let set = builder.size_limit(COMPILED_BYTES).dfa_size_limit(REMEMBERED_BYTES).build().ok();
        Self { files, set, texts }
    }

    /// The texts that may stand in a line, with their engine, in the order of the data.
    pub(super) fn of(&self, line: &str) -> Vec<(&'a str, Text<'a>)> {
        match &self.set {
            Some(set) => set.matches(line).into_iter().filter_map(|i| self.texts.get(i).copied()).collect(),
            None => self.texts.clone(),
        }
    }
}
