//! Configuration from an engine's start-up lines: versions, GPUs, arguments, settings.

use std::collections::{BTreeMap, BTreeSet};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use knowledge::playbook::{LogFact, LogTells};
use redact::is_secret;

/// Maximum settings read from one line; SGLang writes about 400.
const SETTINGS_MOST: usize = 1_024;
/// Maximum characters of a value.
const VALUE_CHARS: usize = 400;
/// Maximum GPU products of one start.
const GPUS_MOST: usize = 20;

/// The configuration of an engine, from its log; of several starts the last.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Start {
    /// Versions by component.
    pub versions: BTreeMap<String, String>,
    /// The GPU products.
    pub gpus: BTreeSet<String>,
    /// The command-line words of arguments that differ from the defaults.
    pub arguments: Vec<String>,
    /// Settings in force by name. A setting with a secret's name is left out; a value that contains such a name is
    /// replaced by `…`.
    pub settings: BTreeMap<String, String>,
}

impl Start {
    /// Applies the facts of a line; does nothing if the line does not match.
    pub(super) fn read(&mut self, fact: &LogFact, line: &str) {
        let facts = read(fact, line);
        if facts.is_empty() {
            return;
        }
        // Engines write these lines once per start, before they detect their GPUs.
        if matches!(fact.tells, LogTells::Arguments | LogTells::Settings) {
            self.gpus.clear();
        }
        match fact.tells {
            LogTells::Version => self.versions.extend(facts),
            LogTells::Gpu if self.gpus.len() < GPUS_MOST => self.gpus.extend(facts.into_iter().map(|(_, gpu)| gpu)),
            LogTells::Gpu => {}
            LogTells::Arguments => self.arguments = facts.iter().flat_map(|(name, value)| words(name, value)).collect(),
            LogTells::Settings => self.settings = facts.into_iter().filter(|(_, value)| value != "None").collect(),
        }
    }
}

/// Returns the names and values in a line; the name of a GPU is `gpu`. Empty if the line does not match.
pub fn read(fact: &LogFact, line: &str) -> Vec<(String, String)> {
    let Some((_, rest)) = line.split_once(&fact.mark) else { return Vec::new() };
    match fact.tells {
        LogTells::Version | LogTells::Gpu => {
            let ends = |c: char| c.is_whitespace() || matches!(c, ',' | ';' | '\'' | '"' | ')' | ']');
            let value = rest.split(ends).next().unwrap_or_default().trim_end_matches(".json");
            let fits = !value.is_empty() && value.chars().count() <= VALUE_CHARS;
            let name = fact.what.clone().unwrap_or_else(|| "gpu".to_owned());
            fits.then(|| (name, value.to_owned())).into_iter().collect()
        }
        LogTells::Arguments | LogTells::Settings => listed(rest),
    }
}

/// Parses `{'a': 1, 'b': 'x'}` and `a=1, b='x')` into names and values, up to the closing bracket. If the line ends
/// before it, the incomplete last value is left out. Values are as Python prints them, strings without quotes. An entry
/// with a secret's name is left out; a value that contains such a name is replaced by `…`.
fn listed(text: &str) -> Vec<(String, String)> {
    let text = text.strip_prefix('{').unwrap_or(text);
    let (mut pairs, mut begin, mut name_end) = (Vec::new(), 0, None);
    let (mut depth, mut quote, mut escaped) = (0_usize, None, false);
    for (at, c) in text.char_indices() {
        if let Some(open) = quote {
            match c {
                _ if escaped => escaped = false,
                '\\' => escaped = true,
                c if c == open => quote = None,
                _ => {}
            }
            continue;
        }
        match c {
            '\'' | '"' => quote = Some(c),
            '(' | '[' | '{' => depth += 1,
            ':' | '=' if depth == 0 => _ = name_end.get_or_insert(at),
            ',' | ')' | ']' | '}' if depth == 0 => {
                if let Some(end) = name_end.take() {
                    pairs.push((bare(&text[begin..end]), bare(&text[end + 1..at])));
                }
                begin = at + 1;
                if c != ',' || pairs.len() >= SETTINGS_MOST {
                    break;
                }
            }
            ')' | ']' | '}' => depth -= 1,
            _ => {}
        }
    }
    pairs.retain(|(name, _)| !name.is_empty() && !is_secret(name));
    pairs.iter_mut().filter(|(_, value)| holds_secret(value)).for_each(|(_, value)| *value = "…".to_owned());
    pairs
}

/// Returns true if a compound value contains a secret's name: `{'api_key': 'x'}`, `Config(token='x')`.
fn holds_secret(value: &str) -> bool {
    let apart = |c: char| !(c.is_alphanumeric() || matches!(c, '_' | '-'));
    value.contains(['{', '[', '(', '=']) && value.split(apart).any(is_secret)
}

