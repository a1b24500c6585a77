//! The pools of every Prometheus, and those that a typed name may mean.

use std::sync::Arc;
use std::time::Instant;

use futures::future::join_all;
use jiff::Timestamp;

use detect::{FleetPool, PoolMatch, find_pools, typed_label};
use diagnose::health::places;
use findings::Scope;
use knowledge::playbook::{Library, nearest};
use prom::{PromError, Prometheus};

/// A pool or a pod that a typed name may mean.
#[derive(Debug, Clone)]
pub struct TargetMatch {
    /// The index of its Prometheus.
    pub source: usize,
    /// The pool.
    pub place: FleetPool,
    /// The pod, if one was named.
    pub pod: Option<String>,
}

impl TargetMatch {
    /// Returns the name of the pool or pod.
    pub fn name(&self) -> String {
        self.pod.as_deref().map_or_else(|| self.place.name(), |pod| self.place.pod_name(pod))
    }

    /// Returns the scope that selects it.
    pub fn scope(&self) -> Scope {
        self.place.scope(self.pod.as_deref())
    }
}

/// The reason why a typed name selects nothing.
#[derive(Debug)]
pub enum NoTarget {
    /// It is a label that selects no pools, with what was expected.
    Label(String),
    /// Nothing is called so; with the names that there are, the nearest first.
    Name {
        /// The typed name.
        typed: String,
        /// The names that there are.
        nearest: Vec<String>,
    },
}

/// The pools that several Prometheus servers have.
#[derive(Debug)]
pub struct PoolList {
    /// The index of the Prometheus, and the pool.
    pub places: Vec<(usize, FleetPool)>,
    /// The names of the servers that may have more, each with its error.
    pub unanswered: Vec<(String, Arc<PromError>)>,
}

impl PoolList {
    /// Asks every Prometheus for its pools.
    pub async fn of(library: &Library, clients: &[&Prometheus], at: Timestamp, until: Instant) -> Self {
        let asked = clients.iter().map(|prometheus| places(library, prometheus, at, until));
        let mut list = Self { places: Vec::new(), unanswered: Vec::new() };
        for (i, (answer, prometheus)) in join_all(asked).await.into_iter().zip(clients).enumerate() {
            let error = match answer {
                Ok((places, incomplete)) => {
                    list.places.extend(places.into_iter().map(|place| (i, place)));
                    incomplete.map(|said| Arc::new(PromError::Partial(said)))
                }
                Err(error) => Some(error),
            };
            list.unanswered.extend(error.map(|error| (prometheus.name.clone(), error)));
        }
        list
    }

    /// Returns true if pools may be in a part of the data that is missing.
    pub fn is_partial(&self) -> bool {
        self.unanswered.iter().any(|(_, error)| matches!(**error, PromError::Partial(_)))
    }

    /// Returns the targets that a typed name may mean, at least one.
    pub fn find(&self, typed: &str) -> Result<Vec<TargetMatch>, NoTarget> {
        let pools: Vec<FleetPool> = self.places.iter().map(|(_, place)| place.clone()).collect();
        let matches = find_pools(&pools, typed);
        if matches.is_empty() {
            let typed = typed_label(typed).map_err(NoTarget::Label)?.map_or(typed, |(_, value)| value);
            let names: Vec<String> = pools.iter().map(FleetPool::name).filter(|name| !name.is_empty()).collect();
            let nearest = nearest(typed, names.iter().map(String::as_str)).into_iter().map(str::to_owned).collect();
            return Err(NoTarget::Name { typed: typed.to_owned(), nearest });
        }
        let found = matches.into_iter().map(|PoolMatch { place, pod }| {
            let (source, place) = self.places[place].clone();
            TargetMatch { source, place, pod }
        });
        Ok(found.collect())
    }
}
