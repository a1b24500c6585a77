//! The OpenID Connect provider: authorization code flow with PKCE. Its answers are checked by `openidconnect` as the
//! specification demands (<https://openid.net/specs/openid-connect-core-1_0.html#IDTokenValidation>).

use std::time::Duration;

use anyhow::Context;
use futures::future::BoxFuture;
use moka::future::Cache;
use openidconnect::core::{
    CoreAuthenticationFlow, CoreClient, CoreClientAuthMethod, CoreGenderClaim, CoreIdToken, CoreJwsSigningAlgorithm,
    CoreProviderMetadata,
};
use openidconnect::{
    AccessToken, AdditionalClaims, AsyncHttpClient, AuthType, AuthorizationCode, ClaimsVerificationError, ClientId,
    ClientSecret, CsrfToken, EndpointMaybeSet, EndpointNotSet, EndpointSet, HttpRequest, HttpResponse, IssuerUrl,
    Nonce, OAuth2TokenResponse, PkceCodeChallenge, PkceCodeVerifier, RedirectUrl, RequestTokenError, Scope,
    SignatureVerificationError, SubjectIdentifier, TokenResponse, UserInfoClaims,
};
use secrecy::{ExposeSecret, SecretString};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use subtle::ConstantTimeEq;

use super::LoginError;
use crate::auth::is_person;
use http_client::{innermost, read_body, unreachable_reason};
use service::config::{ANYBODY, OidcConfig, secret};

/// Deadline of one call.
const CALL: Duration = Duration::from_secs(5);
/// Deadline of all calls of a request.
const ALL_CALLS: Duration = Duration::from_secs(10);
/// The largest answer, in bytes.
const ANSWER: usize = 1 << 20;
/// The time for which the provider's addresses and keys are remembered; a key that is not among them is asked for at once.
const KNOWN_FOR: Duration = Duration::from_secs(600);
/// Signatures by a key of the provider's own. None is no signature, HS… would be made with our secret.
const ALGORITHMS: [CoreJwsSigningAlgorithm; 9] = [
    CoreJwsSigningAlgorithm::RsaSsaPkcs1V15Sha256,
    CoreJwsSigningAlgorithm::RsaSsaPkcs1V15Sha384,
    CoreJwsSigningAlgorithm::RsaSsaPkcs1V15Sha512,
    CoreJwsSigningAlgorithm::RsaSsaPssSha256,
    CoreJwsSigningAlgorithm::RsaSsaPssSha384,
    CoreJwsSigningAlgorithm::RsaSsaPssSha512,
    CoreJwsSigningAlgorithm::EcdsaP256Sha256,
    CoreJwsSigningAlgorithm::EcdsaP384Sha384,
    CoreJwsSigningAlgorithm::EdDsa,
];

type Client =
    CoreClient<EndpointSet, EndpointNotSet, EndpointNotSet, EndpointNotSet, EndpointMaybeSet, EndpointMaybeSet>;

/// Every claim that the specification has no field for.
#[derive(Debug, Clone, Serialize, Deserialize)]
struct OtherClaims(Map<String, Value>);

impl AdditionalClaims for OtherClaims {}

/// A call that failed, without what may be secret.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
struct CallFailed(String);

/// Makes the library's calls with our client.
#[derive(Debug)]
struct Calls(reqwest::Client);

impl<'c> AsyncHttpClient<'c> for Calls {
    type Error = CallFailed;
    type Future = BoxFuture<'c, Result<HttpResponse, CallFailed>>;

    fn call(&'c self, request: HttpRequest) -> Self::Future {
        let failed = |error: reqwest::Error| CallFailed(unreachable_reason(&error));
        Box::pin(async move {
            let answer = self.0.execute(request.try_into().map_err(failed)?).await.map_err(failed)?;
            let (status, headers) = (answer.status(), answer.headers().clone());
            let body = read_body(answer, ANSWER).await.map_err(|error| CallFailed(innermost(&error)))?;
            let mut response = HttpResponse::new(body);
            *response.status_mut() = status;
            *response.headers_mut() = headers;
            Ok(response)
        })
    }
}

/// A login under way: the values that must come back from the provider, and where the person wanted to go.
#[derive(Serialize, Deserialize)]
pub(crate) struct LoginAttempt {
    state: String,
    nonce: String,
    verifier: String,
    pub(crate) to: String,
}

