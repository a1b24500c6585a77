//! What the tests, the benchmarks and the demo run against.

pub mod benchmark;
pub mod calibration;
pub mod demo;
pub mod kubernetes;
pub mod page;
pub mod pager;
pub mod sim;
pub mod slack;
pub mod sources;
pub mod stack;
