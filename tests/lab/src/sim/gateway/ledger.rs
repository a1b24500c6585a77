//! What a gateway counts about the requests that passed it.

use std::collections::BTreeMap;

use super::super::stats::Histogram;
use super::spec::GatewayKind;

/// How a request, or one try of it, ended at the gateway.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Outcome {
    /// Answered in full.
    Success,
    /// The client went away.
    ClientGone,
    /// Refused with 401 or 403.
    Unauthorized(u16),
    /// The key has no requests left in this minute.
    KeyLimited,
    /// Every deployment is left alone for a while.
    AllCooling,
    /// The backend refused with 429.
    BackendLimited,
    /// No such model.
    UnknownModel,
    /// The model has no workers any more, so that its route is gone: answered, and counted nowhere.
    Vanished,
    /// Nothing listened at the backend.
    ConnectFailed,
    /// The backend died in the middle.
    Dropped,
    /// The backend said nothing for too long.
    TimedOut,
    /// The backend answered with a status of 400 to 499.
    BackendRejected,
    /// The backend answered with a status of 500 to 599.
    BackendFailed,
    /// The gateway itself is at its limit.
    Overloaded,
    /// No backend is known that could take it.
    NoBackends,
}

/// What outcomes are counted by.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Row {
    /// Index of the fleet, which is the model.
    pub fleet: usize,
    /// Index of the key.
    pub key: usize,
    /// Index of the replica it was sent to last, `None` if to none.
    pub replica: Option<usize>,
    /// How it ended.
    pub outcome: Outcome,
}

/// Counters and histograms of one gateway process.
#[derive(Debug)]
pub struct Ledger {
    bounds: Bounds,
    /// Requests accepted, per fleet.
    pub started: BTreeMap<usize, u64>,
    /// Requests as their clients saw them end.
    pub ended: BTreeMap<Row, u64>,
    /// Tries at a backend.
    pub tries: BTreeMap<Row, u64>,
    /// Times a replica was left alone, with the outcome that led to it.
    pub cooled: BTreeMap<(usize, usize, Outcome), u64>,
    /// Requests that succeeded, per fleet, key and replica.
    pub served: BTreeMap<(usize, usize, usize), Meter>,
    /// Requests sent to a backend, per fleet.
    pub sent: BTreeMap<usize, Sent>,
}

/// Measurements of requests that succeeded.
#[derive(Debug, Clone)]
pub struct Meter {
    /// Seconds of waiting for the gateway itself.
    pub queue: Histogram,
    /// Seconds of the gateway's own work, calls to others included.
    pub overhead: Histogram,
    /// Seconds from arrival to the last token.
    pub total: Histogram,
    /// Seconds from sending to the last token.
    pub backend: Histogram,
    /// Seconds from sending to the first token.
    pub ttft: Histogram,
    /// Seconds per token after the first, per request.
    pub per_token: Histogram,
    /// Seconds between tokens, per token.
    pub itl: Histogram,
    /// Prompt tokens per request.
    pub input: Histogram,
    /// Answer tokens per request.
    pub output: Histogram,
    /// Prompt tokens found in the engine's cache, per request.
    pub cached: Histogram,
}

/// Measurements of all requests that were sent on.
#[derive(Debug, Clone)]
pub struct Sent {
    /// Seconds from arrival to being sent.
    pub before: Histogram,
    /// Seconds of the gateway's own work.
    pub work: Histogram,
    /// Seconds of calls to something else.
    pub callout: Histogram,
    /// Seconds from arrival to the first token, whatever came after it.
    pub ttft: Histogram,
    /// Seconds from arrival to the end, however it ended.
    pub duration: Histogram,
    /// Prompt tokens per request.
    pub input: Histogram,
}

/// Upper bounds of a gateway's histograms.
#[derive(Debug, Clone, Copy)]
struct Bounds {
    short: &'static [f64],
    long: &'static [f64],
    ttft: &'static [f64],
    itl: &'static [f64],
    input: &'static [f64],
    output: &'static [f64],
}

