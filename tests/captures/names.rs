//! The names that a diagnosis can ask for: about a third of the series that programs show have one.

use std::collections::HashSet;
use std::path::Path;

use anyhow::Context;
use regex::Regex;

/// Every word of the product's data, and its patterns of names; a series of another name changes no answer, but takes its
/// time to import.
#[derive(Default)]
pub(crate) struct Names {
    words: HashSet<String>,
    patterns: Vec<Regex>,
}

impl Names {
    /// Reads the files of `playbooks/`.
    pub(crate) fn of_data() -> anyhow::Result<Self> {
        let mut names = Self::default();
        names.add(&Path::new(env!("CARGO_MANIFEST_DIR")).join("playbooks"))?;
        Ok(names)
    }

    /// Whether the data names this series, or the histogram or summary that it is a part of. Prometheus' own writers and
    /// OpenTelemetry's differ in colons, which diagnoses take in both forms.
    pub(crate) fn have(&self, name: &str) -> bool {
        let plain = name.replace(':', "_");
        let whole = ["_bucket", "_sum", "_count"].iter().find_map(|part| plain.strip_suffix(part));
        self.words.contains(&plain)
            || whole.is_some_and(|whole| self.words.contains(whole))
            || self.patterns.iter().any(|pattern| pattern.is_match(name))
    }

    fn add(&mut self, directory: &Path) -> anyhow::Result<()> {
        let pattern = Regex::new(r#"__name__=~\\?"([^"\\]+)"#)?;
        let entries = std::fs::read_dir(directory).with_context(|| format!("cannot list {}", directory.display()))?;
        for entry in entries {
            let path = entry?.path();
            if path.is_dir() {
                self.add(&path)?;
            } else if path.extension().is_some_and(|end| end == "yaml") {
                let text = std::fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()))?;
                let words = text.split(|c: char| !c.is_ascii_alphanumeric() && c != '_' && c != ':');
                // A colon at an end is YAML's.
                self.words.extend(words.map(|word| word.trim_matches(':').replace(':', "_")));
                for found in pattern.captures_iter(&text) {
                    self.patterns.push(Regex::new(&format!("^(?:{})$", &found[1]))?);
                }
            }
        }
        Ok(())
    }
}
