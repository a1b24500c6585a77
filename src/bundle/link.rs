//! Expiring download links of bundles, valid for anyone who has them: HMAC-SHA256 over name and expiry.

use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;

use super::Name;
use knowledge::clock;
use service::Signer;

/// Domain separation: a signature of the same key for another purpose is not valid here.
const PURPOSE: &str = "llm-diagnose bundle link v1";

/// The reason why a link is refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Refused {
    /// The signature is not ours, or belongs to another name or expiry.
    Forged,
    /// The link expired at this time.
    Expired(Timestamp),
}

/// Creates and verifies links.
#[derive(Debug)]
pub struct Links {
    /// Signs name and expiry.
    pub signer: Arc<Signer>,
    /// The address of the service; without it no links can be created.
    pub public_url: String,
    /// The validity of a link.
    pub good_for: Duration,
}

impl Links {
    /// Returns a URL of the bundle and its expiry; `None` without a `public_url`.
    pub fn link(&self, name: &Name, now: Timestamp) -> Option<(String, Timestamp)> {
        if self.public_url.is_empty() {
            return None;
        }
        let until = clock::after(now, self.good_for);
        let expires = until.as_second();
        let signature = self.signer.sign(&signed(name, expires));
        let base = self.public_url.trim_end_matches('/');
        Some((format!("{base}/bundles/{name}?expires={expires}&signature={signature}"), until))
    }

    /// Checks that a link is valid for the bundle at `now`; compares in constant time.
    ///
    /// # Errors
    /// The reason why it is not.
    pub fn check(&self, name: &Name, expires: &str, signature: &str, now: Timestamp) -> Result<(), Refused> {
        let expires: i64 = expires.parse().map_err(|_| Refused::Forged)?;
        if !self.signer.has_signed(&signed(name, expires), signature) {
            return Err(Refused::Forged);
        }
        let until = Timestamp::from_second(expires).map_err(|_| Refused::Forged)?;
        if now > until { Err(Refused::Expired(until)) } else { Ok(()) }
    }
}

fn signed(name: &Name, expires: i64) -> String {
    format!("{PURPOSE}\n{name}\n{expires}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn links(key: u8, public_url: &str) -> Links {
        let signer = Arc::new(Signer::new(&[key; 32]).unwrap());
        Links { signer, public_url: public_url.to_owned(), good_for: Duration::from_secs(60) }
    }

    fn name(text: &str) -> Name {
        Name::read(text).unwrap()
    }

    #[test]
    fn a_link_opens_one_bundle_until_its_end_and_nothing_else() {
        let ours = links(7, "https://diagnose.example.com/");
        let now: Timestamp = "2026-11-20T03:00:00Z".parse().unwrap();
        let bundle = name("llm-diagnose-01ABC-20261120T025900Z.zip");
        let (link, until) = ours.link(&bundle, now).unwrap();
        let (page, query) = link.split_once('?').unwrap();
        assert_eq!(page, "https://diagnose.example.com/bundles/llm-diagnose-01ABC-20261120T025900Z.zip");
        let (expires, signature) = query.split_once('&').unwrap();
        let (expires, signature) = (&expires["expires=".len()..], &signature["signature=".len()..]);
        assert_eq!(ours.check(&bundle, expires, signature, now), Ok(()));
        assert_eq!(ours.check(&bundle, expires, signature, until), Ok(()));
        let late = clock::after(until, Duration::from_secs(1));
        assert_eq!(ours.check(&bundle, expires, signature, late), Err(Refused::Expired(until)));
        let other = name("llm-diagnose-01ABD-20261120T025900Z.zip");
        assert_eq!(ours.check(&other, expires, signature, now), Err(Refused::Forged));
        let longer = (until.as_second() + 60).to_string();
        for (expires, signature) in
            [(longer.as_str(), signature), (expires, ""), (expires, "AAAA"), ("soon", signature)]
        {
            assert_eq!(ours.check(&bundle, expires, signature, now), Err(Refused::Forged), "{expires} {signature}");
        }
        let foreign = links(8, "https://diagnose.example.com");
        assert_eq!(foreign.check(&bundle, expires, signature, now), Err(Refused::Forged));
        assert_eq!(links(7, "").link(&bundle, now), None);
    }

    #[test]
    fn names_that_are_not_ours_are_none() {
        for text in [
            "",
            "../etc/passwd",
            "llm-diagnose-..-20261120T025900Z.zip",
            "llm-diagnose-a/b-20261120T025900Z.zip",
            "llm-diagnose-a\0-20261120T025900Z.zip",
            "llm-diagnose--20261120T025900Z.zip",
            "llm-diagnose-a-20261120T025900Z.zip.part",
            "llm-diagnose-a-20261120T025900.zip",
            "llm-diagnose-a-2026112T025900Z.zip",
            "llm-diagnose-a-20261340T025900Z.zip",
            "bundle-links.key",
        ] {
            assert_eq!(Name::read(text), None, "{text:?}");
        }
        let long = format!("llm-diagnose-{}-20261120T025900Z.zip", "a".repeat(65));
        assert_eq!(Name::read(&long), None);
        let text = "llm-diagnose-high-ttft-20261120T025900Z.zip";
        assert_eq!(name(text).to_string(), text);
        assert_eq!(name(text).of, "high-ttft");
    }
}
