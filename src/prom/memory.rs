//! The memory that the answers of all queries together may take.
//!
//! An answer takes its share while it is parsed, and gives it back when nobody uses it any more.

use std::ops::Deref;
use std::path::Path;
use std::sync::{Arc, OnceLock};

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::{MissingPart, PartialAnswers, PromError};
use knowledge::alert::Labels;

/// The least memory of all answers, in bytes.
const LEAST: usize = 32 << 20;
/// The memory of all answers if no limit of the process is found, in bytes.
const UNLIMITED: usize = 256 << 20;
/// The memory of all answers however much the process may use, in bytes.
const MOST: usize = 1 << 30;
/// The share of the process' memory limit that answers may take is one part of this many: what is computed from them
/// takes as much again, several times.
const SHARES: usize = 8;
/// The share of [`AnswerMemory`] that one answer may take is one part of this many.
const ANSWERS: usize = 2;
/// Bytes of one permit.
const UNIT: usize = 1 << 10;
/// The mounted control groups of version 2. Source: Linux, `cgroup-v2.rst`.
const GROUPS: &str = "/sys/fs/cgroup";
/// The limit of version 1, which is some 2^63 without a limit. Source: Linux, `cgroup-v1/memory.rst`.
const VERSION_1: &str = "/sys/fs/cgroup/memory/memory.limit_in_bytes";

/// Size of a node of a `BTreeMap` of labels, in bytes, and the number of labels that an average node holds.
const NODE: (usize, usize) = (11 * 2 * size_of::<String>() + 32, 8);
/// Memory of an allocated string besides its text, in bytes.
const STRING: usize = 16;

/// The budget of the answers to queries.
#[derive(Debug, Clone)]
pub(super) struct AnswerMemory {
    units: Arc<Semaphore>,
    /// The budget, in bytes.
    bytes: usize,
}

impl AnswerMemory {
    /// Returns the budget that all clients of this process share: an eighth of the memory limit.
    pub(super) fn of_process() -> Self {
        static SHARED: OnceLock<AnswerMemory> = OnceLock::new();
        SHARED
            .get_or_init(|| Self::with(memory_limit().map_or(UNLIMITED, |limit| limit / SHARES).clamp(LEAST, MOST)))
            .clone()
    }

    /// Creates a budget of so many bytes.
    pub(super) fn with(bytes: usize) -> Self {
        Self { units: Arc::new(Semaphore::new(bytes / UNIT)), bytes }
    }

    /// Returns the size that one answer may have, in bytes.
    pub(super) fn most_of_one(&self) -> usize {
        self.bytes / ANSWERS
    }

    /// Adds an item with so many bytes to an answer, which takes their memory.
    ///
    /// # Errors
    /// If the answer becomes too large, or other answers use the memory.
    pub(super) fn add<T>(&self, answer: &mut Answer<T>, item: T, bytes: usize) -> Result<(), PromError> {
        let before = answer.units();
        answer.bytes += bytes;
        answer.items.push(item);
        if answer.bytes > self.most_of_one() {
            return Err(PromError::TooLarge { series: answer.items.len(), bytes: self.most_of_one() });
        }
        let more = Arc::clone(&self.units).try_acquire_many_owned(answer.units() - before);
        let more = more.map_err(|_| PromError::NoMemory { bytes: self.bytes })?;
        match &mut answer.memory {
            Some(memory) => memory.merge(more),
            memory => *memory = Some(more),
        }
        Ok(())
    }
}

/// Returns the smallest memory limit of the process' control group and those around it, in bytes; `None` if there is
/// none. `/proc/self/cgroup` names the group as `0::/path`, which is `/` in a container.
fn memory_limit() -> Option<usize> {
    let read = |path: &Path| std::fs::read_to_string(path).ok()?.trim().parse().ok();
    if let Some(limit) = read(Path::new(VERSION_1)) {
        return Some(limit);
    }
    let groups = std::fs::read_to_string("/proc/self/cgroup").ok()?;
    let own = groups.lines().find_map(|line| line.strip_prefix("0::/"))?;
    let limit = |group: &Path| read(&group.join("memory.max"));
    Path::new(GROUPS).join(own).ancestors().take_while(|group| group.starts_with(GROUPS)).filter_map(limit).min()
}

