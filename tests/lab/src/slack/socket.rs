//! Socket Mode: the WebSockets, and what goes over them.
//!
//! <https://docs.slack.dev/apis/events-api/using-socket-mode/>

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

use futures::{SinkExt, StreamExt};
use serde_json::{Value, json};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{mpsc, oneshot};
use tokio_tungstenite::accept_hdr_async;
use tokio_tungstenite::tungstenite::Message as Frame;
use tokio_tungstenite::tungstenite::handshake::server::{ErrorResponse, Request, Response};

use super::blocks::Rule;
use super::deliver::Reply;
use super::methods::APP;
use super::server::Hub;
use super::state::State;

const MAX_CONNECTIONS: usize = 10;
/// How long a connection lives after its `disconnect`.
const NOTICE: Duration = Duration::from_secs(10);

/// What a connection's task is told.
#[derive(Debug)]
pub(super) enum Order {
    Send(String),
    /// Neither reads nor writes any more, and stays open.
    Mute,
    CloseIn(Duration),
    Drop,
}

#[derive(Debug)]
pub(super) struct Connection {
    pub(super) id: u64,
    pub(super) orders: mpsc::UnboundedSender<Order>,
    pub(super) is_muted: bool,
    /// Told to go: nothing new is sent to it.
    pub(super) is_leaving: bool,
}

/// Who waits for the acknowledgement of an envelope, and what it was sent over.
#[derive(Debug)]
pub(super) struct Waiting {
    pub(super) connection: u64,
    pub(super) reply: oneshot::Sender<Reply>,
}

/// All of Socket Mode's state.
#[derive(Debug, Default)]
pub(super) struct Sockets {
    pub(super) host: String,
    tickets: HashSet<String>,
    pub(super) open: Vec<Connection>,
    pub(super) waiting: HashMap<String, Waiting>,
    pub(super) duplicates: usize,
    next: u64,
    turn: usize,
}

impl Sockets {
    /// A connection for the next envelope, each in its turn, if possible none of `tried`.
    pub(super) fn pick(&mut self, tried: &[u64]) -> Option<&Connection> {
        let staying = || self.open.iter().filter(|connection| !connection.is_leaving);
        let fresh: Vec<u64> = staying().map(|c| c.id).filter(|id| !tried.contains(id)).collect();
        let ids = if fresh.is_empty() { staying().map(|connection| connection.id).collect() } else { fresh };
        self.turn += 1;
        let id = ids.get(self.turn % ids.len().max(1)).copied()?;
        self.open.iter().find(|connection| connection.id == id)
    }

    /// A one-time address.
    pub(super) fn ticket(&mut self, ticket: String) -> String {
        let url = format!("ws://{}/link/?ticket={ticket}&app_id={APP}", self.host);
        self.tickets.insert(ticket);
        url
    }

    fn close(&mut self, id: u64) {
        self.open.retain(|connection| connection.id != id);
        // Whoever waits learns it by the sender's end.
        self.waiting.retain(|_, waiting| waiting.connection != id);
    }
}

/// Takes connections for ever.
pub(super) async fn listen(listener: TcpListener, hub: Arc<Hub>) {
    while let Ok((stream, _)) = listener.accept().await {
        tokio::spawn(serve(stream, hub.clone()));
    }
}

async fn serve(stream: TcpStream, hub: Arc<Hub>) {
    let admitted = hub.clone();
    #[expect(clippy::result_large_err, reason = "the library's own type")]
    let check = move |request: &Request, response: Response| -> Result<Response, ErrorResponse> {
        let query = request.uri().query().unwrap_or_default();
        let ticket = query.split('&').find_map(|pair| pair.strip_prefix("ticket="));
        if ticket.is_some_and(|ticket| admitted.lock().sockets.tickets.remove(ticket)) {
            return Ok(response);
        }
        let mut refused = ErrorResponse::new(Some("error_invalid_ticket".into()));
        *refused.status_mut() = tokio_tungstenite::tungstenite::http::StatusCode::UNAUTHORIZED;
        Err(refused)
    };
    let Ok(mut socket) = accept_hdr_async(stream, check).await else { return };
    let (orders, mut ordered) = mpsc::unbounded_channel();
    let id = join(&mut hub.lock(), orders);
    hub.tell();
    let mut is_muted = false;
    let mut ends_at: Option<tokio::time::Instant> = None;
    loop {
        tokio::select! {
            order = ordered.recv() => match order {
                Some(Order::Send(_)) if is_muted => {}
                Some(Order::Send(text)) => {
                    if socket.send(Frame::text(text)).await.is_err() {
                        break;
                    }
                }
                Some(Order::Mute) => is_muted = true,
                Some(Order::CloseIn(delay)) => ends_at = Some(tokio::time::Instant::now() + delay),
                Some(Order::Drop) | None => break,
            },
            () = tokio::time::sleep_until(ends_at.unwrap_or_else(tokio::time::Instant::now)), if ends_at.is_some() => {
                socket.close(None).await.ok();
                break;
            }
            frame = socket.next(), if !is_muted => match frame {
                Some(Ok(Frame::Text(text))) => {
                    acknowledge(&mut hub.lock(), &text);
                    hub.tell();
                }
                Some(Ok(Frame::Close(_)) | Err(_)) | None => break,
                // Pings are answered by the library.
                Some(Ok(_)) => {}
            },
        }
    }
    hub.lock().sockets.close(id);
    hub.tell();
}

