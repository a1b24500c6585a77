//! The changes of a rollout: the containers of two revisions of a workload, compared. Pure.

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::cluster::Container;
use knowledge::clip::clip;
use redact::is_secret;

/// Maximum characters of a value: an argument may be a whole script.
const VALUE: usize = 120;

/// The annotations and labels of the tools that deploy, each with the tool's words, the key of the application and that of
/// its namespace. The first that a workload has counts: a chart that Argo CD or Flux deploys has Helm's too.
///
/// Sources: argo-cd.readthedocs.io/en/stable/user-guide/resource_tracking (by label: `app.kubernetes.io/instance`, which
/// Helm's charts set as well), fluxcd/kustomize-controller and fluxcd/helm-controller (labels of origin), helm.sh/docs
/// (release annotations).
const TOOLS: [(&str, &str, Option<&str>); 5] = [
    ("Argo CD", "argocd.argoproj.io/tracking-id", None),
    ("Flux HelmRelease", "helm.toolkit.fluxcd.io/name", Some("helm.toolkit.fluxcd.io/namespace")),
    ("Flux Kustomization", "kustomize.toolkit.fluxcd.io/name", Some("kustomize.toolkit.fluxcd.io/namespace")),
    ("Helm", "meta.helm.sh/release-name", Some("meta.helm.sh/release-namespace")),
    ("the application", "app.kubernetes.io/instance", None),
];
/// The prefix of annotations with links that Argo CD shows: `title|address`, or an address.
/// Source: argo-cd.readthedocs.io/en/stable/user-guide/external-url
const LINK: &str = "link.argocd.argoproj.io/";

/// The last rollout of a pool's workload.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Rollout {
    /// Kind and name: `Deployment/llama`.
    pub workload: String,
    /// The number of the newer revision.
    pub revision: Option<i64>,
    /// The time of its first appearance; `None` if the rollout went back to an earlier revision.
    pub at: Option<Timestamp>,
    /// The differences between the two newest revisions.
    pub changes: Vec<TemplateChange>,
    /// The tool that deployed it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deployed_by: Option<Deployer>,
}

/// A difference between two revisions.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct TemplateChange {
    /// The thing: `image`, `--max-num-seqs`, `env HF_HOME`, `limits.nvidia.com/gpu`; before it the container if there are several.
    pub what: String,
    /// The value before; `None` if there was none, or it may be secret.
    pub before: Option<String>,
    /// The value after; `None` if there is none, or it may be secret.
    pub after: Option<String>,
}

/// A tool that deploys, as the labels and annotations of a workload name it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Deployer {
    /// The tool, with its kind of application: `Argo CD`, `Flux HelmRelease`, `Helm`.
    pub tool: String,
    /// The application's name, with its namespace if known.
    pub name: String,
    /// The chart with its version, if the workload names it.
    pub chart: Option<String>,
    /// A link that the workload names.
    pub link: Option<String>,
}

impl Deployer {
    /// Finds the tool in the labels and annotations of a workload.
    pub fn of(labels: &BTreeMap<String, String>, annotations: &BTreeMap<String, String>) -> Option<Self> {
        let value = |key: &str| annotations.get(key).or_else(|| labels.get(key)).filter(|value| !value.is_empty());
        let (tool, name, namespace) =
            TOOLS.iter().find_map(|(tool, name, namespace)| Some((tool, value(name)?, namespace.and_then(value))))?;
        // The tracking id is `application:group/kind:namespace/name`.
        let name = name.split(':').next().unwrap_or(name);
        let links = annotations.iter().filter(|(key, _)| key.starts_with(LINK));
        let links = links.filter_map(|(_, value)| value.rsplit('|').next());
        Some(Self {
            tool: (*tool).to_owned(),
            name: namespace.map_or_else(|| name.to_owned(), |namespace| format!("{namespace}/{name}")),
            chart: value("helm.sh/chart").cloned(),
            link: links.into_iter().find(|link| link.starts_with("https://")).map(str::to_owned),
        })
    }
}

/// Maximum number of changes that are told, and of words of a command line that are read.
const CHANGES: usize = 50;
const WORDS: usize = 2_000;

