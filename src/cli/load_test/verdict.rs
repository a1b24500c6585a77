//! Judges whether a load test saturated its servers, and at which step; pure.

use serde::{Deserialize, Serialize};

/// The version of the JSON output; an incompatible change gets a new name.
const SCHEMA: &str = "llm-diagnose/load-test/v1";
/// The growth of throughput up to which it counts as not rising; repeated runs of one load differ by some percent.
const FLAT: f64 = 1.1;
/// The growth of the requests at one time from which throughput has to rise.
const MORE_LOAD: f64 = 1.25;
/// The growth of a latency that shows where requests wait.
const SLOWER: f64 = 1.5;
/// The growth of a latency up to which it counts as the same.
const SAME: f64 = 1.2;
/// The use of the KV cache from which it limits, and below which it does not.
const FULL: f64 = 0.9;
const ROOMY: f64 = 0.7;

/// The share of failed requests from which a step does not show that the servers can take it.
const FAILING: f64 = 0.05;

/// One step of the load as clients saw it, and the servers' numbers if the report has them.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct LoadStep {
    /// The requests per second that were sent, if the step had a rate.
    pub(super) rate: Option<f64>,
    /// The mean number of requests at one time.
    pub(super) concurrency: f64,
    /// Finished requests per second.
    pub(super) requests: f64,
    /// Output tokens per second.
    pub(super) tokens: Option<f64>,
    /// The median time to the first token, in seconds.
    pub(super) ttft: Option<f64>,
    /// The median time between tokens, in seconds.
    pub(super) itl: Option<f64>,
    /// The share of requests that failed.
    pub(super) failed: f64,
    /// The mean number of requests that waited in the engines.
    pub(super) waiting: Option<f64>,
    /// The mean use of the fullest KV cache, 0..1.
    pub(super) kv_cache: Option<f64>,
}

/// The result of a load test.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum LoadState {
    /// From a step on more load brought no more throughput.
    Saturated,
    /// Throughput rose up to the last step.
    NotSaturated,
    /// The steps are too few or too alike, or requests fail.
    Unknown,
}

/// The limit of a saturated server, as far as the report shows it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum LoadLimit {
    /// Requests wait, and the KV cache is full.
    KvCache,
    /// Requests wait, and the KV cache has room: the limit of running requests.
    RunningRequests,
    /// First tokens come later, the following ones do not: requests wait before or in prefill.
    FirstTokens,
    /// Tokens follow each other more slowly: the batch takes all of the GPU.
    Batch,
    /// Nothing of these.
    Unknown,
}

/// The verdict on a load test.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct LoadVerdict {
    pub(super) schema: String,
    pub(super) state: LoadState,
    /// The index of the step after which throughput does not rise, if it is saturated.
    pub(super) saturated_at: Option<usize>,
    pub(super) limit: Option<LoadLimit>,
    /// True if the report has the servers' own numbers.
    pub(super) has_servers: bool,
    /// By the number of requests at one time.
    pub(super) steps: Vec<LoadStep>,
}

/// Judges the steps of a load test. Saturated is the first step whose throughput no later step exceeds by more than a tenth,
/// although at least a quarter more requests were there at one time.
pub(super) fn judge(mut steps: Vec<LoadStep>) -> LoadVerdict {
    steps.sort_by(|a, b| a.concurrency.total_cmp(&b.concurrency));
    let last = steps.last().cloned().unwrap_or_default();
    let by_tokens = steps.iter().all(|step| step.tokens.is_some());
    let throughput = |step: &LoadStep| if by_tokens { step.tokens.unwrap_or_default() } else { step.requests };
    let is_flat = |i: usize, step: &LoadStep| {
        let later = steps.iter().skip(i + 1).map(throughput).reduce(f64::max);
        last.concurrency >= MORE_LOAD * step.concurrency && later.is_some_and(|later| later <= FLAT * throughput(step))
    };
    let saturated_at = steps.iter().enumerate().find(|(i, step)| is_flat(*i, step)).map(|(i, _)| i);
    // It rises only if the last step brings more than every step with clearly less load.
    let before = steps.iter().filter(|step| last.concurrency >= MORE_LOAD * step.concurrency).map(throughput);
    let rises = before.reduce(f64::max).is_some_and(|best| throughput(&last) > FLAT * best);
    let has_failures = steps.iter().any(|step| step.failed > FAILING);
    let state = match saturated_at {
        Some(_) => LoadState::Saturated,
        None if rises && !has_failures => LoadState::NotSaturated,
        None => LoadState::Unknown,
    };
    let limit = saturated_at.and_then(|at| steps.get(at)).map(|at| limit(at, &last));
    let has_servers = steps.iter().any(|step| step.waiting.is_some() || step.kv_cache.is_some());
    LoadVerdict { schema: SCHEMA.to_owned(), state, saturated_at, limit, has_servers, steps }
}

