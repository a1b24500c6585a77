//! The progress of a bundle, for a waiting terminal or Slack message.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use serde::Serialize;
use tokio::sync::watch;

use knowledge::gap::Gap;
use report::{ReportPart, Stage};

/// All parts, in the order of the report.
pub type Board = Vec<ReportPart>;

/// Something missing from a part; the note of the part shows only the first few.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(super) struct MissingItem {
    /// The part's name.
    pub(super) part: &'static str,
    /// A short description of it.
    pub(super) what: String,
    /// The reason, as a sentence.
    pub(super) why: String,
}

/// Publishes the state of the parts to watchers; cheap to clone.
#[derive(Debug, Clone)]
pub struct BundleProgress {
    board: watch::Sender<Board>,
    missing: Arc<Mutex<Vec<MissingItem>>>,
}

impl Default for BundleProgress {
    fn default() -> Self {
        Self { board: watch::Sender::new(Board::new()), missing: Arc::default() }
    }
}

impl BundleProgress {
    /// Subscribes to changes.
    pub fn watch(&self) -> watch::Receiver<Board> {
        self.board.subscribe()
    }

    /// Returns the current state of the parts.
    pub fn board(&self) -> Board {
        self.board.borrow().clone()
    }

    /// Adds the parts as waiting.
    pub fn expect(&self, names: &[&str]) {
        let waiting = |name: &&str| ReportPart {
            name: (*name).to_owned(),
            stage: Stage::Waiting,
            note: String::new(),
            bytes: 0,
            took_seconds: 0.0,
        };
        self.board.send_modify(|board| board.extend(names.iter().map(waiting)));
    }

    /// Marks a part as running; returns the start time.
    pub fn begin(&self, name: &str) -> Instant {
        self.set(name, |part| part.stage = Stage::Running);
        Instant::now()
    }

    /// Marks a part as finished.
    pub fn end(&self, name: &str, began: Instant, stage: Stage, note: impl Into<String>, bytes: u64) {
        let note = note.into();
        self.set(name, |part| {
            (part.stage, part.note, part.bytes) = (stage, note, bytes);
            part.took_seconds = began.elapsed().as_secs_f64();
        });
    }

    /// Records what is missing from a part.
    pub(super) fn lacks(&self, part: &'static str, missing: &[Gap]) {
        let item = |gap: &Gap| MissingItem { part, what: gap.what.clone(), why: gap.reason.as_str().to_owned() };
        self.missing.lock().unwrap_or_else(PoisonError::into_inner).extend(missing.iter().map(item));
    }

    /// Returns everything that is missing so far.
    pub(super) fn missing(&self) -> Vec<MissingItem> {
        self.missing.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn set(&self, name: &str, change: impl FnOnce(&mut ReportPart)) {
        self.board.send_modify(|board| {
            if let Some(part) = board.iter_mut().find(|part| part.name == name) {
                change(part);
            }
        });
    }
}
