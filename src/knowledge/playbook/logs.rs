//! The meaning of an engine's log lines: `logs/<engine>.yaml`.

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
    /// An explanation of how to read this log.
    pub meaning: String,
    /// Text that identifies the log as this engine's.
    pub known_by: Vec<String>,
    /// True if its lines may appear in any engine's log: the kernel's and the driver's.
    #[serde(default)]
    pub anywhere: bool,
    /// Sources of its facts.
    pub references: Vec<String>,
    /// Lines that show a stage in the life of its process.
    #[serde(default)]
    pub stages: LogStageMarks,
    /// Lines with a known meaning.
    pub findings: Vec<LogFinding>,
    /// Lines that report numbers repeatedly.
    #[serde(default)]
    pub statistics: Vec<LogNumbers>,
    /// Lines that report numbers once, at startup.
    #[serde(default)]
    pub startup: Vec<LogNumbers>,
    /// Lines of the startup with a version, or with the arguments of the engine.
    #[serde(default)]
    pub facts: Vec<LogFact>,
}

/// Text of the lines that show the stages of a process; an error that it survived is not why it failed.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct LogStageMarks {
    /// The first lines of a new process.
    #[serde(default)]
    pub start: Vec<String>,
    /// Lines that it writes when it begins to serve. Lines of `statistics` count too.
    #[serde(default)]
    pub ready: Vec<String>,
    /// Lines that it writes when it receives a stop signal: errors after them only follow.
    #[serde(default)]
    pub stop: Vec<String>,
    /// Lines of an orderly end, whatever led to it.
    #[serde(default)]
    pub end: Vec<String>,
}

impl LogStageMarks {
    /// Returns the texts, each with the stage that begins with it.
    pub fn texts(&self) -> impl Iterator<Item = (&str, LogStage)> {
        let stages = [
            (&self.start, LogStage::Starting),
            (&self.ready, LogStage::Serving),
            (&self.stop, LogStage::Stopping),
            (&self.end, LogStage::Ending),
        ];
        stages.into_iter().flat_map(|(texts, stage)| texts.iter().map(move |text| (text.as_str(), stage)))
    }
}

/// A stage in the life of a process, by its log.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum LogStage {
    /// It starts and does not serve yet.
    Starting,
    /// It serves.
    Serving,
    /// It received a stop signal.
    Stopping,
    /// It ends in order, and no line tells who asked for it.
    Ending,
}

/// A known meaning of log lines.
#[derive(Debug, Clone, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct LogFinding {
    /// Its id, unique within the file.
    pub id: String,
    /// Text of the line, any of these; `*` stands for the varying parts. A text that begins with `File "` is that of a
    /// frame, and explains an exception that no other text explains by the part of the program that raised it.
    pub lines: Vec<String>,
    /// The title, a clause: `the KV cache got no memory`.
    pub title: String,
    /// An explanation for a reader who is new to it.
    pub meaning: String,
    /// The role of the line: root error, sign, consequence, or harmless.
    pub rank: LogRank,
    /// The action; unset for a harmless line.
    #[serde(rename = "do")]
    pub action: Option<String>,
    /// The direction in which the engine's memory flag (`tables/memory-flags.yaml`) must be changed; unset if
    /// unrelated.
    pub direction: Option<super::Direction>,
    /// The playbook or cause that the line is evidence for.
    pub cause: Option<String>,
    /// The signal of the catalog, with `of: [log]`, that counts its lines.
    pub tells: Option<String>,
    /// Harmless up to this number of times within ten minutes; above, `rank` holds.
    #[serde(default)]
    pub harmless_up_to: u64,
    /// Ids of findings of the same file or of any log: after one of them it is a consequence, whatever its rank.
    #[serde(default)]
    pub follows: Vec<String>,
    /// Id of a finding of the same file whose meaning and steps hold where the exception tells of the program's own fault:
    /// an assertion, or a key, an index or an attribute that is not there.
    pub own_fault: Option<String>,
    /// The engine and versions: `vllm >= 0.28`; all if unset.
    pub engine: Option<String>,
    /// Real lines that it must match.
    pub examples: Vec<String>,
    /// The source of this fact.
    pub source: String,
}

