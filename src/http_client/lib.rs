//! HTTP clients, answers within limits, and addresses and errors that name no secret.

mod address;
mod body;

use std::time::Duration;

pub use address::{address, innermost, split_address, unreachable_reason};
pub use body::{ResponseBodyError, media_type, read_beginning, read_body};

/// Begins to build a client with a limit for connecting. It follows no redirect, which would carry keys elsewhere.
pub fn builder(connect: Duration) -> reqwest::ClientBuilder {
    reqwest::Client::builder()
        .connect_timeout(connect)
        .redirect(reqwest::redirect::Policy::none())
        .user_agent(concat!("llm-diagnose/", env!("CARGO_PKG_VERSION")))
}
