//! The true causes of firings: from a file, and from users' feedback in the store.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::time::Duration;

use anyhow::{Context, bail};
use jiff::Timestamp;

use ::backtest::{Firing, NO_CAUSE, OTHER_CAUSE};
use findings::Diagnosis;
use knowledge::alert::Alert;
use knowledge::clip::format_count;
use knowledge::clock;
use knowledge::playbook::{Library, PlaybookKind, SourceFile, parse, suggestion};
use report::named_cause;
use service::config::{Config, visit_store};
use store::{Feedback, StoreAccess};

/// Maximum bytes of a file of labels.
const FILE_BYTES: u64 = 4 << 20;
/// Maximum difference between a firing's start and the time that names it.
const NEAR: Duration = Duration::from_secs(600);

/// Maximum number of unused labels that are named.
const UNUSED: usize = 5;

/// The known causes.
#[derive(Debug, Default)]
pub(super) struct TrueCauses {
    by_id: BTreeMap<String, String>,
    by_alert: Vec<(String, Timestamp, String)>,
    by_incident: Vec<(Vec<Alert>, String)>,
    /// Sentences about feedback that could not be used.
    problems: Vec<String>,
}

impl TrueCauses {
    /// Reads a file: a firing's id, or an alert's name with a time, to the id of the cause.
    ///
    /// # Errors
    /// If the file cannot be read, or names a cause that no playbook has.
    pub(super) fn read(&mut self, library: &Library, path: &Path) -> anyhow::Result<()> {
        let size = std::fs::metadata(path).map(|file| file.len()).unwrap_or_default();
        if size > FILE_BYTES {
            bail!("{} is longer than {} MiB", path.display(), FILE_BYTES >> 20);
        }
        let text = std::fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))?;
        let file = SourceFile::new(path.display().to_string(), text);
        let labels: BTreeMap<String, String> = parse(&file).map_err(|problem| anyhow::anyhow!("{problem}"))?;
        for (firing, cause) in labels {
            let cause = known(library, &cause).with_context(|| format!("{}: `{firing}`", path.display()))?;
            match firing.trim().split_once(char::is_whitespace) {
                None => _ = self.by_id.insert(firing.trim().to_owned(), cause),
                Some((alert, at)) => {
                    let at = clock::parse_time(at.trim()).map_err(anyhow::Error::msg);
                    let at = at.with_context(|| format!("{}: `{firing}`", path.display()))?;
                    self.by_alert.push((alert.to_owned(), at, cause));
                }
            }
        }
        Ok(())
    }

    /// Reads users' feedback; the last one on an incident counts.
    ///
    /// # Errors
    /// If the store cannot be read.
    pub(super) async fn read_feedback(&mut self, library: &Library, config: &Config) -> anyhow::Result<()> {
        let store = visit_store(config, StoreAccess::ReadOnly).await?;
        let all = store.feedback().await?;
        let last: BTreeMap<&str, &Feedback> =
            all.iter().map(|feedback| (feedback.incident.as_str(), feedback)).collect();
        for (id, feedback) in last {
            let incident = store.each(&[id.to_owned()]).await?.pop();
            let Some(incident) = incident else { continue };
            match confirmed(library, incident.diagnosis.as_ref(), &feedback.cause) {
                Some(cause) => self.by_incident.push((incident.alerts, cause)),
                None => self.problems.push(format!(
                    "the feedback on incident {id} names no cause: `{}` only says that nothing else was found",
                    feedback.cause
                )),
            }
        }
        store.close().await;
        Ok(())
    }

    /// Returns the true causes of firings by id, and sentences about entries that could not be used: an entry of the file
    /// must name one firing. The file counts before feedback.
    pub(super) fn of(
        &self,
        firings: &BTreeMap<String, &Firing>,
        to: Timestamp,
    ) -> (BTreeMap<String, String>, Vec<String>) {
        let (mut causes, mut problems, mut unused) = (BTreeMap::new(), self.problems.clone(), Vec::new());
        for (id, cause) in &self.by_id {
            match firings.contains_key(id) {
                true => _ = causes.insert(id.clone(), cause.clone()),
                false => unused.push(id.clone()),
            }
        }
        for (alert, at, cause) in &self.by_alert {
            let during = |firing: &Firing| *at >= clock::before(firing.starts_at, NEAR) && *at <= firing.over_at(to);
            let fits = firings.iter().filter(|(_, firing)| firing.rule() == alert && during(firing));
            let ids: Vec<&str> = fits.map(|(id, _)| id.as_str()).collect();
            match ids.as_slice() {
                [] => unused.push(format!("{alert} {at}")),
                [id] => match causes.get(*id).filter(|known| *known != cause) {
                    Some(known) => {
                        problems.push(format!(
                            "the labels name two causes for firing {id}: `{known}` counts, not `{cause}`"
                        ));
                    }
                    None => _ = causes.insert((*id).to_owned(), cause.clone()),
                },
                [..] => {
                    let ids = ids.join(", ");
                    problems.push(format!(
                        "the label `{alert} {at}` fits several firings and counts for none: name one by its id, {ids}"
                    ));
                }
            }
        }
        if !unused.is_empty() {
            let names = unused.iter().take(UNUSED).cloned().collect::<Vec<_>>().join(", ");
            let labels = format_count(unused.len(), "label");
            problems.push(format!("{labels} of the file fit no diagnosed firing: {names}"));
        }
        for (id, firing) in firings {
            let nearest =
                self.by_incident.iter().filter_map(|(alerts, cause)| Some((apart(alerts, firing)?, cause))).min();
            if let Some((_, cause)) = nearest {
                causes.entry(id.clone()).or_insert_with(|| cause.clone());
            }
        }
        (causes, problems)
    }
}

