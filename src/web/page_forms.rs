//! Forms of an incident's page: the proof that our own page made one, and its fields. Without IO.

use std::time::Duration;

use axum::http::{HeaderMap, header};
use jiff::Timestamp;
use ring::digest::{SHA256, digest};

use super::auth::Visitor;
use knowledge::clock;
use knowledge::incident::Act;
use service::Signer;

/// Maximum bytes of a form: a comment of 1,000 characters, each escaped as 12, fits.
pub(super) const FORM_BYTES: usize = 32 << 10;
/// A token is good from the hour of its page on for this time.
const TOKEN_GOOD_FOR: Duration = Duration::from_secs(13 * 3_600);
/// The time for which a page says what its visitor has just done.
const DID_SHOWN_FOR: Duration = Duration::from_secs(120);
/// Tokens of one hour are the same, so that the page has the same ETag.
const TOKEN_STEP: Duration = Duration::from_secs(3_600);

/// Returns the proof that a form of this incident is from a page that we made for this visitor.
pub(super) fn token(signer: &Signer, visitor: &Visitor, incident: &str, now: Timestamp) -> String {
    let expires = clock::after(clock::floor(now, TOKEN_STEP), TOKEN_GOOD_FOR).as_second();
    format!("{expires}.{}", signer.sign(&sealed(visitor, incident, expires)))
}

/// Returns true if [`token`] made this proof for the same visitor and incident, and it has not expired.
pub(super) fn is_valid(signer: &Signer, visitor: &Visitor, incident: &str, token: &str, now: Timestamp) -> bool {
    let Some((expires, signature)) = token.split_once('.') else { return false };
    let Ok(expires) = expires.parse::<i64>() else { return false };
    expires > now.as_second() && signer.has_signed(&sealed(visitor, incident, expires), signature)
}

/// Returns the parameter by which the incident's page tells its visitor, for a short time, what they have just done.
pub(super) fn did(signer: &Signer, visitor: &Visitor, incident: &str, what: &str, now: Timestamp) -> String {
    let until = clock::after(now, DID_SHOWN_FOR).as_second();
    format!("{what}.{until}.{}", signer.sign(&sealed_did(visitor, incident, what, until)))
}

/// Returns what the visitor has just done; `None` for a parameter of somebody else or of earlier.
pub(super) fn has_done<'a>(
    signer: &Signer,
    visitor: &Visitor,
    incident: &str,
    did: &'a str,
    now: Timestamp,
) -> Option<&'a str> {
    let (what, rest) = did.split_once('.')?;
    let (until, signature) = rest.split_once('.')?;
    let until: i64 = until.parse().ok()?;
    let is_so = until > now.as_second() && signer.has_signed(&sealed_did(visitor, incident, what, until), signature);
    is_so.then_some(what)
}

fn sealed_did(visitor: &Visitor, incident: &str, what: &str, until: i64) -> String {
    format!("llm-diagnose page did v1\n{incident}\n{what}\n{until}\n{}", visitor.who)
}

fn sealed(visitor: &Visitor, incident: &str, expires: i64) -> String {
    // The visitor's name is last, because it may hold anything.
    format!("llm-diagnose page form v1\n{incident}\n{expires}\n{}", visitor.who)
}

/// Returns true if a browser says that another site's page sent the form. Programs say nothing; they need the token.
pub(super) fn is_foreign(headers: &HeaderMap, public_url: &str) -> bool {
    let text = |name: &str| headers.get(name).map(|value| value.to_str().unwrap_or("?"));
    if let Some(site) = text("sec-fetch-site") {
        return site != "same-origin";
    }
    let Some(origin) = text("origin") else { return false };
    let from = origin.split_once("://").map(|(_, authority)| authority);
    let public = url::Url::parse(public_url).ok().map(|url| url.origin().ascii_serialization());
    let is_here = from.is_some() && from == text(header::HOST.as_str());
    !is_here && public.as_deref() != Some(origin)
}

/// The fields of a form that was sent.
pub(super) struct Sent(Vec<(String, String)>);

impl Sent {
    pub(super) fn read(body: &[u8]) -> Self {
        Self(url::form_urlencoded::parse(body).into_owned().collect())
    }

    pub(super) fn all<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a str> {
        self.0.iter().filter(move |(is, _)| is == name).map(|(_, value)| value.trim())
    }

