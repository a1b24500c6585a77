//! Authentication: bearer or basic, compared in constant time; for pages also an authenticating proxy.

use std::net::{IpAddr, SocketAddr};

use anyhow::bail;
use axum::http::{HeaderMap, HeaderName, header};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use secrecy::{ExposeSecret, SecretString};
use subtle::{Choice, ConstantTimeEq};

use chat::KnownBy;
use service::config::{Authentication, PagesConfig, SourceConfig, Webhook, secret};
use sources::exporter::Allowed;

/// The `Authorization` values that the webhook accepts; without any, everybody has access.
#[derive(Debug, Default)]
pub struct Credentials {
    any: Option<SecretString>,
    /// The value of each source, by the source's name.
    sources: Vec<(String, SecretString)>,
}

/// The source that the credentials belong to, if they belong to one.
#[derive(Debug, Clone)]
pub(super) struct Sender(pub(super) Option<String>);

impl Credentials {
    /// Reads the configured secrets.
    ///
    /// # Errors
    /// When a secret's file cannot be read or is empty.
    pub fn read(config: &Webhook) -> anyhow::Result<Self> {
        let any = match (&config.bearer_token_file, &config.username, &config.password_file) {
            (Some(path), _, _) => Some(bearer(&secret(path)?)),
            (None, Some(user), Some(path)) => Some(basic(user, &secret(path)?)),
            _ => None,
        };
        let of = |source: &SourceConfig| Ok((source.name.clone(), bearer(&secret(&source.bearer_token_file)?)));
        let sources = config.sources.iter().map(of).collect::<anyhow::Result<_>>()?;
        Ok(Self { any, sources })
    }

    /// Reads the configured secrets of a webhook that is to be opened.
    ///
    /// # Errors
    /// As [`Self::read`], or without credentials unless the configuration says `none`.
    pub fn new(config: &Webhook) -> anyhow::Result<Self> {
        let credentials = Self::read(config)?;
        match (config.authentication, credentials.are_set()) {
            (Authentication::Required, false) => bail!(
                "the webhook has no credentials: set `webhook.bearer_token_file` to a file with a token, or \
                 `webhook.authentication: none`, so that everybody who reaches `listen` can send alerts"
            ),
            (Authentication::None, true) => {
                bail!("`webhook.authentication: none` beside credentials: remove it, or them")
            }
            _ => Ok(credentials),
        }
    }

    /// Returns true if credentials are required.
    pub fn are_set(&self) -> bool {
        self.any.is_some() || !self.sources.is_empty()
    }

    /// Returns the value of `Authorization` that opens the webhook; `None` if it is open without one.
    pub fn authorization(&self) -> Option<&SecretString> {
        self.any.as_ref().or_else(|| self.sources.first().map(|(_, value)| value))
    }

    /// Returns the sender; `None` if access is denied.
    pub(super) fn allow(&self, headers: &HeaderMap) -> Option<Sender> {
        // All values are compared, so that the time does not reveal which one was almost right.
        let matches = self.any.as_ref().map(|expected| bool::from(same(headers, expected)));
        let mut sender = (matches == Some(true) || !self.are_set()).then_some(Sender(None));
        for (name, expected) in &self.sources {
            if bool::from(same(headers, expected)) {
                sender = Some(Sender(Some(name.clone())));
            }
        }
        sender
    }
}

fn bearer(token: &SecretString) -> SecretString {
    format!("Bearer {}", token.expose_secret()).into()
}

fn basic(user: &str, password: &SecretString) -> SecretString {
    let pair = STANDARD.encode(format!("{user}:{}", password.expose_secret()));
    format!("Basic {pair}").into()
}

/// Compares the `Authorization` header with the expected value in constant time.
fn same(headers: &HeaderMap, expected: &SecretString) -> Choice {
    let (scheme, credentials) = authorization(headers);
    let (expected_scheme, expected) = expected.expose_secret().split_once(' ').unwrap_or_default();
    let same_scheme = Choice::from(u8::from(scheme.eq_ignore_ascii_case(expected_scheme.as_bytes())));
    same_scheme & credentials.ct_eq(expected.as_bytes())
}

/// Returns scheme and credentials of the `Authorization` header, both empty without one. The scheme is in any case,
/// and one or more spaces follow it (RFC 9110, 11.4).
fn authorization(headers: &HeaderMap) -> (&[u8], &[u8]) {
    let value = headers.get(header::AUTHORIZATION).map(axum::http::HeaderValue::as_bytes).unwrap_or_default();
    let end = value.iter().position(|byte| *byte == b' ').unwrap_or(value.len());
    let (scheme, credentials) = value.split_at(end);
    (scheme, credentials.trim_ascii_start())
}

/// The visitor of a page or bundle.
#[derive(Debug, Clone)]
pub(super) struct Visitor {
    /// The name in the audit log: `page:anna`, `link`.
    pub(super) who: String,
    /// The way in which the name is known.
    pub(super) known: KnownBy,
}

