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

/// Why nobody was reached over HTTP: the innermost reason, and where: "Connection refused (http://loki:3100)". User, path
/// and query of the address are left out, because some hold tokens; and the system's number of the reason.
pub fn unreached(error: &reqwest::Error) -> String {
    let place = error.url().map(|url| format!(" ({})", url.origin().ascii_serialization())).unwrap_or_default();
    format!("{}{place}", innermost(error))
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
