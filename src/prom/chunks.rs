//! A response that is parsed while it arrives, on a blocking thread if it is long.
//!
//! Response ─▶ bounded channel ─▶ blocking reader. The parser holds what it needs of the body, never the whole.

use std::io::{self, Read};
use std::time::Instant;

use reqwest::Response;
use tokio::sync::mpsc;
use tokio::task::JoinError;

use super::PromError;

/// Chunks between the network and the parser; hyper's are at most some 400 kB.
const CHUNKS: usize = 8;
/// Size from which a body is parsed on a blocking thread, in bytes; below it a thread costs more than the parsing.
const LONG: usize = 256 << 10;

/// The limits of the transfer of a body.
#[derive(Debug, Clone, Copy)]
pub(super) struct Limits {
    /// The time at which the transfer is cut off.
    pub(super) deadline: Instant,
    /// Maximum size, in bytes.
    pub(super) bytes: usize,
}

/// The parsed content of a body, and how its transfer ended.
pub(super) struct ReceivedBody<T> {
    /// The result of the parser; an error if it panicked on a blocking thread.
    pub(super) parsed: Result<T, JoinError>,
    /// The error of the transfer; none if the parser stopped it.
    pub(super) transfer: Result<(), PromError>,
}

/// Receives and parses a body: a short one at once, a long one as [`receive_long`].
pub(super) async fn receive<T: Send + 'static>(
    mut response: Response,
    limits: Limits,
    parse: impl FnOnce(&mut dyn Read) -> T + Send + 'static,
) -> ReceivedBody<T> {
    let mut start = Vec::new();
    while start.len() < LONG {
        let transfer = match tokio::time::timeout_at(limits.deadline.into(), response.chunk()).await {
            Ok(Ok(Some(chunk))) => {
                start.extend_from_slice(&chunk);
                continue;
            }
            Ok(Ok(None)) => Ok(()),
            Ok(Err(error)) => Err(PromError::from_http(error)),
            Err(_) => Err(PromError::Late),
        };
        return ReceivedBody { parsed: Ok(parse(&mut &start[..])), transfer };
    }
    receive_long(start, response, limits, parse).await
}

/// Parses `start` and the rest of the body on a blocking thread while it arrives.
pub(super) async fn receive_long<T: Send + 'static>(
    start: Vec<u8>,
    mut response: Response,
    limits: Limits,
    parse: impl FnOnce(&mut dyn Read) -> T + Send + 'static,
) -> ReceivedBody<T> {
    let mut length = start.len();
    let (send, waiting) = mpsc::channel(CHUNKS);
    let parsing = tokio::task::spawn_blocking(move || {
        parse(&mut io::Cursor::new(start).chain(ChunkReader { waiting, chunk: None }))
    });
    let pass_on = async {
        while let Some(chunk) = response.chunk().await.map_err(PromError::from_http)? {
            length = length.saturating_add(chunk.len());
            if length > limits.bytes {
                return Err(PromError::TooLong { bytes: limits.bytes });
            }
            // The parser has stopped; its result contains the reason.
            if send.send(chunk).await.is_err() {
                break;
            }
        }
        Ok(())
    };
    let transfer = tokio::time::timeout_at(limits.deadline.into(), pass_on).await.unwrap_or(Err(PromError::Late));
    drop(send);
    ReceivedBody { parsed: parsing.await, transfer }
}

/// The chunks of a response as a blocking reader.
struct ChunkReader<B> {
    waiting: mpsc::Receiver<B>,
    chunk: Option<(B, usize)>,
}

impl<B: AsRef<[u8]>> Read for ChunkReader<B> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        loop {
            if let Some((chunk, begin)) = &mut self.chunk {
                let unread = &chunk.as_ref()[*begin..];
                if !unread.is_empty() {
                    let n = unread.len().min(into.len());
                    into[..n].copy_from_slice(&unread[..n]);
                    *begin += n;
                    return Ok(n);
                }
            }
            match self.waiting.blocking_recv() {
                Some(chunk) => self.chunk = Some((chunk, 0)),
                None => return Ok(0),
            }
        }
    }
}
