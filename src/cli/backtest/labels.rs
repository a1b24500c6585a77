//! The true causes of firings: from a file, and from users' feedback in the store.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::time::Duration;

use anyhow::{Context, bail};
use jiff::Timestamp;

use crate::alert::Alert;
use crate::clock;
use crate::config::{Config, visit_store};
use crate::playbook::{Library, SourceFile, parse, suggestion};
use crate::report::backtest::{Firing, NO_CAUSE, OTHER_CAUSE};
use crate::store::{Feedback, StoreAccess};

/// Maximum bytes of a file of labels.
const FILE_BYTES: u64 = 4 << 20;
/// Maximum difference between a firing's start and the time that names it.
const NEAR: Duration = Duration::from_secs(600);

/// The known causes.
#[derive(Debug, Default)]
pub(super) struct TrueCauses {
    by_id: BTreeMap<String, String>,
    by_alert: Vec<(String, Timestamp, String)>,
    by_incident: Vec<(Vec<Alert>, String)>,
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
        let store = visit_store(config, StoreAccess::ReadOnly).await?.with_aliases(library.aliases.clone());
        let all = store.feedback().await?;
        let last: BTreeMap<&str, &Feedback> =
            all.iter().map(|feedback| (feedback.incident.as_str(), feedback)).collect();
        for (id, feedback) in last {
            let incident = store.each(&[id.to_owned()]).await?.pop();
            self.by_incident.extend(incident.map(|incident| (incident.alerts, feedback.cause.clone())));
        }
        store.close().await;
        Ok(())
    }

    /// Returns the true cause of a firing: by its id, by its alert and time, else by the feedback on its incident.
    pub(super) fn of(&self, id: &str, firing: &Firing, to: Timestamp) -> Option<String> {
        let during = |at: Timestamp| at >= clock::before(firing.starts_at, NEAR) && at <= firing.over_at(to);
        let by_alert = || self.by_alert.iter().find(|(alert, at, _)| alert == firing.rule() && during(*at));
        // Prometheus adds external labels when it sends an alert; `ALERTS` has none of them.
        let is_sent = |alert: &Alert| firing.labels.iter().all(|(name, value)| alert.labels.get(name) == Some(value));
        let is_same = |alert: &Alert| {
            let apart = clock::between(alert.starts_at, firing.starts_at);
            is_sent(alert) && apart.max(clock::between(firing.starts_at, alert.starts_at)) <= NEAR
        };
        let by_incident = || self.by_incident.iter().find(|(alerts, _)| alerts.iter().any(is_same));
        let cause = self.by_id.get(id).or_else(|| by_alert().map(|(_, _, cause)| cause));
        cause.or_else(|| by_incident().map(|(_, cause)| cause)).cloned()
    }

    /// Returns the entries of the file that name none of these firings.
    pub(super) fn unused(&self, firings: &BTreeMap<String, &Firing>, to: Timestamp) -> Vec<String> {
        let names: BTreeSet<&str> = firings.keys().map(String::as_str).collect();
        let by_id = self.by_id.keys().filter(|id| !names.contains(id.as_str())).cloned();
        let during =
            |at: Timestamp, firing: &Firing| at >= clock::before(firing.starts_at, NEAR) && at <= firing.over_at(to);
        let is_unused = |(alert, at, _): &&(String, Timestamp, String)| {
            !firings.values().any(|firing| firing.rule() == alert && during(*at, firing))
        };
        by_id.chain(self.by_alert.iter().filter(is_unused).map(|(alert, at, _)| format!("{alert} {at}"))).collect()
    }
}

/// Returns the id of a cause, of a former id too.
fn known(library: &Library, cause: &str) -> anyhow::Result<String> {
    let id = library.aliases.id(cause.trim());
    if id == NO_CAUSE || id == OTHER_CAUSE || library.ids().any(|known| known == id) {
        return Ok(id.to_owned());
    }
    let hint = suggestion(id, library.ids().map(String::as_str)).unwrap_or_default();
    bail!("there is no cause `{id}` {hint}: expected the id of a cause, `{NO_CAUSE}` or `{OTHER_CAUSE}`")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::alert::Labels;

    #[test]
    fn a_file_names_firings_by_id_or_by_alert_and_time() {
        let library = crate::playbook::load(None).unwrap();
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
            generator_url: String::new(),
        };
        let of = |id: &str, name: &str| causes.of(id, &firing(name), start);
        assert_eq!(of("abc", "Other").as_deref(), Some("longer-prompts"));
        let to = clock::after(start, NEAR * 2);
        assert_eq!(causes.of("x", &firing("LLMHighTTFT"), to).as_deref(), Some("traffic-surge"));
        assert_eq!(of("x", "Other"), None);
        let late = firing("LLMHighTTFT");
        assert_eq!(causes.unused(&[("abc".to_owned(), &late)].into(), to), ["LLMHighTTFT 2026-11-22T03:05:00Z"]);
        let error = format!("{:#}", read("abc: longer-promts\n").unwrap_err());
        assert!(error.contains("there is no cause `longer-promts`") && error.contains("longer-prompts"), "{error}");
        let error = format!("{:#}", read("A yesterday: none\n").unwrap_err());
        assert!(error.contains("`A yesterday`") && error.contains("is no time"), "{error}");
    }
}
