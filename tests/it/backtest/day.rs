//! A day of a simulated fleet with three faults, and the alerts of that day: two that were right, one that never was, one
//! about a pool that is not there, one about another program, one about something that no playbook judges, one that lasts
//! all day and nobody looks at, and none about the third fault.

use std::sync::LazyLock;

use llm_diagnose_lab::sim::{Fault, Fleet, FleetSpec, History};
use llm_diagnose_lab::stack;
use llm_diagnose_lab::stack::backfill::{Series, openmetrics};

use crate::harness::{KeptPrometheus, run, simulated};

/// The beginning of the day: 2023-11-15 00:00 UTC.
pub(crate) const BEGIN: i64 = 1_700_006_400;
/// Its end.
pub(crate) const END: i64 = BEGIN + 86_400;
/// The model of the fleet.
pub(crate) const MODEL: &str = "meta-llama/Llama-3.1-8B-Instruct";
/// A label that would be markup.
pub(crate) const HOSTILE: &str = "<script>alert(1)</script>\"'><img src=x onerror=alert(2)>";
/// The fault, with the minutes of the day at which it begins and ends.
const FAULTS: [(&str, i64, i64); 3] =
    [("longer-prompts", 240, 280), ("traffic-surge", 600, 640), ("slot-limit", 960, 1_010)];
/// The rule that fires on healthy hours, by its minutes.
pub(crate) const NOISE: [i64; 3] = [60, 420, 1_200];

/// A moment of the day in unix seconds.
pub(crate) fn minute(minute: i64) -> i64 {
    BEGIN + minute * 60
}

/// The address of a Prometheus that holds the day.
pub(crate) fn prometheus() -> &'static str {
    static DAY: LazyLock<KeptPrometheus> = LazyLock::new(|| {
        let histories = tempfile::tempdir().unwrap();
        let [fleet, alerts] = ["fleet", "alerts"].map(|name| histories.path().join(name));
        std::fs::write(&fleet, self::fleet() + "# EOF\n").unwrap();
        std::fs::write(&alerts, self::alerts()).unwrap();
        run(async {
            let server = stack::Prometheus::builder().backfill(fleet).backfill(alerts).start().await.unwrap();
            KeptPrometheus::of(server).await
        })
    });
    &DAY.client.url
}

fn fleet() -> String {
    let mut spec = FleetSpec { namespace: "llm".to_owned(), ..FleetSpec::sized(3) };
    spec.requests_per_second = 3.0 * 3.0;
    let mut fleet = Fleet::new(spec, 1, (BEGIN - 4_200) as f64).unwrap();
    fleet.advance_to(BEGIN as f64);
    let mut history = History::new(60.0);
    for (fault, begin, end) in FAULTS {
        let fault: Fault = fault.parse().unwrap();
        history.record(&mut fleet, minute(begin) as f64);
        fleet.inject(fault).unwrap();
        fleet.advance_to((minute(begin) + 1) as f64);
        history.record(&mut fleet, minute(end) as f64);
        fleet.clear(fault);
        fleet.advance_to((minute(end) + 1) as f64);
    }
    history.record(&mut fleet, END as f64);
    simulated(&history)
}

fn alerts() -> String {
    let state = |state: &str, labels: &[(&str, &str)], from: i64, to: i64| {
        let labels: Vec<(&str, &str)> = labels.iter().copied().chain([("alertstate", state)]).collect();
        Series::new("ALERTS", &labels).steady(minute(from), minute(to), 60, 1.0)
    };
    let of = |name: &'static str, more: &[(&'static str, &'static str)]| {
        let pool = [("alertname", name), ("namespace", "llm"), ("model_name", MODEL), ("severity", "critical")];
        pool.into_iter().chain(more.iter().copied()).collect::<Vec<_>>()
    };
    let prompts = of("LLMHighTTFT", &[("playbook", "high-ttft")]);
    let queue = of("LLMQueueBuildup", &[("playbook", "queue-buildup")]);
    let noise = of("ChatFeelsSlow", &[("team", HOSTILE), ("playbook", "high-ttft")]);
    let gone = [("alertname", "LLMHighTTFT"), ("namespace", "gone"), ("playbook", "high-ttft")];
    let disk = [("alertname", "NodeAPIToken"), ("instance", "10.0.0.7:9100")];
    let volume = [("alertname", "VolumeAlmostFull"), ("namespace", "llm"), ("severity", "warning")];
    let throttled = [("alertname", "CPUThrottlingHigh"), ("namespace", "llm"), ("severity", "info")];
    let firing = [
        state("pending", &prompts, 244, 245),
        state("firing", &prompts, 246, 285),
        state("firing", &queue, 606, 645),
        state("firing", &gone, 700, 715),
        state("firing", &disk, 30, 1_300),
        state("firing", &volume, 700, 760),
        state("firing", &throttled, -120, 1_440),
    ];
    openmetrics(firing.into_iter().chain(NOISE.map(|begin| state("firing", &noise, begin, begin + 10))))
}