/// Returns the time between the start of a firing and that of the same alert of an incident; `None` if none is near it.
fn apart(alerts: &[Alert], firing: &Firing) -> Option<Duration> {
    // Prometheus adds external labels when it sends an alert; `ALERTS` has none of them.
    let is_sent = |alert: &&Alert| firing.labels.iter().all(|(name, value)| alert.labels.get(name) == Some(value));
    let apart = |alert: &Alert| {
        clock::between(alert.starts_at, firing.starts_at).max(clock::between(firing.starts_at, alert.starts_at))
    };
    alerts.iter().filter(is_sent).map(apart).min().filter(|apart| *apart <= NEAR)
}

/// Returns the cause that feedback confirms: where it is about "nothing else was found", the mechanism above it, which a
/// backtest names too. `None` without one.
fn confirmed(library: &Library, diagnosis: Option<&Diagnosis>, cause: &str) -> Option<String> {
    match diagnosis.and_then(|diagnosis| Some((diagnosis, diagnosis.root()?))) {
        Some((diagnosis, root)) if root.id == cause && root.fallback => named_cause(diagnosis)?.chain.last().cloned(),
        _ => Some(cause.to_owned()).filter(|cause| !is_fallback(library, cause)),
    }
}

/// Returns true for a cause that only says that nothing else was found, in any place.
fn is_fallback(library: &Library, cause: &str) -> bool {
    let entries = library.playbooks.values().flat_map(|playbook| &playbook.causes);
    let mut own = entries.filter(|entry| entry.target() == cause).peekable();
    own.peek().is_some() && own.all(|entry| entry.fallback && entry.playbook.is_none())
}

/// Returns the id of a cause.
fn known(library: &Library, cause: &str) -> anyhow::Result<String> {
    let id = cause.trim();
    let mechanisms = library.of_kind(PlaybookKind::Mechanism).map(|playbook| &playbook.playbook);
    let own = library.playbooks.values().flat_map(|playbook| &playbook.causes).filter_map(|cause| cause.id.as_ref());
    let all = mechanisms.chain(own).chain(library.causes.keys()).map(String::as_str);
    let causes: BTreeSet<&str> = all.filter(|id| !is_fallback(library, id)).collect();
    if id == NO_CAUSE || id == OTHER_CAUSE || causes.contains(id) {
        return Ok(id.to_owned());
    }
    let hint = suggestion(id, causes).unwrap_or_default();
    bail!("there is no cause `{id}` {hint}: expected the id of a cause, `{NO_CAUSE}` or `{OTHER_CAUSE}`")
}

#[cfg(test)]
mod tests {
    use super::*;
    use knowledge::alert::Labels;

    #[test]
    fn a_file_names_firings_by_id_or_by_alert_and_time() {
        let library = knowledge::playbook::load(None).unwrap();
        let file = tempfile::NamedTempFile::new().unwrap();
        let read = |text: &str| {
            std::fs::write(file.path(), text).unwrap();
            let mut causes = TrueCauses::default();
            causes.read(&library, file.path()).map(|()| causes)
        };
        let causes = read(
            "abc: longer-prompts\nLLMHighTTFT 2026-11-20T03:05:00Z: traffic-surge\nLLMHighTTFT 2026-11-22T03:05:00Z: none\n",
        )
        .unwrap();
        let start: Timestamp = "2026-11-20T03:00:00Z".parse().unwrap();
        let firing = |name: &str| Firing {
            labels: Labels::from([("alertname".to_owned(), name.to_owned())]),
            condition_since: start,
            starts_at: start,
            ends_at: Some(clock::after(start, NEAR)),
            fired_until: start,
            generator_url: String::new(),
        };
        let to = clock::after(start, NEAR * 2);
        let [other, high, second] = ["Other", "LLMHighTTFT", "LLMHighTTFT"].map(firing);
        let (known, problems) = causes.of(&[("abc".to_owned(), &other), ("x".to_owned(), &high)].into(), to);
        let pair = |id: &str, cause: &str| (id.to_owned(), cause.to_owned());
        assert_eq!(known, [pair("abc", "longer-prompts"), pair("x", "traffic-surge")].into());
        assert_eq!(problems, ["1 label of the file fit no diagnosed firing: LLMHighTTFT 2026-11-22T03:05:00Z"]);
        let (known, problems) = causes.of(&[("x".to_owned(), &high), ("y".to_owned(), &second)].into(), to);
        assert!(known.is_empty() && problems[0].ends_with("name one by its id, x, y"), "{known:?} {problems:?}");
        for symptom in ["high-ttft", "kv_cache_usage", "vllm", "unchanged"] {
            assert!(read(&format!("abc: {symptom}\n")).is_err(), "{symptom} is no cause");
        }
        let error = format!("{:#}", read("abc: longer-promts\n").unwrap_err());
        assert!(error.contains("there is no cause `longer-promts`") && error.contains("longer-prompts"), "{error}");
        let error = format!("{:#}", read("A yesterday: none\n").unwrap_err());
        assert!(error.contains("`A yesterday`") && error.contains("is no time"), "{error}");
    }
}
