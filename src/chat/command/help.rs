//! The help of the commands and docs/commands.md, generated from their definition.

use std::fmt::Write;

use super::definition;

/// Example lines per command; a test parses each.
const EXAMPLES: &[(&str, &[&str])] = &[
    (
        "diagnose",
        &["llama-8b", "llm/chat at 14:05", "llm/chat last 30m playbook high-ttft", "chat-7c9d8f5b6c-x2x4z here"],
    ),
    ("health", &["health", "health llm", "health at 10m ago"]),
    ("explain", &["explain kv-cache-full", "explain xid 79", "explain flag --swap-space"]),
    ("incidents", &["incidents", "incidents today"]),
    ("why", &["why", "why 4XQ7"]),
    ("status", &["status"]),
    ("again", &["again"]),
    ("bundle", &["bundle", "bundle 4XQ7"]),
    ("postmortem", &["postmortem 4XQ7"]),
    ("silence", &["silence", "silence 4XQ7 1h", "silence expire 8f9c0f5e"]),
    ("maintenance", &["maintenance", "maintenance namespace=llm 2h at 22:00", "maintenance end 4XQ7"]),
    ("capacity", &["capacity llama-8b"]),
    ("playbooks", &["playbooks"]),
    ("accuracy", &["accuracy"]),
    ("doctor", &["doctor"]),
    ("help", &["help", "help diagnose"]),
];

/// The help of one command.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Topic {
    /// The command's name.
    pub name: String,
    /// The usage line: `[TARGET] [at TIME] [last DURATION] [playbook ID]`.
    pub usage: String,
    /// The purpose of the command.
    pub about: String,
    /// Each argument with its help text.
    pub arguments: Vec<(String, String)>,
    /// Example lines.
    pub examples: Vec<&'static str>,
}

/// Returns the help of every command, in the order of the definition.
pub fn topics() -> Vec<Topic> {
    definition().get_subcommands().map(topic).collect()
}

fn topic(command: &clap::Command) -> Topic {
    let name = command.get_name().to_owned();
    let arguments: Vec<(String, String)> = command
        .get_arguments()
        .map(|arg| {
            let value = arg.get_value_names().and_then(|names| names.first()).map(ToString::to_string);
            let values: Vec<String> = arg.get_possible_values().iter().map(|v| v.get_name().to_owned()).collect();
            let value = if values.is_empty() { value.unwrap_or_default() } else { values.join("|") };
            let usage = match arg.get_long() {
                Some(long) => format!("{long} {value}").trim().to_owned(),
                None => value,
            };
            (usage, arg.get_help().map(ToString::to_string).unwrap_or_default())
        })
        .collect();
    // `diagnose` is the command of a bare target, so its name may be left out.
    let first = if name == "diagnose" { String::new() } else { name.clone() };
    let rest = arguments.iter().zip(command.get_arguments()).map(|((argument, _), arg)| match arg.is_required_set() {
        true => argument.clone(),
        false => format!("[{argument}]"),
    });
    let usage = std::iter::once(first).chain(rest).filter(|word| !word.is_empty()).collect::<Vec<_>>().join(" ");
    let examples =
        EXAMPLES.iter().find(|(command, _)| *command == name).map(|(_, all)| all.to_vec()).unwrap_or_default();
    Topic { usage, about: command.get_about().map(ToString::to_string).unwrap_or_default(), arguments, examples, name }
}

/// Renders docs/commands.md.
pub fn document() -> String {
    let mut out = String::from(
        "# Commands in Slack\n\n\
`/llm-diagnose COMMAND`, `@llm-diagnose COMMAND` in a channel or an incident's thread, or a direct message. Made by\n\
`make generate` from the definition that also makes the parser, `help`, and the arguments of the command line.\n\n\
- Without a command: the health of every pool. A word that is no command is a target: its diagnosis.\n\
- Options are words: `llm/chat at 14:05 last 30m`. A time of day is the last such in UTC; the answer says which.\n\
- A command's answer is seen by you alone; `here` shows it to the channel. Mentions are answered in their thread.\n\
- A name that fits nothing, or several pools, gets a list of what Prometheus really has.\n\
- Without a playbook, those of the checks that `health` shows as wrong are entered (three at most, critical ones and\n  \
symptoms first), and the clearest diagnosis is shown. Where nothing is wrong, the numbers are shown.\n\n\
| | |\n|---|---|\n",
    );
    let topics = topics();
    for Topic { name, usage, about, .. } in &topics {
        let _ = writeln!(out, "| [`{}`](#{name}) | {about} |", cell(usage));
    }
    for Topic { name, usage, about, arguments, examples } in &topics {
        let _ = write!(out, "\n## {name}\n\n{about}\n\n    /llm-diagnose {usage}\n");
        if !arguments.is_empty() {
            out.push_str("\n| | |\n|---|---|\n");
        }
        for (argument, help) in arguments {
            let _ = writeln!(out, "| `{}` | {} |", cell(argument), cell(help));
        }
        let lines: Vec<String> = examples.iter().map(|line| format!("`/llm-diagnose {line}`")).collect();
        let _ = write!(out, "\nFor example: {}\n", lines.join(" · "));
    }
    out
}

/// Escapes the text for a table cell, which a `|` would end.
fn cell(text: &str) -> String {
    text.replace('|', "\\|")
}

#[cfg(test)]
mod tests {
    use super::super::parse;
    use super::*;

    #[test]
    fn every_command_has_examples_and_each_is_understood() {
        for Topic { name, about, examples, .. } in topics() {
            assert!(!examples.is_empty() && !about.is_empty(), "{name}");
            for line in examples {
                assert!(parse(line).is_ok(), "{line}: {:?}", parse(line));
            }
        }
    }
}
