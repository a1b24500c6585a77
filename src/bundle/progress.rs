//! How far a bundle is, for whoever waits: a terminal, a Slack message.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use serde::Serialize;
use tokio::sync::watch;

use crate::report::{Part, Stage};

/// Every part, in the order of the report.
pub type Board = Vec<Part>;

/// Something that a part should hold and does not; a part's note tells only the first few.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(super) struct Missing {
    /// The part's name.
    pub(super) part: &'static str,
    /// What is missing.
    pub(super) what: String,
    /// Why, in a sentence.
    pub(super) why: String,
}

/// Tells watchers how far the parts are; cheap to clone.
#[derive(Debug, Clone)]
pub struct Progress {
    board: watch::Sender<Board>,
    missing: Arc<Mutex<Vec<Missing>>>,
}

impl Default for Progress {
    fn default() -> Self {
        Self { board: watch::Sender::new(Board::new()), missing: Arc::default() }
    }
}

impl Progress {
    /// What is told from now on.
    pub fn watch(&self) -> watch::Receiver<Board> {
        self.board.subscribe()
    }

    /// The parts as they stand.
    pub fn board(&self) -> Board {
        self.board.borrow().clone()
    }

    /// Announces the parts.
    pub fn expect(&self, names: &[&str]) {
        let waiting = |name: &&str| Part {
            name: (*name).to_owned(),
            stage: Stage::Waiting,
            note: String::new(),
            bytes: 0,
            took_seconds: 0.0,
        };
        self.board.send_modify(|board| board.extend(names.iter().map(waiting)));
    }

    /// A part begins.
    pub fn begin(&self, name: &str) -> Instant {
        self.set(name, |part| part.stage = Stage::Running);
        Instant::now()
    }

    /// A part is over.
    pub fn end(&self, name: &str, began: Instant, stage: Stage, note: impl Into<String>, bytes: u64) {
        let note = note.into();
        self.set(name, |part| {
            (part.stage, part.note, part.bytes) = (stage, note, bytes);
            part.took_seconds = began.elapsed().as_secs_f64();
        });
    }

    /// A part lacks something.
    pub(super) fn lacks(&self, part: &'static str, missing: &[(String, String)]) {
        let one = |(what, why): &(String, String)| Missing { part, what: what.clone(), why: why.clone() };
        self.missing.lock().unwrap_or_else(PoisonError::into_inner).extend(missing.iter().map(one));
    }

    /// Everything that parts lack so far.
    pub(super) fn missing(&self) -> Vec<Missing> {
        self.missing.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn set(&self, name: &str, change: impl FnOnce(&mut Part)) {
        self.board.send_modify(|board| {
            if let Some(part) = board.iter_mut().find(|part| part.name == name) {
                change(part);
            }
        });
    }
}
