//! Reads a webhook's body: a short one into memory, a long one alert by alert, and many at once within a budget.

use std::io::{self, Read};
use std::sync::Arc;
use std::time::Duration;

use axum::body::{Body, Bytes, HttpBody};
use futures::StreamExt;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc};

use crate::alert::{AlertGroup, PayloadError};

/// Bytes up to which a body is kept as it is; a longer one is read while it comes.
const SHORT: usize = 1 << 20;
/// Of all bodies that are not stored yet, the bytes that are kept in memory, in units of [`UNIT`].
const MEMORY: usize = (32 << 20) / UNIT;
/// What the budget counts in.
const UNIT: usize = 1 << 10;
/// Long bodies that are read at once.
const LONG_AT_ONCE: usize = 2;
/// How long a long body waits for its turn.
const TURN: Duration = Duration::from_secs(10);
/// Pieces of a long body between the network and the reader.
const AHEAD: usize = 8;

/// What all webhook calls share.
#[derive(Debug, Clone)]
pub struct Budget {
    memory: Arc<Semaphore>,
    long: Arc<Semaphore>,
}

impl Default for Budget {
    fn default() -> Self {
        Self { memory: Arc::new(Semaphore::new(MEMORY)), long: Arc::new(Semaphore::new(LONG_AT_ONCE)) }
    }
}

/// The memory that a group takes until it is stored; given back when dropped.
#[derive(Debug, Default)]
pub(super) struct Held {
    _memory: Option<OwnedSemaphorePermit>,
    _turn: Option<OwnedSemaphorePermit>,
}

/// Why there is no group.
pub(super) enum Refusal {
    /// Larger than the limit, with as much of its beginning as was kept; or one alert that is larger than any should be.
    TooLarge(Vec<u8>),
    /// No group.
    Malformed(PayloadError),
    /// The caller went away.
    BrokenOff(String),
    /// Too many bodies at once.
    Busy,
}

impl Budget {
    /// Reads a group of at most `limit` bytes.
    pub(super) async fn read(&self, body: Body, limit: usize) -> Result<(AlertGroup, Held), Refusal> {
        let told = usize::try_from(body.size_hint().lower()).unwrap_or(usize::MAX);
        let mut pieces = body.into_data_stream();
        let mut held: Option<OwnedSemaphorePermit> = None;
        let mut start: Vec<u8> = Vec::new();
        while start.len() <= SHORT.min(limit) {
            let Some(piece) = pieces.next().await else {
                let group = AlertGroup::from_webhook(&start).map_err(Refusal::Malformed)?;
                return Ok((group, Held { _memory: held, _turn: None }));
            };
            let piece = piece.map_err(|error| Refusal::BrokenOff(error.to_string()))?;
            let units = u32::try_from(piece.len().div_ceil(UNIT)).unwrap_or(u32::MAX);
            let memory = Arc::clone(&self.memory).try_acquire_many_owned(units).map_err(|_| Refusal::Busy)?;
            match &mut held {
                Some(held) => held.merge(memory),
                None => held = Some(memory),
            }
            start.extend_from_slice(&piece);
        }
        if start.len().max(told) > limit {
            return Err(Refusal::TooLarge(start));
        }
        let turn = tokio::time::timeout(TURN, Arc::clone(&self.long).acquire_owned()).await;
        let Ok(Ok(turn)) = turn else { return Err(Refusal::Busy) };
        let group = read_long(start, pieces, limit).await?;
        Ok((group, Held { _memory: held, _turn: Some(turn) }))
    }
}

/// Parses a long body on a thread of its own while it comes.
async fn read_long(
    start: Vec<u8>,
    mut pieces: axum::body::BodyDataStream,
    limit: usize,
) -> Result<AlertGroup, Refusal> {
    let mut length = start.len();
    let first = Bytes::from(start);
    let (send, receive) = mpsc::channel(AHEAD);
    let reader = Pieces { now: first.clone(), next: receive };
    let parsed = tokio::task::spawn_blocking(move || AlertGroup::from_reader(reader));
    let mut broken = None;
    while let Some(piece) = pieces.next().await {
        match piece {
            Ok(piece) => {
                length += piece.len();
                // A reader that has failed takes no more.
                if length > limit || send.send(piece).await.is_err() {
                    break;
                }
            }
            Err(error) => {
                broken = Some(error.to_string());
                break;
            }
        }
    }
    drop(send);
    // The body is here: from now on it is our time that passes.
    drop(pieces);
    let parsed = parsed.await;
    if length > limit {
        return Err(Refusal::TooLarge(first.to_vec()));
    }
    if let Some(error) = broken {
        return Err(Refusal::BrokenOff(error));
    }
    match parsed {
        Ok(Ok(group)) => Ok(group),
        Ok(Err(PayloadError::TooLong)) => Err(Refusal::TooLarge(first.to_vec())),
        Ok(Err(error)) => Err(Refusal::Malformed(error)),
        Err(error) => Err(Refusal::BrokenOff(error.to_string())),
    }
}

/// A body's pieces as a stream for a blocking reader; it ends when nothing is sent any more.
struct Pieces {
    now: Bytes,
    next: mpsc::Receiver<Bytes>,
}

impl Read for Pieces {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        while self.now.is_empty() {
            match self.next.blocking_recv() {
                Some(piece) => self.now = piece,
                None => return Ok(0),
            }
        }
        let n = self.now.len().min(buffer.len());
        buffer[..n].copy_from_slice(&self.now.split_to(n));
        Ok(n)
    }
}
