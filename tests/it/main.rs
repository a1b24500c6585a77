//! The integration tests: data ─▶ verdicts, and the product as a process between real neighbours.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on should stop where it is")]

mod acts;
mod admission;
mod adverse;
mod capacity;
mod chains;
mod cli;
mod commands;
mod dashboard;
mod delivery;
mod docs;
mod doctor;
mod exporters_direct;
mod generated;
mod harness;
mod health;
mod logs;
mod night;
mod pagers;
mod pages;
mod picture;
mod playbooks;
mod queue;
mod replicas;
mod running;
mod signals;
mod stores;
mod storms;
mod tables;
mod tidy;
mod transports;
mod visits;
mod webhook;
mod whole_way;
mod words;
