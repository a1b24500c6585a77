//! `/llm-diagnose`, mentions and direct messages: executes a command and answers in the same place.

pub(super) mod bundle;
mod capacity;
mod diagnose;
mod doctor;
mod health;
mod incidents;
mod knowledge;
mod maintenance;
mod postmortem;
mod target;

use std::time::Duration;

use super::command::{self, ChatCommand, CommandError, OfIncident, ParsedCommand};
use super::incidents::find;
use super::reply::Reply;
use super::wording::{command_button, misuse, sentence, with};
use super::{Desk, plain_acts};
use ::knowledge::incident::Act;
use message::{Block, Line, Message, Tone};
use notify::ANSWER_WITHIN;
use render::Phrases;
use service::Service;
use slack::SlackRequest;

pub use knowledge::measured;

/// The number of query deadlines that a command may take: a list of pools, a health check, and up to three diagnoses.
const PHASES: u32 = 4;

/// Executes a command line.
pub(super) async fn run(desk: &Desk, inbound: &SlackRequest, text: &str) {
    let Service { config, metrics, words, .. } = &*desk.service;
    let mut reply = Reply::new(desk.caller(inbound));
    let command = match command::parse(text) {
        Ok(ParsedCommand { command, here }) => {
            reply.in_channel = here;
            command
        }
        Err(trouble) => {
            metrics.inbound("command", "misunderstood");
            return reply.send_message(&misunderstood(words, trouble)).await;
        }
    };
    let time_limit = match command {
        ChatCommand::Bundle(_) => desk.bundles.max_wait() + bundle::UPLOAD,
        _ => config.diagnose.deadline.saturating_mul(PHASES) + Duration::from_secs(10),
    };
    // The answer itself may need several tries.
    let time_limit = time_limit + ANSWER_WITHIN;
    let working = tokio::time::timeout(time_limit, Box::pin(carry_out(desk, inbound, &reply, &command)));
    match reply.watched(text, working).await {
        Ok(()) => metrics.inbound("command", "done"),
        Err(_) => {
            metrics.inbound("command", "late");
            reply.send_message(&sentence(Tone::Unknown, words.line("command-late", &[]))).await;
        }
    }
}

/// Executes a command. The futures of queries are large and therefore boxed, or debug builds overflow the stack.
async fn carry_out(desk: &Desk, inbound: &SlackRequest, reply: &Reply<'_>, command: &ChatCommand) {
    let Service { library, store, words, notifier, diagnoses, .. } = &*desk.service;
    let (caller, fleet) = (desk.caller(inbound), &desk.fleet());
    match command {
        ChatCommand::Diagnose(arguments) => Box::pin(diagnose::diagnose(fleet, store, caller, reply, arguments)).await,
        ChatCommand::Health(arguments) => Box::pin(health::overview(fleet, notifier, reply, arguments)).await,
        ChatCommand::Capacity(arguments) => Box::pin(capacity::capacity(fleet, reply, arguments)).await,
        ChatCommand::Explain(arguments) => {
            // The argument may be the end of an incident's id, unless a playbook or cause has that name.
            let named = OfIncident { incident: Some(arguments.id.clone()) };
            match find(store, words, reply.place, &named).await {
                Ok(incident)
                    if arguments.name.is_none() && authoring::explain::node(library, &arguments.id).is_none() =>
                {
                    incidents::why(notifier, reply, &incident).await;
                }
                _ => {
                    let explained = knowledge::explain(library, words, &arguments.id, arguments.name.as_deref());
                    reply.send_message(&explained).await;
                }
            }
        }
        ChatCommand::Incidents(arguments) => incidents::list(store, notifier, reply, arguments.which).await,
        ChatCommand::Why(of) | ChatCommand::Status(of) | ChatCommand::Again(of) => {
            let incident = match find(store, words, reply.place, of).await {
                Ok(incident) => incident,
                Err(message) => return reply.send_message(&message).await,
            };
            match command {
                ChatCommand::Why(_) => incidents::why(notifier, reply, &incident).await,
                // Same as the button: authorised, audited, and shown in the incident's message.
                ChatCommand::Again(_) => plain_acts::simple(caller, diagnoses, Act::Again, &incident.id).await,
                _ => reply.send_message(&notifier.message(&incident).await).await,
            }
        }
        ChatCommand::Bundle(of) => Box::pin(bundle::run(desk, caller, reply, of)).await,
        ChatCommand::Postmortem(of) => {
            postmortem::run(&desk.service, caller, reply, of, store.now()).await;
        }
        ChatCommand::Silence(silence) => incidents::silence(caller, desk.silencer(), reply, silence).await,
        ChatCommand::Maintenance(arguments) => maintenance::run(caller, reply, arguments).await,
        ChatCommand::Playbooks => reply.send_message(&knowledge::playbooks(library, words)).await,
        ChatCommand::Accuracy => reply.send_message(&knowledge::accuracy(store, words).await).await,
        ChatCommand::Doctor => Box::pin(doctor::doctor(&desk.service, &desk.slack, desk.examine, reply)).await,
        ChatCommand::Help(help) => reply.send_message(&knowledge::help(words, help.command.as_deref())).await,
    }
}

fn misunderstood(words: &Phrases, error: CommandError) -> Message {
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
            with(sentence(Tone::Unknown, misuse(words, &why)), Block::Note(help))
        }
    }
}