/// The role of a line in a failure.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum LogRank {
    /// The root error.
    Root,
    /// Relevant information; not itself an error.
    Sign,
    /// A consequence of an earlier error: read the lines above.
    Secondary,
    /// Harmless, however often it appears.
    Benign,
}

/// A line with numbers.
#[derive(Debug, Clone, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct LogNumbers {
    /// Text that identifies the line.
    pub mark: String,
    /// The meaning, if the titles of its numbers do not explain it.
    pub meaning: Option<String>,
    /// The recommended action.
    #[serde(rename = "do")]
    pub action: Option<String>,
    /// The direction in which the engine's memory flag must be changed; unset if the line is not about memory.
    pub direction: Option<super::Direction>,
    /// The source of this fact.
    pub source: Option<String>,
    /// Signal, or a name of its own, to the place of its number.
    pub values: BTreeMap<String, LogValue>,
    /// Real lines, with the values that must be parsed from them.
    pub examples: Vec<LogExample>,
}

/// A line with a version, or with the arguments of the engine.
#[derive(Debug, Clone, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct LogFact {
    /// The text right before the fact.
    pub mark: String,
    /// The kind of the fact.
    pub tells: LogTells,
    /// The product of the version; only for `tells: version`.
    #[serde(rename = "of")]
    pub what: Option<String>,
    /// Real lines, each with some of the facts that must be parsed from it.
    pub examples: Vec<LogFactExample>,
}

/// The kind of the fact that follows a mark.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum LogTells {
    /// A version, up to the next space, comma, quote or bracket.
    Version,
    /// The product name of the GPUs, parsed like a version.
    Gpu,
    /// Arguments that differ from the defaults, as Python writes them.
    Arguments,
    /// All settings, as Python writes them.
    Settings,
}

/// A real line and the facts in it.
#[derive(Debug, Clone, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct LogFactExample {
    /// The line.
    pub line: String,
    /// The facts that must be parsed, by the setting's name, by the product of a version, or by `gpu`.
    pub told: BTreeMap<String, String>,
}

/// The place of a number in a line.
#[derive(Debug, Clone, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct LogValue {
    /// The text right before the number.
    pub after: String,
    /// The factor that it is multiplied by: 0.01 for percent, 1073741824 for GiB.
    #[serde(default = "one")]
    pub scale: f64,
    /// The title for people: `running requests`.
    pub title: String,
    /// The unit after scaling.
    pub unit: crate::signal::Unit,
}

fn one() -> f64 {
    1.0
}

/// A real line and the values in it.
#[derive(Debug, Clone, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct LogExample {
    /// The line.
    pub line: String,
    /// The values that must be parsed, after scaling.
    pub values: BTreeMap<String, f64>,
}

impl LogFinding {
    /// Returns the number of characters of its longest pattern that matches `line`; `None` if no pattern matches.
    pub fn matched(&self, line: &str) -> Option<usize> {
        let lower = line.to_ascii_lowercase();
        self.lines.iter().filter_map(|pattern| matched(pattern, &lower)).max()
    }
}

impl LogNumbers {
    /// Returns the names of its values in the order of its first example.
    pub fn in_order(&self) -> Vec<&str> {
        let line = self.examples.first().map_or("", |example| example.line.as_str());
        let mut names: Vec<(Option<usize>, &str)> =
            self.values.iter().map(|(name, value)| (line.find(&value.after), name.as_str())).collect();
        names.sort_by_key(|(at, _)| (at.is_none(), *at));
        names.into_iter().map(|(_, name)| name).collect()
    }

    /// Returns the values of a line; `None` if it is another line.
    pub fn read(&self, line: &str) -> Option<BTreeMap<&str, f64>> {
        if !line.contains(&self.mark) {
            return None;
        }
        let values = self.values.iter().filter_map(|(name, value)| Some((name.as_str(), value.read(line)?)));
        Some(values.collect())
    }
}

