//! `doctor`'s check of the expected Alertmanagers.

use std::time::Duration;

use super::Findings;
use knowledge::alert::AlertGroup;
use service::check::Level;
use service::config::WatchdogConfig;
use service::watchdog::silent;
use store::Store;

/// Tells which of the expected Alertmanagers are silent, and whether the service has told so; `store` is `None` if it
/// cannot be read.
pub(super) async fn check(findings: &mut Findings, config: &WatchdogConfig, store: Option<&Store>) {
    if config.sources.is_empty() {
        return findings.ok("watchdog", "no Alertmanager is expected to send an always-firing alert".to_owned());
    }
    let silences = async {
        let store = store?;
        let silent = silent(store, config, store.now(), Duration::MAX).await;
        silent.ok().zip(store.open_of_group(AlertGroup::SILENT_KEY).await.ok())
    };
    let Some((silent, told)) = silences.await else {
        let todo = "start `serve` once, or pass --config as it has it";
        return findings.say("watchdog", Level::Warn, "the store of the service cannot be read".to_owned(), todo);
    };
    for source in &config.sources {
        let name = format!("alertmanager/{source}");
        match silent.iter().find(|silent| silent.source == *source) {
            None => findings.ok(&name, format!("sends {}, or was expected only a short time ago", config.alert)),
            Some(silent) if told.iter().any(|incident| incident.source == *source) => {
                let todo =
                    "look whether it runs, whether its route for this alert leads to us, and whether the rule fires";
                findings.say(&name, Level::Fail, silent.detail.clone(), todo);
            }
            // The service may have started, or got its store back, a moment ago.
            Some(silent) => {
                let todo = "see whether `serve` runs; it counts from its start, so look again after `watchdog.within`";
                findings.say(&name, Level::Warn, silent.detail.clone(), todo);
            }
        }
    }
}