/// Greets a new connection, or sends it away.
fn join(state: &mut State, orders: mpsc::UnboundedSender<Order>) -> u64 {
    let sockets = &mut state.sockets;
    sockets.next += 1;
    let id = sockets.next;
    let is_one_too_many = sockets.open.len() >= MAX_CONNECTIONS;
    let first = if is_one_too_many {
        farewell("too_many_websockets", &sockets.host)
    } else {
        json!({
            "type": "hello", "num_connections": sockets.open.len() + 1, "connection_info": { "app_id": APP },
            "debug_info": {
                "host": sockets.host, "started": "2026-11-20 00:00:00.000", "build_number": 1,
                "approximate_connection_time": 18060,
            },
        })
    };
    orders.send(Order::Send(first.to_string())).ok();
    if is_one_too_many {
        orders.send(Order::CloseIn(Duration::ZERO)).ok();
    }
    sockets.open.push(Connection { id, orders, is_muted: false, is_leaving: is_one_too_many });
    id
}

fn farewell(reason: &str, host: &str) -> Value {
    json!({ "type": "disconnect", "reason": reason, "debug_info": { "host": host } })
}

/// Notes what the app sent: it may only acknowledge.
fn acknowledge(state: &mut State, text: &str) {
    let answer: Value = serde_json::from_str(text).unwrap_or_default();
    let Some(envelope) = answer["envelope_id"].as_str() else {
        state.breach("socket", Rule::Acknowledgement, format!("no envelope_id in `{text:.100}`"));
        return;
    };
    let Some(delivery) = state.deliveries.iter_mut().rev().find(|delivery| delivery.envelope == envelope) else {
        let message = format!("acknowledges `{envelope}`, which was never sent");
        state.breach("socket", Rule::Acknowledgement, message);
        return;
    };
    let body = answer.get("payload").filter(|payload| !payload.is_null()).cloned();
    let after = delivery.at.elapsed();
    if delivery.acknowledged_after.is_none() {
        delivery.acknowledged_after = Some(after);
        delivery.answer.clone_from(&body);
    }
    if let Some(waiting) = state.sockets.waiting.remove(envelope) {
        waiting.reply.send(Reply { at: Instant::now(), body }).ok();
    }
}

impl State {
    /// Says goodbye to connections: to the oldest, or to all for `link_disabled`.
    pub(super) fn disconnect(&mut self, reason: &str) -> usize {
        let most = if reason == "link_disabled" { MAX_CONNECTIONS } else { 1 };
        let text = farewell(reason, &self.sockets.host).to_string();
        let staying = self.sockets.open.iter_mut().filter(|connection| !connection.is_leaving).take(most);
        let mut told = 0;
        for connection in staying {
            connection.is_leaving = true;
            connection.orders.send(Order::Send(text.clone())).ok();
            let has_notice = matches!(reason, "warning" | "refresh_requested");
            connection.orders.send(Order::CloseIn(if has_notice { NOTICE } else { Duration::ZERO })).ok();
            told += 1;
        }
        told
    }

    /// Gives every connection the same order.
    pub(super) fn order(&mut self, order: impl Fn() -> Order) {
        for connection in &mut self.sockets.open {
            connection.is_muted |= matches!(order(), Order::Mute);
            connection.orders.send(order()).ok();
        }
    }
}
