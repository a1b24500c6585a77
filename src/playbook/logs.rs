//! What lines of an engine's log mean: `logs/<engine>.yaml`.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The log of one engine.
#[derive(Debug, Clone, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct LogFile {
    /// The engine; same as the file name.
    pub logs: String,
    /// The format's version: 1.
    pub schema: u32,
    /// How to read this log.
    pub meaning: String,
    /// Text by which the log is known to be this engine's.
    pub known_by: Vec<String>,
    /// Its lines may stand in any engine's log: the kernel's and the driver's.
    #[serde(default)]
    pub anywhere: bool,
    /// Where its facts were read.
    pub references: Vec<String>,
    /// Lines that mean something.
    pub findings: Vec<LogFinding>,
    /// Lines that tell numbers again and again.
    #[serde(default)]
    pub statistics: Vec<LogNumbers>,
    /// Lines that tell numbers once, at the start.
    #[serde(default)]
    pub startup: Vec<LogNumbers>,
    /// Lines of the start that tell a version, or how the engine was started.
    #[serde(default)]
    pub facts: Vec<LogFact>,
}

/// One meaning.
#[derive(Debug, Clone, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct LogFinding {
    /// Its id, unique within the file.
    pub id: String,
    /// Text of the line, any of these; `*` stands for what differs from case to case.
    pub lines: Vec<String>,
    /// A clause: `the KV cache got no memory`.
    pub title: String,
    /// What happened, for somebody who has not met it.
    pub meaning: String,
    /// Whether it is what went wrong, what followed from it, or nothing.
    pub rank: LogRank,
    /// What to do; none for what is harmless.
    #[serde(rename = "do")]
    pub action: Option<String>,
    /// Which way the engine's memory flag (`tables/memory-flags.yaml`) must go; none when it is not about memory.
    pub direction: Option<super::Direction>,
    /// The playbook or cause that it speaks for.
    pub cause: Option<String>,
    /// The signal of the catalog, `of: [log]`, that counts its lines.
    pub tells: Option<String>,
    /// Harmless up to so many times within ten minutes; more of them are what `rank` says.
    #[serde(default)]
    pub harmless_up_to: u64,
    /// For which versions: `vllm >= 0.28`; all when not set.
    pub engine: Option<String>,
    /// Real lines that it must match.
    pub examples: Vec<String>,
    /// Where it was read.
    pub source: String,
}

/// What a line is to the trouble.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum LogRank {
    /// It went wrong here.
    Root,
    /// Worth knowing; not itself an error.
    Sign,
    /// It follows from something earlier: look above.
    Secondary,
    /// Harmless, however often it comes.
    Benign,
}

/// A line with numbers.
#[derive(Debug, Clone, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct LogNumbers {
    /// Text by which the line is known.
    pub mark: String,
    /// What it says, where the titles of its numbers do not tell.
    pub meaning: Option<String>,
    /// What to do with it.
    #[serde(rename = "do")]
    pub action: Option<String>,
    /// Which way the engine's memory flag must go; none when it is not about memory.
    pub direction: Option<super::Direction>,
    /// Where it was read.
    pub source: Option<String>,
    /// Signal, or a name of its own, to where its number stands.
    pub values: BTreeMap<String, LogValue>,
    /// Real lines, with what must be read from them.
    pub examples: Vec<LogExample>,
}

/// A line that tells a version, or how the engine was started.
#[derive(Debug, Clone, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct LogFact {
    /// The text right before what is told.
    pub mark: String,
    /// What is told.
    pub tells: LogTells,
    /// Of what it is the version; only for `tells: version`.
    #[serde(rename = "of")]
    pub what: Option<String>,
    /// Real lines, each with some of what must be read from it.
    pub examples: Vec<LogFactExample>,
}

/// What stands behind a fact's mark.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum LogTells {
    /// A version, up to the next space, comma, quote or bracket.
    Version,
    /// The kind of the GPUs, read as a version is.
    Gpu,
    /// Arguments that differ from the defaults, as Python writes them.
    Arguments,
    /// All settings, as Python writes them.
    Settings,
}

/// A line and what is told in it.
#[derive(Debug, Clone, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct LogFactExample {
    /// The line.
    pub line: String,
    /// What must be read, by the setting's name, by what the version is of, or by `gpu`.
    pub told: BTreeMap<String, String>,
}

/// Where a number stands in a line.
#[derive(Debug, Clone, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct LogValue {
    /// The text right before it.
    pub after: String,
    /// What it is multiplied by: 0.01 for percent, 1073741824 for GiB.
    #[serde(default = "one")]
    pub scale: f64,
    /// For people: `running requests`.
    pub title: String,
    /// Its unit after scaling.
    pub unit: crate::signal::Unit,
}

fn one() -> f64 {
    1.0
}

/// A line and what is in it.
#[derive(Debug, Clone, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct LogExample {
    /// The line.
    pub line: String,
    /// The values that must be read, after scaling.
    pub values: BTreeMap<String, f64>,
}

impl LogFinding {
    /// How many characters of its longest pattern stand in `line`; none when it does not match.
    pub fn matched(&self, line: &str) -> Option<usize> {
        let lower = line.to_ascii_lowercase();
        self.lines.iter().filter_map(|pattern| matched(pattern, &lower)).max()
    }
}

impl LogNumbers {
    /// The names of its values as its first real line tells them.
    pub fn in_order(&self) -> Vec<&str> {
        let line = self.examples.first().map_or("", |example| example.line.as_str());
        let mut names: Vec<(Option<usize>, &str)> =
            self.values.iter().map(|(name, value)| (line.find(&value.after), name.as_str())).collect();
        names.sort_by_key(|(at, _)| (at.is_none(), *at));
        names.into_iter().map(|(_, name)| name).collect()
    }

