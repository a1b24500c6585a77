//! Webhook bodies: a group with every alert of the body, or an error that says what is wrong.

use knowledge::alert::AlertGroup;
use knowledge::playbook::{load, select};
use proptest::prelude::*;
use serde_json::{Value, json};

use super::mutation::{mutated, mutated_json, scalar};
use super::{Slowly, corpus, holds};

fn bodies() -> Vec<Vec<u8>> {
    ["0.25", "0.28", "0.33"]
        .into_iter()
        .flat_map(|version| corpus(&format!("alertmanager/{version}"), "json"))
        .collect()
}

/// What the product does to a text: PostgreSQL cannot store NUL.
fn kept(text: &str) -> String {
    text.replace('\0', "\u{fffd}")
}

/// The labels of an alert of the body, as they must be in the group.
fn labels(alert: &Value) -> Vec<(String, String)> {
    let fields = alert["labels"].as_object().into_iter().flatten();
    let mut labels: Vec<_> =
        fields.map(|(name, value)| (kept(name), kept(value.as_str().unwrap_or_default()))).collect();
    labels.sort();
    labels
}

fn has_every_alert(group: &AlertGroup, body: &Value) -> Result<(), TestCaseError> {
    let sent = body["alerts"].as_array().map(Vec::as_slice).unwrap_or_default();
    prop_assert_eq!(group.alerts.len() + group.left_out.len(), sent.len());
    for (alert, sent) in group.alerts.iter().zip(sent) {
        let found: Vec<_> = alert.labels.iter().map(|(name, value)| (name.clone(), value.clone())).collect();
        // Two names may become one where NUL was replaced.
        if !sent["labels"].to_string().contains("\\u0000") {
            prop_assert_eq!(found, labels(sent));
        }
        prop_assert_eq!(&alert.fingerprint, &kept(sent["fingerprint"].as_str().unwrap_or_default()));
    }
    Ok(())
}

/// Both readers tell the same.
fn read(body: &[u8], most: usize) -> Result<Option<AlertGroup>, TestCaseError> {
    match (AlertGroup::from_webhook(body), AlertGroup::from_reader(Slowly(body, most))) {
        (Ok(one), Ok(other)) => {
            prop_assert_eq!(&one, &other);
            let texts = one.alerts.iter().flat_map(|alert| alert.labels.iter().chain(&alert.annotations));
            prop_assert!(!texts.flat_map(|(name, value)| [name, value]).any(|text| text.contains('\0')));
            Ok(Some(one))
        }
        (Err(one), Err(other)) => {
            let said = one.to_string();
            let names = [" at line ", "payload version is", "has no alerts", "larger than 4 MiB"];
            prop_assert!(names.iter().any(|name| said.contains(name)), "{}", said);
            prop_assert_eq!(
                said.split(" at line").next().map(str::to_owned),
                other.to_string().split(" at line").next().map(str::to_owned)
            );
            Ok(None)
        }
        (one, other) => Err(TestCaseError::fail(format!("{one:?}\n{other:?}"))),
    }
}

fn alert() -> impl Strategy<Value = Value> {
    let labels = || prop::collection::btree_map(any::<String>(), any::<String>(), 0..4);
    let status = proptest::sample::select(vec!["firing", "resolved"]);
    (labels(), labels(), status, 0..4_000_000_000_i64, any::<String>(), scalar()).prop_map(
        |(labels, annotations, status, starts, fingerprint, unknown)| {
            let starts = jiff::Timestamp::from_second(starts).unwrap();
            json!({ "status": status, "labels": labels, "annotations": annotations, "startsAt": starts,
                "fingerprint": fingerprint, "unknownField": unknown })
        },
    )
}

#[test]
fn every_alert_of_a_body_is_in_the_group_whatever_its_labels_and_unknown_fields() {
    let body = (prop::collection::vec(alert(), 1..6), any::<String>(), any::<u64>(), scalar());
    holds((body, 1..200_usize), |((alerts, key, truncated, unknown), most)| {
        let body = json!({ "version": "4", "groupKey": key, "status": "firing", "truncatedAlerts": truncated,
            "alerts": alerts, "unknown": unknown });
        let group = read(&serde_json::to_vec(&body).unwrap(), most)?;
        let group = group.ok_or_else(|| TestCaseError::fail("refused"))?;
        prop_assert_eq!((group.group_key.clone(), group.truncated_alerts), (kept(&key), truncated));
        has_every_alert(&group, &body)
    });
}

#[test]
fn a_real_body_with_other_values_is_a_group_with_every_alert_or_an_error_that_says_what_is_wrong() {
    holds((mutated_json(bodies()), 1..500_usize), |(body, most)| {
        match read(&serde_json::to_vec(&body).unwrap(), most)? {
            Some(group) => has_every_alert(&group, &body),
            None => Ok(()),
        }
    });
}

#[test]
fn mutated_bytes_of_a_body_are_read_the_same_by_both_readers_and_their_beginning_never_fails() {
    let tokens = &[
        "{",
        "}",
        "[",
        "]",
        ",",
        ":",
        "\"",
        "\\",
        "\\u0000",
        "null",
        "\"labels\":",
        "\"alerts\":[",
        "\"startsAt\":",
        "-1",
        "1e400",
        "\\ud800",
        "é",
        "\0",
    ];
    holds((mutated(bodies(), tokens), 1..500_usize, any::<proptest::sample::Index>()), |(body, most, at)| {
        read(&body, most)?;
        if let Some(group) = AlertGroup::too_large(&body[..at.index(body.len() + 1)]) {
            prop_assert_eq!(group.alerts.len(), 1);
            prop_assert!(group.group_key.starts_with("too large to read: "), "{}", group.group_key);
        }
        Ok(())
    });
}

#[test]
fn an_expression_of_any_depth_in_an_alerts_link_ends_nothing() {
    let library = load(None).unwrap();
    let token =
        prop_oneof!["[-+*/^(){}\\[\\]\"'`#\\\\=<>@,\n ]", "[a-z]", Just(" or ".to_owned()), Just("sum(".to_owned())];
    let around = (prop::collection::vec(token.clone(), 0..4), prop::collection::vec(token, 0..4), 0..20_000_usize);
    holds(around, |(before, after, times)| {
        let expression = format!("{}a{}", before.concat().repeat(times), after.concat().repeat(times));
        let pairs = [("g0.expr", expression.as_str())];
        let link = url::Url::parse_with_params("http://prometheus/graph", pairs).unwrap();
        let body = json!({ "version": "4", "groupKey": "a", "status": "firing", "alerts": [{ "status": "firing",
            "labels": { "alertname": "X" }, "startsAt": "2026-01-01T00:00:00Z", "generatorURL": link }] });
        let group = read(&serde_json::to_vec(&body).unwrap(), 500)?;
        let group = group.ok_or_else(|| TestCaseError::fail("refused"))?;
        prop_assert_eq!(select(&library, &group.alerts), None);
        Ok(())
    });
}
