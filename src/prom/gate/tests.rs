//! Clients before a server that answers as a test says, counts its requests, and may hold them.

use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::sync::atomic::AtomicUsize;

use axum::Router;
use axum::body::Body;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use futures::future::join_all;
use tokio::net::{TcpListener, TcpSocket};
use tokio::sync::watch;
use tokio::task::JoinHandle;

use super::*;
use crate::{Config, Prometheus};

/// The time that a test waits for an event that must come.
const SOON: Duration = Duration::from_secs(10);
/// The deadline of queries that are to be late.
const LATE: Duration = Duration::from_millis(300);
const OK: Reply = Reply::Says(200, r#"{"status":"success","data":{"resultType":"vector","result":[]}}"#);
const SAMPLES: Reply = Reply::Says(200, r#"{"status":"success","data":{"resultType":"matrix","result":[]}}"#);
const PAGE: Reply = Reply::Says(502, "<html>");

#[derive(Clone, Copy)]
enum Reply {
    Says(u16, &'static str),
    /// Begins an answer and breaks off.
    Breaks,
    /// Waits for another mode.
    Holds,
}

/// A request to the server: by the tenant `a`, as a probe.
struct Asked {
    is_a: bool,
    is_probe: bool,
}

type Mode = Arc<dyn Fn(Asked) -> Reply + Send + Sync>;

/// The mode of a server, and the requests that it has seen.
struct Seen {
    mode: watch::Sender<Mode>,
    all: AtomicUsize,
    probes: AtomicUsize,
    running: AtomicUsize,
    most: AtomicUsize,
}

/// Counts a request as running until it is dropped.
struct Running<'a>(&'a Seen);

impl Drop for Running<'_> {
    fn drop(&mut self) {
        self.0.running.fetch_sub(1, Ordering::SeqCst);
    }
}

struct Server {
    url: String,
    seen: Arc<Seen>,
    serving: JoinHandle<()>,
}

impl Drop for Server {
    fn drop(&mut self) {
        self.serving.abort();
    }
}

async fn answer_as_told(State(seen): State<Arc<Seen>>, headers: HeaderMap, body: String) -> Response {
    seen.all.fetch_add(1, Ordering::SeqCst);
    seen.most.fetch_max(seen.running.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
    let _running = Running(&seen);
    let is_probe = body.contains("vector%281%29");
    seen.probes.fetch_add(usize::from(is_probe), Ordering::SeqCst);
    let is_a = headers.get("x-scope-orgid").is_some_and(|tenant| tenant == "a");
    let reply = |mode: &Mode| mode(Asked { is_a, is_probe });
    let mut modes = seen.mode.subscribe();
    let mode = modes.wait_for(|mode| !matches!(reply(mode), Reply::Holds)).await.unwrap();
    match reply(&mode) {
        Reply::Says(status, body) => (StatusCode::from_u16(status).unwrap(), body).into_response(),
        Reply::Breaks | Reply::Holds => {
            let parts = [Ok(r#"{"status":"#), Err(std::io::Error::other("broken"))];
            Body::from_stream(stream::iter(parts)).into_response()
        }
    }
}

impl Server {
    async fn start(mode: impl Fn(Asked) -> Reply + Send + Sync + 'static) -> Self {
        Self::serving(TcpListener::bind("127.0.0.1:0").await.unwrap(), mode)
    }

    fn serving(listener: TcpListener, mode: impl Fn(Asked) -> Reply + Send + Sync + 'static) -> Self {
        let _ = rustls::crypto::ring::default_provider().install_default();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let [all, probes, running, most] = [(); 4].map(|()| AtomicUsize::new(0));
        let mode = watch::Sender::new(Arc::new(mode) as Mode);
        let seen = Arc::new(Seen { mode, all, probes, running, most });
        let router = Router::new().fallback(answer_as_told).with_state(Arc::clone(&seen));
        let serving = tokio::spawn(async move { axum::serve(listener, router).await.unwrap() });
        Self { url, seen, serving }
    }

    fn turns(&self, mode: impl Fn(Asked) -> Reply + Send + Sync + 'static) {
        self.seen.mode.send_replace(Arc::new(mode));
    }

    fn all(&self) -> usize {
        self.seen.all.load(Ordering::SeqCst)
    }

    fn probes(&self) -> usize {
        self.seen.probes.load(Ordering::SeqCst)
    }

    fn running(&self) -> usize {
        self.seen.running.load(Ordering::SeqCst)
    }

    /// A client for each tenant.
    fn clients<const N: usize>(&self, tenants: [&str; N], limits: CircuitLimits) -> [Prometheus; N] {
        let config = |tenant: &str| Config {
            url: self.url.clone(),
            headers: BTreeMap::from([("X-Scope-OrgID".to_owned(), tenant.to_owned())]),
            ..Config::default()
        };
        Prometheus::sharing_within(&tenants.map(config), limits).unwrap().try_into().unwrap()
    }
}

/// A short first pause, and every lateness counts.
fn quick() -> CircuitLimits {
    let [pause, probe] = [3, 2].map(Duration::from_secs);
    CircuitLimits { pause, probe, fair: Duration::ZERO, ..CircuitLimits::default() }
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

/// Sends five queries that fail, and waits for the probe that decides.
async fn shut(client: &Prometheus) {
    for n in 0..5 {
        assert!(!client.gate.is_shut());
        let error = query(client, n).await.unwrap_err();
        assert!(error.is_silence(), "{error}");
    }
    until("the open circuit", || client.gate.is_shut()).await;
}

/// Sends late queries, a few at a time, until an event.
async fn send_late(client: &Prometheus, is_met: impl Fn() -> bool) {
    let end = Instant::now() + 3 * SOON;
    for n in 0.. {
        let answers = join_all((0..4).map(|i| query_within(client, 1_000 + 4 * n + i, LATE))).await;
        if is_met() {
            return;
        }
        assert!(answers.iter().all(|answer| answer.as_ref().is_err_and(|error| error.is_late())), "{answers:?}");
        assert!(Instant::now() < end, "it did not come");
    }
}

#[tokio::test]
async fn a_silent_server_is_not_asked_and_found_again_by_a_probe_when_it_is_back() {
    let server = Server::start(|_| PAGE).await;
    let [client] = server.clients(["a"], quick());
    shut(&client).await;
    let (began, bundles) = (Instant::now(), client.with_own_slots());
    for n in 5..15 {
        let error = query(if n % 2 == 0 { &client } else { &bundles }, n).await.unwrap_err();
        assert!(matches!(*error, PromError::Shut { times: 6, .. }) && error.is_unavailable(), "{error}");
        assert!(!error.is_late() && !error.is_about_query());
        let why = "the answer is not Prometheus': HTTP 502 Bad Gateway with a body that is no API answer";
        assert_eq!(error.to_string(), why);
    }
    assert!(began.elapsed() < quick().pause && client.pause_left().is_some());
    assert_eq!((server.all(), server.probes()), (6, 1));
    assert_eq!(Prometheus::servers([&client])[client.server()], (true, 10));
    server.turns(|_| OK);
    until("the closed circuit", || !client.gate.is_shut()).await;
    assert_eq!((server.all(), server.probes()), (7, 2), "nobody asked meanwhile");
    query(&client, 0).await.unwrap();
}

#[tokio::test]
async fn a_server_that_is_down_is_not_asked_and_a_check_waits_for_the_end_of_the_pause() {
    let _ = rustls::crypto::ring::default_provider().install_default();
    // A port that is held, and does not listen.
    let socket = TcpSocket::new_v4().unwrap();
    socket.bind("127.0.0.1:0".parse().unwrap()).unwrap();
    let address = socket.local_addr().unwrap().to_string();
    let entry = |path: &str| Config { url: format!("http://{address}/{path}"), ..Config::default() };
    let configs = ["", "us/", "us", "eu"].map(entry);
    let [client, others @ ..] = <[_; 4]>::try_from(Prometheus::sharing_within(&configs, quick()).unwrap()).unwrap();
    assert_eq!(Prometheus::by_address(&others).iter().map(Vec::len).collect::<Vec<_>>(), [2, 1]);
    shut(&client).await;
    assert!(others.iter().all(|other| other.gate.is_shut()));
    let error = client.ping(jiff::Timestamp::UNIX_EPOCH, LATE).await.unwrap_err();
    let why = format!("Prometheus cannot be reached: Connection refused (http://{address})");
    assert!(matches!(&error, PromError::Shut { .. }) && error.to_string() == why, "{error:?}");
    let _server = Server::serving(socket.listen(64).unwrap(), |_| OK);
    client.ping(jiff::Timestamp::UNIX_EPOCH, SOON).await.unwrap();
    assert_eq!(Prometheus::servers([&client])[client.server()], (false, 0), "checks do not count");
}

#[tokio::test]
async fn an_error_in_prometheus_json_is_an_answer_and_another_server_error_is_none() {
    for (reply, is_silent) in [
        (Reply::Says(503, r#"{"status":"error","errorType":"unavailable","error":"too few ingesters"}"#), false),
        (Reply::Says(429, r#"{"status":"error","errorType":"too_many_requests","error":"x"}"#), false),
        (Reply::Says(500, r#"{"status":"error","errorType":"internal","error":"x"}"#), false),
        (Reply::Says(422, r#"{"status":"error","errorType":"execution","error":"too many samples"}"#), false),
        (Reply::Says(429, "slow down"), false),
        (Reply::Says(403, "<html>"), false),
        (SAMPLES, false),
        (Reply::Says(503, r#"{"message":"no upstream"}"#), true),
        (Reply::Says(504, ""), true),
        (Reply::Says(200, "<html>"), true),
        (Reply::Breaks, true),
    ] {
        let server = Server::start(move |_| reply).await;
        let clients = server.clients(["a"; 2], quick()).into_iter().chain(server.clients(["a"], quick()));
        for (is_query, client) in [true, false, false].into_iter().zip(clients) {
            for n in 0..5 {
                // The other requests to the server are judged in the same way.
                let error = match is_query {
                    true => query(&client, n).await.unwrap_err(),
                    false => Arc::new(client.build_info(Instant::now() + SOON).await.unwrap_err()),
                };
                let is_shut = matches!(*error, PromError::Shut { .. });
                assert!(error.is_silence() == is_silent || is_shut && is_silent, "{error}");
            }
            if is_silent {
                until("the failure of the probe", || client.gate.is_shut()).await;
            }
            assert_eq!((client.gate.is_shut(), server.probes() > 0), (is_silent, is_silent));
        }
    }
}

#[tokio::test]
async fn late_queries_do_not_close_a_server_that_answers_a_small_one() {
    let server = Server::start(|asked| if asked.is_probe { OK } else { Reply::Holds }).await;
    let [client] = server.clients(["a"], quick());
    send_late(&client, || server.probes() >= 2).await;
    assert!(!client.gate.is_shut());
    server.turns(|_| Reply::Holds);
    send_late(&client, || client.gate.is_shut()).await;
    let began = Instant::now();
    let error = query(&client, 0).await.unwrap_err();
    assert!(error.to_string() == "Prometheus does not answer in time" && !error.is_late(), "{error:?}");
    assert!(began.elapsed() < LATE, "at once");
}

#[tokio::test]
async fn neither_callers_that_go_away_nor_short_deadlines_tell_anything() {
    let server = Server::start(|_| Reply::Holds).await;
    let [client] = server.clients(["a"], quick());
    let gone = (0..20).map(|n| tokio::time::timeout(LATE, query(&client, n)));
    assert!(join_all(gone).await.iter().all(Result::is_err));
    let [patient] = server.clients(["a"], CircuitLimits { fair: 2 * LATE, ..quick() });
    join_all((0..20).map(|n| query_within(&patient, n, LATE))).await;
    assert!(!client.gate.is_shut() && !patient.gate.is_shut());
    until("the end of the queries", || server.running() == 0).await;
    assert_eq!(server.probes(), 0);
}

#[tokio::test]
async fn a_stream_tells_by_its_end_whether_the_server_works() {
    let server = Server::start(|_| Reply::Breaks).await;
    let [client] = server.clients(["a"], quick());
    let samples = async || {
        let stream = client.stream("up", jiff::Timestamp::UNIX_EPOCH, SOON, Instant::now() + SOON).await?;
        stream.each(|_| ControlFlow::Continue(())).await
    };
    for _ in 0..4 {
        assert!(samples().await.unwrap_err().is_silence());
    }
    server.turns(|_| SAMPLES);
    samples().await.unwrap();
    server.turns(|_| Reply::Breaks);
    for _ in 0..5 {
        assert!(!client.gate.is_shut());
        samples().await.unwrap_err();
    }
    until("the failure of the probe", || client.gate.is_shut()).await;
    assert!(matches!(samples().await, Err(PromError::Shut { .. })));
}

#[tokio::test]
async fn a_server_that_fails_anew_within_its_pause_is_found_at_once() {
    let server = Server::start(|_| PAGE).await;
    let patient = CircuitLimits { pause: 6 * SOON, longest_pause: 6 * SOON, ..quick() };
    let [client] = server.clients(["a"], patient);
    for _ in 0..2 {
        shut(&client).await;
        client.gate.tell(&Ok(()));
    }
}

#[tokio::test]
async fn a_query_that_ran_into_its_deadline_is_timed_and_one_that_nobody_waits_for_is_not() {
    let gate = Arc::new(Gate::new("m:9090".to_owned(), 8, 1, quick()));
    let seconds = Histogram::new([1.0]);
    let sent = |within: Duration| gate.sent(Instant::now() + within, Some(seconds.clone()));
    drop(sent(SOON));
    drop(sent(Duration::ZERO));
    sent(SOON).ended(&Ok(()));
    let mut registry = prometheus_client::registry::Registry::default();
    registry.register("seconds", "of a query", seconds.clone());
    let mut page = String::new();
    prometheus_client::encoding::text::encode(&mut page, &registry).unwrap();
    assert!(page.contains("seconds_count 2\n"), "{page}");
}

#[test]
fn pauses_double_to_a_quarter_of_a_minute_and_only_the_servers_own_failures_count() {
    // Without a runtime it does not probe by itself.
    let gate = Arc::new(Gate::new("m:9090".to_owned(), 8, 1, CircuitLimits::default()));
    let down = || Err::<(), _>(PromError::Unreachable("refused".to_owned()));
    let pause = |outcome: &Result<(), PromError>| gate.probed(outcome).map(|pause| pause.as_secs());
    for _ in 0..2 {
        (0..4).for_each(|_| gate.tell(&down()));
        gate.tell(&Err::<(), _>(PromError::NoMemory { bytes: 1 }));
        assert_eq!((pause(&down()), gate.is_shut()), (None, false), "an answer came");
    }
    (0..5).for_each(|_| gate.tell(&down()));
    assert_eq!([(); 4].map(|()| pause(&down())), [5, 10, 15, 15].map(Some));
    gate.tell(&down());
    assert!(matches!(gate.pass(), Err(PromError::Shut { times: 9, .. })), "one that was under way");
    gate.tell(&Ok(()));
    assert!(gate.pass().is_ok(), "an answer to one that was under way");
}

#[tokio::test]
async fn a_probe_under_way_is_no_server_that_is_asked() {
    let server = Server::start(|_| PAGE).await;
    let [client] = server.clients(["a"], CircuitLimits { probe: 3 * SOON, ..quick() });
    assert_eq!(client.pause_left(), None);
    shut(&client).await;
    server.turns(|_| Reply::Holds);
    until("the next probe", || server.running() == 1).await;
    assert_eq!(client.pause_left(), Some(Duration::ZERO));
    server.turns(|_| OK);
    until("the closed circuit", || client.pause_left().is_none()).await;
}

#[tokio::test]
async fn a_probe_ends_with_the_last_client_of_its_server() {
    let server = Server::start(|asked| if asked.is_probe { Reply::Holds } else { PAGE }).await;
    let [client] = server.clients(["a"], CircuitLimits { probe: 3 * SOON, ..quick() });
    join_all((0..5).map(|n| query(&client, n))).await;
    until("the probe", || server.running() == 1).await;
    drop(client);
    until("the end of the probe", || server.running() == 0).await;
}

#[tokio::test]
async fn what_one_entry_gets_closes_nothing_for_those_that_get_answers() {
    for reply in
        [200, 302, 401, 404, 502].map(|status| Reply::Says(status, "<html>")).into_iter().chain([Reply::Breaks])
    {
        let server = Server::start(move |asked| if asked.is_a { reply } else { OK }).await;
        let [a, .., b] = server.clients(["a", "a", "a", "b"], quick());
        for n in 0..12 {
            let error = query(&a, n).await.unwrap_err();
            assert!(matches!(*error, PromError::NotPrometheus { .. } | PromError::Cut(_)), "{error}");
        }
        assert!(!a.gate.is_shut() && query(&b, 0).await.is_ok());
    }
    let server = Server::start(|asked| if asked.is_a { Reply::Holds } else { OK }).await;
    let [a, .., b] = server.clients(["a", "a", "a", "b"], quick());
    send_late(&a, || server.probes() >= 8).await;
    assert!(!a.gate.is_shut() && query(&b, 0).await.is_ok());
    // One that hangs alone lets it be found that all do.
    server.turns(|asked| if asked.is_a { Reply::Holds } else { PAGE });
    send_late(&a, || a.gate.is_shut()).await;
    assert!(query(&b, 1).await.is_err_and(|error| matches!(*error, PromError::Shut { .. })));
}

#[tokio::test]
async fn an_entry_whose_queries_hang_does_not_keep_those_of_another_waiting() {
    let server = Server::start(|asked| if asked.is_a { Reply::Holds } else { OK }).await;
    let [a, b] = server.clients(["a", "b"], quick());
    let hanging = join_all((0..20).map(|n| query(&a, n)));
    let beside = async {
        until("four queries", || server.running() == 4).await;
        let answers = join_all((0..8).map(|n| query(&b, n))).await;
        server.turns(|_| OK);
        answers
    };
    let (hung, answers) = tokio::join!(hanging, beside);
    assert!(hung.iter().chain(&answers).all(Result::is_ok), "{hung:?} {answers:?}");
}

#[tokio::test]
async fn a_hundred_entries_of_one_server_send_as_many_queries_at_once_as_one() {
    let server = Server::start(|_| Reply::Holds).await;
    let entry = |n: usize| Config { url: server.url.clone(), concurrency: 1 + n % 8, ..Config::default() };
    let configs: Vec<Config> = (0..100).map(entry).collect();
    let clients = Prometheus::sharing_within(&configs, quick()).unwrap();
    let release = async {
        until("eight queries", || server.running() == 8).await;
        server.turns(|_| OK);
    };
    let (answers, ()) = tokio::join!(join_all(clients.iter().map(|client| query(client, 0))), release);
    assert!(answers.iter().all(Result::is_ok), "{answers:?}");
    assert_eq!((server.all(), server.seen.most.load(Ordering::SeqCst)), (100, 8));
}