/// The rows or series of an answer, with their memory; what is computed here has none.
#[derive(Debug)]
pub struct Answer<T> {
    items: Vec<T>,
    bytes: usize,
    missing: Option<MissingPart>,
    memory: Option<OwnedSemaphorePermit>,
}

impl<T> Deref for Answer<T> {
    type Target = [T];

    fn deref(&self) -> &[T] {
        &self.items
    }
}

impl<T> From<Vec<T>> for Answer<T> {
    fn from(items: Vec<T>) -> Self {
        Self { items, bytes: 0, missing: None, memory: None }
    }
}

impl<T> Default for Answer<T> {
    fn default() -> Self {
        Self::from(Vec::new())
    }
}

impl<T> FromIterator<T> for Answer<T> {
    fn from_iter<I: IntoIterator<Item = T>>(items: I) -> Self {
        Self::from(items.into_iter().collect::<Vec<T>>())
    }
}

impl<T: PartialEq> PartialEq for Answer<T> {
    fn eq(&self, other: &Self) -> bool {
        self.items == other.items && self.missing == other.missing
    }
}

impl<T> Answer<T> {
    /// Returns the weight of the answer in a cache, in units of 1 KiB, rounded up.
    pub(super) fn units(&self) -> u32 {
        u32::try_from(self.bytes.div_ceil(UNIT)).unwrap_or(u32::MAX)
    }

    /// Returns the part of the data that the answer, or one that it was computed from, lacks.
    pub fn missing(&self) -> Option<&MissingPart> {
        self.missing.as_ref()
    }

    /// Returns the server's words about a missing part that counts; `None` if the answer is complete.
    pub fn incomplete(&self) -> Option<&str> {
        self.missing.as_ref().filter(|part| part.counts).map(|part| part.said.as_str())
    }

    /// Returns the answer with the missing part of what it was made from.
    #[must_use]
    pub fn with_missing(self, missing: Option<MissingPart>) -> Self {
        Self { missing, ..self }
    }

    /// Returns the answer with a missing part that counts only if the configuration says so.
    pub(super) fn under(self, partial: PartialAnswers) -> Self {
        let counts = partial == PartialAnswers::Note;
        Self { missing: self.missing.map(|part| MissingPart { counts, ..part }), ..self }
    }
}

/// Returns the memory that labels take, in bytes.
pub(super) fn labels_bytes(labels: &Labels) -> usize {
    let text: usize = labels.iter().map(|(name, value)| name.len() + value.len() + 2 * STRING).sum();
    labels.len().div_ceil(NODE.1) * NODE.0 + text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn collect(memory: &AnswerMemory, items: usize) -> Result<Answer<usize>, PromError> {
        let mut answer = Answer::default();
        (0..items).try_for_each(|n| memory.add(&mut answer, n, 700))?;
        Ok(answer)
    }

    #[test]
    fn one_answer_takes_a_part_of_the_memory_and_gives_it_back() {
        let memory = AnswerMemory::with(1 << 20);
        let few = collect(&memory, 500).unwrap();
        assert!(memory.units.available_permits() < 800);
        assert!(
            matches!(collect(&memory, 10_000), Err(PromError::TooLarge { bytes: 524_288, series }) if series > 500)
        );
        let second = collect(&memory, 700).unwrap();
        assert!(matches!(collect(&memory, 700), Err(PromError::NoMemory { bytes: 1_048_576 })));
        drop((few, second));
        assert_eq!(memory.units.available_permits(), 1_024);
    }
}
