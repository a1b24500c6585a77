//! What goes wrong between Slack and the app, when a test wants it.

use std::time::Instant;

use anyhow::Context;
use serde_json::json;

use super::deliver::post;
use super::socket::Order;
use super::{FakeSlack, sign};

/// How a request over HTTP is made untrustworthy.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Forgery {
    /// Signed with another secret.
    WrongSecret,
    /// Signed right, ten minutes ago.
    Stale,
    /// Signed right, ten minutes ahead.
    Early,
    /// Without the headers.
    Unsigned,
    /// Signed right, with another body.
    OtherBody,
}

impl FakeSlack {
    /// Announces the end of a connection with Slack's reasons `warning`, `refresh_requested`, `too_many_websockets` (the
    /// oldest connection) or `link_disabled` (all of them); the first two leave 10 s. Returns how many were told.
    pub fn disconnect(&self, reason: &str) -> usize {
        let told = self.hub.lock().disconnect(reason);
        self.hub.tell();
        told
    }

    /// Loses all WebSockets without a word.
    pub fn drop_sockets(&self) {
        self.hub.lock().order(|| Order::Drop);
    }

    /// Leaves all WebSockets that are open now half-open: nothing is sent, read or answered any more, pings neither.
    pub fn mute(&self) {
        self.hub.lock().order(|| Order::Mute);
    }

    /// Sends the next envelope twice.
    pub fn duplicate_next(&self) {
        self.hub.lock().sockets.duplicates += 1;
    }

    /// Sends this text to every WebSocket.
    pub fn send_raw(&self, text: &str) {
        self.hub.lock().order(|| Order::Send(text.to_owned()));
    }

    /// How many WebSockets are open.
    pub fn connections(&self) -> usize {
        self.hub.lock().connections()
    }

    /// Sends the nth delivery again, letter by letter; over HTTP with the old headers, whose answer's status it returns.
    ///
    /// # Errors
    /// When there is no such delivery, or nobody to take it.
    pub async fn replay(&self, n: usize) -> anyhow::Result<Option<u16>> {
        let (url, old) = {
            let state = self.hub.lock();
            let old = state.deliveries.get(n).with_context(|| format!("there was no delivery {n}"))?.clone();
            (state.options.request_url.clone(), old)
        };
        match url {
            Some(url) => {
                let answer = post(&self.hub, &format!("{url}/{}", old.kind.path()), &old.headers, old.raw).await?;
                Ok(Some(answer.status))
            }
            None => {
                let mut state = self.hub.lock();
                let connection = state.sockets.pick(&[]).context("the app has no WebSocket open")?;
                connection.orders.send(Order::Send(old.raw)).ok();
                Ok(None)
            }
        }
    }

    /// Sends the slash command `help` over HTTP in a way that must not be trusted; returns the status.
    ///
    /// # Errors
    /// When the app does not answer.
    pub async fn forge(&self, forgery: Forgery) -> anyhow::Result<u16> {
        let (url, secret) = {
            let state = self.hub.lock();
            (
                state.options.request_url.clone().context("HTTP mode needs `request_url`")?,
                state.options.signing_secret.clone(),
            )
        };
        let body = format!(
            "team_id=T0LAB&channel_id=C0LLMALERTS&channel_name=llm-alerts&user_id=U0ANN&user_name=ann&api_app_id=A0LAB\
             &command=%2Fllm-diagnose&text=help&trigger_id=1.2.forged&response_url=http%3A%2F%2F127.0.0.1%3A9%2F{}",
            Instant::now().elapsed().as_nanos()
        );
        let headers = match forgery {
            Forgery::WrongSecret => sign::headers("not the secret", sign::now(), &body),
            Forgery::Stale => sign::headers(&secret, sign::now() - 600, &body),
            Forgery::Early => sign::headers(&secret, sign::now() + 600, &body),
            Forgery::Unsigned => Vec::new(),
            Forgery::OtherBody => sign::headers(&secret, sign::now(), &format!("{body}&text=health")),
        };
        let mut headers = headers;
        headers.push(("content-type".into(), "application/x-www-form-urlencoded".into()));
        post(&self.hub, &format!("{url}/commands"), &headers, body).await.map(|answer| answer.status)
    }

    /// Asks the events' address to prove itself, as Slack does when it is entered; whether it did.
    ///
    /// # Errors
    /// When the app does not answer.
    pub async fn verify_url(&self) -> anyhow::Result<bool> {
        let (url, secret) = {
            let state = self.hub.lock();
            (
                state.options.request_url.clone().context("HTTP mode needs `request_url`")?,
                state.options.signing_secret.clone(),
            )
        };
        let challenge = "3eZbrw1aBm2rZgRNFdxV2595E9CY3gmdALWMmHkvFXO7tYXAYM8P";
        let body =
            json!({ "token": "verification-token", "challenge": challenge, "type": "url_verification" }).to_string();
        let mut headers = sign::headers(&secret, sign::now(), &body);
        headers.push(("content-type".into(), "application/json".into()));
        let answer = post(&self.hub, &format!("{url}/events"), &headers, body).await?;
        let told = answer.body.unwrap_or_default();
        Ok(answer.status == 200 && (told["challenge"] == challenge || told["text"] == challenge))
    }
}
