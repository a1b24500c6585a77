//! Parses a line that a user types in Slack into a [`ParsedCommand`]: splits quotes like a shell, and accepts
//! options as plain words: `llm/llama at 14:05`.

use std::error::Error as _;

use clap::FromArgMatches;
use clap::error::{ContextKind, ContextValue, ErrorKind};

use super::slack_text::plain;
use super::{ChatCommand, HERE, definition};

/// The longest accepted line, in characters.
const MOST_CHARS: usize = 2_000;
/// The default command of a line that begins with a target.
const DIAGNOSE: &str = "diagnose";
/// The default command of an empty line.
const HEALTH: &str = "health";

/// A parsed line.
#[derive(Debug, Clone, PartialEq)]
pub struct ParsedCommand {
    /// The command.
    pub command: ChatCommand,
    /// True if the answer is visible to everybody in the channel.
    pub here: bool,
}

/// The reason why a line cannot be parsed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CommandError {
    /// The line is longer than 2,000 characters.
    TooLong,
    /// The first word resembles a command: the line with that command, and the line with the word as a target.
    Nearly {
        /// The similar command.
        command: String,
        /// The line with that command.
        corrected: String,
        /// The line as `diagnose` of a target.
        target: String,
    },
    /// The arguments of a command are invalid.
    Wrong {
        /// The error.
        why: ArgumentError,
        /// The command.
        command: String,
    },
}

/// An error in the arguments. Messages take its text from the phrases; clap's own text suits only a shell.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ArgumentError {
    /// A value with invalid syntax: `at noon`.
    Value {
        /// The typed value.
        given: String,
        /// The argument: `at TIME`.
        what: String,
        /// The expected syntax.
        why: String,
    },
    /// A value that is not among the possible ones.
    Choice {
        /// The typed value.
        given: String,
        /// The possible values.
        choices: Vec<String>,
    },
    /// An unexpected word.
    Unexpected(String),
    /// A missing argument: `ID`.
    Missing(String),
    /// Any other error.
    Other,
}

impl From<&clap::Error> for ArgumentError {
    fn from(error: &clap::Error) -> Self {
        let text_of = |kind: ContextKind| match error.get(kind) {
            Some(ContextValue::String(text)) => text.clone(),
            Some(ContextValue::Strings(all)) => all.join(", "),
            _ => String::new(),
        };
        // In Slack `--at <TIME>` is written as `at TIME`.
        let argument = text_of(ContextKind::InvalidArg).replace("--", "").replace(['<', '>', '[', ']'], "");
        let value = text_of(ContextKind::InvalidValue);
        match (error.kind(), error.get(ContextKind::ValidValue), error.source()) {
            (ErrorKind::InvalidValue | ErrorKind::MissingRequiredArgument, _, _) if value.is_empty() => {
                Self::Missing(argument)
            }
            (ErrorKind::InvalidValue, Some(ContextValue::Strings(choices)), _) => {
                Self::Choice { given: value, choices: choices.clone() }
            }
            (ErrorKind::ValueValidation, _, Some(why)) => {
                Self::Value { given: value, what: argument, why: why.to_string() }
            }
            (ErrorKind::UnknownArgument, _, _) => Self::Unexpected(text_of(ContextKind::InvalidArg)),
            _ => Self::Other,
        }
    }
}