/// Returns a name or value on one line, without quotes.
fn bare(text: &str) -> String {
    let text = text.trim();
    let inside = |quote: char| text.strip_prefix(quote).and_then(|text| text.strip_suffix(quote));
    let text = inside('\'').or_else(|| inside('"')).unwrap_or(text);
    text.chars().map(|c| if c.is_control() { ' ' } else { c }).take(VALUE_CHARS).collect()
}

/// Converts an argument to command-line words: `--max-model-len 2048`, `--enforce-eager`,
/// `--no-enable-prefix-caching`.
fn words(name: &str, value: &str) -> Vec<String> {
    let flag = name.replace('_', "-");
    match value {
        "None" => Vec::new(),
        "True" => vec![format!("--{flag}")],
        "False" => vec![format!("--no-{flag}")],
        value => {
            let list = value.strip_prefix('[').and_then(|list| list.strip_suffix(']'));
            let values = list.map_or_else(|| vec![value.to_owned()], |list| list.split(',').map(bare).collect());
            std::iter::once(format!("--{flag}")).chain(values).collect()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fact(mark: &str, tells: LogTells) -> LogFact {
        LogFact { mark: mark.into(), tells, what: Some("vllm".into()), examples: Vec::new() }
    }

    #[test]
    fn what_differs_from_the_defaults_is_told_as_words_without_secrets() {
        let mut start = Start::default();
        let line = "INFO [x] non-default args: {'model': 'a, b', 'api_key': ['s'], 'hf_token': 'x', 'max_model_len': 2048, \
                    'enforce_eager': True, 'enable_prefix_caching': False, 'seed': None, \
                    'served_model_name': ['m', 'n'], 'compilation_config': {'mode': 3, 'x': [1, 2]}} and more: 1";
        start.read(&fact("non-default args: ", LogTells::Arguments), line);
        let arguments = start.arguments.join(" ");
        assert_eq!(
            arguments,
            "--model a, b --max-model-len 2048 --enforce-eager --no-enable-prefix-caching --served-model-name m n \
             --compilation-config {'mode': 3, 'x': [1, 2]}"
        );
        start.read(&fact("server_args=ServerArgs(", LogTells::Settings), line);
        assert!(start.settings.is_empty());
    }

    #[test]
    fn a_value_that_holds_a_secret_is_not_shown() {
        let hidden = |value: &str| {
            let pairs = listed(&format!("{{'a': {value}, 'b': 1}}"));
            assert_eq!((pairs.len(), pairs[1].1.as_str()), (2, "1"), "{value}");
            pairs[0].1 == "…"
        };
        for value in [
            "{'url': 'http://h', 'api_key': 'hush'}",
            "[{'x': ({'hf-token': 'hush'},)}]",
            "('password', 'hush')",
            "KVTransferConfig(kv_connector='x', token='hush')",
            "'{\"x\": {\"credentials\": \"hush\"}}'",
            "['--x', '1', '--api-key', 'hush']",
            "['http://h/?token=hush']",
        ] {
            assert!(hidden(value), "{value}");
        }
        for value in ["{'mode': 3, 'num_speculative_tokens': 2}", "['m', 'n']", "'/models/key'", "(1, 2)"] {
            assert!(!hidden(value), "{value}");
        }
    }

    #[test]
    fn of_several_starts_the_last_one_counts() {
        let (version, gpu) = (fact("engine (v", LogTells::Version), fact("device_name=", LogTells::Gpu));
        let arguments = fact("args: ", LogTells::Arguments);
        let mut start = Start::default();
        for (of, device) in [("0.1", "A"), ("0.2", "B")] {
            start.read(&version, &format!("engine (v{of})"));
            start.read(&arguments, &format!("args: {{'model': '{of}'}}"));
            start.read(&gpu, &format!("device_name={device}.json"));
        }
        assert_eq!(start.versions, [("vllm".to_owned(), "0.2".to_owned())].into());
        assert_eq!(start.gpus, ["B".to_owned()].into());
        assert_eq!(start.arguments, ["--model", "0.2"]);
    }

    #[test]
    fn all_settings_are_read_and_one_that_breaks_off_is_not() {
        let settings = fact("server_args=ServerArgs(", LogTells::Settings);
        let mut start = Start::default();
        let line = "[t] server_args=ServerArgs(model_path='m', tp_size=8, api_key='s', x=None, mem_fraction_static=0.8";
        start.read(&settings, line);
        let settings: Vec<(&str, &str)> = start.settings.iter().map(|(n, v)| (n.as_str(), v.as_str())).collect();
        assert_eq!(settings, [("model_path", "m"), ("tp_size", "8")]);
    }

    #[test]
    fn odd_lines_do_no_harm() {
        for rest in ["", "{", "}", "{'", "a", "=,=,", ")))", "{'a': {{{", "'\\", "é=ü)", "{'a': ']}', 'b': 1}"] {
            let line = format!("server_args=ServerArgs({rest}");
            Start::default().read(&fact("server_args=ServerArgs(", LogTells::Settings), &line);
        }
        assert_eq!(listed("{'a': ']}', 'b': 1}"), [("a".into(), "]}".into()), ("b".into(), "1".into())]);
    }
}
