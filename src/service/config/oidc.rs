//! The key `pages.oidc`: login by an identity provider.

use std::path::PathBuf;
use std::time::Duration;

use anyhow::bail;
use schemars::JsonSchema;
use serde::Deserialize;

use super::ANYBODY;
use knowledge::clock::duration;

/// The longest `session`: nobody asks the provider again before its end.
const LONGEST_SESSION: Duration = Duration::from_secs(7 * 24 * 3_600);

/// The key `pages.oidc`: people sign in with an OpenID Connect provider.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct OidcConfig {
    /// The provider's address, exactly as its discovery document has it under `issuer`.
    pub issuer: String,
    /// The id of this service at the provider, where its redirect address is `public_url` with `/login/callback`.
    pub client_id: String,
    /// A file with the secret of that id; without it the provider must take a public client.
    #[serde(default)]
    pub client_secret_file: Option<PathBuf>,
    /// The scopes that are requested beside `openid`.
    #[serde(default = "profile_and_email")]
    pub scopes: Vec<String>,
    /// The claim with the person's name, as `pages.act` and the audit log have it. An `email` counts only if the provider
    /// says that it is verified.
    #[serde(default = "email")]
    pub name_claim: String,
    /// The claim with the person's groups, a list or one text.
    #[serde(default = "groups")]
    pub groups_claim: String,
    /// The groups whose members may open the pages; `anybody` means everybody whom the provider lets in.
    #[serde(default)]
    pub groups: Vec<String>,
    /// The domains of verified e-mail addresses that may open the pages. Beside `groups`, both must fit.
    #[serde(default)]
    pub email_domains: Vec<String>,
    /// Time after which people sign in again, at most 7d; defaults to 8h.
    #[serde(default = "working_day", deserialize_with = "duration")]
    #[schemars(with = "String")]
    pub session: Duration,
}

fn profile_and_email() -> Vec<String> {
    ["profile", "email"].map(str::to_owned).into()
}

fn email() -> String {
    "email".to_owned()
}

fn groups() -> String {
    "groups".to_owned()
}

fn working_day() -> Duration {
    Duration::from_secs(8 * 3_600)
}

impl OidcConfig {
    /// Checks the values.
    ///
    /// # Errors
    /// With the key, the expected value and what to do.
    pub(super) fn validate(&self) -> anyhow::Result<()> {
        let issuer = url::Url::parse(&self.issuer).ok();
        let is_local = issuer.as_ref().and_then(url::Url::host).is_some_and(|host| match host {
            url::Host::Domain(name) => name == "localhost",
            url::Host::Ipv4(address) => address.is_loopback(),
            url::Host::Ipv6(address) => address.is_loopback(),
        });
        let is_safe = issuer.is_some_and(|url| url.scheme() == "https" || (url.scheme() == "http" && is_local));
        if !is_safe {
            bail!(
                "`pages.oidc.issuer` is an address with https:// (http:// on loopback alone), as the provider names itself"
            );
        }
        if self.client_id.is_empty() || self.name_claim.is_empty() || self.groups_claim.is_empty() {
            bail!("`pages.oidc`: `client_id`, `name_claim` and `groups_claim` are not empty");
        }
        if self.groups.is_empty() && self.email_domains.is_empty() {
            bail!(
                "`pages.oidc` names nobody: set `groups` or `email_domains`, or `groups: [{ANYBODY}]` for everybody whom the \
                 provider lets in"
            );
        }
        if let Some(domain) = self.email_domains.iter().find(|domain| domain.is_empty() || domain.contains('@')) {
            bail!("`pages.oidc.email_domains` has {domain:?}: write the part behind the @, such as example.org");
        }
        if !(Duration::from_secs(60)..=LONGEST_SESSION).contains(&self.session) {
            bail!("`pages.oidc.session` is 1m to 7d");
        }
        Ok(())
    }
}
