//! A query of a plan, with its purpose.

use jiff::Timestamp;

/// The purpose of a query.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum QueryPurpose {
    /// The replicas' values now.
    Replicas,
    /// The pool's value now.
    Pool,
    /// The replicas' values in the past, to be reduced to the pool's.
    PastReplicas,
    /// The pool's value in the past.
    PastPool,
    /// The replicas' values in the window before the past's, to be reduced to the pool's.
    BeforeReplicas,
    /// The pool's value in the window before the past's.
    BeforePool,
    /// The histograms that Prometheus stores as native ones.
    Native,
    /// The nodes of the pool's pods.
    Nodes,
}

impl QueryPurpose {
    /// Returns true if the answer has rows for each replica, not one for the pool.
    pub fn is_by_replica(self) -> bool {
        match self {
            Self::Replicas | Self::PastReplicas | Self::BeforeReplicas | Self::Nodes => true,
            Self::Pool | Self::PastPool | Self::BeforePool | Self::Native => false,
        }
    }
}

/// A query with its purpose.
#[derive(Debug, Clone, PartialEq)]
pub struct PlannedQuery {
    /// The signal, or `""` for a query about the pool itself.
    pub signal: String,
    /// The engine that answers.
    pub engine: String,
    /// The purpose of the query.
    pub purpose: QueryPurpose,
    /// The PromQL.
    pub query: String,
    /// The evaluation time.
    pub at: Timestamp,
}

impl PlannedQuery {
    /// Returns true if it queries the pool's replicas.
    pub fn is_for_replicas(&self) -> bool {
        self.signal.is_empty() && self.purpose == QueryPurpose::Replicas
    }

    /// Builds a query about the pool itself.
    pub fn about_pool(engine: &str, purpose: QueryPurpose, query: String, at: Timestamp) -> Self {
        Self { signal: String::new(), engine: engine.to_owned(), purpose, query, at }
    }
}
