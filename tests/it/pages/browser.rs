//! A real browser on loopback: headless Chromium, spoken to by its DevTools protocol.

use std::process::Stdio;
use std::time::{Duration, Instant};

use futures::{SinkExt, StreamExt};
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::net::TcpStream;
use tokio::process::{Child, Command};
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::{MaybeTlsStream, WebSocketStream, connect_async};

/// How long anything in it may take; the machine may be busy.
const PATIENCE: Duration = Duration::from_secs(240);

/// One tab; the browser is killed when it is dropped.
pub(crate) struct Browser {
    _process: Child,
    _profile: tempfile::TempDir,
    socket: WebSocketStream<MaybeTlsStream<TcpStream>>,
    id: u64,
    /// What the browser complained of: errors of scripts, refusals of the page's policy.
    pub(crate) complaints: Vec<String>,
    /// Every address that was asked for.
    pub(crate) asked: Vec<String>,
}

impl Browser {
    /// Starts it; names beside loopback lead nowhere.
    pub(crate) async fn start() -> Self {
        let profile = tempfile::tempdir().unwrap();
        let mut process = Command::new("chromium")
            .args(["--headless", "--no-sandbox", "--disable-gpu", "--remote-debugging-port=0", "--no-first-run"])
            .arg("--host-resolver-rules=MAP * ~NOTFOUND , EXCLUDE 127.0.0.1")
            .arg(format!("--user-data-dir={}", profile.path().display()))
            .arg("about:blank")
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .unwrap_or_else(|error| panic!("cannot start chromium ({error}): apt-get install chromium"));
        let mut lines = BufReader::new(process.stderr.take().unwrap()).lines();
        let listening = async {
            loop {
                let line = lines.next_line().await.unwrap().expect("chromium ended before it listened");
                if let Some((_, url)) = line.split_once("DevTools listening on ws://") {
                    return url.split('/').next().unwrap().to_owned();
                }
            }
        };
        let place = tokio::time::timeout(PATIENCE, listening).await.expect("chromium does not listen");
        tokio::spawn(async move { while let Ok(Some(_)) = lines.next_line().await {} });
        let tabs: Value = reqwest::get(format!("http://{place}/json/list")).await.unwrap().json().await.unwrap();
        let tab = tabs.as_array().unwrap().iter().find(|tab| tab["type"] == "page").unwrap();
        let (socket, _) = connect_async(tab["webSocketDebuggerUrl"].as_str().unwrap()).await.unwrap();
        let (complaints, asked) = (Vec::new(), Vec::new());
        let mut browser = Self { _process: process, _profile: profile, socket, id: 0, complaints, asked };
        for domain in ["Page", "Runtime", "Log", "Network"] {
            browser.call(&format!("{domain}.enable"), json!({})).await;
        }
        browser
    }

    /// Calls a method and waits for its answer; what happens meanwhile is kept.
    pub(crate) async fn call(&mut self, method: &str, params: Value) -> Value {
        let answer = self.ask(method, params).await;
        assert!(answer["error"].is_null(), "{method}: {answer}");
        answer["result"].clone()
    }

    async fn ask(&mut self, method: &str, params: Value) -> Value {
        self.id += 1;
        let text = json!({ "id": self.id, "method": method, "params": params }).to_string();
        self.socket.send(Message::text(text)).await.unwrap();
        loop {
            let next = tokio::time::timeout(PATIENCE, self.socket.next()).await;
            let message = next.unwrap_or_else(|_| panic!("no answer to {method}")).unwrap().unwrap();
            let Ok(text) = message.to_text() else { continue };
            let Ok(value) = serde_json::from_str::<Value>(text) else { continue };
            if value["id"] == self.id {
                return value;
            }
            self.note(&value);
        }
    }

    fn note(&mut self, event: &Value) {
        let params = &event["params"];
        match event["method"].as_str().unwrap_or_default() {
            "Log.entryAdded" if params["entry"]["level"] == "error" => {
                self.complaints.push(params["entry"].to_string())
            }
            "Runtime.exceptionThrown" => self.complaints.push(params.to_string()),
            "Network.requestWillBeSent" => {
                self.asked.push(params["request"]["url"].as_str().unwrap_or_default().to_owned());
            }
            _ => {}
        }
    }

    /// Opens a page.
    pub(crate) async fn open(&mut self, url: &str) {
        self.call("Page.navigate", json!({ "url": url })).await;
        self.wait_for(&format!("location.href.startsWith({url:?}) && document.readyState === 'complete'")).await;
    }

    /// The value of an expression in the page.
    pub(crate) async fn value(&mut self, expression: &str) -> Value {
        let answer = self.call("Runtime.evaluate", json!({ "expression": expression, "returnByValue": true })).await;
        assert!(answer["exceptionDetails"].is_null(), "{expression}: {answer}");
        answer["result"]["value"].clone()
    }

    /// Asks until an expression is true.
    pub(crate) async fn wait_for(&mut self, expression: &str) {
        let until = Instant::now() + PATIENCE;
        let asked = json!({ "expression": expression, "returnByValue": true });
        // While one page gives way to another nothing in it can be asked.
        while self.ask("Runtime.evaluate", asked.clone()).await["result"]["result"]["value"] != true {
            assert!(Instant::now() < until, "never: {expression}\n{:?}", self.complaints);
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    }
}