impl LoginAttempt {
    /// Returns true if the provider's answer belongs to this attempt.
    pub(crate) fn is_answered_by(&self, state: &str) -> bool {
        bool::from(self.state.as_bytes().ct_eq(state.as_bytes()))
    }
}

/// The provider and the rules by which its people are let in.
#[derive(Debug)]
pub(crate) struct Provider {
    config: OidcConfig,
    secret: Option<SecretString>,
    redirect: RedirectUrl,
    calls: Calls,
    metadata: Cache<(), CoreProviderMetadata>,
}

impl Provider {
    pub(super) fn new(config: &OidcConfig, public_url: &str) -> anyhow::Result<Self> {
        let redirect = format!("{}/login/callback", public_url.trim_end_matches('/'));
        let http = http_client::builder(CALL).timeout(CALL).build();
        Ok(Self {
            secret: config.client_secret_file.as_deref().map(secret).transpose()?,
            redirect: RedirectUrl::new(redirect).context("`public_url` is no address")?,
            calls: Calls(http.context("cannot prepare the HTTP client of `pages.oidc`")?),
            metadata: Cache::builder().max_capacity(1).time_to_live(KNOWN_FOR).build(),
            config: config.clone(),
        })
    }

    /// Returns the provider's address for a new attempt.
    pub(crate) async fn begin(&self, to: &str) -> Result<(url::Url, LoginAttempt), LoginError> {
        let client = in_time(self.client()).await?;
        let (challenge, verifier) = PkceCodeChallenge::new_random_sha256();
        let flow = CoreAuthenticationFlow::AuthorizationCode;
        let request = client.authorize_url(flow, CsrfToken::new_random, Nonce::new_random);
        let scopes = self.config.scopes.iter().cloned().map(Scope::new);
        let (address, state, nonce) = request.add_scopes(scopes).set_pkce_challenge(challenge).url();
        let (state, nonce) = (state.secret().clone(), nonce.secret().clone());
        Ok((address, LoginAttempt { state, nonce, verifier: verifier.secret().clone(), to: to.to_owned() }))
    }

    /// Returns the name of the person to whom the code belongs, if they may come in.
    pub(crate) async fn finish(&self, code: String, attempt: LoginAttempt) -> Result<String, LoginError> {
        in_time(self.person(code, attempt)).await
    }

    async fn person(&self, code: String, attempt: LoginAttempt) -> Result<String, LoginError> {
        let client = self.client().await?;
        let request = client.exchange_code(AuthorizationCode::new(code)).map_err(away)?;
        let request = request.set_pkce_verifier(PkceCodeVerifier::new(attempt.verifier));
        let tokens = request.request_async(&self.calls).await.map_err(|error| match error {
            RequestTokenError::ServerResponse(refusal) => LoginError::Denied(refusal.error().to_string()),
            error => away(error),
        })?;
        let token = tokens.id_token().ok_or_else(|| LoginError::Untrusted("there is no ID token".to_owned()))?;
        let nonce = Nonce::new(attempt.nonce);
        let subject = match verified(&client, token, &nonce) {
            // The provider may have new keys.
            Err(ClaimsVerificationError::SignatureVerification(SignatureVerificationError::NoMatchingKey)) => {
                self.metadata.invalidate(&()).await;
                verified(&self.client().await?, token, &nonce)
            }
            known => known,
        };
        let subject = subject.map_err(|error| LoginError::Untrusted(innermost(&error)))?;
        let mut claims = payload(token)?;
        if !self.has_what_is_asked(&claims) && client.user_info_url().is_some() {
            self.add_user_info(&client, tokens.access_token().clone(), subject, &mut claims).await?;
        }
        self.admitted(&claims)
    }

    /// Returns a client for the provider's addresses and keys; requests that come together ask once.
    async fn client(&self) -> Result<Client, LoginError> {
        let ask = async {
            let issuer = IssuerUrl::new(self.config.issuer.clone()).map_err(away)?;
            CoreProviderMetadata::discover_async(issuer, &self.calls).await.map_err(away)
        };
        let asked = self.metadata.try_get_with((), ask).await;
        let metadata = asked.map_err(|error| LoginError::Away(error.to_string()))?;
        let methods = metadata.token_endpoint_auth_methods_supported();
        let is_in_body = methods.is_some_and(|known| !known.contains(&CoreClientAuthMethod::ClientSecretBasic));
        let secret = self.secret.as_ref().map(|secret| ClientSecret::new(secret.expose_secret().to_owned()));
        let client = CoreClient::from_provider_metadata(metadata, ClientId::new(self.config.client_id.clone()), secret);
        let client = client.set_redirect_uri(self.redirect.clone());
        Ok(if is_in_body { client.set_auth_type(AuthType::RequestBody) } else { client })
    }

