//! Bodies of HTTP responses, read within a limit: compressed text may unpack to any size.

use reqwest::Response;
use reqwest::header::{CONTENT_TYPE, HeaderMap};

/// The reason why a body was not read.
#[derive(Debug, thiserror::Error)]
pub enum ResponseBodyError {
    /// The body is larger than the limit, in bytes.
    #[error("the answer is larger than {0} bytes")]
    TooLarge(usize),
    /// The connection failed.
    #[error(transparent)]
    Broken(#[from] reqwest::Error),
}

/// Returns the media type of a body, in lower case; empty if the headers name none.
pub fn media_type(headers: &HeaderMap) -> String {
    let content_type = headers.get(CONTENT_TYPE).and_then(|value| value.to_str().ok());
    content_type.and_then(|text| text.split(';').next()).unwrap_or_default().trim().to_ascii_lowercase()
}

/// Reads a whole body of at most `most` bytes, after decompression.
///
/// # Errors
/// If it is larger, or the connection fails.
pub async fn read_body(mut response: Response, most: usize) -> Result<Vec<u8>, ResponseBodyError> {
    let mut body = Vec::new();
    while let Some(chunk) = response.chunk().await? {
        if body.len() + chunk.len() > most {
            return Err(ResponseBodyError::TooLarge(most));
        }
        body.extend_from_slice(&chunk);
    }
    Ok(body)
}

/// Reads the first `most` bytes of a body; fewer if it ends or the connection fails before.
pub async fn read_beginning(mut response: Response, most: usize) -> Vec<u8> {
    let mut body = Vec::new();
    while body.len() < most {
        let Ok(Some(chunk)) = response.chunk().await else { break };
        body.extend_from_slice(&chunk[..chunk.len().min(most - body.len())]);
    }
    body
}
