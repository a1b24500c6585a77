//! Login by an OpenID Connect provider: a real one, one that tells lies, and one that is away.

mod liar;

use std::collections::BTreeMap;
use std::process::Stdio;
use std::time::Instant;

use reqwest::header::{LOCATION, SET_COOKIE};
use reqwest::redirect::Policy;
use serde_json::{Value, json};
use tempfile::NamedTempFile;
use tokio::net::TcpListener;
use tokio::process::{Child, Command};
use url::Url;

use crate::page_acts::{audit, hidden, incident};
use crate::running::{NOWHERE, Running, SOON};
use liar::{CLIENT, Liar, SECRET};

/// Where people reach the pages: by https, behind what ends TLS.
const PUBLIC: &str = "https://triage.example.org";

/// The configuration of a login; `keys` are more keys of `oidc:`.
fn configuration(issuer: &str, secret: &NamedTempFile, keys: &str) -> String {
    std::fs::write(secret.path(), SECRET).unwrap();
    let file = secret.path().display();
    format!(
        "{NOWHERE}\npublic_url: {PUBLIC}\npages: {{ act: [anna@example.org], oidc: {{ issuer: \"{issuer}\", client_id: {CLIENT}, \
         client_secret_file: {file}, {keys} }} }}\n"
    )
}

/// A browser: cookies, and redirects one at a time.
struct Person<'a> {
    run: &'a Running,
    http: reqwest::Client,
    cookies: BTreeMap<String, String>,
}

/// An answer: status, where it leads, the page.
type Answer = (u16, String, String);

impl<'a> Person<'a> {
    fn new(run: &'a Running) -> Self {
        let http = reqwest::Client::builder().redirect(Policy::none()).build().unwrap();
        Self { run, http, cookies: BTreeMap::new() }
    }

    async fn get(&mut self, path: &str) -> Answer {
        self.send(self.http.get(self.address(path)).header("accept", "text/html")).await
    }

    fn address(&self, path: &str) -> String {
        format!("{}{path}", self.run.service.url)
    }

    async fn send(&mut self, request: reqwest::RequestBuilder) -> Answer {
        let cookies: Vec<String> = self.cookies.iter().map(|(name, value)| format!("{name}={value}")).collect();
        let answer = request.header("cookie", cookies.join("; ")).send().await.unwrap();
        for cookie in answer.headers().get_all(SET_COOKIE) {
            let cookie = cookie.to_str().unwrap();
            assert!(cookie.contains("; HttpOnly; SameSite=Lax; Secure"), "{cookie}");
            let (name, value) = cookie.split(';').next().unwrap().split_once('=').unwrap();
            if cookie.contains("Max-Age=0;") {
                self.cookies.remove(name);
            } else {
                self.cookies.insert(name.to_owned(), value.to_owned());
            }
        }
        let to = answer.headers().get(LOCATION).map_or("", |to| to.to_str().unwrap()).to_owned();
        (answer.status().as_u16(), to, answer.text().await.unwrap())
    }

    /// Opens a page without a session; the provider's address to which it leads.
    async fn sent_away(&mut self, path: &str) -> Url {
        let (status, login, _) = self.get(path).await;
        assert_eq!(status, 303, "{login}");
        assert!(login.starts_with("/login?to="), "{login}");
        let (status, to, page) = self.get(&login).await;
        assert_eq!(status, 303, "{page}");
        to.parse().unwrap()
    }

    /// Follows the provider's redirect back to the service.
    async fn back(&mut self, to: &str) -> Answer {
        let path = to.strip_prefix(PUBLIC).unwrap_or_else(|| panic!("not to us: {to}")).to_owned();
        self.get(&path).await
    }
}

/// The value of a parameter of an address.
fn parameter(address: &Url, name: &str) -> String {
    address.query_pairs().find(|(is, _)| is == name).map(|(_, value)| value.into_owned()).unwrap_or_default()
}

