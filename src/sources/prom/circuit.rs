//! The circuit of one server: whether it is asked, by how its last queries ended. Pure: the time is an argument.
//!
//! Closed ─silences in a row─▶ Open ─the pause is over─▶ Probing ─an answer─▶ Closed, ─silence─▶ Open for longer.

use std::time::{Duration, Instant};

/// The time after its deadline at which a probe without an outcome counts as lost, and another one may start.
const LOST_AFTER: Duration = Duration::from_secs(1);

/// The limits of a circuit.
#[derive(Debug, Clone, Copy)]
pub(super) struct CircuitSettings {
    /// Silences in a row that open it.
    pub(super) silences: u32,
    /// The first pause; doubles with each failed probe.
    pub(super) pause: Duration,
    /// The longest pause.
    pub(super) longest_pause: Duration,
    /// The deadline of a probe.
    pub(super) probe: Duration,
    /// The least time that a query must have had, so that its lateness counts.
    pub(super) fair: Duration,
}

impl Default for CircuitSettings {
    fn default() -> Self {
        Self {
            silences: 5,
            pause: Duration::from_secs(5),
            longest_pause: Duration::from_secs(15),
            probe: Duration::from_secs(10),
            fair: Duration::from_secs(2),
        }
    }
}

/// The sign that the end of a query or a probe gives of its server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Sign {
    /// It answers; an error is an answer too.
    Answer,
    /// It does not work: no connection, or something that is no answer.
    Silence {
        /// The error of the query.
        why: String,
        /// True if the query may be the reason: its time ran out, or a proxy answered in place of a server that works.
        weak: bool,
    },
}

/// The decision about a query that is to be sent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Passage {
    /// It is sent.
    Go,
    /// It waits for the outcome of a probe, at most until then, and asks again.
    Wait {
        /// The time at which the probe counts as lost.
        until: Instant,
        /// True if the caller starts this probe.
        probe: bool,
    },
    /// It is not sent.
    Shut(Outage),
}

/// A server that is not asked for a while.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Outage {
    /// The error of the last query or probe.
    pub(super) why: String,
    /// The number of silences in a row, with those of probes.
    pub(super) times: u32,
    /// The time until it is asked again.
    pub(super) again_in: Duration,
}

/// A change that is to be logged or done.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum CircuitChange {
    /// None.
    None,
    /// The server is not asked any more, or still not.
    Opened(Outage),
    /// The server is asked again.
    Closed,
    /// The caller starts a probe, because what happened may be the fault of heavy queries.
    Suspected,
}

#[derive(Debug)]
enum CircuitState {
    Closed {
        silences: u32,
        /// True if one of these silences was weak.
        weak: bool,
        /// The time at which a probe that was sent by suspicion counts as lost.
        suspected_until: Option<Instant>,
    },
    Open {
        until: Instant,
        pause: Duration,
        times: u32,
        why: String,
    },
    Probing {
        lost_at: Instant,
        pause: Duration,
        times: u32,
        why: String,
    },
}

const CLOSED: CircuitState = CircuitState::Closed { silences: 0, weak: false, suspected_until: None };

/// The state of one server.
#[derive(Debug)]
pub(super) struct Circuit {
    settings: CircuitSettings,
    state: CircuitState,
}

impl Circuit {
    /// Creates a closed circuit.
    pub(super) fn new(settings: CircuitSettings) -> Self {
        Self { settings, state: CLOSED }
    }

    /// Returns the limits.
    pub(super) fn settings(&self) -> CircuitSettings {
        self.settings
    }

    /// Returns true while queries are not sent.
    pub(super) fn is_open(&self) -> bool {
        !matches!(self.state, CircuitState::Closed { .. })
    }

    /// Returns the time until the server is asked again; `None` if it is asked, or a probe asks it now.
    pub(super) fn pause_left(&self, now: Instant) -> Option<Duration> {
        match &self.state {
            CircuitState::Open { until, .. } => {
                Some(until.saturating_duration_since(now)).filter(|left| !left.is_zero())
            }
            CircuitState::Closed { .. } | CircuitState::Probing { .. } => None,
        }
    }

    /// Decides about a query that is to be sent.
    pub(super) fn ask(&mut self, now: Instant) -> Passage {
        let lost_at = now + self.settings.probe + LOST_AFTER;
        match &mut self.state {
            CircuitState::Closed { .. } => Passage::Go,
            CircuitState::Open { until, times, why, .. } if now < *until => {
                Passage::Shut(Outage { why: why.clone(), times: *times, again_in: *until - now })
            }
            CircuitState::Probing { lost_at, .. } if now < *lost_at => Passage::Wait { until: *lost_at, probe: false },
            CircuitState::Open { pause, times, why, .. } | CircuitState::Probing { pause, times, why, .. } => {
                let (pause, times, why) = (*pause, *times, std::mem::take(why));
                self.state = CircuitState::Probing { lost_at, pause, times, why };
                Passage::Wait { until: lost_at, probe: true }
            }
        }
    }

