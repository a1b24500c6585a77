//! Slack's request signatures: <https://docs.slack.dev/authentication/verifying-requests-from-slack/>.

use std::time::{SystemTime, UNIX_EPOCH};

use ring::hmac;

/// Seconds since 1970.
#[expect(clippy::disallowed_methods, reason = "Slack signs with the wall clock")]
pub(super) fn now() -> i64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |age| age.as_secs() as i64)
}

/// The headers of a request that is signed at `seconds`.
pub(super) fn headers(secret: &str, seconds: i64, body: &str) -> Vec<(String, String)> {
    let key = hmac::Key::new(hmac::HMAC_SHA256, secret.as_bytes());
    let tag = hmac::sign(&key, format!("v0:{seconds}:{body}").as_bytes());
    let hex: String = tag.as_ref().iter().map(|byte| format!("{byte:02x}")).collect();
    vec![
        ("x-slack-request-timestamp".into(), seconds.to_string()),
        ("x-slack-signature".into(), format!("v0={hex}")),
        ("user-agent".into(), "Slackbot 1.0 (+https://api.slack.com/robots)".into()),
    ]
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_signature_is_that_of_slacks_own_example() {
        // https://docs.slack.dev/authentication/verifying-requests-from-slack/
        let body = "token=xyzz0WbapA4vBCDEFasx0q6G&team_id=T1DC2JH3J&team_domain=testteamnow&channel_id=G8PSS9T3V&channel_name=foobar&user_id=U2CERLKJA&user_name=roadrunner&command=%2Fwebhook-collect&text=&response_url=https%3A%2F%2Fhooks.slack.com%2Fcommands%2FT1DC2JH3J%2F397700885554%2F96rGlfmibIGlgcZRskXaIFfN&trigger_id=398738663015.47445629121.803a0bc887a14d10d2c447fce8b6703c";
        let headers = super::headers("8f742231b10e8888abcd99yyyzzz85a5", 1_531_420_618, body);
        assert_eq!(headers[1].1, "v0=a2114d57b48eac39b9ad189dd8316235a7b4a8d21a10bd27519666489c69b503");
    }
}
