//! Clients before a server that answers as a test says, counts its requests, and may hold them.

use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use axum::Router;
use axum::body::Body;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use futures::future::join_all;
use futures::stream;
use tokio::net::{TcpListener, TcpSocket};
use tokio::sync::watch;
use tokio::task::JoinHandle;

use super::*;
use crate::prom::{Config, Prometheus};

mod sharing;

/// The time that a test waits for an event that must come.
const SOON: Duration = Duration::from_secs(10);
const OK: &str = r#"{"status":"success","data":{"resultType":"vector","result":[]}}"#;
const SAMPLES: &str = r#"{"status":"success","data":{"resultType":"matrix","result":[]}}"#;
const HTML: &str = "<html>";

/// The answer of the server to each request.
#[derive(Clone, Copy)]
enum Mode {
    Says(u16, &'static str),
    /// To the tenant `a` alone; others get what they ask for.
    SaysToA(u16, &'static str),
    /// To the tenant `a`; others wait for another mode.
    SaysToAAndHolds(u16, &'static str),
    /// Begins an answer and breaks off.
    Breaks,
    /// Waits for another mode.
    Holds,
    /// Waits for another mode with all but probes.
    HoldsAllButProbes,
    /// Waits for another mode with what the tenant `a` asks.
    HoldsA,
}

struct Shared {
    mode: watch::Sender<Mode>,
    seen: AtomicUsize,
    probes: AtomicUsize,
    running: AtomicUsize,
    most: AtomicUsize,
}

/// Counts a request as running until it is dropped.
struct Running<'a>(&'a Shared);

impl Drop for Running<'_> {
    fn drop(&mut self) {
        self.0.running.fetch_sub(1, Ordering::SeqCst);
    }
}

struct Server {
    url: String,
    shared: Arc<Shared>,
    serving: JoinHandle<()>,
}

impl Drop for Server {
    fn drop(&mut self) {
        self.serving.abort();
    }
}

async fn answer_as_told(State(shared): State<Arc<Shared>>, headers: HeaderMap, body: String) -> Response {
    shared.seen.fetch_add(1, Ordering::SeqCst);
    let running = shared.running.fetch_add(1, Ordering::SeqCst) + 1;
    let _running = Running(&shared);
    shared.most.fetch_max(running, Ordering::SeqCst);
    let is_probe = body.contains("vector%281%29");
    shared.probes.fetch_add(usize::from(is_probe), Ordering::SeqCst);
    let mut modes = shared.mode.subscribe();
    let is_a = headers.get("x-scope-orgid").is_some_and(|tenant| tenant == "a");
    let is_free = |mode: &Mode| match mode {
        Mode::Holds => false,
        Mode::HoldsAllButProbes => is_probe,
        Mode::HoldsA => !is_a,
        Mode::SaysToAAndHolds(..) => is_a,
        Mode::Says(..) | Mode::SaysToA(..) | Mode::Breaks => true,
    };
    let mode = *modes.wait_for(is_free).await.unwrap();
    let own = |status, body: &'static str| (StatusCode::from_u16(status).unwrap(), body).into_response();
    match mode {
        Mode::Says(status, body) => own(status, body),
        Mode::SaysToA(status, body) | Mode::SaysToAAndHolds(status, body) if is_a => own(status, body),
        Mode::Breaks => {
            let parts: [Result<&str, std::io::Error>; 2] = [Ok(r#"{"status":"#), Err(std::io::Error::other("broken"))];
            Body::from_stream(stream::iter(parts)).into_response()
        }
        _ => own(200, OK),
    }
}

impl Server {
    async fn start(mode: Mode) -> Self {
        Self::serving(TcpListener::bind("127.0.0.1:0").await.unwrap(), mode)
    }

    fn serving(listener: TcpListener, mode: Mode) -> Self {
        let _ = rustls::crypto::ring::default_provider().install_default();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let shared = Arc::new(Shared {
            mode: watch::Sender::new(mode),
            seen: AtomicUsize::new(0),
            probes: AtomicUsize::new(0),
            running: AtomicUsize::new(0),
            most: AtomicUsize::new(0),
        });
        let router = Router::new().fallback(answer_as_told).with_state(Arc::clone(&shared));
        let serving = tokio::spawn(async move { axum::serve(listener, router).await.unwrap() });
        Self { url, shared, serving }
    }

    fn turns(&self, mode: Mode) {
        self.shared.mode.send_replace(mode);
    }

    fn seen(&self) -> usize {
        self.shared.seen.load(Ordering::SeqCst)
    }

    fn probes(&self) -> usize {
        self.shared.probes.load(Ordering::SeqCst)
    }

    fn running(&self) -> usize {
        self.shared.running.load(Ordering::SeqCst)
    }

    /// A client for each tenant.
    fn clients<const N: usize>(&self, tenants: [&str; N], settings: CircuitSettings) -> [Prometheus; N] {
        let config = |tenant: &str| Config {
            url: self.url.clone(),
            headers: BTreeMap::from([("X-Scope-OrgID".to_owned(), tenant.to_owned())]),
            ..Config::default()
        };
        Prometheus::sharing_within(&tenants.map(config), settings).unwrap().try_into().unwrap()
    }

    fn client(&self, settings: CircuitSettings) -> Prometheus {
        let [client] = self.clients(["a"], settings);
        client
    }
}

/// A short first pause, and every lateness counts.
fn quick() -> CircuitSettings {
    CircuitSettings { pause: Duration::from_secs(3), fair: Duration::ZERO, ..CircuitSettings::default() }
}

/// The deadline of queries that are to be late.
const LATE: Duration = Duration::from_millis(500);

/// Creates clients of entries.
fn sharing_quickly(configs: &[Config]) -> Vec<Prometheus> {
    Prometheus::sharing_within(configs, quick()).unwrap()
}

/// Sends a query of its own, which has so much time.
async fn query_within(client: &Prometheus, n: usize, within: Duration) -> Result<(), Arc<PromError>> {
    let at = jiff::Timestamp::UNIX_EPOCH;
    client.query(&format!("up + {n}"), at, Instant::now() + within).await.map(drop)
}

async fn query(client: &Prometheus, n: usize) -> Result<(), Arc<PromError>> {
    query_within(client, n, SOON).await
}

/// Waits for an event.
async fn until(what: &str, is_met: impl Fn() -> bool) {
    let end = Instant::now() + SOON;
    while !is_met() {
        assert!(Instant::now() < end, "{what} did not come");
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
}

async fn pause_over(client: &Prometheus) {
    until("the end of the pause", || client.pause_left().is_none()).await;
}

/// Sends queries until the circuit is open: five, and where they are weak evidence a probe follows.
async fn shut(client: &Prometheus) {
    for n in 0..5 {
        assert!(!client.is_shut());
        let error = query(client, n).await.unwrap_err();
        assert!(error.is_silence(), "{error}");
    }
    until("the open circuit", || client.is_shut()).await;
}

fn unsent(client: &Prometheus) -> u64 {
    Prometheus::servers([client])[client.server()].1
}

#[tokio::test]
async fn a_silent_server_is_not_asked_and_one_probe_lets_all_that_wait_through() {
    let server = Server::start(Mode::Says(502, HTML)).await;
    let client = server.client(quick());
    shut(&client).await;
    let began = Instant::now();
    for n in 5..15 {
        let error = query(&client, n).await.unwrap_err();
        assert!(matches!(*error, PromError::Shut { times: 6, .. }) && error.is_unavailable(), "{error}");
        assert!(!error.is_late() && !error.is_about_query());
        let why = "the answer is not Prometheus': HTTP 502 Bad Gateway with a body that is no API answer";
        assert_eq!(error.to_string(), why);
    }
    assert!(began.elapsed() < quick().pause, "{:?}", began.elapsed());
    assert_eq!((server.seen(), server.probes(), unsent(&client)), (6, 1, 10));

    server.turns(Mode::Holds);
    pause_over(&client).await;
    // A caller who waits for the probe goes away, the probe stays.
    let gone = query_within(&client, 15, Duration::from_millis(50)).await.unwrap_err();
    assert!(matches!(*gone, PromError::Late), "{gone}");
    let release = async {
        until("the probe", || server.probes() == 2).await;
        server.turns(Mode::Says(200, OK));
    };
    let (answers, ()) = tokio::join!(join_all((16..26).map(|n| query(&client, n))), release);
    assert!(answers.iter().all(Result::is_ok), "{answers:?}");
    assert_eq!(server.seen(), 6 + 11);
    assert!(!client.is_shut());
}

#[tokio::test]
async fn queries_that_wait_for_a_probe_that_fails_are_not_sent() {
    let server = Server::start(Mode::Says(503, HTML)).await;
    let client = server.client(quick());
    let bundles = client.with_own_slots();
    shut(&client).await;
    assert!(bundles.is_shut(), "other slots, one server");
    server.turns(Mode::Holds);
    pause_over(&client).await;
    let fail = async {
        until("the probe", || server.probes() == 2).await;
        server.turns(Mode::Says(503, HTML));
    };
    let asked = (5..15).map(|n| query(if n % 2 == 0 { &client } else { &bundles }, n));
    let (answers, ()) = tokio::join!(join_all(asked), fail);
    for error in answers.into_iter().map(Result::unwrap_err) {
        assert!(matches!(*error, PromError::Shut { times: 7, .. }), "{error}");
    }
    assert_eq!(server.seen(), 7);
}

#[tokio::test]
async fn a_server_that_is_down_is_found_again_when_it_is_back() {
    let _ = rustls::crypto::ring::default_provider().install_default();
    // A port that is held, and does not listen.
    let socket = TcpSocket::new_v4().unwrap();
    socket.bind("127.0.0.1:0".parse().unwrap()).unwrap();
    let address = socket.local_addr().unwrap().to_string();
    let config = Config { url: format!("http://{address}"), ..Config::default() };
    let [client] = Prometheus::sharing_within(&[config], quick()).unwrap().try_into().unwrap();
    shut(&client).await;
    let error = client.ping(jiff::Timestamp::UNIX_EPOCH, LATE).await.unwrap_err();
    let why = format!("Prometheus cannot be reached: Connection refused (http://{address})");
    assert!(matches!(&error, PromError::Shut { .. }) && error.to_string() == why, "{error:?}");
    let server = Server::serving(socket.listen(64).unwrap(), Mode::Says(200, OK));
    // A check waits for the end of the pause, and the probe that it needs is not sent by it.
    client.ping(jiff::Timestamp::UNIX_EPOCH, SOON).await.unwrap();
    assert_eq!((server.seen(), server.probes(), unsent(&client)), (2, 2, 0));
}

#[tokio::test]
async fn a_server_that_is_back_is_noticed_without_a_query() {
    let server = Server::start(Mode::Says(502, HTML)).await;
    let client = server.client(CircuitSettings { pause: Duration::from_millis(100), ..quick() });
    shut(&client).await;
    until("a probe that fails", || server.probes() == 3).await;
    assert!(client.is_shut());
    server.turns(Mode::Says(200, OK));
    until("the closed circuit", || !client.is_shut()).await;
    assert_eq!(server.seen(), 5 + server.probes());
}

#[tokio::test]
async fn an_error_in_prometheus_json_is_an_answer_and_another_server_error_is_none() {
    let unavailable = r#"{"status":"error","errorType":"unavailable","error":"too few ingesters"}"#;
    for (mode, is_silent) in [
        (Mode::Says(503, unavailable), false),
        (Mode::Says(500, r#"{"status":"error","errorType":"internal","error":"x"}"#), false),
        (Mode::Says(422, r#"{"status":"error","errorType":"execution","error":"x"}"#), false),
        (Mode::Says(200, SAMPLES), false),
        (Mode::Says(503, r#"{"message":"no upstream"}"#), true),
        (Mode::Says(503, r#"{"status":503}"#), true),
        (Mode::Says(504, ""), true),
        (Mode::Says(200, HTML), true),
        (Mode::Breaks, true),
    ] {
        let server = Server::start(mode).await;
        let client = server.client(quick());
        for n in 0..4 {
            query(&client, n).await.unwrap_err();
        }
        let error = query(&client, 4).await.unwrap_err();
        assert_eq!((client.is_shut(), error.is_silence()), (false, is_silent), "a probe first: {error}");
        if is_silent {
            until("the failure of the probe", || client.is_shut()).await;
        }
        assert_eq!(server.probes(), usize::from(is_silent));
        // The other requests to the server are judged in the same way.
        let client = server.client(quick());
        for _ in 0..5 {
            let error = client.build_info(Instant::now() + SOON).await.unwrap_err();
            assert_eq!(error.is_silence(), is_silent, "{error}");
        }
        if is_silent {
            until("the failure of the probe", || client.is_shut()).await;
        }
        assert_eq!((client.is_shut(), server.probes()), (is_silent, 2 * usize::from(is_silent)));
    }
}

#[tokio::test]
async fn late_queries_do_not_close_a_server_that_answers_a_small_one() {
    let server = Server::start(Mode::HoldsAllButProbes).await;
    let client = server.client(quick());
    let end = Instant::now() + SOON;
    for n in 0.. {
        // What is late while a probe is under way, or is not even sent in time, does not count.
        let answers = join_all((0..5).map(|i| query_within(&client, 10 * n + i, LATE))).await;
        assert!(answers.iter().all(|answer| answer.as_ref().is_err_and(|error| error.is_late())), "{answers:?}");
        assert!(!client.is_shut());
        if server.probes() >= 2 {
            break;
        }
        assert!(Instant::now() < end, "the second probe did not come");
    }
    server.turns(Mode::Holds);
    let settings = CircuitSettings { probe: Duration::from_millis(100), pause: Duration::from_secs(30), ..quick() };
    let client = server.client(settings);
    let end = Instant::now() + SOON;
    for n in 0.. {
        join_all((0..5).map(|i| query_within(&client, 10 * n + i, LATE))).await;
        if client.is_shut() {
            break;
        }
        assert!(Instant::now() < end, "the probe did not come");
    }
    let error = client.ping(jiff::Timestamp::UNIX_EPOCH, LATE).await.unwrap_err();
    assert!(error.to_string() == "Prometheus does not answer in time" && !error.is_late(), "{error:?}");
}

#[tokio::test]
async fn neither_callers_that_go_away_nor_short_deadlines_tell_anything() {
    let server = Server::start(Mode::Holds).await;
    let client = server.client(quick());
    let gone = (0..20).map(|n| tokio::time::timeout(Duration::from_millis(50), query(&client, n)));
    assert!(join_all(gone).await.iter().all(Result::is_err));
    let patient = server.client(CircuitSettings { fair: Duration::from_millis(500), ..quick() });
    join_all((0..20).map(|n| query_within(&patient, n, Duration::from_millis(50)))).await;
    assert!(!client.is_shut() && !patient.is_shut());
    until("the end of the queries", || server.running() == 0).await;
    assert_eq!(server.probes(), 0);
}

#[tokio::test]
async fn a_stream_tells_by_its_end_whether_the_server_works() {
    let server = Server::start(Mode::Breaks).await;
    let client = server.client(quick());
    let samples = async || {
        let deadline = Instant::now() + SOON;
        let stream = client.stream("up", jiff::Timestamp::UNIX_EPOCH, SOON, deadline).await?;
        stream.each(|_| ControlFlow::Continue(())).await
    };
    for _ in 0..4 {
        assert!(samples().await.unwrap_err().is_silence());
    }
    server.turns(Mode::Says(200, SAMPLES));
    samples().await.unwrap();
    server.turns(Mode::Breaks);
    for _ in 0..5 {
        assert!(!client.is_shut());
        samples().await.unwrap_err();
    }
    until("the failure of the probe", || client.is_shut()).await;
    assert!(matches!(samples().await, Err(PromError::Shut { .. })));
}

#[tokio::test]
async fn a_probe_ends_with_the_last_client_of_its_server() {
    let server = Server::start(Mode::Says(502, HTML)).await;
    let client = server.client(quick());
    shut(&client).await;
    server.turns(Mode::Holds);
    until("the probe", || server.running() == 1).await;
    drop(client);
    until("the end of the probe", || server.running() == 0).await;
}
