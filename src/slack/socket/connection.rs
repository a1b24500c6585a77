//! One WebSocket: receives envelopes, acknowledges each before the deadline, and detects a dead peer.

use std::fmt;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use futures::{FutureExt, SinkExt, StreamExt};
use serde_json::{Value, json};
use tokio::sync::mpsc;
use tokio::time::{Instant, MissedTickBehavior, sleep_until};
use tokio_tungstenite::tungstenite::{Bytes, Error, Message};
use tokio_util::sync::CancellationToken;
use tracing::{debug, error, warn};

use super::dial::SlackWebSocket;
use super::{ConnectedGuard, SocketContext};
use crate::{Ack, Payload, SlackRequest, payload};

/// Acknowledgements that may wait to be written.
const ACKS: usize = 512;
/// The timeout of a write.
const WRITE: Duration = Duration::from_secs(5);
/// The time that a handler gets after it missed the acknowledgement.
const LATE: Duration = Duration::from_secs(30);
/// The time that Slack gets to close the connection.
const CLOSE: Duration = Duration::from_secs(1);

/// The reason why a connection ended or was not established.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum ConnectionEnd {
    /// The service is stopping.
    Stopped,
    /// Slack announced the end and closes the connection soon.
    Refresh,
    /// Socket Mode is turned off.
    Disabled,
    /// The app has more connections than Slack allows.
    TooMany,
    /// Slack asks to wait this long.
    Wait(Duration),
    /// Slack rejected the app token, with this code.
    Refused(String),
    /// Any error that may be transient.
    Lost(String),
}

impl fmt::Display for ConnectionEnd {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Stopped => f.write_str("it was stopped"),
            Self::Refresh => f.write_str("Slack ends it soon"),
            Self::Disabled => f.write_str(
                "Socket Mode is off for this app: turn it on at https://api.slack.com/apps under Socket Mode, or set \
                 `slack.transport: http`",
            ),
            Self::TooMany => f.write_str(
                "the app has too many connections: Slack allows 10 over all instances, lower `slack.connections`",
            ),
            Self::Wait(wait) => write!(f, "Slack asks to wait {} s", wait.as_secs()),
            Self::Refused(code) => write!(
                f,
                "Slack refuses the app token ({code}): make one with the scope connections:write at \
                 https://api.slack.com/apps under Basic Information, App-Level Tokens, put it into SLACK_APP_TOKEN or \
                 the file of `slack.app_token_file`, and restart"
            ),
            Self::Lost(why) => f.write_str(why),
        }
    }
}

/// A message from a connection to its slot.
#[derive(Debug)]
pub(super) enum ConnectionEvent {
    /// Slack sent `hello`.
    Ready,
    /// The connection ended, or will end soon.
    Ended(ConnectionEnd),
}

/// The task of one connection.
pub(super) struct SocketConnection<H> {
    pub(super) shared: Arc<SocketContext<H>>,
    pub(super) tell: mpsc::Sender<ConnectionEvent>,
    /// Cancelled once its successor is ready.
    pub(super) leave: CancellationToken,
    pub(super) stop: CancellationToken,
}

/// The effect of a frame on the connection.
enum FrameEffect {
    Hello,
    Over(ConnectionEnd),
    Nothing,
}