impl Visitor {
    /// Returns a visitor whom nothing identifies.
    pub(super) fn unknown(who: &str) -> Self {
        Self { who: who.to_owned(), known: KnownBy::Nothing }
    }

    /// Returns the name as `pages.act` has it.
    pub(super) fn name(&self) -> &str {
        self.who.strip_prefix("page:").unwrap_or(&self.who)
    }
}

/// The longest user name from a proxy, in characters; a cut name could be that of somebody else.
const WHO_CHARS: usize = 100;
/// The start of the names of programs, which no person has: `program:token`, `program:webhook`.
const PROGRAM: &str = "program:";

/// Returns the visitor whose credentials these are.
fn program(name: &str) -> Visitor {
    Visitor { who: format!("page:{PROGRAM}{name}"), known: KnownBy::Program }
}

/// Returns true if a proxy or a provider of identities may call somebody so.
pub(super) fn is_person(name: &str) -> bool {
    !name.is_empty() && name.chars().count() <= WHO_CHARS && !name.starts_with(PROGRAM)
}

pub(super) fn person(name: &str) -> Visitor {
    Visitor { who: format!("page:{name}"), known: KnownBy::Name }
}

/// The access rules of the pages.
#[derive(Debug)]
pub struct Access {
    /// The values of `Authorization`, each with its visitor.
    accepted: Vec<(SecretString, Visitor)>,
    proxy: Option<(HeaderName, Vec<Allowed>)>,
    /// Set if no credentials are required, because the configuration says so and the server listens on loopback only;
    /// it lists the accepted host names. The check prevents DNS rebinding by other web pages.
    open: Option<Vec<String>>,
}

impl Access {
    /// Reads the configured secrets. The webhook's own credentials also open the pages; tokens of `webhook.sources` do
    /// not. With `authentication: none` the pages are open to requests for loopback or the host of `public_url`.
    /// Loopback by itself is no authentication: a proxy in front connects from there too.
    ///
    /// # Errors
    /// When a secret's file cannot be read or is empty, the header's name is invalid, or the pages are to be open while
    /// the server listens on more than loopback.
    pub fn new(
        config: &PagesConfig,
        webhook: &Credentials,
        listen: SocketAddr,
        public_url: &str,
    ) -> anyhow::Result<Self> {
        let mut accepted = Vec::new();
        if let Some(path) = &config.bearer_token_file {
            accepted.push((bearer(&secret(path)?), program("token")));
        }
        if let (Some(user), Some(path)) = (&config.username, &config.password_file) {
            accepted.push((basic(user, &secret(path)?), person(user)));
        }
        let proxy = match &config.proxy_header {
            Some(name) => Some((HeaderName::try_from(name.as_str())?, config.proxy_from.clone())),
            None => None,
        };
        let public = url::Url::parse(public_url).ok().and_then(|url| Some(url.host_str()?.to_owned()));
        let hosts = || [Some("localhost".to_owned()), public].into_iter().flatten().collect();
        let is_open = config.authentication == Authentication::None;
        if is_open && !listen.ip().is_loopback() {
            bail!(
                "`pages.authentication: none` needs a `listen` on loopback, not {listen}: set credentials under `pages:` \
                 instead"
            );
        }
        let open = is_open.then(hosts);
        accepted.extend(webhook.any.clone().map(|value| (value, program("webhook"))));
        Ok(Self { accepted, proxy, open })
    }

    /// Returns true if requests for some hosts need no credentials.
    pub(super) fn is_open(&self) -> bool {
        self.open.is_some()
    }

    /// Returns true if any way of access is configured.
    pub fn is_possible(&self) -> bool {
        self.is_open() || self.proxy.is_some() || !self.accepted.is_empty()
    }

    /// Returns the visitor; `None` if access is denied.
    pub(super) fn allow(&self, headers: &HeaderMap, from: SocketAddr) -> Option<Visitor> {
        // All values are compared, so that the time does not reveal which one was almost right.
        let mut accepted = None;
        for (expected, visitor) in &self.accepted {
            if bool::from(same(headers, expected)) {
                accepted = accepted.or(Some(visitor));
            }
        }
        self.proxy_user(headers, from).map(person).or_else(|| accepted.cloned())
    }