/// Parses a line.
///
/// # Errors
/// The reason why the line cannot be parsed.
pub fn parse(text: &str) -> Result<ParsedCommand, CommandError> {
    if text.chars().nth(MOST_CHARS).is_some() {
        return Err(CommandError::TooLong);
    }
    let mut words = split(&plain(text));
    let commands = definition();
    let first = words.first().map(|word| word.trim_end_matches(['?', '!', '.', ':']).to_lowercase());
    let subcommand = first.as_deref().and_then(|first| commands.find_subcommand(first));
    match (subcommand, first.as_deref()) {
        (Some(command), _) => words[0] = command.get_name().to_owned(),
        (None, None) => words.push(HEALTH.to_owned()),
        (None, Some("-h" | "--help" | "?" | "")) => words[0] = "help".to_owned(),
        (None, Some(first)) => {
            if let Some(command) = begins_with_option(&commands, &words) {
                words.insert(0, command.to_owned());
            } else if let Some(command) = nearly(&commands, first) {
                let rest = words[1..].join(" ");
                let line = |word: &str| format!("{word} {rest}").trim().to_owned();
                let target = format!("{DIAGNOSE} {}", line(&words[0]));
                return Err(CommandError::Nearly { corrected: line(command), command: command.to_owned(), target });
            } else {
                words.insert(0, DIAGNOSE.to_owned());
            }
        }
    }
    if let Some(at) = words.iter().position(|word| word == "--help") {
        words.truncate(at);
        words.insert(0, "help".to_owned());
    }
    let command = words[0].clone();
    let Some(subcommand) = commands.find_subcommand(&command) else { return Err(CommandError::TooLong) };
    let words = match subcommand.get_name() {
        "explain" => last_joined(words),
        _ => dashed(subcommand, words),
    };
    let wrong = |error: clap::Error| CommandError::Wrong { why: ArgumentError::from(&error), command: command.clone() };
    let matches = definition().try_get_matches_from(words).map_err(wrong)?;
    let here = matches.subcommand().is_some_and(|(_, inner)| inner.get_flag(HERE)) || matches.get_flag(HERE);
    let command = ChatCommand::from_arg_matches(&matches).map_err(wrong)?;
    Ok(ParsedCommand { command, here })
}

/// Returns the command of a line that begins with an option: `health` if there is only a time, else `diagnose`.
fn begins_with_option(commands: &clap::Command, words: &[String]) -> Option<&'static str> {
    let diagnose = commands.find_subcommand(DIAGNOSE)?;
    let line = std::iter::once(DIAGNOSE.to_owned()).chain(words.iter().cloned()).collect();
    let line = dashed(diagnose, line);
    if !line.get(1)?.starts_with("--") {
        return None;
    }
    let of_all = line[1..].iter().all(|word| word.starts_with("--at") || word == "--here" || word == "--share");
    Some(if of_all { HEALTH } else { DIAGNOSE })
}

/// Finds the command of which a word is a misspelling. Names of pools contain digits, slashes or dashes; commands do
/// not.
fn nearly<'a>(commands: &'a clap::Command, word: &str) -> Option<&'a str> {
    if !word.chars().all(|c| c.is_ascii_lowercase()) || word.len() < 3 {
        return None;
    }
    let edits = |name: &str| strsim::damerau_levenshtein(word, name);
    let near = commands.get_subcommands().map(clap::Command::get_name);
    let near = near.map(|name| (edits(name), name)).filter(|(n, name)| *n <= if name.len() > 5 { 2 } else { 1 });
    near.min().map(|(_, name)| name)
}

/// Returns true if an option of the command takes a value; `None` if it has no option with this name or alias.
fn option(command: &clap::Command, word: &str) -> Option<bool> {
    let has = |arg: &&clap::Arg| {
        let aliases = arg.get_visible_aliases().unwrap_or_default();
        arg.get_long() == Some(word) || aliases.contains(&word)
    };
    let arg = command.get_arguments().find(has)?;
    Some(arg.get_action().takes_values())
}

/// Converts known bare words to options: `at 14:05`, `last 30m`, `playbook high-ttft`, `here`.
fn dashed(command: &clap::Command, words: Vec<String>) -> Vec<String> {
    let mut out = Vec::with_capacity(words.len() + 2);
    let mut words = words.into_iter().peekable();
    out.extend(words.next());
    while let Some(word) = words.next() {
        let lower = word.to_lowercase();
        let bare = lower.trim_start_matches("--");
        let takes_value = option(command, bare).or_else(|| [HERE, "share"].contains(&bare).then_some(false));
        match takes_value {
            Some(false) => out.push(format!("--{bare}")),
            Some(true) if words.peek().is_some() || lower.starts_with("--") => {
                let mut value = words.next().unwrap_or_default();
                if words.next_if(|next| next.eq_ignore_ascii_case("ago")).is_some() {
                    value.push_str(" ago");
                }
                words.next_if(|next| next.eq_ignore_ascii_case("utc"));
                // A single word, so that a value that begins with a dash is not parsed as an option.
                out.push(format!("--{bare}={value}"));
            }
            _ => out.push(word),
        }
    }
    out
}