    /// Adds the claims that the provider has only at its UserInfo endpoint, as the specification allows (5.4).
    async fn add_user_info(
        &self,
        client: &Client,
        token: AccessToken,
        subject: SubjectIdentifier,
        claims: &mut Map<String, Value>,
    ) -> Result<(), LoginError> {
        let request = client.user_info(token, Some(subject)).map_err(away)?;
        let answer = request.request_async(&self.calls).await;
        let answer: UserInfoClaims<OtherClaims, CoreGenderClaim> = answer.map_err(away)?;
        if let Ok(Value::Object(more)) = serde_json::to_value(&answer) {
            more.into_iter().for_each(|(name, value)| _ = claims.entry(name).or_insert(value));
        }
        Ok(())
    }

    fn has_what_is_asked(&self, claims: &Map<String, Value>) -> bool {
        let OidcConfig { name_claim, groups_claim, email_domains, .. } = &self.config;
        let asked = [Some(name_claim.as_str()), self.asks_groups().then_some(groups_claim.as_str())];
        let email = !email_domains.is_empty() || name_claim == "email";
        asked
            .into_iter()
            .chain([email.then_some("email"), email.then_some("email_verified")])
            .flatten()
            .all(|name| claims.contains_key(name))
    }

    fn asks_groups(&self) -> bool {
        !self.config.groups.is_empty() && !self.config.groups.iter().any(|group| group == ANYBODY)
    }

    /// Decides by the claims of a verified answer: the name, if the person may come in.
    fn admitted(&self, claims: &Map<String, Value>) -> Result<String, LoginError> {
        let OidcConfig { name_claim, groups_claim, groups, email_domains, .. } = &self.config;
        let is_member = !self.asks_groups()
            || match claims.get(groups_claim) {
                Some(Value::Array(own)) => {
                    own.iter().filter_map(Value::as_str).any(|own| groups.iter().any(|one| one == own))
                }
                Some(Value::String(own)) => groups.contains(own),
                _ => false,
            };
        let is_verified = matches!(claims.get("email_verified"), Some(Value::Bool(true)));
        let email = claims.get("email").and_then(Value::as_str).filter(|_| is_verified);
        let domain = email.and_then(|email| email.rsplit_once('@')).map(|(_, domain)| domain);
        let is_at_home = email_domains.is_empty()
            || domain.is_some_and(|domain| email_domains.iter().any(|own| own.eq_ignore_ascii_case(domain)));
        if !is_member || !is_at_home {
            return Err(LoginError::Stranger);
        }
        let name = if name_claim == "email" { email } else { claims.get(name_claim).and_then(Value::as_str) };
        let missing =
            || LoginError::Nameless(format!("the claim `{name_claim}` is missing, not verified, too long or reserved"));
        name.map(str::trim).filter(|name| is_person(name)).map(str::to_owned).ok_or_else(missing)
    }
}

/// Checks signature, issuer, audience, times and nonce; returns the subject.
fn verified(client: &Client, token: &CoreIdToken, nonce: &Nonce) -> Result<SubjectIdentifier, ClaimsVerificationError> {
    let verifier = client.id_token_verifier().set_allowed_algs(ALGORITHMS);
    Ok(token.claims(&verifier, nonce)?.subject().clone())
}

/// Returns all claims of a verified token.
fn payload(token: &CoreIdToken) -> Result<Map<String, Value>, LoginError> {
    use base64::Engine;
    let text = token.to_string();
    let part = text.split('.').nth(1).unwrap_or_default();
    let bytes = base64::engine::general_purpose::URL_SAFE_NO_PAD.decode(part).unwrap_or_default();
    serde_json::from_slice(&bytes).map_err(|_| LoginError::Untrusted("the claims cannot be read".to_owned()))
}

fn away(error: impl std::error::Error + 'static) -> LoginError {
    LoginError::Away(innermost(&error))
}

async fn in_time<T>(work: impl Future<Output = Result<T, LoginError>>) -> Result<T, LoginError> {
    let late = || LoginError::Away(format!("no answer within {} s", ALL_CALLS.as_secs()));
    tokio::time::timeout(ALL_CALLS, work).await.unwrap_or_else(|_| Err(late()))
}
