//! HTTP answers within limits, and addresses and errors that name no secret.

mod address;
mod body;

pub use address::{address, innermost, unreachable_reason};
pub use body::{ResponseBodyError, read_beginning, read_body};
