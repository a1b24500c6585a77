//! Intents: the meaning of what a user typed or pressed, read once from the texts that Slack sends back.
//!
//! Those texts are untrusted: anybody can send any `action_id`, value or form name.

use super::authority::Power;
use super::command::MaintenanceOperation;
use super::command::{ChatCommand, SilenceOperation, parse};
use knowledge::incident::Act;
use render::MENU;
use slack::SlackAction;

/// The action prefix of buttons that run a command; the button's value is the command line.
pub(super) const ASK: &str = "ask-";
/// The action of the button that opens the form for a target.
pub(super) const PICK_TARGET: &str = "ask-pick";
/// The longest accepted button value: an incident's id (a ULID) and a step's hash fit.
const VALUE_CHARS: usize = 100;

/// The meaning of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Intent<'a> {
    /// Run a command line.
    Command(&'a str),
    /// Open the form for a target.
    PickTarget,
    /// Show the app's Home.
    Home,
    /// Carry out an act.
    Act {
        /// The act.
        act: Act,
        /// The id of the incident, digest or silence.
        id: &'a str,
        /// The step of the incident, or the first entry of the digest's next page; empty for other acts.
        part: &'a str,
    },
    /// An action that is not ours, or one with a value that none of ours has.
    Unknown(&'a str),
}

impl<'a> Intent<'a> {
    /// Reads the intent of a command, a mention or a press; `None` for other requests.
    pub(super) fn of(action: &'a SlackAction, is_thread: bool) -> Option<Self> {
        match action {
            // A mention without text in a thread means `status`.
            SlackAction::Mention { text } if is_thread && text.trim().is_empty() => Some(Self::Command("status")),
            SlackAction::Mention { text } | SlackAction::Command { text } => Some(Self::Command(text)),
            SlackAction::Press { action, value } => Some(Self::of_press(action, value)),
            SlackAction::Home => Some(Self::Home),
            SlackAction::Submit { .. } | SlackAction::Suggest { .. } | SlackAction::Joined => None,
        }
    }

    /// Returns the power that it needs; that of a command that cannot be parsed is [`Power::Read`].
    pub(super) fn power(&self) -> Power {
        match self {
            Self::Act { act, .. } => Power::of(*act),
            Self::Command(line) => parse(line).map_or(Power::Read, |parsed| power_of(&parsed.command)),
            Self::PickTarget | Self::Home | Self::Unknown(_) => Power::Read,
        }
    }

    fn of_press(action: &'a str, value: &'a str) -> Self {
        if action == PICK_TARGET {
            return Self::PickTarget;
        }
        if action.starts_with(ASK) {
            return Self::Command(value);
        }
        // The value of a menu option holds the action and the value of the button that it stands for.
        let (action, value) = match value.split_once(' ') {
            Some(chosen) if action == MENU => chosen,
            _ => (action, value),
        };
        let Some(act) = Act::of(action).filter(|_| value.len() <= VALUE_CHARS) else { return Self::Unknown(action) };
        // The id of a silence has no slash.
        let (id, part) = value.split_once('/').unwrap_or((value, ""));
        Self::Act { act, id, part }
    }
}

fn power_of(command: &ChatCommand) -> Power {
    match command {
        ChatCommand::Again(_) => Power::of(Act::Again),
        ChatCommand::Bundle(_) => Power::of(Act::Bundle),
        ChatCommand::Postmortem(_) => Power::Note,
        ChatCommand::Silence(silence) => match silence.operation() {
            Ok(SilenceOperation::Make(..)) => Power::of(Act::Silence),
            Ok(SilenceOperation::Expire(_)) => Power::of(Act::Expire),
            Ok(SilenceOperation::List) | Err(_) => Power::Read,
        },
        ChatCommand::Maintenance(arguments) => match arguments.operation() {
            Ok(MaintenanceOperation::Begin(..) | MaintenanceOperation::End(_)) => Power::Act,
            Ok(MaintenanceOperation::List) | Err(_) => Power::Read,
        },
        ChatCommand::Diagnose(_)
        | ChatCommand::Health(_)
        | ChatCommand::Explain(_)
        | ChatCommand::Incidents(_)
        | ChatCommand::Why(_)
        | ChatCommand::Status(_)
        | ChatCommand::Capacity(_)
        | ChatCommand::Playbooks
        | ChatCommand::Accuracy
        | ChatCommand::Doctor
        | ChatCommand::Help(_) => Power::Read,
    }
}

/// The `callback_id` of the form for a target, a time and a playbook; it runs as a command.
pub(super) const TARGET_FORM: &str = "diagnose";

#[cfg(test)]
mod tests {
    use super::*;

    fn press<'a>(action: &'a str, value: &'a str) -> Intent<'a> {
        Intent::of_press(action, value)
    }

    #[test]
    fn a_press_means_a_command_a_form_or_an_act_and_anything_else_is_unknown() {
        assert_eq!(press("ask-0", "status 4F2A"), Intent::Command("status 4F2A"));
        assert_eq!(press("ask-pick", "pick"), Intent::PickTarget);
        let verify = Intent::Act { act: Act::Verify, id: "01J", part: "a1" };
        assert_eq!(press("verify:2", "01J/a1"), verify);
        assert_eq!(press(MENU, "verify:2 01J/a1"), verify);
        assert_eq!(press("acknowledge", "01J"), Intent::Act { act: Act::Acknowledge, id: "01J", part: "" });
        assert_eq!(press("rm -rf", "01J"), Intent::Unknown("rm -rf"));
        assert_eq!(press("acknowledge", &"x".repeat(101)), Intent::Unknown("acknowledge"));
    }

    #[test]
    fn a_mention_without_text_means_status_only_in_a_thread() {
        let mention = SlackAction::Mention { text: " ".to_owned() };
        assert_eq!(Intent::of(&mention, true), Some(Intent::Command("status")));
        assert_eq!(Intent::of(&mention, false), Some(Intent::Command(" ")));
    }
}
