//! The changes that fix steps make, and the commands that they name.

use schemars::JsonSchema;
use serde::Deserialize;

use super::Step;

/// Programs that steps call.
const PROGRAMS: [&str; 23] = [
    "amd-smi",
    "curl",
    "dcgmi",
    "dig",
    "dmesg",
    "docker",
    "etcdctl",
    "journalctl",
    "kubectl",
    "llm-diagnose",
    "nats",
    "nginx",
    "nvidia-smi",
    "openssl",
    "pg_isready",
    "py-spy",
    "redis-cli",
    "sacct",
    "scancel",
    "scontrol",
    "serve",
    "systemctl",
    "top",
];

/// HTTP methods that change something.
const CHANGING_METHODS: [&str; 4] = ["DELETE", "PATCH", "POST", "PUT"];
/// Commands that change something, by the program and a word after it.
const CHANGING_COMMANDS: [(&str, &[&str]); 8] = [
    (
        "kubectl",
        &[
            "annotate", "apply", "cordon", "create", "delete", "drain", "edit", "label", "patch", "pause", "replace",
            "restart", "resume", "scale", "set", "taint", "uncordon", "undo",
        ],
    ),
    ("curl", &CHANGING_METHODS),
    ("systemctl", &["reload", "restart", "start", "stop"]),
    ("docker", &["kill", "restart", "rm", "run", "start", "stop"]),
    ("scontrol", &["reboot", "resume", "update"]),
    // It ends the processes on the GPU.
    ("dcgmi", &["diag"]),
    ("amd-smi", &["reset", "set"]),
    ("nvidia-smi", &["--gpu-reset", "--power-limit", "-lgc", "-pl", "-r", "-rgc"]),
];

/// Commands that restart a replica, by the program and the words after it.
const RESTARTING_COMMANDS: [(&str, &[&[&str]]); 3] = [
    ("kubectl", &[&["delete", "pod"], &["rollout", "restart"]]),
    ("systemctl", &[&["restart"]]),
    ("docker", &[&["restart"]]),
];

/// Words that mark a command as read-only.
const READ_ONLY_WORDS: [&str; 6] =
    ["can-i", "--dry-run", "/v1/chat/completions", "/v1/completions", "/generate", "/tokenize"];

/// The kind of change that a step makes to a pool.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum StepChange {
    /// More replicas.
    Replicas,
    /// The revision before: `rollout undo`.
    Revision,
    /// Flags of the engine: each replica restarts.
    Flags,
    /// Flags or settings of the gateway: each of its processes restarts.
    Gateway,
}