    /// Returns the user that the proxy names.
    fn proxy_user<'a>(&self, headers: &'a HeaderMap, from: SocketAddr) -> Option<&'a str> {
        let (name, proxies) = self.proxy.as_ref()?;
        let mut values = headers.get_all(name).iter();
        // A proxy that appends instead of replacing would forward a header forged by the visitor.
        let (Some(user), None) = (values.next(), values.next()) else { return None };
        let user = std::str::from_utf8(user.as_bytes()).ok()?.trim();
        (is_person(user) && proxies.iter().any(|proxy| proxy.holds(from.ip()))).then_some(user)
    }

    /// Returns true if requests for this host need no credentials.
    pub(super) fn is_open_for(&self, host: Option<&str>) -> bool {
        let (Some(hosts), Some(host)) = (&self.open, host) else { return false };
        let host = host.trim_end_matches('.');
        let address = host.trim_start_matches('[').trim_end_matches(']').parse::<IpAddr>();
        address.is_ok_and(|address| address.is_loopback())
            || hosts.iter().any(|open_host| open_host.eq_ignore_ascii_case(host))
    }

    /// Returns the authentication challenge for browsers; `None` if they have no way to answer one.
    pub(super) fn challenge(&self) -> Option<&'static str> {
        let asks = |scheme: &str| self.accepted.iter().any(|(secret, _)| secret.expose_secret().starts_with(scheme));
        match () {
            () if asks("Basic ") => Some("Basic realm=\"llm-diagnose\", charset=\"UTF-8\""),
            () if asks("Bearer ") => Some("Bearer realm=\"llm-diagnose\""),
            () => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HERE: &str = "127.0.0.1:9095";

    #[test]
    fn a_proxys_word_counts_only_from_its_own_address_and_only_once() {
        let config = PagesConfig {
            proxy_header: Some("X-Forwarded-User".into()),
            proxy_from: vec![Allowed::try_from("10.0.0.7".to_owned()).unwrap()],
            ..PagesConfig::default()
        };
        let access = Access::new(&config, &Credentials::default(), HERE.parse().unwrap(), "").unwrap();
        let may = |from: &str, users: &[&str]| {
            let mut headers = HeaderMap::new();
            users.iter().for_each(|who| _ = headers.append("x-forwarded-user", who.parse().unwrap()));
            access.allow(&headers, from.parse().unwrap()).is_some()
        };
        assert!(may("10.0.0.7:1", &["anna"]) && may("[::ffff:10.0.0.7]:1", &["anna"]));
        assert!(!may("10.0.0.8:1", &["anna"]), "somebody else says so");
        assert!(!may("127.0.0.1:1", &["anna"]), "loopback is no proxy unless named");
        assert!(!may("10.0.0.7:1", &[]) && !may("10.0.0.7:1", &[" "]) && !may("10.0.0.7:1", &["eve", "anna"]));
    }

    #[test]
    fn the_audit_log_learns_whom_a_page_was_shown() {
        let config = PagesConfig {
            proxy_header: Some("X-Forwarded-User".into()),
            proxy_from: vec![Allowed::try_from("10.0.0.7".to_owned()).unwrap()],
            ..PagesConfig::default()
        };
        let mut access = Access::new(&config, &Credentials::default(), HERE.parse().unwrap(), "").unwrap();
        access.accepted =
            vec![(basic("ops", &"secret".into()), person("ops")), (bearer(&"token".into()), program("token"))];
        let who = |from: &str, name: &'static str, value: String| {
            let headers = HeaderMap::from_iter([(HeaderName::from_static(name), value.parse().unwrap())]);
            access.allow(&headers, from.parse().unwrap()).map(|visitor| visitor.who)
        };
        let sent = |secret: &SecretString| secret.expose_secret().to_owned();
        let proxied = |name: &str| who("10.0.0.7:1", "x-forwarded-user", name.to_owned());
        let longest = "a".repeat(WHO_CHARS);
        assert_eq!(proxied(&longest), Some(format!("page:{longest}")));
        for refused in ["program:token", &format!("{longest}a")] {
            assert_eq!(proxied(refused), None, "{refused}: could be somebody else's name");
        }
        for ((accepted, _), expected) in access.accepted.iter().zip(["page:ops", "page:program:token"]) {
            assert_eq!(who("10.0.0.9:1", "authorization", sent(accepted)).as_deref(), Some(expected));
        }
        assert_eq!(who("10.0.0.9:1", "authorization", "Basic b3BzOndyb25n".to_owned()), None);
    }

    #[test]
    fn pages_without_credentials_are_open_only_where_it_is_configured_and_on_loopback_alone() {
        let may = |authentication, listen: &str| {
            let config = PagesConfig { authentication, ..PagesConfig::default() };
            let access = Access::new(&config, &Credentials::default(), listen.parse().unwrap(), "");
            access
                .map(|access| (access.is_open_for(Some("localhost")), access.is_possible()))
                .map_err(|e| e.to_string())
        };
        use Authentication::{None, Required};
        let everywhere = "0.0.0.0:9095";
        assert_eq!([may(Required, HERE), may(Required, everywhere)], [Ok((false, false)), Ok((false, false))]);
        assert_eq!(may(None, HERE), Ok((true, true)));
        assert!(may(None, everywhere).is_err_and(|error| error.contains("needs a `listen` on loopback, not 0.0.0.0")));
    }

    #[test]
    fn the_scheme_of_an_authorization_may_be_in_any_case() {
        let expected = bearer(&"Token".into());
        let is_same = |value: &str| {
            let headers = HeaderMap::from_iter([(header::AUTHORIZATION, value.parse().unwrap())]);
            bool::from(same(&headers, &expected))
        };
        assert!(["Bearer Token", "bearer Token", "BEARER  Token"].into_iter().all(is_same));
        assert!(!["Bearer token", "Basic Token", "BearerToken", "Token", "Bearer", ""].into_iter().any(is_same));
    }
}
