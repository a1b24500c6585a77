//! Opens the WebSocket of an address from Slack: TCP, the environment's proxy, TLS.
//!
//! The address contains a ticket, so errors do not include it.

use hyper_util::client::proxy::matcher::Matcher;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio_tungstenite::tungstenite::Error;
use tokio_tungstenite::tungstenite::protocol::WebSocketConfig;
use tokio_tungstenite::{MaybeTlsStream, WebSocketStream, client_async_tls_with_config};
use url::Url;

/// A WebSocket; encrypted if the address says so.
pub(super) type SlackWebSocket = WebSocketStream<MaybeTlsStream<TcpStream>>;

/// The largest message, in bytes: Slack's have a few kilobytes, those with a view's state some hundred.
const LARGEST: usize = 1 << 20;
/// The longest response of a proxy, in bytes.
const PROXY_ANSWER: usize = 8 << 10;

/// Connects; the caller applies the timeout.
pub(super) async fn dial(address: &str, proxies: &Matcher) -> Result<SlackWebSocket, String> {
    let url = Url::parse(address).map_err(|_| "Slack gave an address that is none".to_owned())?;
    let (Some(host), Some(port)) = (url.host_str(), url.port_or_known_default()) else {
        return Err("Slack gave an address without a host".to_owned());
    };
    let tcp = match through(proxies, url.scheme(), host, port)? {
        None => connect(host, port).await?,
        Some(Proxy { host: proxy, port: door, credentials }) => {
            let tcp = connect(&proxy, door).await.map_err(|e| format!("the proxy: {e}"))?;
            tunnel(tcp, host, port, credentials.as_deref())
                .await
                .map_err(|e| format!("the proxy {proxy}:{door}: {e}"))?
        }
    };
    // Acknowledgements are small and urgent.
    let _ = tcp.set_nodelay(true);
    let limits = WebSocketConfig::default().max_message_size(Some(LARGEST)).max_frame_size(Some(LARGEST));
    match client_async_tls_with_config(address, tcp, Some(limits), None).await {
        Ok((line, _)) => Ok(line),
        Err(Error::Http(answer)) => Err(format!("HTTP {} instead of a WebSocket", answer.status().as_u16())),
        Err(Error::Url(_)) => Err("Slack gave an address that is no WebSocket's".to_owned()),
        Err(error) => Err(error.to_string()),
    }
}

async fn connect(host: &str, port: u16) -> Result<TcpStream, String> {
    // IPv6 addresses have brackets in URLs only.
    let bare = host.trim_start_matches('[').trim_end_matches(']');
    TcpStream::connect((bare, port)).await.map_err(|error| format!("cannot connect to {host}:{port}: {error}"))
}

struct Proxy {
    host: String,
    port: u16,
    /// The value of `Proxy-Authorization`.
    credentials: Option<String>,
}

/// Returns the proxy that the environment (HTTPS_PROXY, NO_PROXY, …) configures for this host.
fn through(proxies: &Matcher, scheme: &str, host: &str, port: u16) -> Result<Option<Proxy>, String> {
    let scheme = if scheme == "wss" { "https" } else { "http" };
    let Ok(target) = format!("{scheme}://{host}:{port}/").parse() else { return Ok(None) };
    let Some(proxy) = proxies.intercept(&target) else { return Ok(None) };
    let (uri, credentials) = (proxy.uri(), proxy.basic_auth().and_then(|value| value.to_str().ok()));
    match (uri.scheme_str(), uri.host()) {
        (Some("http") | None, Some(host)) => Ok(Some(Proxy {
            host: host.to_owned(),
            port: uri.port_u16().unwrap_or(80),
            credentials: credentials.map(str::to_owned),
        })),
        (scheme, _) => Err(format!(
            "the proxy is reached by {}, which Socket Mode cannot: set HTTPS_PROXY to an http:// address, or use \
             `slack.transport: http`",
            scheme.unwrap_or("nothing known")
        )),
    }
}

/// Sends `CONNECT`; afterwards the proxy forwards all bytes.
async fn tunnel(mut tcp: TcpStream, host: &str, port: u16, credentials: Option<&str>) -> Result<TcpStream, String> {
    let credentials = credentials.map(|value| format!("Proxy-Authorization: {value}\r\n")).unwrap_or_default();
    let request = format!("CONNECT {host}:{port} HTTP/1.1\r\nHost: {host}:{port}\r\n{credentials}\r\n");
    tcp.write_all(request.as_bytes()).await.map_err(|error| error.to_string())?;
    let mut answer = Vec::new();
    // Byte by byte, because the bytes after the empty line belong to TLS.
    while !answer.ends_with(b"\r\n\r\n") {
        if answer.len() == PROXY_ANSWER {
            return Err("its answer has no end".to_owned());
        }
        answer.push(tcp.read_u8().await.map_err(|error| error.to_string())?);
    }
    let status = String::from_utf8_lossy(&answer);
    match status.split_ascii_whitespace().nth(1) {
        Some("200") => Ok(tcp),
        _ => Err(format!("it refuses: {}", status.lines().next().unwrap_or_default())),
    }
}

#[cfg(test)]
mod tests {
    use tokio::net::TcpListener;

    use super::*;

    #[tokio::test]
    async fn a_proxy_is_asked_with_its_credentials_and_its_refusal_is_told() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let at = listener.local_addr().unwrap();
        let request = tokio::spawn(async move {
            let (mut tcp, _) = listener.accept().await.unwrap();
            let mut request = Vec::new();
            while !request.ends_with(b"\r\n\r\n") {
                request.push(tcp.read_u8().await.unwrap());
            }
            tcp.write_all(b"HTTP/1.1 407 Proxy Authentication Required\r\n\r\n").await.unwrap();
            String::from_utf8(request).unwrap()
        });
        let proxies = Matcher::builder().https(format!("http://ann:secret@{at}")).no("inside.example").build();
        let error = dial("wss://wss-primary.slack.com/link/?ticket=hidden", &proxies).await.unwrap_err();
        assert!(error.contains("407") && !error.contains("hidden") && !error.contains("secret"), "{error}");
        let request = request.await.unwrap();
        assert!(request.starts_with("CONNECT wss-primary.slack.com:443 HTTP/1.1\r\n"), "{request}");
        assert!(request.contains("Proxy-Authorization: Basic YW5uOnNlY3JldA=="), "{request}");
        assert!(through(&proxies, "wss", "inside.example", 443).unwrap().is_none());
    }
}
