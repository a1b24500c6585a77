//! Slack's ways in: what arrives by Socket Mode or by HTTP is taken once, answered in time, and forged by nobody.

mod examined;
mod http;
mod live;
mod manifest;
mod payloads;
mod sockets;
