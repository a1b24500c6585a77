//! An OpenID Connect provider that answers as a test wants: the code that it hands out is the whole answer.

use std::collections::HashMap;

use axum::extract::{Form, State};
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Json, Response};
use axum::routing::{get, post};
use base64::Engine;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use knowledge::clock;
use ring::digest::{SHA256, digest};
use ring::hmac;
use ring::rand::SystemRandom;
use ring::signature::{ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, KeyPair};
use serde_json::{Value, json};
use tokio::net::TcpListener;
use url::Url;

use super::parameter;

pub(super) const CLIENT: &str = "llm-diagnose";
pub(super) const SECRET: &str = "a-secret-of-the-client-0123456789";

/// Two keys that the provider publishes, one after the other, and one that it never does.
struct Keys([EcdsaKeyPair; 3]);

pub(super) struct Liar {
    pub(super) issuer: String,
    keys: Keys,
}

/// What the handlers know.
#[derive(Clone)]
struct Published {
    issuer: String,
    keys: [Value; 2],
    /// How often the keys were asked for.
    asked: std::sync::Arc<std::sync::atomic::AtomicUsize>,
}

fn key() -> EcdsaKeyPair {
    let (kind, random) = (&ECDSA_P256_SHA256_FIXED_SIGNING, SystemRandom::new());
    let made = EcdsaKeyPair::generate_pkcs8(kind, &random).unwrap();
    EcdsaKeyPair::from_pkcs8(kind, made.as_ref(), &random).unwrap()
}

fn encoded(bytes: impl AsRef<[u8]>) -> String {
    URL_SAFE_NO_PAD.encode(bytes)
}

impl Liar {
    pub(super) async fn start() -> Self {
        let keys = Keys([key(), key(), key()]);
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let issuer = format!("http://{}", listener.local_addr().unwrap());
        let public = |at: usize| {
            let point = keys.0[at].public_key().as_ref();
            json!({ "kty": "EC", "use": "sig", "crv": "P-256", "alg": "ES256", "kid": at.to_string(),
                    "x": encoded(&point[1..33]), "y": encoded(&point[33..]) })
        };
        let published = Published { issuer: issuer.clone(), keys: [public(0), public(1)], asked: Default::default() };
        let router = axum::Router::new()
            .route("/.well-known/openid-configuration", get(discovery))
            .route("/keys", get(published_keys))
            .route("/token", post(token))
            .route("/userinfo", get(user_info))
            .with_state(published);
        tokio::spawn(async move { axum::serve(listener, router).await });
        Self { issuer, keys }
    }

    /// The address to which a person is sent back from `away`, with what the case makes of the answer.
    pub(super) fn answers(&self, case: &str, away: &Url) -> String {
        let now = clock::now().as_second();
        let mut claims = json!({
            "iss": self.issuer, "aud": CLIENT, "sub": "anna", "iat": now, "exp": now + 60,
            "nonce": parameter(away, "nonce"), "email": "anna@example.org", "email_verified": true,
            "groups": ["staff", "on-call"],
        });
        let mut change = |name: &str, value: Value| claims[name] = value;
        match case {
            "another nonce" => change("nonce", "AAAA".into()),
            "expired" => change("exp", (now - 1).into()),
            "another audience" => change("aud", "somebody".into()),
            "a second audience" => change("aud", json!([CLIENT, "somebody"])),
            "another issuer" => change("iss", "https://id.example.org".into()),
            "address not verified" => change("email_verified", false.into()),
            "name of a program" => change("email", "program:token".into()),
            "groups at user info" | "user info of another person" => {
                claims.as_object_mut().unwrap().remove("groups");
            }
            _ => {}
        }
        let access = if case == "user info of another person" { "eve" } else { "anna" };
        let token = self.signed(case, &claims);
        let code = format!("{}~{access}~{token}", parameter(away, "code_challenge"));
        let mut back: Url = parameter(away, "redirect_uri").parse().unwrap();
        back.query_pairs_mut().append_pair("state", &parameter(away, "state")).append_pair("code", &code);
        back.into()
    }

    fn signed(&self, case: &str, claims: &Value) -> String {
        let (algorithm, id, signer) = match case {
            "unsigned" => ("none", 0, None),
            "signed with the secret" => ("HS256", 0, None),
            "signed by another key" => ("ES256", 0, Some(&self.keys.0[2])),
            "new key" => ("ES256", 1, Some(&self.keys.0[1])),
            _ => ("ES256", 0, Some(&self.keys.0[0])),
        };
        let head = json!({ "alg": algorithm, "kid": id.to_string(), "typ": "JWT" });
        let text = format!("{}.{}", encoded(head.to_string()), encoded(claims.to_string()));
        let secret = hmac::Key::new(hmac::HMAC_SHA256, SECRET.as_bytes());
        let signature = match (signer, algorithm) {
            (Some(key), _) => encoded(key.sign(&SystemRandom::new(), text.as_bytes()).unwrap()),
            (None, "HS256") => encoded(hmac::sign(&secret, text.as_bytes())),
            _ => String::new(),
        };
        format!("{text}.{signature}")
    }
}

async fn discovery(State(published): State<Published>) -> Json<Value> {
    let issuer = &published.issuer;
    Json(json!({
        "issuer": issuer, "authorization_endpoint": format!("{issuer}/authorize"),
        "token_endpoint": format!("{issuer}/token"), "userinfo_endpoint": format!("{issuer}/userinfo"),
        "jwks_uri": format!("{issuer}/keys"), "response_types_supported": ["code"],
        "subject_types_supported": ["public"], "id_token_signing_alg_values_supported": ["ES256", "HS256", "none"],
    }))
}

/// The second key is published from the second question on.
async fn published_keys(State(published): State<Published>) -> Json<Value> {
    let before = published.asked.fetch_add(1, std::sync::atomic::Ordering::SeqCst);
    Json(json!({ "keys": published.keys[..if before == 0 { 1 } else { 2 }] }))
}

/// Takes a code with the verifier of its challenge, from the client with its secret.
async fn token(headers: HeaderMap, Form(form): Form<HashMap<String, String>>) -> Response {
    let expected = format!("Basic {}", STANDARD.encode(format!("{CLIENT}:{SECRET}")));
    let parts: Vec<&str> = form["code"].splitn(3, '~').collect();
    let challenge = encoded(digest(&SHA256, form["code_verifier"].as_bytes()));
    if headers["authorization"] != expected || parts[0] != challenge {
        return (StatusCode::BAD_REQUEST, Json(json!({ "error": "invalid_grant" }))).into_response();
    }
    Json(json!({ "access_token": parts[1], "token_type": "Bearer", "id_token": parts[2] })).into_response()
}

async fn user_info(headers: HeaderMap) -> Json<Value> {
    let token = headers["authorization"].to_str().unwrap().trim_start_matches("Bearer ").to_owned();
    Json(json!({ "sub": token, "groups": ["on-call"] }))
}