    /// Takes the end of a query that was sent.
    pub(super) fn tell(&mut self, now: Instant, sign: Sign) -> CircuitChange {
        let settings = self.settings;
        match (&mut self.state, sign) {
            (CircuitState::Closed { silences, weak, .. }, Sign::Answer) => {
                (*silences, *weak) = (0, false);
                CircuitChange::None
            }
            // Sent before it opened, answered after.
            (CircuitState::Open { .. } | CircuitState::Probing { .. }, Sign::Answer) => self.close(),
            (CircuitState::Open { .. } | CircuitState::Probing { .. }, Sign::Silence { .. }) => CircuitChange::None,
            (CircuitState::Closed { silences, weak, suspected_until }, Sign::Silence { why, weak: is_weak }) => {
                *silences += 1;
                *weak |= is_weak;
                match (*silences >= settings.silences, *weak, *suspected_until) {
                    (false, _, _) => CircuitChange::None,
                    (true, false, _) => {
                        let times = *silences;
                        self.open(now, settings.pause, times, why)
                    }
                    (true, true, Some(lost_at)) if now < lost_at => CircuitChange::None,
                    (true, true, _) => {
                        *suspected_until = Some(now + settings.probe + LOST_AFTER);
                        CircuitChange::Suspected
                    }
                }
            }
        }
    }

    /// Takes the outcome of a probe.
    pub(super) fn probed(&mut self, now: Instant, sign: Sign) -> CircuitChange {
        let settings = self.settings;
        match (&mut self.state, sign) {
            (CircuitState::Closed { .. }, Sign::Answer) => {
                self.state = CLOSED;
                CircuitChange::None
            }
            (_, Sign::Answer) => self.close(),
            (CircuitState::Closed { silences, suspected_until, .. }, Sign::Silence { why, .. }) => {
                (*silences, *suspected_until) = (*silences + 1, None);
                // An answer may have come while the probe ran.
                match *silences > settings.silences {
                    true => {
                        let times = *silences;
                        self.open(now, settings.pause, times, why)
                    }
                    false => CircuitChange::None,
                }
            }
            (CircuitState::Probing { pause, times, .. }, Sign::Silence { why, .. }) => {
                let (pause, times) = (pause.saturating_mul(2).min(settings.longest_pause), *times + 1);
                self.open(now, pause, times, why)
            }
            // Of a probe that counted as lost.
            (CircuitState::Open { .. }, Sign::Silence { .. }) => CircuitChange::None,
        }
    }

    fn open(&mut self, now: Instant, pause: Duration, times: u32, why: String) -> CircuitChange {
        self.state = CircuitState::Open { until: now + pause, pause, times, why: why.clone() };
        CircuitChange::Opened(Outage { why, times, again_in: pause })
    }

