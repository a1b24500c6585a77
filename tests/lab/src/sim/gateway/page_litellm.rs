//! The metrics page of a LiteLLM proxy; names and labels as on a page of 1.106.
//!
//! Its latencies are of successful calls only, a client that gives up counts as a success, and the state 2 of a
//! deployment stands on a series of its own that never returns to 0.

use super::super::exposition::{Family, Kind, Labels};
use super::super::fleet::Fleet;
use super::super::stats::Histogram;
use super::core::Gateway;
use super::ledger::{Meter, Outcome, Row};

/// Names of labels.
type Names = &'static [&'static str];

const CLIENT: Names = &[
    "api_key_alias",
    "api_provider",
    "client_ip",
    "end_user",
    "hashed_api_key",
    "model_id",
    "org_alias",
    "org_id",
    "requested_model",
    "route",
    "team",
    "team_alias",
    "user",
    "user_agent",
    "user_email",
];
const LATENCY: Names = &[
    "api_key_alias",
    "api_provider",
    "end_user",
    "hashed_api_key",
    "model",
    "model_group",
    "model_id",
    "org_alias",
    "org_id",
    "requested_model",
    "service_tier",
    "team",
    "team_alias",
    "user",
];
const QUEUE: Names = &[
    "api_key_alias",
    "api_provider",
    "end_user",
    "hashed_api_key",
    "model",
    "model_id",
    "org_alias",
    "org_id",
    "requested_model",
    "team",
    "team_alias",
    "user",
];
const TOKENS: Names = &[
    "api_key_alias",
    "api_provider",
    "end_user",
    "hashed_api_key",
    "model",
    "model_id",
    "org_alias",
    "org_id",
    "requested_model",
    "team",
    "team_alias",
    "user",
    "user_email",
];
const OVERHEAD: Names =
    &["api_base", "api_key_alias", "api_provider", "hashed_api_key", "litellm_model_name", "model_group", "model_id"];
const DEPLOYMENT: Names = &[
    "api_base",
    "api_key_alias",
    "api_provider",
    "client_ip",
    "hashed_api_key",
    "litellm_model_name",
    "model_group",
    "model_id",
    "requested_model",
    "team",
    "team_alias",
    "user_agent",
];
const PER_TOKEN: Names = &[
    "api_base",
    "api_key_alias",
    "api_provider",
    "hashed_api_key",
    "litellm_model_name",
    "model_group",
    "model_id",
    "org_alias",
    "org_id",
    "team",
    "team_alias",
];
const STATE: Names = &["api_base", "api_provider", "litellm_model_name", "model_id"];

type Observed = (&'static str, &'static str, Names, fn(&Meter) -> &Histogram);

static HISTOGRAMS: [Observed; 7] = [
    ("litellm_request_total_latency_metric", "End-to-end latency (seconds) of a request", LATENCY, |m| &m.total),
    ("litellm_llm_api_latency_metric", "Total latency (seconds) for a models LLM API call", LATENCY, |m| &m.backend),
    ("litellm_llm_api_time_to_first_token_metric", "Time to first token for a models LLM API call", LATENCY, |m| {
        &m.ttft
    }),
    // The help of the real one says milliseconds; the values are seconds.
    ("litellm_overhead_latency_metric", "Latency overhead (milliseconds) added by LiteLLM processing", OVERHEAD, |m| {
        &m.overhead
    }),
    (
        "litellm_overhead_with_guardrails_latency_metric",
        "Total internal latency (seconds) added by LiteLLM, including pre/post-call guardrails",
        OVERHEAD,
        |m| &m.overhead,
    ),
    ("litellm_request_queue_time_seconds", "Time (seconds) from request arrival to pre-call processing", QUEUE, |m| {
        &m.queue
    }),
    ("litellm_deployment_latency_per_output_token", "Latency per output token", PER_TOKEN, |m| &m.per_token),
];

/// Sums over the histograms of a meter, as counters.
type Summed = (&'static str, &'static str, fn(&Meter) -> f64);

