//! `/llm-diagnose`, mentions and direct messages: executes a command and answers in the same place.

pub(super) mod bundle;
mod capacity;
mod diagnose;
mod doctor;
mod health;
mod incidents;
mod knowledge;
mod target;

use std::time::Duration;

use super::attempt::permit;
use super::authority::Power;
use super::command::{self, ChatCommand, CommandError, OfIncident, ParsedCommand};
use super::incidents::find;
use super::reply::Reply;
use super::wording::{command_button, misuse, sentence, with};
use super::{Desk, plain_acts};
use ::knowledge::incident::Act;
use message::{Block, Line, Message, Tone};
use notify::ANSWER_WITHIN;
use slack::SlackRequest;

pub use knowledge::measured;

/// The number of query deadlines that a command may take: a list of pools, a health check, and up to three diagnoses.
const PHASES: u32 = 4;

/// Executes a command line.
pub(super) async fn run(desk: &Desk, inbound: &SlackRequest, text: &str) {
    let mut reply = Reply::new(desk, inbound);
    let command = match command::parse(text) {
        Ok(ParsedCommand { command, here }) => {
            reply.in_channel = here;
            command
        }
        Err(trouble) => {
            desk.metrics.inbound("command", "misunderstood");
            return reply.send_message(&misunderstood(desk, trouble)).await;
        }
    };
    let time_limit = match command {
        ChatCommand::Bundle(_) => desk.bundles.max_wait() + bundle::UPLOAD,
        _ => desk.config.diagnose.deadline.saturating_mul(PHASES) + Duration::from_secs(10),
    };
    // The answer itself may need several tries.
    let time_limit = time_limit + ANSWER_WITHIN;
    let working = tokio::time::timeout(time_limit, Box::pin(carry_out(desk, inbound, &reply, &command)));
    match reply.watched(text, working).await {
        Ok(()) => desk.metrics.inbound("command", "done"),
        Err(_) => {
            desk.metrics.inbound("command", "late");
            reply.send_message(&sentence(Tone::Unknown, desk.words.line("command-late", &[]))).await;
        }
    }
}

/// Executes a command. The futures of queries are large and therefore boxed, or debug builds overflow the stack.
async fn carry_out(desk: &Desk, inbound: &SlackRequest, reply: &Reply<'_>, command: &ChatCommand) {
    match command {
        ChatCommand::Diagnose(arguments) => Box::pin(diagnose::diagnose(desk, reply, arguments)).await,
        ChatCommand::Health(arguments) => Box::pin(health::overview(desk, reply, arguments)).await,
        ChatCommand::Capacity(arguments) => Box::pin(capacity::capacity(desk, reply, arguments)).await,
        ChatCommand::Explain(arguments) => {
            // The argument may be the end of an incident's id, unless a playbook or cause has that name.
            let named = OfIncident { incident: Some(arguments.id.clone()) };
            match find(desk, reply, &named).await {
                Ok(incident)
                    if arguments.name.is_none() && authoring::explain::node(&desk.library, &arguments.id).is_none() =>
                {
                    incidents::why(desk, reply, &incident).await;
                }
                _ => reply.send_message(&knowledge::explain(desk, &arguments.id, arguments.name.as_deref())).await,
            }
        }
        ChatCommand::Incidents(arguments) => incidents::list(desk, reply, arguments.which).await,
        ChatCommand::Why(of) | ChatCommand::Status(of) | ChatCommand::Again(of) | ChatCommand::Bundle(of) => {
            let incident = match find(desk, reply, of).await {
                Ok(incident) => incident,
                Err(message) => return reply.send_message(&message).await,
            };
            match command {
                ChatCommand::Why(_) => incidents::why(desk, reply, &incident).await,
                // Same as the button: authorised, audited, and shown in the incident's message.
                ChatCommand::Again(_) => plain_acts::again(desk, inbound, &incident.id).await,
                ChatCommand::Bundle(_) => {
                    let (act, power) = (Act::Bundle.as_str(), Power::of(Act::Bundle));
                    if permit(desk, inbound, act, Some(&incident.id), power).await {
                        Box::pin(bundle::bundle(desk, inbound, reply, &incident, None)).await;
                    }
                }
                _ => reply.send_message(&desk.notifier.message(&incident).await).await,
            }
        }
        ChatCommand::Silence(silence) => incidents::silence(desk, inbound, reply, silence).await,
        ChatCommand::Playbooks => reply.send_message(&knowledge::playbooks(desk)).await,
        ChatCommand::Accuracy => reply.send_message(&knowledge::accuracy(desk).await).await,
        ChatCommand::Doctor => Box::pin(doctor::doctor(desk, reply)).await,
        ChatCommand::Help(help) => reply.send_message(&knowledge::help(desk, help.command.as_deref())).await,
    }
}

fn misunderstood(desk: &Desk, error: CommandError) -> Message {
    let words = &desk.words;
    match error {
        CommandError::TooLong => sentence(Tone::Unknown, words.line("command-too-long", &[])),
        CommandError::Nearly { command, corrected, target } => {
            let line = words.line("command-nearly", &[("command", Line::default().code(command).into())]);
            let buttons = vec![command_button(0, &corrected, &corrected), command_button(1, &target, &target)];
            with(sentence(Tone::Unknown, line), Block::Buttons(buttons))
        }
        CommandError::Wrong { why, command } => {
            let usage = command::topics().into_iter().find(|topic| topic.name == command);
            let usage = usage.map(|topic| format!("/llm-diagnose {}", topic.usage)).unwrap_or_default();
            let help = words.line("command-usage", &[("usage", Line::default().code(usage).into())]);
            with(sentence(Tone::Unknown, misuse(desk, &why)), Block::Note(help))
        }
    }
}