static LITELLM: [f64; 17] =
    [0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.0, 5.0, 10.0, 30.0, 60.0, 120.0, 300.0, 420.0, 600.0];
static LITELLM_PER_TOKEN: [f64; 14] = [0.005, 0.01, 0.025, 0.05, 0.075, 0.1, 0.25, 0.5, 0.75, 1.0, 2.5, 5.0, 7.5, 10.0];
static DYNAMO_DURATION: [f64; 10] = [0.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0, 130.0, 260.0, 510.0];
static DYNAMO_TTFT: [f64; 18] =
    [0.0, 0.0022, 0.0047, 0.01, 0.022, 0.047, 0.1, 0.22, 0.47, 1.0, 2.2, 4.7, 10.0, 22.0, 48.0, 100.0, 220.0, 480.0];
static DYNAMO_ITL: [f64; 20] = [
    0.0, 0.0018, 0.0033, 0.0059, 0.011, 0.02, 0.035, 0.064, 0.12, 0.21, 0.38, 0.69, 1.2, 2.3, 4.1, 7.4, 13.0, 24.0,
    44.0, 80.0,
];
static DYNAMO_STAGE: [f64; 11] = [0.0001, 0.0005, 0.001, 0.005, 0.01, 0.05, 0.1, 0.5, 1.0, 2.5, 5.0];
static DYNAMO_INPUT: [f64; 12] =
    [0.0, 100.0, 210.0, 430.0, 870.0, 1800.0, 3600.0, 7400.0, 15000.0, 31000.0, 63000.0, 130000.0];
static DYNAMO_OUTPUT: [f64; 10] = [0.0, 100.0, 210.0, 430.0, 880.0, 1800.0, 3700.0, 7600.0, 16000.0, 32000.0];
static EPP_DURATION: [f64; 24] = [
    0.005, 0.025, 0.05, 0.1, 0.2, 0.4, 0.6, 0.8, 1.0, 1.25, 1.5, 2.0, 3.0, 4.0, 5.0, 6.0, 8.0, 10.0, 15.0, 20.0, 30.0,
    60.0, 600.0, 3600.0,
];
static EPP_SHORT: [f64; 9] = [0.0001, 0.0002, 0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.1];
static EPP_PER_TOKEN: [f64; 10] = [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0];
static EPP_TOKENS: [f64; 13] =
    [1.0, 8.0, 16.0, 32.0, 64.0, 128.0, 256.0, 512.0, 1024.0, 2048.0, 4096.0, 8192.0, 16384.0];
static SMG_DURATION: [f64; 21] = [
    0.001, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 15.0, 30.0, 45.0, 60.0, 90.0, 120.0, 180.0,
    240.0, 7200.0,
];

impl Ledger {
    /// Empty, with the buckets of `kind`.
    pub fn new(kind: GatewayKind) -> Self {
        let bounds = match kind {
            GatewayKind::LiteLlm => Bounds {
                short: &LITELLM,
                long: &LITELLM,
                ttft: &LITELLM,
                itl: &LITELLM_PER_TOKEN,
                input: &DYNAMO_INPUT,
                output: &DYNAMO_OUTPUT,
            },
            GatewayKind::Dynamo => Bounds {
                short: &DYNAMO_STAGE,
                long: &DYNAMO_DURATION,
                ttft: &DYNAMO_TTFT,
                itl: &DYNAMO_ITL,
                input: &DYNAMO_INPUT,
                output: &DYNAMO_OUTPUT,
            },
            GatewayKind::Epp | GatewayKind::EppObjective => Bounds {
                short: &EPP_SHORT,
                long: &EPP_DURATION,
                ttft: &EPP_DURATION,
                itl: &EPP_PER_TOKEN,
                input: &EPP_TOKENS,
                output: &EPP_TOKENS,
            },
            GatewayKind::Smg => Bounds {
                short: &SMG_DURATION,
                long: &SMG_DURATION,
                ttft: &SMG_DURATION,
                itl: &SMG_DURATION,
                input: &EPP_TOKENS,
                output: &EPP_TOKENS,
            },
        };
        Self {
            bounds,
            started: BTreeMap::new(),
            ended: BTreeMap::new(),
            tries: BTreeMap::new(),
            cooled: BTreeMap::new(),
            served: BTreeMap::new(),
            sent: BTreeMap::new(),
        }
    }

