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