static SUMS: [Summed; 3] = [
    ("litellm_total_tokens_metric_total", "Total number of input + output tokens from LLM requests", |m| {
        m.input.sum + m.output.sum
    }),
    ("litellm_input_tokens_metric_total", "Total number of input tokens from LLM requests", |m| m.input.sum),
    ("litellm_output_tokens_metric_total", "Total number of output tokens from LLM requests", |m| m.output.sum),
];

/// The page at `now` (unix seconds).
pub fn families(gateway: &Gateway, fleets: &[Fleet], now: f64) -> Vec<Family> {
    let page = Page { gateway, fleets };
    let mut families = page.process(now);
    families.extend(page.clients());
    families.extend(page.served());
    families.extend(page.deployments());
    families
}

/// Class and status of the exception, `None` for what is no failure or is not counted as one.
fn exception(outcome: Outcome) -> Option<(&'static str, &'static str)> {
    Some(match outcome {
        // Refused by the door-keeper before anything is counted.
        Outcome::Success | Outcome::ClientGone | Outcome::Overloaded => return None,
        Outcome::Unauthorized(403) => ("ProxyException", "403"),
        Outcome::Unauthorized(_) => ("ProxyException", "401"),
        Outcome::KeyLimited => ("HTTPException", "429"),
        // The client gets 429; the metric has no number.
        Outcome::AllCooling => ("RouterRateLimitError", "None"),
        Outcome::BackendLimited => ("Openai.RateLimitError", "429"),
        Outcome::UnknownModel | Outcome::Vanished => ("ProxyModelNotFoundError", "400"),
        Outcome::TimedOut => ("Openai.Timeout", "408"),
        Outcome::BackendRejected => ("Openai.BadRequestError", "400"),
        Outcome::ConnectFailed | Outcome::Dropped | Outcome::BackendFailed | Outcome::NoBackends => {
            ("Openai.InternalServerError", "500")
        }
    })
}

struct Page<'a> {
    gateway: &'a Gateway,
    fleets: &'a [Fleet],
}

