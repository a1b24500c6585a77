//! The wiring of the service: what is made, checked, started, reloaded and stopped; and the examinations of a setup.

#![recursion_limit = "256"]

mod bundles;
pub mod doctor;
mod prepare;
pub mod reload;
mod run;
pub mod selftest;
pub mod stop_signals;
