//! Reads webhook bodies: short ones into memory, long ones alert by alert, and all of them within a memory budget.

use std::io::{self, Read};
use std::sync::Arc;
use std::time::Duration;

use axum::body::{Body, Bytes, HttpBody};
use futures::StreamExt;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc};

use knowledge::alert::{AlertGroup, PayloadError};

/// The largest body that is buffered whole, in bytes; a longer one is parsed while it arrives.
const SHORT: usize = 1 << 20;
/// The memory budget of all bodies that are not stored yet, in units of [`UNIT`].
const MEMORY: usize = (32 << 20) / UNIT;
/// The unit of the budget, in bytes.
const UNIT: usize = 1 << 10;
/// Long bodies that are parsed concurrently.
const LONG_AT_ONCE: usize = 2;
/// The longest wait of a long body for one of these slots.
const TURN: Duration = Duration::from_secs(10);
/// Chunks of a long body that are buffered between the network and the parser.
const AHEAD: usize = 8;

/// The budget that all webhook calls share.
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

/// The memory of a group until it is stored; released on drop.
#[derive(Debug, Default)]
pub(super) struct Held {
    _memory: Option<OwnedSemaphorePermit>,
    _turn: Option<OwnedSemaphorePermit>,
}

/// The reason why there is no group.
pub(super) enum BodyError {
    /// The body is larger than the limit, or one alert is larger than the fixed limit; with the buffered beginning.
    TooLarge(Vec<u8>),
    /// The body is not a valid group.
    Malformed(PayloadError),
    /// The client closed the connection.
    BrokenOff(String),
    /// Too many concurrent bodies.
    Busy,
}

impl Budget {
    /// Reads a group of at most `limit` bytes.
    pub(super) async fn read(&self, body: Body, limit: usize) -> Result<(AlertGroup, Held), BodyError> {
        let announced = usize::try_from(body.size_hint().lower()).unwrap_or(usize::MAX);
        let mut pieces = body.into_data_stream();
        let mut memory_permit: Option<OwnedSemaphorePermit> = None;
        let mut start: Vec<u8> = Vec::new();
        while start.len() <= SHORT.min(limit) {
            let Some(piece) = pieces.next().await else {
                let group = AlertGroup::from_webhook(&start).map_err(BodyError::Malformed)?;
                return Ok((group, Held { _memory: memory_permit, _turn: None }));
            };
            let piece = piece.map_err(|error| BodyError::BrokenOff(error.to_string()))?;
            let units = u32::try_from(piece.len().div_ceil(UNIT)).unwrap_or(u32::MAX);
            let memory = Arc::clone(&self.memory).try_acquire_many_owned(units).map_err(|_| BodyError::Busy)?;
            match &mut memory_permit {
                Some(memory_permit) => memory_permit.merge(memory),
                None => memory_permit = Some(memory),
            }
            start.extend_from_slice(&piece);
        }
        if start.len().max(announced) > limit {
            return Err(BodyError::TooLarge(start));
        }
        let turn = tokio::time::timeout(TURN, Arc::clone(&self.long).acquire_owned()).await;
        let Ok(Ok(turn)) = turn else { return Err(BodyError::Busy) };
        let group = read_long(start, pieces, limit).await?;
        Ok((group, Held { _memory: memory_permit, _turn: Some(turn) }))
    }
}

/// Parses a long body on a blocking thread while it arrives.
async fn read_long(
    start: Vec<u8>,
    mut pieces: axum::body::BodyDataStream,
    limit: usize,
) -> Result<AlertGroup, BodyError> {
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
                // A parser that has failed accepts no more.
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
    // Nothing more is read: dropping the stream ends the client's body timeout.
    drop(pieces);
    let parsed = parsed.await;
    if length > limit {
        return Err(BodyError::TooLarge(first.to_vec()));
    }
    if let Some(error) = broken {
        return Err(BodyError::BrokenOff(error));
    }
    match parsed {
        Ok(Ok(group)) => Ok(group),
        Ok(Err(PayloadError::TooLong)) => Err(BodyError::TooLarge(first.to_vec())),
        Ok(Err(error)) => Err(BodyError::Malformed(error)),
        Err(error) => Err(BodyError::BrokenOff(error.to_string())),
    }
}

/// A blocking reader of a body's chunks; it ends when the sender is dropped.
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
