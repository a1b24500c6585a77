//! The life of a serving pod, as kube-state-metrics and the router see it.
//!
//! Pods keep their names through a rollout, as in a StatefulSet, so that scrape targets are stable.

/// Seconds a crash-looping container runs before it dies again.
const CRASH_AFTER_SECONDS: f64 = 5.0;
/// The kubelet's first and greatest back-off (Kubernetes documentation, "Pod lifecycle").
const BACKOFF_SECONDS: (f64, f64) = (10.0, 300.0);

/// One pod and its only container.
#[derive(Debug, Clone)]
pub struct Pod {
    /// Its name.
    pub name: String,
    /// Its uid, but for what tells it from those that had the name before.
    pub uid: String,
    /// How many pods had the name before.
    pub predecessors: u32,
    /// The node it runs on.
    pub node: String,
    /// The address of that node.
    pub host_ip: String,
    /// Its own address.
    pub ip: String,
    /// Restarts of the container.
    pub restarts: u64,
    /// Why the container ended the last time, as in `last_terminated_reason`.
    pub last_terminated: Option<&'static str>,
    /// With which exit code.
    pub last_exit_code: Option<u32>,
    /// What it is doing.
    pub state: PodState,
    /// The generation of the Deployment it runs.
    pub generation: u64,
    backoff: f64,
}

/// Times are unix seconds.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum PodState {
    /// Serves.
    Ready,
    /// Loads the model.
    Starting {
        /// When it will be ready.
        ready_at: f64,
    },
    /// Started, and will die before it is ready.
    Doomed {
        /// When it will die.
        dies_at: f64,
    },
    /// Waits for the next try: `CrashLoopBackOff`.
    BackOff {
        /// When it is tried again.
        until: f64,
    },
    /// No node has room for it.
    Unschedulable,
    /// Its image cannot be pulled: `ErrImagePull`, and `ImagePullBackOff` in between.
    PullFailing {
        /// When it is tried again.
        until: f64,
    },
    /// Its node does not answer any more.
    NodeLost,
    /// There is no such pod.
    Gone,
}

impl Pod {
    /// A ready pod.
    pub fn new(name: String, uid: String, node: String, host_ip: String, ip: String) -> Self {
        Self {
            name,
            uid,
            predecessors: 0,
            node,
            host_ip,
            ip,
            restarts: 0,
            last_terminated: None,
            last_exit_code: None,
            state: PodState::Ready,
            generation: 1,
            backoff: BACKOFF_SECONDS.0,
        }
    }

    /// It serves requests and its metrics page.
    pub fn is_ready(&self) -> bool {
        self.state == PodState::Ready
    }

    /// There is such a pod.
    pub fn exists(&self) -> bool {
        self.state != PodState::Gone
    }

    /// It has a node and a container on it.
    pub fn has_container(&self) -> bool {
        !matches!(self.state, PodState::Gone | PodState::Unschedulable | PodState::PullFailing { .. })
    }

    /// The container dies at `now` and is restarted at once, to die again.
    pub fn crash(&mut self, now: f64) {
        self.terminated("Error", 1);
        self.backoff = BACKOFF_SECONDS.0;
        self.state = PodState::Doomed { dies_at: now + CRASH_AFTER_SECONDS };
    }

    /// The container ends at `now` and is restarted at once, to work again.
    pub fn restart(&mut self, now: f64, startup_seconds: f64, reason: &'static str, exit_code: u32) {
        self.terminated(reason, exit_code);
        self.state = PodState::Starting { ready_at: now + startup_seconds };
    }

    /// The restarted container will die at `dies_at`, before it is ready.
    pub fn doom(&mut self, dies_at: f64) {
        self.backoff = BACKOFF_SECONDS.0;
        self.state = PodState::Doomed { dies_at };
    }

    /// Waits at `now` for an image that does not come.
    pub fn wait_for_image(&mut self, now: f64) {
        self.backoff = BACKOFF_SECONDS.0;
        self.state = PodState::PullFailing { until: now + self.backoff };
    }

    /// The registry has just answered, and the next try is not due yet.
    pub fn image_error(&self, now: f64) -> Option<&'static str> {
        match self.state {
            PodState::PullFailing { until } if now > until - 0.8 * self.backoff => Some("ImagePullBackOff"),
            PodState::PullFailing { .. } => Some("ErrImagePull"),
            _ => None,
        }
    }

    fn terminated(&mut self, reason: &'static str, exit_code: u32) {
        self.restarts += 1;
        self.last_terminated = Some(reason);
        self.last_exit_code = Some(exit_code);
    }

    /// What killed it is gone: the next try, made at `now`, succeeds.
    pub fn recover(&mut self, now: f64, startup_seconds: f64) {
        self.restarts += 1;
        self.state = PodState::Starting { ready_at: now + startup_seconds };
    }

    /// A rollout replaces the pod by one of `generation`.
    pub fn replace(&mut self, now: f64, startup_seconds: f64, generation: u64) {
        self.predecessors += 1;
        self.restarts = 0;
        self.last_terminated = None;
        self.last_exit_code = None;
        self.generation = generation;
        self.state = PodState::Starting { ready_at: now + startup_seconds };
    }

    /// Moves on to `now`; true if the pod became ready.
    pub fn advance_to(&mut self, now: f64) -> bool {
        match self.state {
            PodState::Starting { ready_at } if ready_at <= now => {
                self.state = PodState::Ready;
                true
            }
            PodState::Doomed { dies_at } if dies_at <= now => {
                self.last_terminated = Some("Error");
                self.last_exit_code = Some(1);
                self.state = PodState::BackOff { until: now + self.backoff };
                self.backoff = (2.0 * self.backoff).min(BACKOFF_SECONDS.1);
                false
            }
            PodState::BackOff { until } if until <= now => {
                self.restarts += 1;
                self.state = PodState::Doomed { dies_at: now + CRASH_AFTER_SECONDS };
                false
            }
            PodState::PullFailing { until } if until <= now => {
                self.backoff = (2.0 * self.backoff).min(BACKOFF_SECONDS.1);
                self.state = PodState::PullFailing { until: now + self.backoff };
                false
            }
            _ => false,
        }
    }
}