    /// The meter for requests of `key` that `replica` of `fleet` answered.
    pub fn meter(&mut self, fleet: usize, key: usize, replica: usize) -> &mut Meter {
        let bounds = self.bounds;
        self.served.entry((fleet, key, replica)).or_insert_with(|| Meter::new(bounds))
    }

    /// The measurements of requests sent on to `fleet`.
    pub fn sent(&mut self, fleet: usize) -> &mut Sent {
        let bounds = self.bounds;
        self.sent.entry(fleet).or_insert_with(|| Sent::new(bounds))
    }

    /// The measurements of all requests sent on, whatever the fleet.
    pub fn all_sent(&self) -> Sent {
        self.sent.values().fold(Sent::new(self.bounds), |mut all, sent| {
            all.before.merge(&sent.before);
            all.work.merge(&sent.work);
            all.callout.merge(&sent.callout);
            all.ttft.merge(&sent.ttft);
            all.duration.merge(&sent.duration);
            all.input.merge(&sent.input);
            all
        })
    }

    /// The measurements of requests sent on to `fleet`, empty ones if there were none.
    pub fn sent_to(&self, fleet: usize) -> Sent {
        self.sent.get(&fleet).cloned().unwrap_or_else(|| Sent::new(self.bounds))
    }

    /// All meters of a fleet as one.
    pub fn of_fleet(&self, fleet: usize) -> Meter {
        let mut all = Meter::new(self.bounds);
        for (_, meter) in self.served.range((fleet, 0, 0)..(fleet + 1, 0, 0)) {
            all.merge(meter);
        }
        all
    }

    /// Requests of `fleet` that ended so, whatever the key and replica.
    pub fn ended_as(&self, fleet: usize, outcome: Outcome) -> u64 {
        let rows = self.ended.iter().filter(|(row, _)| row.fleet == fleet && row.outcome == outcome);
        rows.map(|(_, count)| count).sum()
    }

    /// Requests of `fleet` by how they ended.
    pub fn outcomes(&self, fleet: usize) -> BTreeMap<Outcome, u64> {
        let mut outcomes = BTreeMap::new();
        for (row, count) in self.ended.iter().filter(|(row, _)| row.fleet == fleet) {
            *outcomes.entry(row.outcome).or_default() += count;
        }
        outcomes
    }
}

impl Sent {
    fn new(bounds: Bounds) -> Self {
        Self {
            before: Histogram::new(bounds.short),
            work: Histogram::new(bounds.short),
            callout: Histogram::new(bounds.short),
            ttft: Histogram::new(bounds.ttft),
            duration: Histogram::new(bounds.long),
            input: Histogram::new(bounds.input),
        }
    }
}

impl Meter {
    fn new(bounds: Bounds) -> Self {
        Self {
            queue: Histogram::new(bounds.short),
            overhead: Histogram::new(bounds.short),
            total: Histogram::new(bounds.long),
            backend: Histogram::new(bounds.long),
            ttft: Histogram::new(bounds.ttft),
            per_token: Histogram::new(bounds.itl),
            itl: Histogram::new(bounds.itl),
            input: Histogram::new(bounds.input),
            output: Histogram::new(bounds.output),
            cached: Histogram::new(bounds.input),
        }
    }

    fn merge(&mut self, other: &Meter) {
        self.queue.merge(&other.queue);
        self.overhead.merge(&other.overhead);
        self.total.merge(&other.total);
        self.backend.merge(&other.backend);
        self.ttft.merge(&other.ttft);
        self.per_token.merge(&other.per_token);
        self.itl.merge(&other.itl);
        self.input.merge(&other.input);
        self.output.merge(&other.output);
        self.cached.merge(&other.cached);
    }
}