    pub(super) fn get(&self, name: &str) -> &str {
        self.0.iter().find(|(is, _)| is == name).map(|(_, value)| value.trim()).unwrap_or_default()
    }

    /// Returns the id by which this form of a visitor is known again.
    pub(super) fn claim(&self, who: &str, incident: &str, act: Act) -> String {
        let mut whole = format!("{who}\n{incident}\n{}", act.as_str());
        self.0.iter().filter(|(name, _)| name != "token").for_each(|(name, value)| {
            whole.push_str(&format!("\n{}:{name}={value}", name.len()));
        });
        let hash = digest(&SHA256, whole.as_bytes());
        hash.as_ref().iter().fold("page:".to_owned(), |id, byte| format!("{id}{byte:02x}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use chat::KnownBy;

    fn visitor(who: &str) -> Visitor {
        Visitor { who: who.to_owned(), known: KnownBy::Name }
    }

    #[test]
    fn a_form_is_good_for_its_visitor_and_its_incident_until_it_expires() {
        let signer = Signer::new(&[7; 32]).unwrap();
        let now: Timestamp = "2026-11-20T03:59:00Z".parse().unwrap();
        let token = token(&signer, &visitor("page:anna"), "01ABC", now);
        let holds = |who: &str, incident: &str, token: &str, hours: u64| {
            let at = clock::after(now, Duration::from_secs(hours * 3_600));
            is_valid(&signer, &visitor(who), incident, token, at)
        };
        assert!(holds("page:anna", "01ABC", &token, 0) && holds("page:anna", "01ABC", &token, 12));
        assert!(!holds("page:anna", "01ABC", &token, 13), "it has expired");
        assert!(!holds("page:eve", "01ABC", &token, 0) && !holds("page:anna", "01ABD", &token, 0));
        let (expires, signature) = token.split_once('.').unwrap();
        let later = format!("{}.{signature}", expires.parse::<i64>().unwrap() + 3_600);
        for forged in ["", ".", "x", expires, &later, &format!("{expires}.AAAA")] {
            assert!(!holds("page:anna", "01ABC", forged, 0), "{forged}");
        }
    }

    #[test]
    fn a_page_says_what_was_done_to_whom_did_it_and_not_for_ever() {
        let signer = Signer::new(&[7; 32]).unwrap();
        let now: Timestamp = "2026-11-20T03:59:00Z".parse().unwrap();
        let did = did(&signer, &visitor("page:anna"), "01ABC", "silence", now);
        let shown = |who: &str, incident: &str, did: &str, seconds: u64| {
            let at = clock::after(now, Duration::from_secs(seconds));
            has_done(&signer, &visitor(who), incident, did, at).map(str::to_owned)
        };
        assert_eq!(shown("page:anna", "01ABC", &did, 60).as_deref(), Some("silence"));
        assert_eq!(shown("page:anna", "01ABC", &did, 120), None);
        assert_eq!([shown("page:ben", "01ABC", &did, 0), shown("page:anna", "01ABD", &did, 0)], [None, None]);
        for forged in ["silence", "silence.9999999999", "silence.9999999999.AAAA", &did.replace("silence", "note")] {
            assert_eq!(shown("page:anna", "01ABC", forged, 0), None, "{forged}");
        }
    }

    #[test]
    fn a_form_from_another_site_is_refused_by_what_the_browser_says_of_it() {
        let foreign = |headers: &[(&'static str, &str)]| {
            let pairs = headers.iter().map(|(name, value)| (name.parse().unwrap(), value.parse().unwrap()));
            is_foreign(&HeaderMap::from_iter(pairs), "https://triage.example.org/")
        };
        let host = ("host", "127.0.0.1:9098");
        for own in [
            &[host][..],
            &[host, ("origin", "http://127.0.0.1:9098")],
            &[host, ("origin", "https://triage.example.org"), ("sec-fetch-site", "same-origin")],
        ] {
            assert!(!foreign(own), "{own:?}");
        }
        for other in [
            [host, ("origin", "null")],
            [host, ("origin", "http://127.0.0.1:9099")],
            [host, ("origin", "https://triage.example.org.evil.net")],
            [host, ("sec-fetch-site", "same-site")],
            [host, ("sec-fetch-site", "cross-site")],
        ] {
            assert!(foreign(&other), "{other:?}");
        }
    }
}