impl Page<'_> {
    fn process(&self, now: f64) -> Vec<Family> {
        let gateway = self.gateway;
        let cpu = 12.0 + 0.02 * (now - gateway.started) + gateway.cpu.busy_seconds;
        let plain = |name, kind, help, value: f64| Family::new(name, kind, help).with(Labels::new(), value);
        let mut page = vec![
            plain(
                "process_start_time_seconds",
                Kind::Gauge,
                "Start time of the process since unix epoch in seconds.",
                (gateway.started * 100.0).round() / 100.0,
            ),
            plain(
                "process_cpu_seconds_total",
                Kind::Counter,
                "Total user and system CPU time spent in seconds.",
                (cpu * 100.0).round() / 100.0,
            ),
            plain(
                "litellm_in_flight_requests",
                Kind::Gauge,
                "Number of HTTP requests currently in-flight on this uvicorn worker",
                gateway.flows.len() as f64,
            ),
        ];
        let turned_away: u64 = (0..self.fleets.len()).map(|i| gateway.ledger.ended_as(i, Outcome::Overloaded)).sum();
        if turned_away > 0 {
            let family = Family::new(
                "litellm_admission_rejected_requests_total",
                Kind::Counter,
                "Requests rejected by admission control",
            );
            page.push(family.with(vec![("reason", "queue_timeout".to_owned())], turned_away as f64));
        }
        page.extend(self.guardrail());
        page
    }

    /// What is asked before a call is a guardrail; nobody asks while it answers at once.
    fn guardrail(&self) -> Option<Family> {
        let callout = self.gateway.ledger.all_sent().callout;
        let labels = vec![
            ("error_type", "None".to_owned()),
            ("guardrail_name", "content-check".to_owned()),
            ("hook_type", "pre_call".to_owned()),
            ("status", "success".to_owned()),
        ];
        let family = Family::new(
            "litellm_guardrail_latency_seconds",
            Kind::Histogram,
            "Latency (seconds) for guardrail execution",
        );
        (callout.sum > 0.0).then(|| family.with_histogram(&labels, &callout))
    }

    fn clients(&self) -> Vec<Family> {
        let mut failed = Family::new(
            "litellm_proxy_failed_requests_metric_total",
            Kind::Counter,
            "Total number of failed responses from proxy",
        );
        let mut total = Family::new(
            "litellm_proxy_total_requests_metric_total",
            Kind::Counter,
            "Total number of requests made to the proxy server",
        );
        for (row, count) in &self.gateway.ledger.ended {
            let status = match exception(row.outcome) {
                Some((class, status)) => {
                    let labels =
                        self.and(self.labels(CLIENT, row), &[("exception_class", class), ("exception_status", status)]);
                    failed = failed.with(labels, *count as f64);
                    status
                }
                // One that left before it was sent on is in no metric.
                None if row.outcome == Outcome::Overloaded || row.replica.is_none() => continue,
                None => "200",
            };
            total = total.with(self.and(self.labels(CLIENT, row), &[("status_code", status)]), *count as f64);
        }
        // Rows of different outcomes can have the same labels.
        vec![merged(failed), merged(total)]
    }

    fn served(&self) -> Vec<Family> {
        let served = || {
            self.gateway.ledger.served.iter().map(|((fleet, key, replica), meter)| {
                let row = Row { fleet: *fleet, key: *key, replica: Some(*replica), outcome: Outcome::Success };
                (row, meter)
            })
        };
        let mut page = Vec::new();
        for (name, help, names, histogram) in &HISTOGRAMS {
            let family = Family::new(name, Kind::Histogram, help);
            page.push(served().fold(family, |family, (row, meter)| {
                family.with_histogram(&self.labels(names, &row), histogram(meter))
            }));
        }
        for (name, help, sum) in &SUMS {
            let family = Family::new(name, Kind::Counter, help);
            page.push(served().fold(family, |family, (row, meter)| family.with(self.labels(TOKENS, &row), sum(meter))));
        }
        page
    }

    fn deployments(&self) -> Vec<Family> {
        let counter = |name, help| Family::new(name, Kind::Counter, help);
        let mut success = counter(
            "litellm_deployment_success_responses_total",
            "LLM Deployment Analytics - Total number of successful LLM API calls via litellm",
        );
        let mut failure = counter(
            "litellm_deployment_failure_responses_total",
            "LLM Deployment Analytics - Total number of failed LLM API calls for a specific LLM deploymeny.",
        );
        let mut total = counter(
            "litellm_deployment_total_requests_total",
            "LLM Deployment Analytics - Total number of LLM API calls via litellm - success + failure",
        );
        let ledger = &self.gateway.ledger;
        for (row, count) in &ledger.tries {
            let labels = self.labels(DEPLOYMENT, row);
            total = total.with(labels.clone(), *count as f64);
            match exception(row.outcome) {
                None => success = success.with(labels, *count as f64),
                Some((class, status)) => {
                    let labels = self.and(labels, &[("exception_class", class), ("exception_status", status)]);
                    failure = failure.with(labels, *count as f64);
                }
            }
        }
        // The router's own refusals are booked here too, on no deployment.
        for (row, count) in ledger.ended.iter().filter(|(row, _)| row.outcome == Outcome::AllCooling) {
            let row = Row { replica: None, ..*row };
            if let Some((class, status)) = exception(row.outcome) {
                let labels = self.labels(DEPLOYMENT, &row);
                let labels = self.and(labels, &[("exception_class", class), ("exception_status", status)]);
                failure = failure.with(labels, *count as f64);
            }
        }
        vec![merged(success), merged(failure), merged(total), self.states(), self.cooled()]
    }

    fn states(&self) -> Family {
        let mut family = Family::new(
            "litellm_deployment_state",
            Kind::Gauge,
            "LLM Deployment Analytics - The state of the deployment: 0 = healthy, 1 = partial outage, 2 = complete outage",
        );
        for (fleet, backends) in self.gateway.backends.iter().enumerate() {
            for (i, backend) in backends.iter().enumerate().filter(|(_, backend)| backend.called) {
                let state = f64::from(u8::from(backend.failing));
                family = family.with(self.labels(STATE, &at(fleet, i)), state);
            }
        }
        for (fleet, replica) in self.ever_cooled() {
            // Under the group's name, and for good.
            family = family.with(self.under_group(fleet, replica), 2.0);
        }
        family
    }

    fn cooled(&self) -> Family {
        let family = Family::new(
            "litellm_deployment_cooled_down_total",
            Kind::Counter,
            "LLM Deployment Analytics - Number of times a deployment has been cooled down",
        );
        let cooled = self.gateway.ledger.cooled.iter().fold(family, |family, ((fleet, replica, outcome), count)| {
            let status = exception(*outcome).map_or("None", |(_, status)| status);
            let labels = self.and(self.under_group(*fleet, *replica), &[("exception_status", status)]);
            family.with(labels, *count as f64)
        });
        merged(cooled)
    }

    fn ever_cooled(&self) -> Vec<(usize, usize)> {
        let mut cooled: Vec<_> =
            self.gateway.ledger.cooled.keys().map(|(fleet, replica, _)| (*fleet, *replica)).collect();
        cooled.dedup();
        cooled
    }

    fn under_group(&self, fleet: usize, replica: usize) -> Labels {
        let mut labels = self.labels(STATE, &at(fleet, replica));
        for (name, value) in &mut labels {
            if *name == "litellm_model_name" {
                *value = self.group(fleet);
            }
        }
        labels
    }

    fn labels(&self, names: Names, row: &Row) -> Labels {
        names.iter().map(|name| (*name, self.value(name, row))).collect()
    }

    fn and(&self, mut labels: Labels, more: &[(&'static str, &str)]) -> Labels {
        labels.extend(more.iter().map(|(name, value)| (*name, (*value).to_owned())));
        labels.sort_by_key(|(name, _)| *name);
        labels
    }

    /// The name that clients ask for: the model's without its owner.
    fn group(&self, fleet: usize) -> String {
        let name = &self.fleets[fleet].spec().model_name;
        name.rsplit('/').next().unwrap_or(name).to_lowercase()
    }

    fn value(&self, name: &str, row: &Row) -> String {
        let key = &self.gateway.spec.keys[row.key];
        let pod = row.replica.map(|i| &self.fleets[row.fleet].replicas()[i].pod);
        match name {
            "api_key_alias" => key.alias.clone(),
            "hashed_api_key" => format!("{:064x}", 0x8b0a_2a94_u64.wrapping_mul(row.key as u64 + 1)),
            "team" => format!("team-{}", key.team),
            "team_alias" => key.team.clone(),
            "user" => "default_user_id".to_owned(),
            "client_ip" => "10.42.0.250".to_owned(),
            "user_agent" => "OpenAI/Python 1.109.1".to_owned(),
            "route" => "/v1/chat/completions".to_owned(),
            "requested_model" if row.outcome == Outcome::UnknownModel => "other".to_owned(),
            "requested_model" | "model_group" => self.group(row.fleet),
            "model" | "litellm_model_name" => self.fleets[row.fleet].spec().model_name.clone(),
            "model_id" => pod.map_or_else(String::new, |pod| pod.name.clone()),
            "api_base" => {
                let (_, port) = self.fleets[row.fleet].spec().dialect.job();
                pod.map_or_else(String::new, |pod| format!("http://{}:{port}/v1", pod.ip))
            }
            "api_provider" => pod.map_or("None", |_| "openai").to_owned(),
            _ => "None".to_owned(),
        }
    }
}

fn at(fleet: usize, replica: usize) -> Row {
    Row { fleet, key: 0, replica: Some(replica), outcome: Outcome::Success }
}

/// One sample per set of labels.
fn merged(mut family: Family) -> Family {
    let mut samples: Vec<super::super::exposition::Sample> = Vec::with_capacity(family.samples.len());
    for sample in family.samples {
        match samples.iter_mut().find(|old| old.labels == sample.labels) {
            Some(old) => old.value += sample.value,
            None => samples.push(sample),
        }
    }
    family.samples = samples;
    family
}