impl<H, A> SocketConnection<H>
where
    H: Fn(SlackRequest) -> A + Send + Sync + 'static,
    A: Future<Output = Ack> + Send + 'static,
{
    /// Reads and acknowledges envelopes until the connection ends.
    pub(super) async fn serve(self, mut line: SlackWebSocket) {
        let (acks, mut waiting) = mpsc::channel::<String>(ACKS);
        let mut up = None;
        let end = self.read(&mut line, &acks, &mut waiting, &mut up).await;
        // Accepted envelopes are acknowledged before the connection is closed.
        drop(acks);
        let flush = async {
            while let Some(ack) = waiting.recv().await {
                line.send(Message::text(ack)).await?;
            }
            line.close(None).await
        };
        let flushed = tokio::time::timeout(self.shared.socket.timing.ack + CLOSE, flush).await;
        drop(up);
        // After an announced end the slot listens no more, so a failure to send is ignored.
        let _ = self.tell.try_send(ConnectionEvent::Ended(end));
        if matches!(flushed, Ok(Ok(()))) {
            let _ = tokio::time::timeout(CLOSE, async { while let Some(Ok(_)) = line.next().await {} }).await;
        }
    }

    async fn read(
        &self,
        line: &mut SlackWebSocket,
        acks: &mpsc::Sender<String>,
        waiting: &mut mpsc::Receiver<String>,
        up: &mut Option<ConnectedGuard>,
    ) -> ConnectionEnd {
        let timing = self.shared.socket.timing;
        let mut last_frame_at = Instant::now();
        let greet_by = last_frame_at + timing.open;
        let mut ping = tokio::time::interval(timing.ping);
        ping.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut leave_at: Option<Instant> = None;
        let mut is_ending = false;
        loop {
            let dead_at = last_frame_at + timing.idle;
            let write = tokio::select! {
                frame = line.next() => {
                    last_frame_at = Instant::now();
                    let text = match frame {
                        None => return lost("Slack closed the connection"),
                        Some(Err(Error::Capacity(_))) => {
                            self.count("frame", "too_large");
                            return lost("Slack sent more than 1 MB at once");
                        }
                        Some(Err(error)) => return lost(&error.to_string()),
                        Some(Ok(Message::Text(text))) => text,
                        Some(Ok(Message::Binary(_))) => {
                            self.count("frame", "malformed");
                            continue;
                        }
                        // tungstenite answers pings; after a close frame the stream ends.
                        Some(Ok(_)) => continue,
                    };
                    match self.take(&text, acks) {
                        FrameEffect::Nothing => {}
                        FrameEffect::Hello if up.is_none() => {
                            *up = Some(ConnectedGuard::new(&self.shared.socket.state));
                            let _ = self.tell.try_send(ConnectionEvent::Ready);
                        }
                        FrameEffect::Hello => {}
                        FrameEffect::Over(ConnectionEnd::Refresh) if is_ending => {}
                        FrameEffect::Over(ConnectionEnd::Refresh) => {
                            is_ending = true;
                            let _ = self.tell.try_send(ConnectionEvent::Ended(ConnectionEnd::Refresh));
                        }
                        FrameEffect::Over(end) => return end,
                    }
                    continue;
                }
                ack = waiting.recv() => match ack {
                    Some(ack) => Message::text(ack),
                    // `acks` is alive, so the channel cannot be closed.
                    None => continue,
                },
                _ = ping.tick() => Message::Ping(Bytes::new()),
                () = sleep_until(dead_at) => return lost("nothing was heard for too long: the connection is dead"),
                () = sleep_until(greet_by), if up.is_none() => return lost("no hello came over the WebSocket"),
                () = self.stop.cancelled() => return ConnectionEnd::Stopped,
                () = self.leave.cancelled(), if leave_at.is_none() => {
                    leave_at = Some(Instant::now() + timing.linger);
                    continue;
                }
                () = sleep_until(leave_at.unwrap_or(dead_at)), if leave_at.is_some() => return ConnectionEnd::Refresh,
            };
            match tokio::time::timeout(WRITE, line.send(write)).await {
                Ok(Ok(())) => {}
                Ok(Err(error)) => return lost(&error.to_string()),
                Err(_) => return lost("nothing can be written: the connection is dead"),
            }
        }
    }

    fn count(&self, kind: &str, result: &str) {
        self.shared.socket.metrics.inbound(kind, result);
    }

    fn take(&self, text: &str, acks: &mpsc::Sender<String>) -> FrameEffect {
        let Ok(mut frame) = serde_json::from_str::<Value>(text) else {
            self.count("frame", "malformed");
            debug!("a frame that is no JSON came over Slack's socket");
            return FrameEffect::Nothing;
        };
        let kind = frame["type"].as_str().unwrap_or_default().to_owned();
        match kind.as_str() {
            "hello" => return FrameEffect::Hello,
            "disconnect" => return FrameEffect::Over(announced(frame["reason"].as_str().unwrap_or_default())),
            _ => {}
        }
        let Some(id) = frame["envelope_id"].as_str().filter(|id| !id.is_empty() && id.len() <= 255) else {
            self.count("frame", "malformed");
            return FrameEffect::Nothing;
        };
        let envelope = Envelope { id: id.to_owned(), answers: frame["accepts_response_payload"] == true };
        let request = payload::envelope(&kind, &frame["payload"].take(), &envelope.id);
        let name = named(&kind);
        match request {
            Payload::Inbound(inbound) => self.work(*inbound, name, envelope, acks.clone()),
            Payload::Challenge(_) => self.acknowledge(&envelope, acks),
            Payload::Nothing(why) => {
                self.count(name, why);
                debug!(kind, why, "nothing to do for an envelope of Slack's");
                self.acknowledge(&envelope, acks);
            }
        }
        FrameEffect::Nothing
    }

    /// Acknowledges an envelope at once, without a payload.
    fn acknowledge(&self, envelope: &Envelope, acks: &mpsc::Sender<String>) {
        if acks.try_send(envelope.ack(&Ack::Received)).is_err() {
            // Slack sends it again.
            self.count("frame", "ack_queue_full");
        }
    }

    /// Handles a request in a task of its own, so that a slow or panicking handler affects no other acknowledgement.
    fn work(&self, inbound: SlackRequest, name: &'static str, envelope: Envelope, acks: mpsc::Sender<String>) {
        let Ok(slot) = Arc::clone(&self.shared.slots).try_acquire_owned() else {
            warn!(kind = name, "too much comes from Slack at once: dropped");
            self.count(name, "dropped");
            return self.acknowledge(&envelope, &acks);
        };
        let (shared, stop) = (Arc::clone(&self.shared), self.stop.clone());
        self.shared.tasks.spawn(async move {
            let socket = &shared.socket;
            // Both the call and the returned future may panic.
            let handling = async { (socket.handle)(inbound).await };
            let mut handling = std::pin::pin!(AssertUnwindSafe(handling).catch_unwind());
            let (answer, is_late) = match tokio::time::timeout(socket.timing.ack, &mut handling).await {
                Ok(Ok(answer)) => (answer, false),
                Ok(Err(_)) => {
                    error!(kind = name, "handling something from Slack panicked: this is a bug");
                    socket.metrics.inbound(name, "panicked");
                    (Ack::Received, false)
                }
                Err(_) => (Ack::Received, true),
            };
            // Fails if the connection is closed; Slack then sends the envelope again over another one.
            let _ = acks.send(envelope.ack(&answer)).await;
            drop(acks);
            if is_late {
                warn!(kind = name, "handling something from Slack takes longer than Slack waits");
                socket.metrics.inbound(name, "late");
                // A shutdown has already waited for the acknowledgement.
                let _ = tokio::time::timeout(LATE, stop.run_until_cancelled(handling)).await;
            }
            drop(slot);
        });
    }
}