/// Compares the containers of two revisions: image, arguments, environment and resources; at most [`CHANGES`]. Only values of
/// images, resources and flags that cannot hold a secret are told, all others by their name alone: the words of a command line
/// have lost what a redactor needs to know them by.
pub fn diff(old: &[Container], new: &[Container]) -> Vec<TemplateChange> {
    let several = old.len().max(new.len()) > 1;
    let names: BTreeSet<&str> = old.iter().chain(new).map(|container| container.name.as_str()).collect();
    let mut changes = Vec::new();
    for name in names {
        let of = |list: &[Container]| list.iter().find(|c| c.name == name).map(settings).unwrap_or_default();
        let (before, after) = (of(old), of(new));
        let keys: BTreeSet<&(u8, String)> = before.keys().chain(after.keys()).collect();
        for key in keys.into_iter().filter(|key| before.get(*key) != after.get(*key)) {
            let value = |settings: &BTreeMap<(u8, String), String>| {
                settings.get(key).filter(|value| is_harmless(key, value)).map(|value| clip(value, VALUE))
            };
            let what = if several { format!("{name} {}", key.1) } else { key.1.clone() };
            changes.push(TemplateChange { what, before: value(&before), after: value(&after) });
        }
    }
    changes.truncate(CHANGES);
    changes
}

/// Returns true if the value of a setting may be told: of an image, of a resource, of a flag whose name is no secret's and
/// whose value is one number, size or plain word.
fn is_harmless((rank, name): &(u8, String), value: &str) -> bool {
    let is_word = || value.len() <= WORD && value.chars().all(|c| c.is_ascii_alphanumeric() || "._/:+-".contains(c));
    match *rank {
        IMAGE | RESOURCE => !value.contains('@') || value.contains("@sha256:"),
        ARGUMENT => name.starts_with('-') && !is_secret(name.trim_start_matches('-')) && is_word(),
        _ => false,
    }
}

/// The longest value of a flag that is told: a model's name, a size.
const WORD: usize = 80;
/// The ranks of settings, in their order.
const IMAGE: u8 = 0;
const ARGUMENT: u8 = 1;
const ENVIRONMENT: u8 = 2;
const RESOURCE: u8 = 3;

/// Returns what a container is started with, by its rank and name.
fn settings(container: &Container) -> BTreeMap<(u8, String), String> {
    let image = [((IMAGE, "image".to_owned()), container.image.clone())];
    let arguments = arguments(&container.args).into_iter().map(|(name, value)| ((ARGUMENT, name), value));
    let env = container.env.iter().map(|(name, value)| ((ENVIRONMENT, format!("env {name}")), value.clone()));
    let resources = container.resources.iter().map(|(name, value)| ((RESOURCE, name.clone()), value.clone()));
    image.into_iter().chain(arguments).chain(env).chain(resources).collect()
}

/// The longest flag with one dash, such as `-tp`, in bytes.
const SHORT_FLAG: usize = 4;
/// The words of a command line that are no flag's, as one setting.
const OTHER_WORDS: &str = "other arguments";

/// Returns the flags of a command line with their values, and its other words. The words of a script are separate ones.
fn arguments(words: &[String]) -> BTreeMap<String, String> {
    // A short flag may have its value behind it: `-p` and a password.
    let is_short = |word: &str| word.len() <= SHORT_FLAG && word.starts_with('-');
    let is_flag = |word: &str| (word.starts_with("--") || is_short(word)) && word.parse::<f64>().is_err();
    let mut words = words.iter().flat_map(|word| word.split_whitespace()).take(WORDS).peekable();
    let mut arguments = BTreeMap::<String, String>::new();
    while let Some(word) = words.next() {
        let (name, value) = match word.split_once('=') {
            // By place they would all differ after one that is new.
            _ if !is_flag(word) => (OTHER_WORDS.to_owned(), word),
            Some((name, value)) => (name.to_owned(), value),
            None => (word.to_owned(), words.next_if(|next| !is_flag(next)).unwrap_or_default()),
        };
        let values = arguments.entry(name).or_default();
        if !values.is_empty() {
            values.push(' ');
        }
        values.push_str(value);
    }
    arguments
}

