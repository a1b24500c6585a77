//! Verification of Slack's request signatures: HMAC-SHA256 over the timestamp and the raw body.
//!
//! Source: <https://docs.slack.dev/authentication/verifying-requests-from-slack>.

use jiff::Timestamp;
use ring::hmac;
use secrecy::{ExposeSecret, SecretString};

/// The largest difference between a request's timestamp and our clock, in seconds; an older request may be a replay.
const AGE_SECONDS: i64 = 300;

/// The signing secret of the app.
pub struct Signing(hmac::Key);

impl std::fmt::Debug for Signing {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Signing").finish_non_exhaustive()
    }
}

/// The reason why a request is not accepted as Slack's.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum SignatureError {
    /// The signature is missing or has an unknown format.
    #[error("it has no signature of Slack's")]
    Unsigned,
    /// The timestamp is too old or too far in the future.
    #[error("its time is more than 5 minutes from ours: a repetition, or one of the clocks is wrong")]
    Stale,
    /// The signature does not match.
    #[error("its signature is wrong: not Slack's, or another app's signing secret is configured")]
    Wrong,
}

impl SignatureError {
    /// Returns its name in metrics.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Unsigned => "unsigned",
            Self::Stale => "stale",
            Self::Wrong => "forged",
        }
    }
}

impl Signing {
    /// Creates the key.
    pub fn new(secret: &SecretString) -> Self {
        Self(hmac::Key::new(hmac::HMAC_SHA256, secret.expose_secret().as_bytes()))
    }

    /// Checks `X-Slack-Request-Timestamp` and `X-Slack-Signature` against the raw body, in constant time.
    ///
    /// # Errors
    /// The reason why the request is not authentic or not recent.
    pub fn verify(&self, timestamp: &str, signature: &str, body: &[u8], now: Timestamp) -> Result<(), SignatureError> {
        let seconds: i64 = timestamp.parse().map_err(|_| SignatureError::Unsigned)?;
        let signature = signature.strip_prefix("v0=").and_then(bytes).ok_or(SignatureError::Unsigned)?;
        if seconds.abs_diff(now.as_second()) > AGE_SECONDS.unsigned_abs() {
            return Err(SignatureError::Stale);
        }
        hmac::verify(&self.0, &[b"v0:", timestamp.as_bytes(), b":", body].concat(), &signature)
            .map_err(|_| SignatureError::Wrong)
    }
}

/// Decodes a SHA-256 from exactly 64 hexadecimal digits.
fn bytes(hex: &str) -> Option<[u8; 32]> {
    let digits = hex.as_bytes();
    let mut out = [0; 32];
    if digits.len() != 2 * out.len() {
        return None;
    }
    for (byte, pair) in out.iter_mut().zip(digits.chunks_exact(2)) {
        let [high, low] = [pair[0], pair[1]].map(|digit| char::from(digit).to_digit(16));
        *byte = u8::try_from(high? * 16 + low?).ok()?;
    }
    Some(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The example in Slack's documentation.
    const BODY: &[u8] = b"token=xyzz0WbapA4vBCDEFasx0q6G&team_id=T1DC2JH3J&team_domain=testteamnow&channel_id=G8PSS9T3V&channel_name=foobar&user_id=U2CERLKJA&user_name=roadrunner&command=%2Fwebhook-collect&text=&response_url=https%3A%2F%2Fhooks.slack.com%2Fcommands%2FT1DC2JH3J%2F397700885554%2F96rGlfmibIGlgcZRskXaIFfN&trigger_id=398738663015.47445629121.803a0bc887a14d10d2c447fce8b6703c";
    const SIGNATURE: &str = "v0=a2114d57b48eac39b9ad189dd8316235a7b4a8d21a10bd27519666489c69b503";
    const AT: i64 = 1_531_420_618;

    fn check(timestamp: &str, signature: &str, body: &[u8], now: i64) -> Result<(), SignatureError> {
        let signing = Signing::new(&SecretString::from("8f742231b10e8888abcd99yyyzzz85a5"));
        signing.verify(timestamp, signature, body, Timestamp::from_second(now).unwrap())
    }

    #[test]
    fn slacks_published_example_is_taken_and_every_other_byte_is_not() {
        let at = AT.to_string();
        assert_eq!(check(&at, SIGNATURE, BODY, AT), Ok(()));
        assert_eq!(check(&at, &SIGNATURE.replace("503", "504"), BODY, AT), Err(SignatureError::Wrong));
        assert_eq!(check(&at, SIGNATURE, &BODY[1..], AT), Err(SignatureError::Wrong));
        assert_eq!(check(&(AT + 1).to_string(), SIGNATURE, BODY, AT), Err(SignatureError::Wrong));
    }

    #[test]
    fn five_minutes_either_way_are_taken_and_a_second_more_is_not() {
        let at = AT.to_string();
        for (now, expected) in [
            (AT + 300, Ok(())),
            (AT - 300, Ok(())),
            (AT + 301, Err(SignatureError::Stale)),
            (AT - 301, Err(SignatureError::Stale)),
        ] {
            assert_eq!(check(&at, SIGNATURE, BODY, now), expected, "{now}");
        }
    }

    #[test]
    fn what_is_not_signed_as_slack_signs_is_unsigned() {
        let at = AT.to_string();
        for signature in ["", "v0=", "v1=00", "v0=zz", SIGNATURE.trim_start_matches("v0="), &format!("{SIGNATURE}00")] {
            assert_eq!(check(&at, signature, BODY, AT), Err(SignatureError::Unsigned), "{signature}");
        }
        for at in ["", "now", "1e9", "99999999999999999999"] {
            assert_eq!(check(at, SIGNATURE, BODY, AT), Err(SignatureError::Unsigned), "{at}");
        }
        assert_eq!(check("-9223372036854775808", SIGNATURE, BODY, AT), Err(SignatureError::Stale));
    }
}
