//! chat: handles the commands, button presses, forms and mentions of Slack users, over either transport.
//!
//! [`Desk::receive`] acknowledges the request at once; the work runs in a bounded number of tasks. Every workspace
//! member may read; [`authority`] decides who may act, and every act is written to the audit log.

#![recursion_limit = "256"]

pub mod acts;
mod attempt;
mod authority;
pub mod command;
mod commands;
mod desk;
mod digest;
mod dispatch;
mod escalate;
mod feedback;
mod forms;
mod home;
mod incidents;
mod intent;
mod people;
mod plain_acts;
mod replies;
mod reply;
mod silence_form;
mod silences;
mod target_form;
mod verify;
mod wording;

pub use authority::{Denial, KnownBy, Power, authorise, authorise_visitor};
pub use desk::Desk;
pub use people::{People, RateDecision, UserFacts};

pub use commands::measured;
pub use incidents::{listed, named_id};
pub use verify::LONGEST_FOLLOWUP;
