//! What a diagnosis has asked already: its next look does not ask it again.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Instant;

use jiff::Timestamp;

use super::against::Hours;
use super::batch::{Answer, ask_all, pack};
use super::plan::Ask;
use super::scope::Found;
use crate::prom::{PromError, Prometheus};

/// What a diagnosis has asked already.
#[derive(Debug, Clone, Default)]
pub(super) struct AnswerCache {
    /// The engines, once they are known.
    pub(super) found: Option<Found>,
    /// The hours before the incident, by the signals they were asked for.
    pub(super) hours: BTreeMap<Vec<String>, Hours>,
    /// Answers by query and time.
    answers: BTreeMap<(String, Timestamp), Answer>,
    /// Questions asked.
    pub(super) queries: usize,
}

impl AnswerCache {
    /// Nothing yet, after so many questions.
    pub(super) fn after(queries: usize) -> Self {
        Self { queries, ..Self::default() }
    }

    fn of(&self, ask: &Ask) -> Option<&Answer> {
        self.answers.get(&(ask.query.clone(), ask.at))
    }

    /// Asks what was not asked before; one answer per question, in order.
    pub(super) async fn ask(&mut self, prometheus: &Prometheus, asks: &[Ask], deadline: Instant) -> Vec<Answer> {
        let mut once = BTreeSet::new();
        let known = |ask: &Ask| self.of(ask).is_some_and(|answer| !answer.as_ref().is_err_and(|e| e.is_unavailable()));
        let new = asks.iter().filter(|ask| !known(ask) && once.insert((&ask.query, ask.at)));
        let new: Vec<Ask> = new.cloned().collect();
        self.queries += pack(&new).len();
        let answers = ask_all(prometheus, &new, deadline).await;
        self.answers.extend(new.into_iter().map(|ask| (ask.query, ask.at)).zip(answers));
        asks.iter().map(|ask| self.of(ask).cloned().unwrap_or_else(|| Err(PromError::Late.into()))).collect()
    }
}