    fn close(&mut self) -> CircuitChange {
        self.state = CLOSED;
        CircuitChange::Closed
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Seconds after the start of a test.
    fn at(start: Instant, seconds: u64) -> Instant {
        start + Duration::from_secs(seconds)
    }

    fn silence(weak: bool) -> Sign {
        Sign::Silence { why: if weak { "timed out" } else { "refused" }.to_owned(), weak }
    }

    fn outage(why: &str, times: u32, seconds: u64) -> Outage {
        Outage { why: why.to_owned(), times, again_in: Duration::from_secs(seconds) }
    }

    /// A circuit that has opened at `start`.
    fn opened(start: Instant) -> Circuit {
        let mut circuit = Circuit::new(CircuitSettings::default());
        for _ in 0..4 {
            assert_eq!(circuit.tell(start, silence(false)), CircuitChange::None);
        }
        assert_eq!(circuit.tell(start, silence(false)), CircuitChange::Opened(outage("refused", 5, 5)));
        circuit
    }

    #[test]
    fn five_silences_in_a_row_open_it_and_an_answer_between_them_does_not() {
        let start = Instant::now();
        let mut circuit = Circuit::new(CircuitSettings::default());
        for n in 0..40 {
            let sign = if n % 5 == 4 { Sign::Answer } else { silence(n % 2 == 0) };
            assert_eq!(circuit.tell(start, sign), CircuitChange::None);
            assert_eq!(circuit.ask(start), Passage::Go);
        }
        let mut circuit = opened(start);
        assert!(circuit.is_open());
        assert_eq!(circuit.ask(at(start, 1)), Passage::Shut(outage("refused", 5, 4)));
        assert_eq!(circuit.pause_left(at(start, 2)), Some(Duration::from_secs(3)));
        assert_eq!(circuit.tell(at(start, 2), silence(false)), CircuitChange::None, "one that was under way");
        assert_eq!(circuit.pause_left(at(start, 2)), Some(Duration::from_secs(3)));
    }

    #[test]
    fn after_the_pause_one_caller_probes_and_the_others_wait() {
        let start = Instant::now();
        let mut circuit = opened(start);
        let (now, until) = (at(start, 5), at(start, 16));
        assert_eq!(circuit.pause_left(now), None);
        assert_eq!(circuit.ask(now), Passage::Wait { until, probe: true });
        assert_eq!(circuit.ask(at(start, 6)), Passage::Wait { until, probe: false });
        assert!(circuit.is_open());
        assert_eq!(circuit.probed(at(start, 7), Sign::Answer), CircuitChange::Closed);
        assert_eq!((circuit.ask(at(start, 7)), circuit.is_open()), (Passage::Go, false));
        for _ in 0..4 {
            assert_eq!(circuit.tell(at(start, 8), silence(false)), CircuitChange::None, "the count starts anew");
        }
        assert_eq!(circuit.tell(at(start, 8), silence(false)), CircuitChange::Opened(outage("refused", 5, 5)));
    }

    #[test]
    fn pauses_double_to_a_quarter_of_a_minute_while_probes_fail() {
        let mut now = Instant::now();
        let mut circuit = opened(now);
        let mut pause = 5;
        for (n, next) in [10, 15, 15, 15].into_iter().enumerate() {
            now = at(now, pause);
            assert!(matches!(circuit.ask(now), Passage::Wait { probe: true, .. }));
            let times = 6 + u32::try_from(n).unwrap();
            assert_eq!(circuit.probed(now, silence(true)), CircuitChange::Opened(outage("timed out", times, next)));
            pause = next;
        }
    }

    #[test]
    fn an_answer_to_a_query_that_was_under_way_closes_it() {
        let start = Instant::now();
        let mut circuit = opened(start);
        assert_eq!(circuit.tell(at(start, 1), Sign::Answer), CircuitChange::Closed);
        let mut circuit = opened(start);
        assert!(matches!(circuit.ask(at(start, 5)), Passage::Wait { .. }));
        assert_eq!(circuit.tell(at(start, 6), Sign::Answer), CircuitChange::Closed);
        assert_eq!(circuit.probed(at(start, 7), silence(false)), CircuitChange::None, "it counts as one silence");
        assert_eq!(circuit.ask(at(start, 7)), Passage::Go);
    }

    #[test]
    fn lateness_opens_it_only_after_a_probe_and_one_probe_at_a_time() {
        let start = Instant::now();
        for lates in [1, 5] {
            let suspected = || {
                let mut circuit = Circuit::new(CircuitSettings::default());
                for n in 0..4 {
                    assert_eq!(circuit.tell(start, silence(n < lates)), CircuitChange::None);
                }
                assert_eq!(circuit.tell(start, silence(lates == 5)), CircuitChange::Suspected);
                assert_eq!(circuit.tell(start, silence(false)), CircuitChange::None, "a probe is under way");
                assert_eq!(circuit.ask(start), Passage::Go, "the server may work");
                circuit
            };
            let mut circuit = suspected();
            assert_eq!(circuit.probed(at(start, 1), Sign::Answer), CircuitChange::None);
            for _ in 0..4 {
                assert_eq!(circuit.tell(at(start, 2), silence(true)), CircuitChange::None, "the count starts anew");
            }
            let mut circuit = suspected();
            assert_eq!(circuit.probed(at(start, 1), silence(true)), CircuitChange::Opened(outage("timed out", 7, 5)));
            let mut circuit = suspected();
            assert_eq!(circuit.tell(at(start, 1), Sign::Answer), CircuitChange::None);
            assert_eq!(circuit.probed(at(start, 2), silence(true)), CircuitChange::None, "an answer came meanwhile");
            assert!(!circuit.is_open());
        }
    }

    #[test]
    fn a_probe_without_an_outcome_is_replaced() {
        let start = Instant::now();
        let mut circuit = opened(start);
        assert_eq!(circuit.ask(at(start, 5)), Passage::Wait { until: at(start, 16), probe: true });
        assert_eq!(circuit.ask(at(start, 16)), Passage::Wait { until: at(start, 27), probe: true });
        assert_eq!(circuit.probed(at(start, 17), Sign::Answer), CircuitChange::Closed);
        // As well one that was sent by suspicion.
        for _ in 0..4 {
            circuit.tell(at(start, 20), silence(true));
        }
        assert_eq!(circuit.tell(at(start, 20), silence(true)), CircuitChange::Suspected);
        assert_eq!(circuit.tell(at(start, 30), silence(true)), CircuitChange::None);
        assert_eq!(circuit.tell(at(start, 31), silence(true)), CircuitChange::Suspected);
    }
}
