//! The parts of a latency, and the share that a cause explains.

use findings::{LatencyPart, LatencyParts, LatencyRest, Observations};
use knowledge::playbook::{CauseEntry, Latency, Library, REST};

/// Share by which the parts may exceed the whole: engines count first tokens when they are sent, and queue and
/// prefill times when the request ends, so the requests of a window are not quite the same.
const OVERLAP: f64 = 0.1;

/// Returns the parts of the latency that a playbook is about; `None` if the whole or every part lacks data, or if the
/// parts are clearly more than the whole, which then counts other requests.
pub(crate) fn parts(library: &Library, playbook: &str, observations: &Observations) -> Option<LatencyParts> {
    library.playbooks.get(playbook)?.latency.iter().find_map(|latency| parts_of(latency, observations))
}

fn parts_of(latency: &Latency, observations: &Observations) -> Option<LatencyParts> {
    let value =
        |signal: &str| observations.signals.get(signal).and_then(|o| o.value).filter(|v| v.is_finite() && *v >= 0.0);
    let seconds = value(&latency.signal).filter(|whole| *whole > 0.0)?;
    let parts_with_value: Vec<_> = latency.parts.iter().filter_map(|part| Some((part, value(&part.signal)?))).collect();
    let sum: f64 = parts_with_value.iter().map(|(_, part)| part).sum();
    if parts_with_value.is_empty() || sum > seconds * (1.0 + OVERLAP) {
        return None;
    }
    let all = sum.max(seconds);
    let remaining = (all - sum).max(0.0);
    Some(LatencyParts {
        signal: latency.signal.clone(),
        title: latency.title.clone(),
        seconds,
        parts: parts_with_value
            .iter()
            .map(|(part, seconds)| LatencyPart {
                signal: part.signal.clone(),
                title: part.title.clone(),
                seconds: *seconds,
                share: seconds / all,
            })
            .collect(),
        rest: (parts_with_value.len() == latency.parts.len())
            .then_some(LatencyRest { seconds: remaining, share: remaining / all }),
    })
}

/// Returns the share of a whole that a cause explains, 0..1; `None` if it explains no part, or an unknown one.
pub(crate) fn explained(latency: &LatencyParts, entry: &CauseEntry) -> Option<f64> {
    let share = |name: &String| match name.as_str() {
        REST => latency.rest.map(|rest| rest.share),
        signal => latency.parts.iter().find(|part| part.signal == signal).map(|part| part.share),
    };
    let shares: Vec<f64> = entry.explains.iter().map(share).collect::<Option<_>>()?;
    (!shares.is_empty()).then(|| shares.iter().sum::<f64>().min(1.0))
}

#[cfg(test)]
mod tests {
    use super::*;
    use findings::Observation;
    use knowledge::playbook::load;

    /// The latency parts for TTFT, queue and prefill in seconds.
    fn latency_parts(whole: Option<f64>, queue: Option<f64>, prefill: Option<f64>) -> Option<LatencyParts> {
        let mut observations = Observations::default();
        for (signal, value) in [("ttft_mean", whole), ("queue_time_mean", queue), ("prefill_time_mean", prefill)] {
            observations.signals.insert(signal.to_owned(), Observation { value, ..Observation::default() });
        }
        parts(&load(None).unwrap(), "high-ttft", &observations)
    }

    fn entry(explains: &[&str]) -> CauseEntry {
        let explains = explains.iter().map(|&name| name.to_owned()).collect();
        CauseEntry {
            explains,
            ..knowledge::playbook::parse(&knowledge::playbook::SourceFile::new("a".into(), "id: a")).unwrap()
        }
    }

    #[test]
    fn a_latency_is_the_sum_of_its_parts_and_the_rest() {
        let latency_parts = latency_parts(Some(6.9), Some(4.2), Some(2.5)).unwrap();
        let seconds: Vec<f64> = latency_parts.parts.iter().map(|part| part.seconds).collect();
        assert_eq!((latency_parts.seconds, seconds), (6.9, vec![4.2, 2.5]));
        let rest = latency_parts.rest.unwrap();
        assert!((rest.seconds - 0.2).abs() < 1e-9 && (rest.share - 0.2 / 6.9).abs() < 1e-9, "{rest:?}");
        let explained = |of: &[&str]| explained(&latency_parts, &entry(of));
        assert_eq!(explained(&["queue_time_mean"]), Some(4.2 / 6.9));
        assert!((explained(&["queue_time_mean", "prefill_time_mean", "rest"]).unwrap() - 1.0).abs() < 1e-9);
        assert_eq!([explained(&[]), explained(&["decode_time_mean"])], [None, None]);
    }

    #[test]
    fn parts_of_other_requests_than_the_whole_are_not_told() {
        assert_eq!(latency_parts(Some(2.0), Some(4.2), Some(2.5)), None);
        // A window's edge is no contradiction; nothing is left then.
        let near = latency_parts(Some(27.01), Some(27.08), Some(0.01)).unwrap();
        assert_eq!(near.rest.unwrap(), LatencyRest { seconds: 0.0, share: 0.0 });
        assert!(near.parts.iter().map(|part| part.share).sum::<f64>() <= 1.0 + 1e-9);
    }

    #[test]
    fn a_part_that_nobody_tells_leaves_the_rest_open() {
        let latency_parts = latency_parts(Some(6.9), Some(4.2), None).unwrap();
        assert_eq!((latency_parts.parts.len(), latency_parts.rest), (1, None));
        assert_eq!(explained(&latency_parts, &entry(&["rest"])), None);
        assert_eq!(super::tests::latency_parts(None, Some(4.2), Some(2.5)), None);
        assert_eq!(super::tests::latency_parts(Some(6.9), None, None), None);
    }
}
