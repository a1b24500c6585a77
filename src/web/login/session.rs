//! The cookies of a login: the attempt under way, and the session. Signed by the key of the service, each for its purpose,
//! with an end inside. Without IO.

use std::time::Duration;

use axum::http::{HeaderMap, header};
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use jiff::Timestamp;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use super::LoginAttempt;
use knowledge::clock;
use service::Signer;
use service::config::OidcConfig;

/// The time that a person has at the provider.
const ATTEMPT: Duration = Duration::from_secs(600);
/// The longest path to which a login leads back, in bytes; a cookie holds 4 KiB.
const PATH_BYTES: usize = 1_000;

/// Makes and reads the cookies.
#[derive(Debug)]
pub(crate) struct Cookies {
    /// True if the pages are reached by https.
    secure: bool,
    session: Duration,
    /// The rules by which somebody was let in: a session ends when they change.
    rules: String,
}

/// The content of a cookie, and its end.
#[derive(Serialize, Deserialize)]
struct Sealed<T> {
    holds: T,
    until: i64,
}

impl Cookies {
    pub(super) fn new(config: &OidcConfig, secure: bool) -> Self {
        let OidcConfig { issuer, client_id, name_claim, groups_claim, groups, email_domains, .. } = config;
        let rules = format!("{:?}", (issuer, client_id, name_claim, groups_claim, groups, email_domains));
        Self { secure, session: config.session, rules }
    }

    /// Returns the value of `Set-Cookie` of an attempt.
    pub(crate) fn of_attempt(&self, signer: &Signer, attempt: &LoginAttempt, now: Timestamp) -> String {
        self.set(&self.attempt_name(), &self.seal(signer, "login", attempt, clock::after(now, ATTEMPT)), ATTEMPT)
    }

    /// Returns the attempt that this browser began.
    pub(crate) fn attempt(&self, signer: &Signer, headers: &HeaderMap, now: Timestamp) -> Option<LoginAttempt> {
        self.open(signer, "login", &value(headers, &self.attempt_name())?, now)
    }

    /// Returns the value of `Set-Cookie` of a session.
    pub(crate) fn of_session(&self, signer: &Signer, name: &str, now: Timestamp) -> String {
        let sealed = self.seal(signer, "session", &name, clock::after(now, self.session));
        self.set(&self.session_name(), &sealed, self.session)
    }

    /// Returns the name of the person whose session this is.
    pub(crate) fn session(&self, signer: &Signer, headers: &HeaderMap, now: Timestamp) -> Option<String> {
        self.open(signer, "session", &value(headers, &self.session_name())?, now)
    }

    /// Returns the value of `Set-Cookie` that removes the attempt.
    pub(crate) fn no_attempt(&self) -> String {
        self.set(&self.attempt_name(), "", Duration::ZERO)
    }

    /// Returns the value of `Set-Cookie` that removes the session.
    pub(crate) fn no_session(&self) -> String {
        self.set(&self.session_name(), "", Duration::ZERO)
    }

    fn session_name(&self) -> String {
        self.name("session")
    }

    fn attempt_name(&self) -> String {
        self.name("login")
    }

    /// With https no other host of the domain can set these: RFC 6265bis, 4.1.3.2.
    fn name(&self, what: &str) -> String {
        let prefix = if self.secure { "__Host-" } else { "" };
        format!("{prefix}llm-diagnose-{what}")
    }

    fn set(&self, name: &str, value: &str, age: Duration) -> String {
        let secure = if self.secure { "; Secure" } else { "" };
        format!("{name}={value}; Path=/; Max-Age={}; HttpOnly; SameSite=Lax{secure}", age.as_secs())
    }

    fn seal<T: Serialize>(&self, signer: &Signer, purpose: &str, holds: &T, until: Timestamp) -> String {
        // Plain texts and numbers: this cannot fail, and an empty cookie opens nothing.
        let json = serde_json::to_vec(&Sealed { holds, until: until.as_second() }).unwrap_or_default();
        let payload = URL_SAFE_NO_PAD.encode(json);
        format!("{payload}.{}", signer.sign(&self.signed(purpose, &payload)))
    }

    fn open<T: DeserializeOwned>(&self, signer: &Signer, purpose: &str, cookie: &str, now: Timestamp) -> Option<T> {
        let (payload, signature) = cookie.split_once('.')?;
        if !signer.has_signed(&self.signed(purpose, payload), signature) {
            return None;
        }
        let sealed: Sealed<T> = serde_json::from_slice(&URL_SAFE_NO_PAD.decode(payload).ok()?).ok()?;
        (sealed.until > now.as_second()).then_some(sealed.holds)
    }

