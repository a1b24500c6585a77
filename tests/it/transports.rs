//! Slack's ways in: what arrives by Socket Mode or by HTTP is taken once, answered in time, and forged by nobody.

mod http;
mod manifest;
mod payloads;
