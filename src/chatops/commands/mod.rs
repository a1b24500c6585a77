//! `/llm-diagnose`, mentions and direct messages: executes a command and answers in the same place.

mod bundle;
mod fleet;
mod health;
mod incidents;
mod knowledge;
mod reply;

use std::time::Duration;

use super::command::{self, ArgumentError, ChatCommand, CommandError, OfIncident, ParsedCommand};
use super::{Desk, acts};
use crate::notify::ANSWER_WITHIN;
use crate::render::{Act, Button, ButtonLook, Line, Message, MessagePart, Tone};
use crate::slack::{SlackAction, SlackRequest};

pub(super) use bundle::press as press_bundle;
pub(super) use fleet::{PoolList, list_pools};
pub(super) use incidents::line as incident_line;
pub(crate) use incidents::{listed, named_id, short};
pub(super) use knowledge::matching;
pub(crate) use knowledge::measured;
pub(super) use reply::Reply;

/// The action prefix of buttons that run a command; the button's value is the command line.
pub(super) const ASK: &str = "ask-";
/// The number of query deadlines that a command may take: a list of pools, a health check, and up to three diagnoses.
const PHASES: u32 = 4;
/// The longest command line of a button; Slack accepts values of 2,000 characters.
const LINE_CHARS: usize = 1_900;

/// Executes a command or a mention.
pub(super) async fn run(desk: &Desk, inbound: &SlackRequest, text: &str) {
    let text = match (&inbound.what, &inbound.place.thread) {
        // A mention without text in a thread means `status`.
        (SlackAction::Mention { .. }, Some(_)) if text.trim().is_empty() => "status",
        _ => text,
    };
    let mut reply = Reply::new(desk, inbound);
    let asked = match command::parse(text) {
        Ok(ParsedCommand { command, here }) => {
            reply.here = here;
            command
        }
        Err(trouble) => {
            desk.metrics.inbound("command", "misunderstood");
            return reply.send_message(&misunderstood(desk, trouble)).await;
        }
    };
    let within = match asked {
        ChatCommand::Bundle(_) => desk.bundles.max_wait() + bundle::UPLOAD,
        _ => desk.diagnosing.deadline.saturating_mul(PHASES) + Duration::from_secs(10),
    };
    // The answer itself may need several tries.
    let within = within + ANSWER_WITHIN;
    let working = tokio::time::timeout(within, Box::pin(carry_out(desk, inbound, &reply, &asked)));
    match reply.watched(text, working).await {
        Ok(()) => desk.metrics.inbound("command", "done"),
        Err(_) => {
            desk.metrics.inbound("command", "late");
            reply.send_message(&sentence(Tone::Unknown, desk.words.line("command-late", &[]))).await;
        }
    }
}

/// Executes the command line of a button.
pub(super) async fn press(desk: &Desk, inbound: &SlackRequest, line: &str) {
    run(desk, inbound, line).await;
}