/// Starts PyPI's provider; it ends when dropped.
async fn real_provider(people: &[Value]) -> (Child, String) {
    let port = TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap().port();
    let mut command = Command::new("sh");
    command.arg("tests/lab/scripts/oidc-provider.sh").arg(port.to_string()).current_dir(env!("CARGO_MANIFEST_DIR"));
    people.iter().for_each(|person| _ = command.arg("--user-claims").arg(person.to_string()));
    let provider = command.stdout(Stdio::null()).stderr(Stdio::null()).kill_on_drop(true).spawn().unwrap();
    let (issuer, until) = (format!("http://127.0.0.1:{port}"), Instant::now() + 6 * SOON);
    // Another process may have taken the port meanwhile, and accept without an answer.
    let http = reqwest::Client::builder().timeout(SOON).build().unwrap();
    // The first run installs it.
    while http.get(format!("{issuer}/.well-known/openid-configuration")).send().await.is_err() {
        assert!(Instant::now() < until, "oidc-provider-mock does not start");
        tokio::time::sleep(std::time::Duration::from_millis(100)).await;
    }
    (provider, issuer)
}

#[tokio::test]
async fn a_person_signs_in_acts_under_their_name_and_signs_out() {
    crate::running::tls();
    let (_provider, issuer) = real_provider(&[
        json!({ "sub": "anna", "email": "anna@example.org", "email_verified": true, "groups": ["staff", "on-call"] }),
        json!({ "sub": "eve", "email": "eve@example.org", "email_verified": true, "groups": ["staff"] }),
    ])
    .await;
    let secret = NamedTempFile::new().unwrap();
    let keys = "groups: [on-call], email_domains: [example.org]";
    let run = Running::start(&configuration(&issuer, &secret, keys)).await;
    let id = incident(&run).await;
    let path = format!("/incidents/{id}");

    let mut anna = Person::new(&run);
    let away = anna.sent_away(&path).await;
    assert_eq!(parameter(&away, "redirect_uri"), format!("{PUBLIC}/login/callback"));
    assert_eq!(
        [parameter(&away, "code_challenge_method"), parameter(&away, "scope")],
        ["S256", "openid profile email"]
    );
    let (_, to, _) = anna.send(anna.http.post(away).form(&[("sub", "anna")])).await;
    let (status, back, page) = anna.back(&to).await;
    assert_eq!((status, back.as_str()), (303, path.as_str()), "{page}");
    assert_eq!(anna.cookies.keys().collect::<Vec<_>>(), ["__Host-llm-diagnose-session"]);
    let (status, _, page) = anna.get(&path).await;
    assert_eq!(status, 200, "{page}");
    assert_eq!(anna.get("/api/v1/incidents").await.0, 200);

    let body = [("token", hidden(&page, "token")), ("once", hidden(&page, "once"))];
    let form = anna.http.post(anna.address(&format!("{path}/acts/acknowledge"))).form(&body);
    assert_eq!(anna.send(form).await.0, 303);
    assert_eq!(audit(&run).await, ["acknowledge page:anna@example.org http done"]);

    let elsewhere = anna.http.get(anna.address("/logout")).header("sec-fetch-site", "cross-site");
    assert_eq!(anna.send(elsewhere).await.0, 303);
    assert_eq!(anna.get(&path).await.0, 200, "another site's link ends nothing");
    let (status, _, page) = anna.get("/logout").await;
    assert!(status == 200 && page.contains("You are signed out"), "{page}");
    assert_eq!(anna.get(&path).await.0, 303);

    let mut eve = Person::new(&run);
    let away = eve.sent_away("/health").await;
    let (_, to, _) = eve.send(eve.http.post(away).form(&[("sub", "eve")])).await;
    let (status, _, page) = eve.back(&to).await;
    assert!(status == 403 && page.contains("not among the people who may read"), "{page}");
    assert!(eve.cookies.is_empty(), "{:?}", eve.cookies);
}

