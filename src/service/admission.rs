//! Admission: a group is stored with its playbook, its destinations, and the digest that it may join.

use std::time::Duration;

use tracing::{Instrument, error, info, info_span};

use crate::Service;
use crate::config::Config;
use findings::Scope;
use knowledge::alert::{Alert, AlertGroup, OwnAlert, SELF_TEST_CHANNEL};
use knowledge::incident::AdmissionRules;
use knowledge::playbook::select;
use store::{AdmissionPlan, Admitted, Sink, Storm};

/// Maximum number of characters in a digest's topic: labels may be long.
const TOPIC_CHARS: usize = 150;

/// The time after which the diagnoses no longer make room for webhooks that are being stored.
const STORING_MOST: Duration = Duration::from_secs(5);

/// Stores groups in one commit, and returns the result of each, in order.
pub async fn admit_groups(service: &Service, groups: Vec<AlertGroup>) -> Vec<Result<Admitted, String>> {
    let rules = AdmissionRules {
        duplicate_within: service.config.incident.duplicate_within,
        reopen_within: service.config.incident.reopen_within,
    };
    let groups: Vec<_> = groups.into_iter().map(|group| planned(service, group)).collect();
    service.last_intake.begin(STORING_MOST);
    let stored = service.store.admit(&groups, service.store.now(), &rules).instrument(info_span!("admit")).await;
    let answers: Vec<Result<Admitted, String>> = match stored {
        Ok(results) => results.into_iter().map(|r| r.map_err(|e| e.to_string())).collect(),
        Err(error) => groups.iter().map(|_| Err(error.to_string())).collect(),
    };
    for answer in &answers {
        match answer {
            Ok(admitted) => {
                service.metrics.admission(admitted.reason.as_str());
                info!(incident.id = admitted.incident, reason = admitted.reason.as_str(), "stored an alert group");
            }
            Err(error) => error!(error, "cannot store an alert group"),
        }
    }
    if answers.iter().any(Result::is_ok) {
        service.last_intake.record();
    }
    service.diagnoses.notify_one();
    service.deliveries.notify_one();
    answers
}

/// Adds what admission needs beside the group: the playbook, the destinations, and the digest of a storm.
fn planned(service: &Service, group: AlertGroup) -> (AlertGroup, AdmissionPlan) {
    let own = OwnAlert::of(&group.alerts);
    let (sinks, filtered) = sinks(&service.config, &group.active(), own);
    let selection = match own {
        // It is about no pool.
        Some(OwnAlert::AlertmanagerSilent) => None,
        Some(OwnAlert::SelfTest) | None => select(&service.library, &group.alerts).map(|s| (s.playbook, s.because)),
    };
    // An alert that names a pool, or reads an engine's metrics, is diagnosed whatever its name is: with an empty playbook
    // the pool is screened.
    let scope = Scope::of_alerts(&group.alerts);
    let named = scope.is_about_pools(&service.library);
    let selection = selection.or_else(|| named.then(|| (String::new(), "the pool is screened".to_owned())));
    let chat = &service.config.slack;
    let (incidents, queue) = match own {
        // A silent Alertmanager has a message of its own.
        Some(OwnAlert::AlertmanagerSilent) if service.config.watchdog.reports(&group) => (0, u32::MAX),
        // A self test too, unless the queue is full: anybody who may send alerts can send one of this name.
        Some(OwnAlert::SelfTest) => (0, chat.queue),
        _ => (chat.storm.incidents, chat.queue),
    };
    let storm = Storm {
        incidents,
        within: chat.storm.within,
        queue,
        topic: topic(service, &group, selection.as_ref().map(|(playbook, _)| playbook)),
    };
    (group, AdmissionPlan { selection, sinks, filtered, grace: service.config.diagnose.grace, storm })
}

/// Returns the destinations of a group, and the channels for which its severity is too low. A self test calls no pager, and
/// goes to the channel that it names if the configuration has it; our own alerts have no severity that is too low.
fn sinks(config: &Config, firing: &[&Alert], own: Option<OwnAlert>) -> (Vec<(Sink, String)>, Vec<String>) {
    let is_test = own == Some(OwnAlert::SelfTest);
    let named = firing.first().and_then(|alert| alert.labels.get(SELF_TEST_CHANNEL)).filter(|_| is_test);
    let (shown, low): (Vec<&Alert>, Vec<&Alert>) =
        firing.iter().copied().partition(|alert| own.is_some() || config.slack.shows(alert));
    let channels = match named.and_then(|named| config.slack.channels().find(|channel| channel == named)) {
        Some(channel) => vec![channel],
        None => config.slack.channels_for(&shown),
    };
    let filtered = config.slack.channels_for(&low).into_iter().filter(|channel| !channels.contains(channel));
    let filtered = filtered.map(str::to_owned).collect();
    let console = config.prints().then(|| (Sink::Console, String::new()));
    let pagers = config.pagers.iter().filter(|pager| !is_test && pager.takes(firing));
    let pagers = pagers.map(|pager| (Sink::Pager, pager.name.clone()));
    let channels = channels.into_iter().map(|channel| (Sink::Slack, channel.to_owned()));
    (console.into_iter().chain(channels).chain(pagers).collect(), filtered)
}

/// Returns the topic of a group in the digest that it may join: its symptom, or else its alert name, with cluster
/// and namespace.
fn topic(service: &Service, group: &AlertGroup, playbook: Option<&String>) -> String {
    let title = playbook.and_then(|id| service.library.playbooks.get(id)).map(|playbook| playbook.title.as_str());
    let symptom = title.or_else(|| group.active().first().map(|alert| alert.name()));
    let scope = service.notifier.clean_labels(&Scope::of_alerts(&group.alerts).dimensions);
    let place: Vec<&str> = ["cluster", "namespace"].iter().filter_map(|d| scope.get(*d)).map(String::as_str).collect();
    let topic = match place.is_empty() {
        true => symptom.unwrap_or_default().to_owned(),
        false => format!("{} · {}", symptom.unwrap_or_default(), place.join("/")),
    };
    topic.chars().take(TOPIC_CHARS).collect()
}