/// Executes a command. The futures of queries are large and therefore boxed, or debug builds overflow the stack.
async fn carry_out(desk: &Desk, inbound: &SlackRequest, reply: &Reply<'_>, command: &ChatCommand) {
    match command {
        ChatCommand::Diagnose(what) => Box::pin(fleet::diagnose(desk, reply, what)).await,
        ChatCommand::Health(what) => Box::pin(fleet::overview(desk, reply, what)).await,
        ChatCommand::Capacity(what) => Box::pin(fleet::capacity(desk, reply, what)).await,
        ChatCommand::Explain(what) => {
            // The argument may be the end of an incident's id, unless a playbook or cause has that name.
            let named = OfIncident { incident: Some(what.id.clone()) };
            match incidents::find(desk, reply, &named).await {
                Ok(incident) if what.name.is_none() && crate::explain::node(&desk.library, &what.id).is_none() => {
                    incidents::why(desk, reply, &incident).await;
                }
                _ => reply.send_message(&knowledge::explain(desk, &what.id, what.name.as_deref())).await,
            }
        }
        ChatCommand::Incidents(what) => incidents::list(desk, reply, what.which).await,
        ChatCommand::Why(of) | ChatCommand::Status(of) | ChatCommand::Again(of) | ChatCommand::Bundle(of) => {
            let incident = match incidents::find(desk, reply, of).await {
                Ok(incident) => incident,
                Err(message) => return reply.send_message(&message).await,
            };
            match command {
                ChatCommand::Why(_) => incidents::why(desk, reply, &incident).await,
                // Same as the button: authorised, audited, and shown in the incident's message.
                ChatCommand::Again(_) => acts::press(desk, inbound, Act::Again.as_str(), &incident.id).await,
                ChatCommand::Bundle(_) => Box::pin(bundle::bundle(desk, inbound, reply, &incident, None)).await,
                _ => reply.send_message(&desk.notifier.message(&incident)).await,
            }
        }
        ChatCommand::Silence(silence) => incidents::silence(desk, inbound, reply, silence).await,
        ChatCommand::Playbooks => reply.send_message(&knowledge::playbooks(desk)).await,
        ChatCommand::Accuracy => reply.send_message(&knowledge::accuracy(desk).await).await,
        ChatCommand::Doctor => Box::pin(fleet::doctor(desk, reply)).await,
        ChatCommand::Help(help) => reply.send_message(&knowledge::help(desk, help.command.as_deref())).await,
    }
}

fn misunderstood(desk: &Desk, trouble: CommandError) -> Message {
    let words = &desk.words;
    match trouble {
        CommandError::TooLong => sentence(Tone::Unknown, words.line("command-too-long", &[])),
        CommandError::Nearly { command, corrected, target } => {
            let line = words.line("command-nearly", &[("command", Line::default().code(command).into())]);
            let buttons = vec![command_button(0, &corrected, &corrected), command_button(1, &target, &target)];
            with(sentence(Tone::Unknown, line), MessagePart::Buttons(buttons))
        }
        CommandError::Wrong { why, command } => {
            let usage = command::topics().into_iter().find(|topic| topic.name == command);
            let usage = usage.map(|topic| format!("/llm-diagnose {}", topic.usage)).unwrap_or_default();
            let help = words.line("command-usage", &[("usage", Line::default().code(usage).into())]);
            with(sentence(Tone::Unknown, misuse(desk, &why)), MessagePart::Note(help))
        }
    }
}

/// Describes an error in the arguments in one sentence.
pub(super) fn misuse(desk: &Desk, misuse: &ArgumentError) -> Line {
    let code = |text: &str| Line::default().code(text).into();
    match misuse {
        ArgumentError::Value { given, what, why } => desk
            .words
            .line("misuse-value", &[("given", code(given)), ("what", code(what)), ("why", Line::of(why).into())]),
        ArgumentError::Choice { given, choices } => {
            desk.words.line("misuse-choice", &[("given", code(given)), ("choices", choices.join(", ").into())])
        }
        ArgumentError::Unexpected(word) => desk.words.line("misuse-unexpected", &[("word", code(word))]),
        ArgumentError::Missing(what) => desk.words.line("misuse-missing", &[("what", code(what))]),
        ArgumentError::Other => desk.words.line("misuse-other", &[]),
    }
}

/// Builds a message of one sentence.
fn sentence(tone: Tone, line: Line) -> Message {
    Message { tone, headline: line.text(), parts: Vec::new() }
}

/// Appends a part to a message.
fn with(mut message: Message, part: MessagePart) -> Message {
    message.parts.push(part);
    message
}

/// Builds a button that runs a command line.
fn command_button(n: usize, label: &str, line: &str) -> Button {
    Button {
        action: format!("{ASK}{n}"),
        label: label.to_owned(),
        value: line.chars().take(LINE_CHARS).collect(),
        look: if n == 0 { ButtonLook::Primary } else { ButtonLook::Plain },
        confirm: None,
    }
}