impl StepChange {
    /// Returns the kind in words.
    pub fn title(self) -> &'static str {
        match self {
            Self::Replicas => "how to scale out",
            Self::Revision => "how to roll back",
            Self::Flags => "how to set flags of the engine",
            Self::Gateway => "how to set flags of the gateway",
        }
    }

    /// The signals for the cost of a restart: running requests, hits of the prefix cache, use of the KV cache.
    pub const RESTART_SIGNALS: [&'static str; 3] = ["requests_running", "prefix_cache_hit_ratio", "kv_cache_usage"];

    /// Returns the signals that its note or its cost quotes.
    pub fn signals(self) -> &'static [&'static str] {
        match self {
            Self::Replicas => &["gpus_free", "replicas_unready"],
            Self::Revision | Self::Flags => &Self::RESTART_SIGNALS,
            Self::Gateway => &[],
        }
    }

    /// Returns how the change is done in a pool of so many replicas (0: unknown) and its cost, with placeholders.
    /// `free_gpus` is the number of GPUs of the cluster that no pod asked for, and `unready` the number of replicas that are
    /// wanted and not ready; `None` if unknown.
    pub fn note(self, on_hosts: bool, replicas: usize, free_gpus: Option<u64>, unready: Option<u64>) -> String {
        let lost = match replicas {
            0 => "one replica".to_owned(),
            1 => "the only replica".to_owned(),
            n => format!("one of {n} replicas"),
        };
        let free = match free_gpus {
            None => String::new(),
            Some(0) => " (no GPU of this cluster is free: it stays `Pending` until a node is added)".to_owned(),
            Some(1) => " (1 of this cluster is free)".to_owned(),
            Some(n) => format!(" ({n} of this cluster are free)"),
        };
        let wanted = match unready.unwrap_or_default() {
            0 => String::new(),
            n => format!(
                "{n} more than there are ready are wanted already; look first why they do not come \
                 (`kubectl -n <namespace> get events --sort-by=.lastTimestamp`). "
            ),
        };
        let text = match (self, on_hosts) {
            (Self::Replicas, false) => {
                "<wanted>If a controller sets the number, change it there. An HPA: `kubectl -n <namespace> patch hpa <hpa> -p '{\"spec\":{\"minReplicas\":<n>}}'` (KEDA: `minReplicaCount` of the ScaledObject). A LeaderWorkerSet: `kubectl -n <namespace> scale leaderworkerset <set> --replicas=<n>`. An LLMInferenceService: its `spec.replicas`. A DynamoGraphDeployment: `replicas` of its service. With Argo CD or Flux, switch auto-sync off first. Each new replica needs free GPUs<free>, and minutes to load its weights"
            }
            (Self::Replicas, true) => {
                "On machines start the same unit or container on another one, under Slurm `sbatch <the job's script>`, and add it to the gateway's backends once it answers. Each new replica needs free GPUs, and minutes to load its weights"
            }
            (Self::Revision, _) => {
                "With Argo CD or Flux, switch auto-sync off first. Replicas are replaced in turn: each loses its streams and its cache, and loads for minutes. If the new pod stays `Pending`: `kubectl -n <namespace> patch deployment <deployment> -p '{\"spec\":{\"strategy\":{\"rollingUpdate\":{\"maxSurge\":0,\"maxUnavailable\":1}}}}'`"
            }
            (Self::Flags, false) => {
                "Edit the workload (`kubectl -n <namespace> edit deployment <deployment>`; an operator: its own object), then stop after the first new pod: `kubectl -n <namespace> rollout pause deployment/<deployment>`, later `rollout resume` (a StatefulSet: `partition`). A restart cuts streams, empties the cache, and takes <lost> away while it loads: in a full pool, scale out first"
            }
            (Self::Flags, true) => {
                "Take the replica out at the gateway, let its streams end, restart it with the flag, and put it back once it answers. A restart empties the cache, and takes <lost> away while it loads: in a full pool, start another one first"
            }
            (Self::Gateway, false) => {
                "Edit its ConfigMap or Deployment (`kubectl -n <namespace of the gateway> edit deployment <gateway>`); pods are replaced in turn, and each cuts the streams that run through it"
            }
            (Self::Gateway, true) => {
                "Restart one process of the gateway at a time; each restart cuts the streams that run through it"
            }
        };
        text.replace("<lost>", &lost).replace("<free>", &free).replace("<wanted>", &wanted)
    }
}

impl Step {
    /// Returns the commands of a step's text: what its back-ticks hold and a known program begins.
    pub fn commands(text: &str) -> impl Iterator<Item = &str> {
        Self::code(text).filter(|span| span.split_whitespace().next().is_some_and(|word| PROGRAMS.contains(&word)))
    }

    /// Returns true if a command or request changes something; one that looks may serve several steps.
    pub fn changes_something(span: &str) -> bool {
        // A prompt is sent with POST and changes nothing.
        if READ_ONLY_WORDS.iter().any(|word| span.contains(word)) {
            return false;
        }
        // Words after a pipe only filter the output.
        let words: Vec<&str> = span.split_whitespace().take_while(|word| *word != "|").collect();
        let acts = |(tool, acts): &(&str, &[&str])| {
            let called = words.iter().position(|word| word == tool);
            called.is_some_and(|at| words.iter().skip(at).any(|word| acts.contains(word)))
        };
        CHANGING_COMMANDS.iter().any(acts) || words.first().is_some_and(|method| CHANGING_METHODS.contains(method))
    }

    /// Returns true if a command ends a process of the pool, which starts again.
    pub fn restarts(command: &str) -> bool {
        let words: Vec<&str> = command.split_whitespace().collect();
        let acts = |acts: &[&str]| acts.iter().all(|act| words.contains(act));
        RESTARTING_COMMANDS.iter().any(|(tool, kinds)| words.contains(tool) && kinds.iter().any(|kind| acts(kind)))
    }

    /// Returns the texts in back-ticks.
    pub fn code(text: &str) -> impl Iterator<Item = &str> {
        text.split('`').skip(1).step_by(2)
    }
}