    /// The values of a line; none when it is another line.
    pub fn read(&self, line: &str) -> Option<BTreeMap<&str, f64>> {
        if !line.contains(&self.mark) {
            return None;
        }
        let values = self.values.iter().filter_map(|(name, value)| Some((name.as_str(), value.read(line)?)));
        Some(values.collect())
    }
}

impl LogValue {
    /// The number after its text; `1,234`, `10.17x` and `45.2%` are read as 1234, 10.17 and 45.2 times the scale.
    fn read(&self, line: &str) -> Option<f64> {
        let rest = line.split_once(&self.after)?.1.trim_start_matches([' ', '=', ':']);
        let end =
            rest.find(|c: char| !(c.is_ascii_digit() || matches!(c, '.' | ',' | '-' | 'e'))).unwrap_or(rest.len());
        let digits: String = rest[..end].trim_end_matches(['.', ',', 'e']).chars().filter(|c| *c != ',').collect();
        let value: f64 = digits.parse().ok()?;
        value.is_finite().then_some(value * self.scale)
    }
}

/// One line of a log, as data knows it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Known<'a> {
    /// It means something.
    Finding(&'a LogFile, &'a LogFinding),
    /// It tells numbers.
    Numbers(&'a LogFile, &'a LogNumbers),
}

/// A line for which the engine's memory flag goes one way, or is not it.
#[derive(Debug, Clone, PartialEq)]
pub struct MemoryLine<'a> {
    /// Text of the line; any of these.
    pub lines: Vec<&'a str>,
    /// For which engine, with versions where they matter.
    pub engine: &'a str,
    /// Which way.
    pub direction: super::Direction,
    /// Why.
    pub why: &'a str,
    /// What to do.
    pub action: &'a str,
    /// Where it was read.
    pub source: &'a str,
}

/// What is known of a line: what the longest matching text tells; several where engines write the same words.
pub fn known<'a>(files: impl IntoIterator<Item = &'a LogFile>, line: &str) -> Vec<Known<'a>> {
    let mut found: Vec<(usize, Known<'a>)> = Vec::new();
    for file in files {
        let findings = file.findings.iter().filter_map(|f| Some((f.matched(line)?, Known::Finding(file, f))));
        let best = findings.max_by_key(|(length, _)| *length);
        let numbers = file.statistics.iter().chain(&file.startup);
        let told = numbers.filter_map(|n| match n.read(line) {
            Some(values) if !values.is_empty() => Some((values.len(), n)),
            _ => (line.trim() == n.mark).then_some((0, n)),
        });
        // Where two read a line, one of them reads more of it.
        let told = told.max_by_key(|(values, _)| *values).map(|(_, n)| n);
        found.extend(best);
        found.extend(told.map(|n| (n.mark.len(), Known::Numbers(file, n))));
    }
    let own = |known: &Known<'_>| known.file().known_by.iter().any(|text| line.contains(text.as_str()));
    let most = found.iter().map(|(length, _)| *length).max();
    found.retain(|(length, known)| Some(*length) == most || matches!(known, Known::Numbers(..)));
    // Engines share words such as "CUDA out of memory"; what the line says of itself decides.
    if found.iter().any(|(_, known)| own(known)) {
        found.retain(|(_, known)| own(known));
    }
    found.into_iter().map(|(_, known)| known).collect()
}

impl<'a> Known<'a> {
    /// Whose line it is.
    pub fn file(&self) -> &'a LogFile {
        match self {
            Self::Finding(file, _) | Self::Numbers(file, _) => file,
        }
    }
}

impl LogFile {
    /// Its lines about memory, in the order of the file.
    pub fn memory(&self) -> impl Iterator<Item = MemoryLine<'_>> {
        let findings = self.findings.iter().filter_map(|f| {
            Some(MemoryLine {
                lines: f.lines.iter().map(String::as_str).collect(),
                engine: f.engine.as_deref().unwrap_or(&self.logs),
                direction: f.direction?,
                why: &f.meaning,
                action: f.action.as_deref().unwrap_or_default(),
                source: &f.source,
            })
        });
        let numbers = self.statistics.iter().chain(&self.startup).filter_map(|n| {
            Some(MemoryLine {
                lines: vec![&n.mark],
                engine: &self.logs,
                direction: n.direction?,
                why: n.meaning.as_deref().unwrap_or_default(),
                action: n.action.as_deref().unwrap_or_default(),
                source: n.source.as_deref().unwrap_or_default(),
            })
        });
        findings.chain(numbers)
    }
}

/// How many characters of `pattern` stand in a line in lower case, in order; `*` matches anything.
pub fn matched(pattern: &str, lower: &str) -> Option<usize> {
    let (mut rest, mut matched) = (lower, 0);
    for part in pattern.split('*').map(|part| part.trim().to_ascii_lowercase()).filter(|part| !part.is_empty()) {
        rest = &rest[rest.find(&part)? + part.len()..];
        matched += part.len();
    }
    (matched > 0).then_some(matched)
}

#[cfg(test)]
mod tests {
    use super::matched;

    #[test]
    fn a_pattern_is_found_in_order_whatever_stands_between() {
        let line = "ValueError: Free memory on device cuda:0 (3/80 GiB) on startup is less than desired GPU memory"
            .to_ascii_lowercase();
        assert_eq!(matched("free memory on device * is less than desired", &line), Some(21 + 20));
        assert_eq!(matched("is less than desired * free memory on device", &line), None);
        assert_eq!(matched("*", &line), None, "a pattern without text matches nothing");
    }
}