/// Joins the words after the kind into one name: `explain log a whole line`.
fn last_joined(words: Vec<String>) -> Vec<String> {
    let (mut first, rest) = (words.iter().take(2).cloned().collect::<Vec<_>>(), words.get(2..).unwrap_or_default());
    let mut rest: Vec<String> = rest.to_vec();
    let here = rest.last().is_some_and(|word| [HERE, "share"].contains(&word.trim_start_matches("--")));
    if here {
        rest.pop();
        first.insert(1, format!("--{HERE}"));
    }
    if let Some(kind) = first.last_mut().filter(|_| !rest.is_empty()) {
        *kind = kind.to_lowercase();
    }
    first.extend((!rest.is_empty()).then(|| rest.join(" ")));
    first
}

/// Splits a line like a shell; at spaces if a quote is not closed.
fn split(text: &str) -> Vec<String> {
    shlex::split(text).unwrap_or_else(|| {
        let bare = text.split_whitespace().map(|word| word.trim_matches(['"', '\'']).to_owned());
        bare.filter(|word| !word.is_empty()).collect()
    })
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::super::{Diagnose, Explain, HealthOf, SilenceOperation, When, Which};
    use super::*;
    use knowledge::clock::TimeArgument;

    fn diagnosed(text: &str) -> Diagnose {
        match parse(text).map(|asked| asked.command) {
            Ok(ChatCommand::Diagnose(what)) => what,
            other => panic!("{text}: {other:?}"),
        }
    }

    fn target(text: &str) -> Option<String> {
        diagnosed(text).target
    }

    #[test]
    fn an_empty_line_is_the_overview() {
        for text in ["", "  ", "\u{200b}", "health", "Health?", "HEALTH"] {
            assert_eq!(parse(text).unwrap().command, ChatCommand::Health(HealthOf::default()), "{text:?}");
        }
        assert!(matches!(
            parse("at 14:05").unwrap().command,
            ChatCommand::Health(HealthOf { at: Some(_), target: None })
        ));
    }

    #[test]
    fn options_are_words() {
        let expected = Diagnose {
            target: Some("llm/llama-8b".to_owned()),
            when: When { at: TimeArgument::parse("14:05").ok(), last: Some(Duration::from_secs(1_800)) },
            playbook: Some("high-ttft".to_owned()),
        };
        for text in [
            "llm/llama-8b at 14:05 last 30m playbook high-ttft",
            "at 14:05 playbook high-ttft last 30m llm/llama-8b",
            "diagnose llm/llama-8b --at 14:05 --last 30m --playbook=high-ttft",
            "d llm/llama-8b playbook high-ttft last 30m at 14:05 UTC",
            "“llm/llama-8b” at ‘14:05’ —last 30m —playbook high-ttft",
        ] {
            assert_eq!(diagnosed(text), expected, "{text}");
        }
        assert_eq!(diagnosed("x at 10m ago").when.at, Some(TimeArgument::Ago(Duration::from_secs(600))));
        assert_eq!(target("last").as_deref(), Some("last"), "without its value it is a name");
    }

    #[test]
    fn what_slack_and_its_editors_make_of_a_line_is_undone() {
        assert_eq!(target("<http://llama.example|llama.example>").as_deref(), Some("llama.example"));
        assert_eq!(target("<@U1> <#C1|llm>").as_deref(), Some("llm"));
        assert_eq!(target("`llm/x`").as_deref(), Some("llm/x"));
        assert_eq!(target("a&amp;b").as_deref(), Some("a&b"));
        assert_eq!(target("\u{202e}llm\u{202c}").as_deref(), Some("llm"));
        assert_eq!(target("\"my model\"").as_deref(), Some("my model"));
        assert_eq!(target("it's").as_deref(), Some("it's"));
        assert_eq!(target("a<b").as_deref(), Some("a<b"));
    }

    #[test]
    fn an_answer_is_shown_to_all_only_when_asked() {
        assert!(!parse("llm").unwrap().here);
        for text in ["llm here", "health share", "llm --here", "here", "explain xid 79 here", "playbooks here"] {
            assert!(parse(text).unwrap().here, "{text}");
        }
    }

    #[test]
    fn a_slip_gets_a_suggestion_and_a_name_does_not() {
        for (text, command) in
            [("helth", "health"), ("incidnets open", "incidents"), ("explian x", "explain"), ("capcity", "capacity")]
        {
            match parse(text) {
                Err(CommandError::Nearly { command: meant, corrected, target }) => {
                    assert_eq!(meant, command);
                    assert!(corrected.starts_with(command) && target.ends_with(text), "{corrected}, {target}");
                }
                other => panic!("{text}: {other:?}"),
            }
        }
        for text in ["llama", "qwen", "health-prod", "llm/helth", "helth2", "chat"] {
            assert_eq!(target(text).as_deref(), Some(text));
        }
    }

    #[test]
    fn a_line_of_a_log_and_a_flag_need_no_quotes() {
        let explained = |text: &str| match parse(text).unwrap().command {
            ChatCommand::Explain(Explain { id, name }) => (id, name.unwrap_or_default()),
            other => panic!("{other:?}"),
        };
        assert_eq!(explained("explain flag —swap-space"), ("flag".into(), "--swap-space".into()));
        assert_eq!(explained("explain Xid 79"), ("xid".into(), "79".into()));
        assert_eq!(
            explained("explain log No available memory at all"),
            ("log".into(), "No available memory at all".into())
        );
    }

    #[test]
    fn silences_are_listed_ended_and_made() {
        let meant = |text: &str| match parse(text).unwrap().command {
            ChatCommand::Silence(silence) => silence.operation(),
            other => panic!("{other:?}"),
        };
        assert_eq!(meant("silence"), Ok(SilenceOperation::List));
        assert_eq!(meant("silence expire abc"), Ok(SilenceOperation::Expire("abc".to_owned())));
        let hour = Duration::from_secs(3_600);
        assert_eq!(meant("silence 01J 1h"), Ok(SilenceOperation::Make(Some("01J".to_owned()), hour)));
        assert_eq!(meant("silence 1h"), Ok(SilenceOperation::Make(None, hour)));
        assert!(meant("silence 01J").unwrap_err().contains("silence 01J 1h"));
        assert!(meant("silence 01J forever").unwrap_err().contains("such as"));
    }

    #[test]
    fn wrong_use_is_told_apart() {
        for (text, part) in [
            ("incidents yesterday", r#"Choice { given: "yesterday", choices: ["open", "today", "all"] }"#),
            ("llm at noon", r#"Value { given: "noon", what: "at TIME", why: "#),
            ("llm last 1ms", "between 1s and 31d"),
            ("llm --nonsense", r#"Unexpected("--nonsense")"#),
            ("one two", r#"Unexpected("two")"#),
            ("explain", r#"Missing("ID")"#),
            ("llm at 14:05 at 14:06", "Other"),
        ] {
            match parse(text) {
                Err(CommandError::Wrong { why, .. }) => assert!(format!("{why:?}").contains(part), "{text}: {why:?}"),
                other => panic!("{text}: {other:?}"),
            }
        }
        assert!(
            matches!(parse("incidents today").unwrap().command, ChatCommand::Incidents(i) if i.which == Which::Today)
        );
    }

    #[test]
    fn help_is_asked_in_many_ways() {
        for text in ["help", "help health", "--help", "-h", "health --help", "?"] {
            assert!(matches!(parse(text).unwrap().command, ChatCommand::Help(_)), "{text}");
        }
    }

    #[test]
    fn hostile_lines_are_harmless() {
        assert_eq!(parse(&"a".repeat(100_000)), Err(CommandError::TooLong));
        assert_eq!(parse(&"\u{202e}".repeat(100_000)), Err(CommandError::TooLong));
        let pieces = [
            "<",
            ">",
            "|",
            "'",
            "\"",
            "\\",
            "\u{0}",
            "\u{202e}",
            "&lt;",
            "--",
            "=",
            "at",
            "ago",
            "<!channel>",
            "🔥",
            "`",
            "\n",
        ];
        for a in pieces {
            for b in pieces {
                for c in pieces {
                    // Whether it parses or not, the parser returns, and the target contains no mention.
                    if let Ok(ParsedCommand { command: ChatCommand::Diagnose(what), .. }) =
                        parse(&format!("{a}{b} {c}"))
                    {
                        assert!(!what.target.unwrap_or_default().contains("<!channel>"), "{a}{b} {c}");
                    }
                }
            }
        }
        assert!(parse("llm --at=-5 ; rm -rf / $(id) * {x}").is_err());
    }
}