/// Returns what limits, by the step of saturation and the last one.
fn limit(at: &LoadStep, last: &LoadStep) -> LoadLimit {
    let growth = |before: Option<f64>, after: Option<f64>| Some(after? / before.filter(|before| *before > 0.0)?);
    let (first, between) = (growth(at.ttft, last.ttft), growth(at.itl, last.itl));
    match (last.waiting.map(|waiting| waiting >= 1.0), last.kv_cache) {
        (Some(true), Some(used)) if used >= FULL => LoadLimit::KvCache,
        (Some(true), Some(used)) if used < ROOMY => LoadLimit::RunningRequests,
        _ if between.is_some_and(|between| between >= SLOWER) => LoadLimit::Batch,
        _ if first.is_some_and(|first| first >= SLOWER) && between.is_some_and(|between| between <= SAME) => {
            LoadLimit::FirstTokens
        }
        _ => LoadLimit::Unknown,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn step(concurrency: f64, tokens: f64, ttft: f64, itl: f64) -> LoadStep {
        let latencies = LoadStep { ttft: Some(ttft), itl: Some(itl), ..LoadStep::default() };
        LoadStep { concurrency, requests: tokens / 100.0, tokens: Some(tokens), ..latencies }
    }

    #[test]
    fn saturation_is_where_more_requests_at_a_time_bring_no_more_tokens() {
        let rising = vec![step(1.0, 100.0, 0.1, 0.02), step(8.0, 700.0, 0.1, 0.02), step(32.0, 1_500.0, 0.2, 0.03)];
        assert_eq!(judge(rising.clone()).state, LoadState::NotSaturated);
        let flat = [rising.clone(), vec![step(80.0, 1_560.0, 2.0, 0.03), step(200.0, 1_540.0, 9.0, 0.03)]].concat();
        let verdict = judge(flat);
        assert_eq!((verdict.state, verdict.saturated_at), (LoadState::Saturated, Some(2)));
        assert_eq!(verdict.limit, Some(LoadLimit::FirstTokens));
        // One weak step is no saturation if a later one is stronger.
        let dent = [rising.clone(), vec![step(60.0, 1_400.0, 0.3, 0.03), step(90.0, 2_400.0, 0.3, 0.03)]].concat();
        assert_eq!(judge(dent).state, LoadState::NotSaturated);
        assert_eq!(judge(rising[..1].to_vec()).state, LoadState::Unknown);
        assert_eq!(judge(vec![step(8.0, 700.0, 0.1, 0.02), step(8.4, 705.0, 0.1, 0.02)]).state, LoadState::Unknown);
    }

    #[test]
    fn a_test_whose_requests_fail_or_whose_last_step_brings_less_shows_no_room() {
        let rising = vec![step(1.0, 100.0, 0.1, 0.02), step(8.0, 700.0, 0.1, 0.02)];
        let dead = [rising.clone(), vec![LoadStep { failed: 1.0, ..step(32.0, 0.0, 0.0, 0.0) }]].concat();
        assert_eq!(judge(dead).state, LoadState::Saturated, "nothing finished in the last step");
        let failing = [rising, vec![LoadStep { failed: 0.5, ..step(32.0, 1_500.0, 0.2, 0.03) }]].concat();
        assert_eq!(judge(failing).state, LoadState::Unknown);
        let less = vec![step(1.0, 100.0, 0.1, 0.02), step(100.0, 1_500.0, 0.1, 0.02), step(110.0, 90.0, 0.1, 0.02)];
        assert_ne!(judge(less).state, LoadState::NotSaturated);
        assert_eq!(judge(vec![step(0.0, 0.0, 0.1, 0.02)]).state, LoadState::Unknown, "one step has nothing after it");
    }

    #[test]
    fn the_servers_numbers_tell_the_limit_and_without_them_the_latencies() {
        let at = step(32.0, 1_500.0, 0.2, 0.03);
        let servers = |waiting, kv_cache| LoadStep { waiting: Some(waiting), kv_cache: Some(kv_cache), ..at.clone() };
        assert_eq!(limit(&at, &servers(40.0, 0.97)), LoadLimit::KvCache);
        assert_eq!(limit(&at, &servers(40.0, 0.3)), LoadLimit::RunningRequests);
        assert_eq!(limit(&at, &servers(0.0, 0.3)), LoadLimit::Unknown);
        assert_eq!(limit(&at, &step(90.0, 1_500.0, 0.4, 0.09)), LoadLimit::Batch);
    }
}
