//! A store that fails while alerts come: a full disk, a network that is silent, a failover, rows that nobody can read; and a
//! Prometheus that many entries share.

mod disk;
mod network;
mod prometheus;
mod rows;
