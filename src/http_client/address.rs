//! URLs without the parts that may hold secrets, and short reasons of connection errors.

/// Returns a URL without user, password, query and fragment; handles text that is not a valid URL too.
pub fn address(url: &str) -> String {
    match url::Url::parse(url) {
        Ok(mut parsed) if parsed.has_host() => {
            // Both fail only for URLs that cannot have a user at all.
            let _ = parsed.set_password(None);
            let _ = parsed.set_username("");
            parsed.set_query(None);
            parsed.set_fragment(None);
            parsed.to_string().trim_end_matches('/').to_owned()
        }
        // A mistyped URL may still hold a password.
        _ => {
            let shown = url.split(['?', '#']).next().unwrap_or_default();
            shown.rsplit_once('@').map_or(shown, |(_, rest)| rest).to_owned()
        }
    }
}

/// Splits a server's address into the one for requests and the one for display, without user and password; both without
/// query and fragment. `None` if it is no address of HTTP.
pub fn split_address(text: &str) -> Option<(String, String)> {
    let mut url =
        url::Url::parse(text).ok().filter(|url| matches!(url.scheme(), "http" | "https") && url.has_host())?;
    url.set_query(None);
    url.set_fragment(None);
    Some((url.as_str().trim_end_matches('/').to_owned(), address(url.as_str())))
}

/// Returns the reason why an HTTP server could not be reached: the innermost error and the origin, "Connection refused
/// (http://loki:3100)". Leaves out user, path and query of the URL, because some hold tokens, and the operating
/// system's error number.
pub fn unreachable_reason(error: &reqwest::Error) -> String {
    let place = error.url().map(|url| format!(" ({})", url.origin().ascii_serialization())).unwrap_or_default();
    // The error's own text holds the whole URL.
    let why = std::error::Error::source(error).map_or_else(|| "no answer".to_owned(), innermost);
    format!("{why}{place}")
}

/// Returns the text of the innermost error, which says `connection refused` where the outer errors only name the URL.
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
        assert_eq!(unreachable_reason(&error), "no answer (https://hooks.example)");
    }
}