/// The data needed to acknowledge an envelope.
struct Envelope {
    id: String,
    /// True if Slack accepts a payload in the acknowledgement.
    answers: bool,
}

impl Envelope {
    fn ack(&self, answer: &Ack) -> String {
        let mut ack = json!({ "envelope_id": self.id });
        if let Some(body) = answer.body().filter(|_| self.answers) {
            ack["payload"] = body;
        }
        ack.to_string()
    }
}

fn lost(why: &str) -> ConnectionEnd {
    ConnectionEnd::Lost(why.to_owned())
}

/// Maps the reason of a `disconnect`: <https://docs.slack.dev/apis/events-api/using-socket-mode#disconnect>.
fn announced(reason: &str) -> ConnectionEnd {
    match reason {
        "link_disabled" => ConnectionEnd::Disabled,
        "too_many_websockets" => ConnectionEnd::TooMany,
        // `warning`, `refresh_requested`, and unknown reasons.
        _ => ConnectionEnd::Refresh,
    }
}

/// Returns the metric's name of an envelope type; Slack may add types.
fn named(kind: &str) -> &'static str {
    match kind {
        "slash_commands" => "command",
        "interactive" => "interaction",
        "events_api" => "event",
        _ => "envelope",
    }
}

/// Reads until Slack's `hello`, then closes the connection.
pub(super) async fn greeted(mut line: SlackWebSocket) -> Result<(), String> {
    while let Some(frame) = line.next().await {
        let frame = frame.map_err(|error| error.to_string())?;
        let Message::Text(text) = frame else { continue };
        let Ok(frame) = serde_json::from_str::<Value>(&text) else { continue };
        match frame["type"].as_str() {
            Some("hello") => {
                let _ = line.close(None).await;
                return Ok(());
            }
            Some("disconnect") => return Err(announced(frame["reason"].as_str().unwrap_or_default()).to_string()),
            _ => {}
        }
    }
    Err("Slack closed the connection before it said hello".to_owned())
}