#[cfg(test)]
mod tests {
    use super::*;

    fn container(image: &str, args: &[&str], env: &[(&str, &str)]) -> Container {
        let env = env.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
        let args = args.iter().map(|word| (*word).to_owned()).collect();
        Container { name: "main".to_owned(), image: image.to_owned(), args, env, ..Container::default() }
    }

    fn told(old: &Container, new: &Container) -> Vec<String> {
        let text = |value: Option<String>| value.unwrap_or_else(|| "–".to_owned());
        let changes = diff(std::slice::from_ref(old), std::slice::from_ref(new)).into_iter();
        changes.map(|change| format!("{}: {} → {}", change.what, text(change.before), text(change.after))).collect()
    }

    #[test]
    fn a_newer_image_and_a_lower_flag_are_told_in_either_form_of_a_flag() {
        let old = container("vllm:v0.10", &["vllm", "serve", "m", "--max-num-seqs", "256", "--seed", "-1"], &[]);
        let new = container("vllm:v0.11", &["vllm serve m --max-num-seqs=64 --seed -1 --async"], &[]);
        let flags: Vec<String> = told(&old, &new).into_iter().filter(|line| !line.starts_with("other")).collect();
        assert_eq!(flags, ["image: vllm:v0.10 → vllm:v0.11", "--async: – → ", "--max-num-seqs: 256 → 64"]);
        assert!(told(&old, &old).is_empty());
    }

    #[test]
    fn a_secret_is_told_by_its_name_alone() {
        let of = |n: &str| {
            let secret = |text: &str| format!("{text}{n}");
            let args = [
                secret("--api-key=one"),
                secret("two"),
                secret("--header=Authorization: Bearer zxcv"),
                secret("-pqwerty"),
                secret("--x=a@b"),
            ];
            let args: Vec<&str> = args.iter().map(String::as_str).collect();
            let (password, reference) = (secret("pw"), secret("secret a/b"));
            let env =
                [("HF_TOKEN", password.as_str()), ("PASSWORD", password.as_str()), ("KEY_REF", reference.as_str())];
            container("i", &args, &env)
        };
        let all = told(&of("1"), &of("2"));
        for line in ["--api-key: – → –", "env HF_TOKEN: – → –", "env PASSWORD: – → –", "other arguments: – → –"]
        {
            assert!(all.iter().any(|told| told == line), "{line}: {all:?}");
        }
        let text = all.concat();
        for hidden in ["one1", "two1", "zxcv", "qwerty", "pw1", "a/b1", "a@b"] {
            assert!(!text.contains(hidden), "{hidden}: {text}");
        }
    }

    #[test]
    fn the_tool_that_deployed_comes_before_the_chart_that_it_deployed() {
        let map = |all: &[(&str, &str)]| all.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect();
        let labels = map(&[("app.kubernetes.io/instance", "other"), ("helm.sh/chart", "llama-1.4.2")]);
        let annotations = map(&[
            ("argocd.argoproj.io/tracking-id", "llama-prod:apps/Deployment:llm/llama"),
            ("meta.helm.sh/release-name", "llama"),
            ("link.argocd.argoproj.io/app", "App|https://argo.example/llama"),
            ("link.argocd.argoproj.io/bad", "javascript:alert(1)"),
        ]);
        let found = Deployer::of(&labels, &annotations).unwrap();
        assert_eq!((found.tool.as_str(), found.name.as_str()), ("Argo CD", "llama-prod"));
        assert_eq!(
            (found.chart.as_deref(), found.link.as_deref()),
            (Some("llama-1.4.2"), Some("https://argo.example/llama"))
        );
        let flux =
            map(&[("kustomize.toolkit.fluxcd.io/name", "llms"), ("kustomize.toolkit.fluxcd.io/namespace", "flux")]);
        assert_eq!(Deployer::of(&flux, &BTreeMap::new()).unwrap().name, "flux/llms");
        assert_eq!(Deployer::of(&BTreeMap::new(), &BTreeMap::new()), None);
    }
}