impl LogValue {
    /// Parses the number after its text; `1,234`, `10.17x` and `45.2%` are 1234, 10.17 and 45.2, times the scale.
    fn read(&self, line: &str) -> Option<f64> {
        let rest = line.split_once(&self.after)?.1.trim_start_matches([' ', '=', ':']);
        let end =
            rest.find(|c: char| !(c.is_ascii_digit() || matches!(c, '.' | ',' | '-' | 'e'))).unwrap_or(rest.len());
        let digits: String = rest[..end].trim_end_matches(['.', ',', 'e']).chars().filter(|c| *c != ',').collect();
        let value: f64 = digits.parse().ok()?;
        value.is_finite().then_some(value * self.scale)
    }
}

/// The match of a log line in the data.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum LogLineMatch<'a> {
    /// A line with a known meaning.
    Finding(&'a LogFile, &'a LogFinding),
    /// A line with numbers.
    Numbers(&'a LogFile, &'a LogNumbers),
}

/// A line that decides in which direction the engine's memory flag must be changed, or that it is not the cause.
#[derive(Debug, Clone, PartialEq)]
pub struct MemoryLine<'a> {
    /// Text of the line; any of these.
    pub lines: Vec<&'a str>,
    /// The engine, with versions if they matter.
    pub engine: &'a str,
    /// The direction.
    pub direction: super::Direction,
    /// The reason.
    pub why: &'a str,
    /// The recommended action.
    pub action: &'a str,
    /// The source of this fact.
    pub source: &'a str,
}

/// Returns the matches of a line: those of the longest matching text; several if engines write the same words.
pub fn match_log_line<'a>(files: impl IntoIterator<Item = &'a LogFile>, line: &str) -> Vec<LogLineMatch<'a>> {
    let mut matches: Vec<(usize, LogLineMatch<'a>)> = Vec::new();
    for file in files {
        let findings = file.findings.iter().filter_map(|f| Some((f.matched(line)?, LogLineMatch::Finding(file, f))));
        let best = findings.max_by_key(|(length, _)| *length);
        let numbers = file.statistics.iter().chain(&file.startup);
        let numbers = numbers.filter_map(|n| match n.read(line) {
            Some(values) if !values.is_empty() => Some((values.len(), n)),
            _ => (line.trim() == n.mark).then_some((0, n)),
        });
        // If several patterns match a line, the one that parses the most values counts.
        let numbers = numbers.max_by_key(|(values, _)| *values).map(|(_, n)| n);
        matches.extend(best);
        matches.extend(numbers.map(|n| (n.mark.len(), LogLineMatch::Numbers(file, n))));
    }
    let own =
        |line_match: &LogLineMatch<'_>| line_match.file().known_by.iter().any(|text| line.contains(text.as_str()));
    if matches.iter().any(|(_, line_match)| own(line_match) && !line_match.file().anywhere) {
        matches.retain(|(_, line_match)| own(line_match));
    }
    let most = matches.iter().map(|(length, _)| *length).max();
    matches.retain(|(length, line_match)| Some(*length) == most || matches!(line_match, LogLineMatch::Numbers(..)));
    // Engines share texts such as "CUDA out of memory"; text that identifies an engine decides.
    if matches.iter().any(|(_, line_match)| own(line_match)) {
        matches.retain(|(_, line_match)| own(line_match));
    }
    matches.into_iter().map(|(_, line_match)| line_match).collect()
}

impl<'a> LogLineMatch<'a> {
    /// Returns its finding; `None` for a line of numbers.
    pub fn finding(&self) -> Option<(&'a LogFile, &'a LogFinding)> {
        match *self {
            Self::Finding(file, finding) => Some((file, finding)),
            Self::Numbers(..) => None,
        }
    }

    /// Returns the log file that the line belongs to.
    pub fn file(&self) -> &'a LogFile {
        match self {
            Self::Finding(file, _) | Self::Numbers(file, _) => file,
        }
    }
}

impl LogFile {
    /// Returns its lines about memory, in the order of the file.
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

/// Returns the number of characters of `pattern` that match a lower-case line, in order; `*` matches any text.
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
