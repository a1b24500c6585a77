//! GET requests to the API server: each with a deadline and a bounded answer, few concurrently.

use std::pin::pin;
use std::time::{Duration, Instant};

use futures::AsyncReadExt;
use kube::api::{GetParams, ListParams, LogParams};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use tokio::sync::Semaphore;

use super::kinds::{ResourceKind, Verb};
use http_client::innermost;
use knowledge::gap::GapReason;

/// Timeout of one call; a server that hangs in one call may still answer others.
const CALL_WITHIN: Duration = Duration::from_secs(10);
/// Maximum size of a JSON answer, in bytes; a page of pods has about 2 MB.
const ANSWER_BYTES: usize = 8 << 20;
/// Maximum length of a server's message that is shown, in characters.
const WORDS_CHARS: usize = 300;

/// The reason why an answer is missing; completes a sentence that begins with a name: "pods of namespace llm: …".
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(super) enum Failure {
    #[error(
        "may not {what}: give {who} that permission, see config/kubernetes/rbac.yaml, for logs config/kubernetes/logs.yaml"
    )]
    Forbidden { what: String, who: String },
    #[error("the API server does not accept our credentials: renew the token or the kubeconfig ({0})")]
    Unauthorized(String),
    #[error("does not exist")]
    Absent,
    #[error("no answer in time")]
    Late,
    #[error("the answer has more than {} MiB", ANSWER_BYTES >> 20)]
    TooLarge,
    #[error("the API server answered HTTP {0}: {1}")]
    Status(u16, String),
    #[error("the API server cannot be reached: {0}")]
    Unreachable(String),
    #[error("the answer is not what the API promises: {0}")]
    Garbage(String),
}

impl Failure {
    /// Returns true if further requests would fail too.
    pub(super) fn is_final(&self) -> bool {
        matches!(self, Self::Unreachable(_) | Self::Unauthorized(_))
    }

    fn of(error: &kube::Error, what: &str, server: &str) -> Self {
        match error {
            kube::Error::Api(status) => match status.code {
                401 => Self::Unauthorized(words(&status.message)),
                403 => Self::Forbidden { what: what.to_owned(), who: who(&status.message) },
                404 => Self::Absent,
                code => Self::Status(code, words(&status.message)),
            },
            kube::Error::Auth(error) => Self::Unauthorized(words(&error.to_string())),
            other => Self::unreachable(other, server),
        }
    }

    fn unreachable(error: &(dyn std::error::Error + 'static), server: &str) -> Self {
        Self::Unreachable(format!("{} ({server})", words(&innermost(error))))
    }
}

impl From<&Failure> for GapReason {
    fn from(failure: &Failure) -> Self {
        match failure {
            Failure::Absent | Failure::TooLarge => Self::Absent(failure.to_string()),
            Failure::Forbidden { .. }
            | Failure::Unauthorized(_)
            | Failure::Late
            | Failure::Status(..)
            | Failure::Unreachable(_)
            | Failure::Garbage(_) => Self::failed(failure),
        }
    }
}

/// Sanitises and shortens a message of the server.
pub(super) fn words(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { ' ' } else { c }).take(WORDS_CHARS).collect::<String>().trim().to_owned()
}

/// Extracts the refused user: `… is forbidden: User "system:serviceaccount:monitoring:llm-diagnose" cannot list …`.
fn who(message: &str) -> String {
    let user = message.split_once("User \"").and_then(|(_, rest)| rest.split_once('"'));
    match user {
        Some((user, _)) => format!("`{}`", words(user)),
        None => "the service account".to_owned(),
    }
}

/// A GET request.
#[derive(Debug)]
pub(super) enum ApiQuery<'a> {
    /// Lists the collection at the path.
    List(&'a ListParams),
    /// Reads the object of this name below the path.
    Get(&'a str),
    /// Reads the log of the pod of this name below the path.
    Log(&'a str, &'a LogParams),
}

/// The result of a list request.
#[derive(Debug)]
pub(super) struct Listed<T> {
    /// The items; if a later page failed, those of the pages before it.
    pub(super) items: Vec<T>,
    /// The number of items that could not be parsed.
    pub(super) unreadable: usize,
    /// True if there are more items than the limit.
    pub(super) more: bool,
    /// The failure that ended the list early; `None` if it ended regularly.
    pub(super) failure: Option<Failure>,
}

#[derive(Deserialize)]
struct Page {
    #[serde(default)]
    metadata: PageMeta,
    items: Vec<Value>,
}

#[derive(Default, Deserialize)]
struct PageMeta {
    #[serde(rename = "continue")]
    next: Option<String>,
}

/// A client with a deadline for all its requests.
#[derive(Clone, Copy)]
pub(super) struct ApiSession<'a> {
    pub(super) client: &'a kube::Client,
    /// The address of the API server, without secrets.
    pub(super) server: &'a str,
    /// Slots for concurrent calls, shared by all users of the cluster's client.
    pub(super) slots: &'a Semaphore,
    pub(super) deadline: Instant,
}

