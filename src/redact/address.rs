//! Addresses as they may be shown.

/// An address without user, password, query and fragment, also when it is none.
pub fn address(url: &str) -> String {
    match url::Url::parse(url) {
        Ok(mut parsed) if parsed.has_host() => {
            // Both fail only for addresses that cannot have a user at all.
            let _ = parsed.set_password(None);
            let _ = parsed.set_username("");
            parsed.set_query(None);
            parsed.set_fragment(None);
            parsed.to_string().trim_end_matches('/').to_owned()
        }
        // What was mistyped may hold a password all the same.
        _ => {
            let shown = url.split(['?', '#']).next().unwrap_or_default();
            shown.rsplit_once('@').map_or(shown, |(_, rest)| rest).to_owned()
        }
    }
}

/// Why a server could not be reached over HTTP: the innermost reason, and where: "Connection refused (http://loki:3100)".
/// User, path and query of the address are left out, because some hold tokens; and the system's number of the reason.
pub fn unreached(error: &reqwest::Error) -> String {
    let place = error.url().map(|url| format!(" ({})", url.origin().ascii_serialization())).unwrap_or_default();
    // Its own text holds the whole address.
    let why = std::error::Error::source(error).map_or_else(|| "no answer".to_owned(), innermost);
    format!("{why}{place}")
}

/// The innermost reason of an error, which says `connection refused` where the outer ones say where.
pub fn innermost(error: &(dyn std::error::Error + 'static)) -> String {
    let mut error = error;
    while let Some(source) = error.source() {
        error = source;
    }
    let said = error.to_string();
    said.split(" (os error").next().unwrap_or(&said).to_owned()
}

#[cfg(test)]
mod tests {
    use reqwest::ResponseBuilderExt;

    use super::*;

    #[test]
    fn an_error_without_a_deeper_reason_does_not_show_the_whole_address() {
        let url = "https://user:password@hooks.example/services/TOKEN?key=SECRET".parse().unwrap();
        let answer = axum::http::Response::builder().status(500).url(url).body("").unwrap();
        let error = reqwest::Response::from(answer).error_for_status().unwrap_err();
        assert!(error.to_string().contains("TOKEN"), "{error}");
        assert_eq!(unreached(&error), "no answer (https://hooks.example)");
    }
}
