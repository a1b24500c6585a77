//! `GET /bundles/{name}`: downloads of bundles, with a signed link or access to the pages.

use std::net::SocketAddr;

use axum::Router;
use axum::body::Body;
use axum::extract::{ConnectInfo, Extension, Path, Query, Request, State};
use axum::http::{HeaderValue, Method, StatusCode, header};
use axum::middleware::{self, Next};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use serde::Deserialize;
use tokio_util::io::ReaderStream;

use super::auth::Visitor;
use super::guard;
use super::state::Shared;
use bundle::{Name, Refused};
use knowledge::clock;
use store::{AuditEntry, AuditResult, DOWNLOAD, StoreError};

/// Bytes per read from the disk.
const PIECE: usize = 64 << 10;

/// Builds the route of downloads.
pub(super) fn routes(shared: &Shared) -> Router<Shared> {
    Router::new()
        .route("/bundles/{name}", get(download))
        .route_layer(middleware::from_fn_with_state(shared.clone(), gate))
}

/// The parameters of a signed link.
#[derive(Debug, Deserialize)]
struct Signed {
    expires: Option<String>,
    signature: Option<String>,
}

/// Admits requests with a valid link signature; without a signature the rules of the pages apply.
async fn gate(
    State(shared): State<Shared>,
    Path(name): Path<String>,
    Query(signed): Query<Signed>,
    from: ConnectInfo<SocketAddr>,
    mut request: Request,
    next: Next,
) -> Response {
    let Some(signature) = signed.signature else {
        return guard::admit_visitor(State((shared, guard::Reader::Person)), from, request, next).await;
    };
    let expires = signed.expires.unwrap_or_default();
    let checked = match Name::read(&name) {
        Some(name) => shared.bundles.links.check(&name, &expires, &signature, clock::now()),
        None => Err(Refused::Forged),
    };
    match checked {
        Ok(()) => {
            request.extensions_mut().insert(Visitor::unknown("link"));
            next.run(request).await
        }
        Err(Refused::Forged) => {
            shared.service.metrics.download("forged");
            let text = "This link does not open a bundle: it is incomplete, or another llm-diagnose signed it. Replicas \
                        need the same `bundle.link_key_file`.\n";
            plain(StatusCode::FORBIDDEN, text.to_owned())
        }
        Err(Refused::Expired(until)) => {
            shared.service.metrics.download("expired");
            let text = format!(
                "This link was good until {}. Ask for a new one: `/llm-diagnose bundle` in Slack, or open \
                 /bundles/{name} with the credentials of the pages.\n",
                until.strftime("%Y-%m-%d %H:%M UTC")
            );
            plain(StatusCode::GONE, text)
        }
    }
}

/// Streams the file after an entry in the audit log. 404 for a name that no bundle can have, 410 for a bundle that is
/// not here, 503 if the audit log cannot be written.
async fn download(
    State(shared): State<Shared>,
    Path(name): Path<String>,
    ConnectInfo(from): ConnectInfo<SocketAddr>,
    Extension(Visitor { who, .. }): Extension<Visitor>,
    method: Method,
) -> Response {
    let metrics = &shared.service.metrics;
    let Some(name) = Name::read(&name) else {
        metrics.download("unknown");
        let text = "There is no such bundle: they are called llm-diagnose-<incident>-<time>.zip.\n";
        return plain(StatusCode::NOT_FOUND, text.to_owned());
    };
    let directory = &shared.bundles.directory;
    let opened = async {
        let file = tokio::fs::File::open(directory.path(&name)).await?;
        let length = file.metadata().await?.len();
        Ok::<_, std::io::Error>((file, length))
    };
    match opened.await {
        Ok((file, length)) => {
            // A HEAD request does not receive the file.
            if method != Method::HEAD
                && let Err(error) = audit_download(&shared, &name, &who, from).await
            {
                tracing::error!(%error, bundle = %name, "cannot write into the audit log: a bundle is not handed out");
                metrics.download("failed");
                let text =
                    "The bundle is not handed out, because the store cannot write down who gets it: try again.\n";
                return plain(StatusCode::SERVICE_UNAVAILABLE, text.to_owned());
            }
            let mut response = Body::from_stream(ReaderStream::with_capacity(file, PIECE)).into_response();
            let headers = response.headers_mut();
            headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/zip"));
            headers.insert(header::CONTENT_LENGTH, length.into());
            headers.insert(header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
            headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("private, no-store"));
            // A bundle's name contains only characters that a header accepts.
            if let Ok(attachment) = HeaderValue::try_from(format!("attachment; filename=\"{name}\"")) {
                headers.insert(header::CONTENT_DISPOSITION, attachment);
            }
            response
        }
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            metrics.download("gone");
            let text = format!(
                "The bundle {name} is not here. Bundles are kept for {} and while all together are small enough; and \
                 with several replicas of llm-diagnose one stands on the disk of the replica that made it. Have it made \
                 again: `/llm-diagnose bundle {}`.\n",
                clock::human_duration(directory.config.keep),
                name.of
            );
            plain(StatusCode::GONE, text)
        }
        Err(error) => {
            tracing::error!(%error, bundle = %name, "cannot read a bundle");
            metrics.download("failed");
            plain(
                StatusCode::INTERNAL_SERVER_ERROR,
                "The bundle cannot be read: see the log of llm-diagnose.\n".to_owned(),
            )
        }
    }
}

/// Writes the download to the audit log, because a bundle contains logs.
async fn audit_download(shared: &Shared, name: &Name, who: &str, from: SocketAddr) -> Result<(), StoreError> {
    let attempt = AuditEntry::new_attempt(who, "http", DOWNLOAD, Some(&name.of), shared.service.store.now());
    let detail = format!("from {}", from.ip().to_canonical());
    let entry = AuditEntry { target: name.to_string(), result: AuditResult::Done, detail, ..attempt };
    shared.service.store.audit(&entry).await?;
    shared.service.metrics.download("done");
    tracing::info!(user = who, bundle = %name, "somebody downloads a bundle");
    Ok(())
}

fn plain(status: StatusCode, text: String) -> Response {
    (status, [(header::X_CONTENT_TYPE_OPTIONS, "nosniff")], text).into_response()
}
