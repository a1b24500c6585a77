//! The pools that can be asked about, of every Prometheus.

use std::time::{Duration, Instant};

use futures::future::join_all;
use jiff::Timestamp;

use super::Desk;
use diagnose::FleetPool;
use diagnose::health::places;
use sources::prom::{Prometheus, missing_part};

/// The pools in Prometheus, with the errors of the servers that did not answer.
pub(super) struct PoolList {
    /// The index of the Prometheus, and the pool.
    pub(super) places: Vec<(usize, FleetPool)>,
    /// The errors, and what is missing, as sentences.
    pub(super) problems: Vec<String>,
    /// True if pools may be in a part of the data that is missing.
    pub(super) incomplete: bool,
}

/// Lists the pools of every Prometheus.
pub(super) async fn list_pools(desk: &Desk, clients: &[Prometheus], at: Timestamp, within: Duration) -> PoolList {
    let until = Instant::now() + within;
    let answers = clients.iter().map(|prometheus| places(&desk.library, prometheus, at, until));
    let mut list = PoolList { places: Vec::new(), problems: Vec::new(), incomplete: false };
    for (i, (answer, prometheus)) in join_all(answers).await.into_iter().zip(clients).enumerate() {
        match answer {
            Ok((places, incomplete)) => {
                list.places.extend(places.into_iter().map(|place| (i, place)));
                list.incomplete |= incomplete.is_some();
                let missing = incomplete.map(|said| format!("{}: {}", prometheus.name, missing_part(&said)));
                list.problems.extend(missing);
            }
            Err(error) => list.problems.push(format!("{}: {error}", prometheus.name)),
        }
    }
    list
}