#[tokio::test]
async fn an_answer_that_fails_one_check_signs_nobody_in() {
    crate::running::tls();
    let liar = Liar::start().await;
    let secret = NamedTempFile::new().unwrap();
    let run = Running::start(&configuration(&liar.issuer, &secret, "groups: [on-call]")).await;
    let untrusted = (502, "failed its check");
    let cases: [(&str, (u16, &str)); 14] = [
        ("honest", (303, "")),
        ("groups at user info", (303, "")),
        ("new key", (303, "")),
        ("another nonce", untrusted),
        ("expired", untrusted),
        ("another audience", untrusted),
        ("a second audience", untrusted),
        ("another issuer", untrusted),
        ("unsigned", untrusted),
        ("signed with the secret", untrusted),
        ("signed by another key", untrusted),
        ("user info of another person", (502, "did not answer as expected")),
        ("address not verified", (403, "no usable name")),
        ("name of a program", (403, "no usable name")),
    ];
    for (case, expected) in cases {
        let mut person = Person::new(&run);
        let away = person.sent_away("/incidents").await;
        let (status, _, page) = person.back(&liar.answers(case, &away)).await;
        assert!(status == expected.0 && page.contains(expected.1), "{case}: {status} {page}");
        let may = person.get("/incidents").await.0 == 200;
        assert_eq!(may, status == 303, "{case}");
        assert!(!page.contains("eyJ"), "{case}: a token is on the page: {page}");
    }
    let log = run.service.stderr();
    assert!(log.contains("nonce mismatch") && log.contains("signed in"), "{log}");
    assert!(!log.contains(SECRET) && !log.contains("eyJ"), "a secret is in the log: {log}");

    let mut person = Person::new(&run);
    let away = person.sent_away("/incidents").await;
    let answer = liar.answers("honest", &away);
    let foreign = answer.replace(&parameter(&away, "state"), "AAAA");
    let kept = person.cookies.clone();
    assert_eq!(person.back(&foreign).await.0, 400, "another state");
    assert_eq!(Person::new(&run).back(&answer).await.0, 400, "another browser");
    person.cookies = kept.iter().map(|(name, value)| (name.clone(), format!("e{value}"))).collect();
    assert_eq!(person.back(&answer).await.0, 400, "another cookie");
    person.cookies = kept.clone();
    let other_attempt = liar.answers("honest", &Person::new(&run).sent_away("/incidents").await);
    let code = parameter(&other_attempt.parse().unwrap(), "code");
    let stolen = format!("{PUBLIC}/login/callback?state={}&code={code}", parameter(&away, "state"));
    assert_eq!(person.back(&stolen).await.0, 403, "another's code lacks its verifier");
    let denied = format!("{PUBLIC}/login/callback?state={}&error=access_denied%1B[31m", parameter(&away, "state"));
    person.cookies = kept.clone();
    let (status, _, page) = person.back(&denied).await;
    assert!(status == 403 && page.contains("did not sign you in") && !page.contains("access_denied"), "{page}");
    person.cookies = kept;
    assert_eq!(person.back(&answer).await.0, 303);
}

#[tokio::test]
async fn a_provider_that_is_away_keeps_people_out_and_nothing_else() {
    let secret = NamedTempFile::new().unwrap();
    let run = Running::start(&configuration("http://127.0.0.1:1", &secret, "groups: [anybody]")).await;
    incident(&run).await;
    let mut person = Person::new(&run);
    let (status, _, page) = person.get("/login?to=/health").await;
    assert!(status == 502 && page.contains("did not answer as expected"), "{page}");
    assert!(page.contains("/login?to=%2Fhealth") && !page.contains("127.0.0.1:1"), "{page}");
    assert_eq!(run.get("/readyz").await.0, 200);
    let script = person.http.get(person.address("/incidents")).header("sec-fetch-mode", "cors");
    assert_eq!(person.send(script).await.0, 403, "a page's script cannot sign in");
    assert_eq!(run.get("/api/v1/incidents").await.0, 403);
    let mut statuses = Vec::new();
    // While they are sent, the limit per minute lets more through.
    while statuses.len() < 1_000 && !statuses.contains(&429) {
        statuses.push(person.get("/login").await.0);
    }
    assert!(statuses[..50].iter().all(|status| *status == 502) && statuses.contains(&429), "{statuses:?}");
}