impl ApiSession<'_> {
    /// Passes the body of an answer chunk by chunk to `take`; the chunks before a failure were already passed.
    pub(super) async fn stream(
        &self,
        path: &str,
        query: ApiQuery<'_>,
        what: &str,
        mut take: impl FnMut(&[u8]) -> Result<(), Failure>,
    ) -> Result<(), Failure> {
        let late = |_| Failure::Late;
        let slot = tokio::time::timeout_at(self.deadline.into(), self.slots.acquire()).await.map_err(late)?;
        let _slot = slot.map_err(|_| Failure::Late)?;
        let until = self.deadline.min(Instant::now() + CALL_WITHIN);
        let request = kube::core::Request::new(path);
        let request = match query {
            ApiQuery::List(params) => request.list(params),
            ApiQuery::Get(name) => request.get(name, &GetParams::default()),
            ApiQuery::Log(name, params) => request.logs(name, params),
        };
        let request = request.map_err(|error| Failure::Garbage(error.to_string()))?;
        let read = async {
            let body =
                self.client.request_stream(request).await.map_err(|error| Failure::of(&error, what, self.server))?;
            let mut body = pin!(body);
            let mut piece = vec![0; 16 << 10];
            loop {
                match body.read(&mut piece).await {
                    Ok(0) => return Ok(()),
                    Ok(n) => take(&piece[..n])?,
                    Err(error) => return Err(Failure::unreachable(&error, self.server)),
                }
            }
        };
        tokio::time::timeout_at(until.into(), read).await.map_err(late)?
    }

    /// Reads an answer of JSON.
    pub(super) async fn json<T: DeserializeOwned>(
        &self,
        path: &str,
        query: ApiQuery<'_>,
        what: &str,
    ) -> Result<T, Failure> {
        let mut body = Vec::new();
        let take = |piece: &[u8]| match body.len() + piece.len() > ANSWER_BYTES {
            true => Err(Failure::TooLarge),
            false => {
                body.extend_from_slice(piece);
                Ok(())
            }
        };
        self.stream(path, query, what, take).await?;
        // By way of a value: a pod has hundreds of fields, and a second reader of them would be most of this crate.
        let garbage = |error: serde_json::Error| Failure::Garbage(words(&error.to_string()));
        serde_json::from_value(serde_json::from_slice(&body).map_err(garbage)?).map_err(garbage)
    }

    /// Reads an object by its name.
    pub(super) async fn get<T: DeserializeOwned>(
        &self,
        kind: &ResourceKind,
        version: &str,
        namespace: Option<&str>,
        name: &str,
    ) -> Result<T, Failure> {
        let what = format!("{} {}", Verb::Get.name(), kind.name());
        self.json(&kind.path(version, namespace), ApiQuery::Get(name), &what).await
    }

    /// Lists a collection page by page, at most `most` items; `read` converts an item, or returns `None`.
    pub(super) async fn list<T>(
        &self,
        kind: &ResourceKind,
        version: &str,
        namespace: Option<&str>,
        mut params: ListParams,
        most: usize,
        mut read: impl FnMut(Value) -> Option<T>,
    ) -> Listed<T> {
        let (path, what) = (kind.path(version, namespace), format!("{} {}", Verb::List.name(), kind.name()));
        let mut listed = Listed { items: Vec::new(), unreadable: 0, more: false, failure: None };
        loop {
            let page: Page = match self.json(&path, ApiQuery::List(&params), &what).await {
                Ok(page) => page,
                Err(failure) => {
                    listed.failure = Some(failure);
                    return listed;
                }
            };
            for item in page.items {
                match read(item) {
                    Some(item) => listed.items.push(item),
                    None => listed.unreadable += 1,
                }
            }
            // A server that repeats its `continue` token would cause an endless loop.
            let next =
                page.metadata.next.filter(|next| !next.is_empty() && params.continue_token.as_ref() != Some(next));
            listed.more = next.is_some() || listed.items.len() > most;
            listed.items.truncate(most);
            if next.is_none() || listed.items.len() + listed.unreadable >= most {
                return listed;
            }
            params.continue_token = next;
        }
    }
}
