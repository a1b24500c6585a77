//! Entries that share a server: what one gets says little about the others, and none takes all slots.

use super::*;

#[tokio::test]
async fn what_a_proxy_says_to_one_tenant_closes_nothing_for_the_others() {
    for status in [200, 302, 401, 403, 404, 429, 502, 503, 504] {
        let server = Server::start(Mode::SaysToA(status, HTML)).await;
        let [a, b] = server.clients(["a", "b"], quick());
        for n in 0..10 {
            let error = query(&a, n).await.unwrap_err();
            assert!(matches!(*error, PromError::NotPrometheus { .. }), "{status}: {error}");
        }
        assert!(!a.is_shut() && query(&b, 0).await.is_ok(), "{status}");
        assert_eq!((server.seen(), server.probes()), (11, 0), "{status}");
    }
}

#[tokio::test]
async fn an_entry_whose_queries_hang_does_not_keep_those_of_another_waiting() {
    let server = Server::start(Mode::HoldsA).await;
    let [a, b] = server.clients(["a", "b"], quick());
    let hanging = join_all((0..20).map(|n| query(&a, n)));
    let beside = async {
        until("four queries", || server.running() == 4).await;
        let answers = join_all((0..8).map(|n| query(&b, n))).await;
        server.turns(Mode::Says(200, OK));
        answers
    };
    let (hung, answers) = tokio::join!(hanging, beside);
    assert!(hung.iter().chain(&answers).all(Result::is_ok), "{hung:?} {answers:?}");
}

/// Sends late queries of an entry, a few at a time, until an event.
async fn send_late(client: &Prometheus, is_met: impl Fn() -> bool) {
    let end = Instant::now() + 3 * SOON;
    for n in 0.. {
        join_all((0..2).map(|i| query_within(client, 1_000 + 2 * n + i, LATE))).await;
        if is_met() {
            return;
        }
        assert!(Instant::now() < end, "it did not come");
    }
}

#[tokio::test]
async fn an_entry_that_hangs_alone_closes_nothing_because_another_one_probes() {
    let server = Server::start(Mode::HoldsA).await;
    let [a, b] = server.clients(["a", "b"], CircuitSettings { probe: SOON, ..quick() });
    send_late(&a, || server.probes() >= 3).await;
    assert!(!a.is_shut() && query(&b, 0).await.is_ok());
}

#[tokio::test]
async fn a_server_that_hangs_is_found_by_the_queries_of_one_entry() {
    let server = Server::start(Mode::Holds).await;
    let [a, b] = server.clients(["a", "b"], CircuitSettings { probe: 4 * LATE, ..quick() });
    send_late(&a, || a.is_shut()).await;
    assert!(b.is_shut() && server.probes() > 0);
}

#[tokio::test]
async fn a_probe_that_gets_an_error_page_is_followed_by_that_of_the_next_entry() {
    let server = Server::start(Mode::SaysToAAndHolds(502, HTML)).await;
    let [b, a] = server.clients(["b", "a"], CircuitSettings { probe: 4 * LATE, ..quick() });
    send_late(&b, || b.is_shut()).await;
    assert!(a.is_shut() && server.probes() >= 2);
}

#[test]
fn entries_that_wait_probe_by_turns_and_keep_theirs_until_they_have_probed() {
    let _ = rustls::crypto::ring::default_provider().install_default();
    let mut turns = ProbeTurns::default();
    for entry in 0..5 {
        assert_eq!(turns.add(Prober { http: reqwest::Client::new(), base: entry.to_string() }), entry);
    }
    let next = |turns: &mut ProbeTurns| turns.next().map(|prober| prober.base).unwrap_or_default();
    turns.begin_after(2);
    turns.refused.extend([1, 3]);
    assert_eq!([(); 4].map(|()| next(&mut turns)), ["3", "1", "2", "3"]);
    turns.refused.extend([0, 4]);
    turns.begin_after(4);
    assert_eq!(next(&mut turns), "0", "the list of an earlier outage is gone");
}

#[tokio::test]
async fn an_entry_that_works_opens_what_others_that_hang_have_shut() {
    let server = Server::start(Mode::HoldsA).await;
    let [a, .., b] = server.clients(["a", "a", "a", "b"], CircuitSettings { probe: 4 * LATE, ..quick() });
    // The second one probes, and hangs too.
    send_late(&a, || a.is_shut()).await;
    for client in [&b, &a] {
        assert!(query(client, 0).await.is_err_and(|error| matches!(*error, PromError::Shut { .. })));
    }
    until("the probe of the one that works", || !b.is_shut()).await;
    assert_eq!(server.probes(), 2, "the third one has no query that waits");
}

#[tokio::test]
async fn where_a_server_has_several_paths_what_one_gets_closes_nothing_and_no_connection_does() {
    let server = Server::start(Mode::Says(502, HTML)).await;
    let entry = |path: &str| Config { url: format!("{}/{path}", server.url), ..Config::default() };
    let configs = ["eu", "us/", "us", "/us"].map(entry);
    let clients = sharing_quickly(&configs);
    assert_eq!(Prometheus::by_address(&clients).iter().map(Vec::len).collect::<Vec<_>>(), [1, 2, 1]);
    for n in 0..10 {
        assert!(query(&clients[0], n).await.is_err());
    }
    server.turns(Mode::Breaks);
    for n in 10..20 {
        let error = query(&clients[0], n).await.unwrap_err();
        assert!(matches!(*error, PromError::Cut(_)), "{error}");
    }
    assert_eq!((clients[0].is_shut(), server.probes()), (false, 0));
    let address = clients[0].server().to_owned();
    drop(server);
    until("the end of the server", || std::net::TcpStream::connect(&address).is_err()).await;
    // A connection that is kept is still served.
    let again = sharing_quickly(&configs);
    for n in 0..5 {
        query(&again[0], n).await.unwrap_err();
    }
    assert!(again.iter().all(Prometheus::is_shut));
}

#[tokio::test]
async fn a_hundred_entries_of_one_server_send_as_many_queries_at_once_as_one() {
    let server = Server::start(Mode::Holds).await;
    let entry = |n: usize| Config { url: server.url.clone(), concurrency: 1 + n % 8, ..Config::default() };
    let configs: Vec<Config> = (0..100).map(entry).collect();
    let clients = sharing_quickly(&configs);
    assert_eq!(Prometheus::by_address(&clients).iter().map(Vec::len).collect::<Vec<_>>(), [100]);
    let release = async {
        until("eight queries", || server.running() == 8).await;
        server.turns(Mode::Says(200, OK));
    };
    let (answers, ()) = tokio::join!(join_all(clients.iter().map(|client| query(client, 0))), release);
    assert!(answers.iter().all(Result::is_ok), "{answers:?}");
    assert_eq!((server.seen(), server.shared.most.load(Ordering::SeqCst)), (100, 8));
}
