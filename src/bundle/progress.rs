//! How far a bundle is, for whoever waits: a terminal, a Slack message.

use std::time::Instant;

use tokio::sync::watch;

use crate::report::{Part, Stage};

/// Every part, in the order of the report.
pub type Board = Vec<Part>;

/// Tells watchers how far the parts are; cheap to clone.
#[derive(Debug, Clone)]
pub struct Progress(watch::Sender<Board>);

impl Default for Progress {
    fn default() -> Self {
        Self(watch::Sender::new(Board::new()))
    }
}

impl Progress {
    /// What is told from now on.
    pub fn watch(&self) -> watch::Receiver<Board> {
        self.0.subscribe()
    }

    /// The parts as they stand.
    pub fn board(&self) -> Board {
        self.0.borrow().clone()
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
        self.0.send_modify(|board| board.extend(names.iter().map(waiting)));
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

    fn set(&self, name: &str, change: impl FnOnce(&mut Part)) {
        self.0.send_modify(|board| {
            if let Some(part) = board.iter_mut().find(|part| part.name == name) {
                change(part);
            }
        });
    }
}
