//! Raw samples as they were scraped, streamed: an answer may be larger than our memory.
//!
//! Prometheus leaves stale markers out of range selectors, so a series that vanished seems to continue for its look-back
//! delta.

use std::io::Read;
use std::ops::ControlFlow;
use std::time::{Duration, Instant};

use jiff::Timestamp;
use reqwest::Response;

use super::chunks::{Limits, ReceivedBody, receive_long};
use super::gate::{SentQuery, Slot};
use super::{PromError, Prometheus, Raw, answer, matrix, millis};

/// The largest error message that is read, in bytes.
const REFUSAL_BYTES: usize = 1 << 20;

/// The response to a stream query whose body is still arriving; it holds one of the client's slots.
#[derive(Debug)]
pub struct Stream {
    response: Response,
    deadline: Instant,
    _slot: Slot,
    sent: SentQuery,
}

impl Prometheus {
    /// Queries every sample that `selector` has in the `length` up to `to`, and waits for the start of the answer.
    ///
    /// # Errors
    /// As [`Prometheus::query`]; too many samples are a [`PromError::Refused`] that [`PromError::is_too_much`].
    pub async fn stream(
        &self,
        selector: &str,
        to: Timestamp,
        length: Duration,
        deadline: Instant,
    ) -> Result<Stream, PromError> {
        let open = async {
            let (slot, time_left) = self.turn(deadline).await?;
            let form = [
                ("query", format!("{selector}[{}ms]", length.as_millis().max(1))),
                ("time", format!("{:.3}", to.as_millisecond() as f64 / 1e3)),
                ("timeout", format!("{}ms", millis(time_left))),
            ];
            let request = self.http.post(format!("{}/api/v1/query", self.base));
            let sent = self.gate.sent(deadline, self.seconds.clone());
            let error = match request.form(&form).send().await {
                Ok(response) if response.status().is_success() => {
                    return Ok(Stream { response, deadline, _slot: slot, sent: sent.has_begun() });
                }
                Ok(refusal) => answer::refusal(refusal, Limits { deadline, bytes: REFUSAL_BYTES }).await,
                Err(error) => PromError::from_http(error),
            };
            let refused = Err(error);
            sent.ended(&refused);
            refused
        };
        self.waited(deadline, open).await
    }
}

impl Stream {
    /// Passes every series to `take`, on a blocking thread, until the end, the deadline, or until `take` breaks.
    /// Returns Prometheus' warnings, for example about stores that did not answer.
    ///
    /// # Errors
    /// If the answer is cut off, misses the deadline, or is not a matrix; the series before it were passed to `take`.
    pub async fn each(
        self,
        take: impl FnMut(&Raw) -> ControlFlow<()> + Send + 'static,
    ) -> Result<Vec<String>, PromError> {
        let limits = Limits { deadline: self.deadline, bytes: usize::MAX };
        let read = read(self.response, limits, take).await;
        self.sent.ended(&read);
        read
    }
}

/// Passes every series to `take`, and returns the warnings; see [`Stream::each`].
async fn read(
    response: Response,
    limits: Limits,
    mut take: impl FnMut(&Raw) -> ControlFlow<()> + Send + 'static,
) -> Result<Vec<String>, PromError> {
    let status = response.status();
    let parse = move |body: &mut dyn Read| matrix::read_matrix(body, |raw| take(raw));
    let ReceivedBody { parsed, transfer } = receive_long(Vec::new(), response, limits, parse).await;
    let envelope = match parsed {
        Ok(Ok(envelope)) => envelope,
        // The reason for the interruption is reported rather than the incomplete JSON that follows from it.
        Ok(Err(error)) if matrix::is_cut(&error) => {
            return Err(match transfer {
                Err(error) => error,
                Ok(()) => PromError::Cut("its JSON is not complete".to_owned()),
            });
        }
        Ok(Err(error)) => {
            return Err(PromError::foreign(status, error.is_data(), format!("no matrix of samples: {error}")));
        }
        Err(error) => return Err(PromError::unexpected(format!("it could not be read: {error}"))),
    };
    if envelope.stopped || envelope.status == "success" {
        return Ok(envelope.warnings);
    }
    Err(PromError::Refused {
        kind: envelope.error_type.unwrap_or_else(|| "unknown".to_owned()),
        message: envelope.error.unwrap_or_default(),
    })
}