    fn signed(&self, purpose: &str, payload: &str) -> String {
        format!("llm-diagnose {purpose} cookie v1\n{payload}\n{}", self.rules)
    }
}

/// Returns the value of a cookie; `None` if it is there twice, because one of both is somebody else's.
fn value(headers: &HeaderMap, name: &str) -> Option<String> {
    let texts = headers.get_all(header::COOKIE).iter().filter_map(|cookies| cookies.to_str().ok());
    let pairs = texts.flat_map(|cookies| cookies.split(';')).filter_map(|pair| pair.trim().split_once('='));
    let mut values = pairs.filter(|(is, _)| *is == name).map(|(_, value)| value.to_owned());
    values.next().filter(|_| values.next().is_none())
}

/// Returns the path with its query if it is one of our own, as a browser would resolve it; else the list of incidents.
pub(crate) fn local_path(path: &str) -> String {
    const HERE: &str = "http://here.invalid";
    let resolved = url::Url::parse(HERE).ok().and_then(|here| here.join(path).ok());
    let own = resolved.filter(|url| path.len() <= PATH_BYTES && url.as_str().starts_with(&format!("{HERE}/")));
    let own = own.filter(|url| !matches!(url.path(), "/" | "/login" | "/login/callback" | "/logout"));
    let own = own.map(|url| url[url::Position::BeforePath..].to_owned());
    // A path that begins with two slashes is a host to a browser.
    own.filter(|path| !path.starts_with("//")).unwrap_or_else(|| "/incidents".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn config(groups: &str) -> OidcConfig {
        serde_json::from_str(&format!(
            r#"{{"issuer":"https://id.example.org","client_id":"llm","groups":["{groups}"],"session":"1h"}}"#
        ))
        .unwrap()
    }

    fn sent(cookie: &str) -> HeaderMap {
        let pair = cookie.split(';').next().unwrap();
        HeaderMap::from_iter([(header::COOKIE, format!("a=b; {pair}").parse().unwrap())])
    }

    #[test]
    fn a_session_is_good_for_its_time_at_every_replica_with_the_key_and_the_same_rules() {
        let (signer, now) = (Signer::new(&[7; 32]).unwrap(), "2026-11-20T03:00:00Z".parse().unwrap());
        let ours = Cookies::new(&config("ops"), true);
        let cookie = ours.of_session(&signer, "anna@example.org", now);
        assert!(cookie.starts_with("__Host-llm-diagnose-session="), "{cookie}");
        assert!(cookie.ends_with("; Path=/; Max-Age=3600; HttpOnly; SameSite=Lax; Secure"), "{cookie}");
        let at = |seconds| clock::after(now, Duration::from_secs(seconds));
        let (replica, headers) = (Signer::new(&[7; 32]).unwrap(), sent(&cookie));
        assert_eq!(ours.session(&replica, &headers, at(3_599)).as_deref(), Some("anna@example.org"));
        assert_eq!(ours.session(&signer, &headers, at(3_600)), None, "it has ended");
        assert_eq!(ours.session(&Signer::new(&[8; 32]).unwrap(), &headers, now), None, "another key");
        assert_eq!(Cookies::new(&config("dev"), true).session(&signer, &headers, now), None, "other rules");
        let mut twice = headers.clone();
        twice.append(header::COOKIE, headers[header::COOKIE].clone());
        assert_eq!(ours.session(&signer, &twice, now), None);
        // What is signed as an attempt is no session.
        let attempt = ours.seal(&signer, "login", &"anna", at(60));
        let headers = sent(&format!("__Host-llm-diagnose-session={attempt}"));
        assert_eq!(ours.session(&signer, &headers, now), None);
        assert!(!Cookies::new(&config("ops"), false).no_session().contains("Secure"));
    }

    #[test]
    fn a_login_leads_back_to_our_own_pages_alone() {
        for own in ["/incidents/01ABC", "/health?ns=a%20b", "/incidents?q=%2F%2Fx"] {
            assert_eq!(local_path(own), own);
        }
        let long = format!("/{}", "a".repeat(PATH_BYTES));
        for other in [
            "",
            "/",
            "//evil.example",
            "/\\evil.example",
            "\\\\evil.example",
            "/\t/evil.example",
            "https://evil.example/",
            "http://here.invalid@evil.example/",
            "/.//evil.example",
            "/x/..//evil.example",
            "javascript:alert(1)",
            "/login?to=/",
            "/logout",
            &long,
        ] {
            assert_eq!(local_path(other), "/incidents", "{other:?}");
        }
    }
}
