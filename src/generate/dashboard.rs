//! `generate dashboard`: Grafana panels over the recorded `llm:*` series, from what users feel to single replicas.
//!
//! Rows, titles and units come from the catalog, thresholds from the alerts, links from the playbooks, so that the
//! picture, the pager and the diagnosis cannot disagree. Variables are named like the placeholders' dimensions.
//! Shape: Grafana's dashboard JSON model, schema version 39
//! (<https://grafana.com/docs/grafana/latest/dashboards/build-dashboards/view-dashboard-json-model/>).

use serde_json::{Value, json};

use super::recording::{Recorded, tells};
use crate::playbook::{AlertRule, Each, Evidence, Library, Op, Playbook, Reference, Severity};
use crate::signal::{Row, Signal, Unit};

/// Panels beside each other; Grafana's grid is 24 wide.
const COLUMNS: u64 = 3;
/// A panel's height in grid units.
const HEIGHT: u64 = 8;
/// The template variables, each a label of the recorded series.
const VARIABLES: [(&str, &str); 4] =
    [("cluster", "Cluster"), ("namespace", "Namespace"), ("model_name", "Model"), ("engine", "Engine")];
/// How a row is titled, and whether it is folded.
const ROWS: [(Option<Row>, &str); 5] = [
    (Some(Row::User), "What users feel"),
    (Some(Row::System), "What the fleet does"),
    (Some(Row::Diagnostic), "What explains it"),
    (Some(Row::Gpu), "GPUs"),
    (None, "Each replica"),
];

/// The dashboard as Grafana imports it.
pub fn dashboard(library: &Library, runbook_base: &str) -> Value {
    let mut panels = Vec::new();
    let mut y = 0;
    for (row, title) in ROWS {
        let shown: Vec<(&String, &Signal)> = library
            .signals
            .iter()
            .filter(|(name, signal)| match row {
                Some(row) => signal.row == Some(row) && told(library, name),
                None => signal.by_replica && told(library, name),
            })
            .collect();
        let folded = row.is_none();
        let mut inside = Vec::new();
        let header = y;
        y += 1;
        for (i, (name, signal)) in shown.iter().enumerate() {
            let (column, line) = (i as u64 % COLUMNS, i as u64 / COLUMNS);
            let at = json!({ "x": column * 24 / COLUMNS, "y": y + line * HEIGHT, "w": 24 / COLUMNS, "h": HEIGHT });
            inside.push(panel(library, name, signal, row.is_none(), at, runbook_base));
        }
        y += (shown.len() as u64).div_ceil(COLUMNS) * HEIGHT;
        let at = json!({ "x": 0, "y": header, "w": 24, "h": 1 });
        let mut heading = json!({ "type": "row", "title": title, "collapsed": folded, "gridPos": at, "panels": [] });
        if folded {
            heading["panels"] = Value::Array(inside);
            panels.push(heading);
        } else {
            panels.push(heading);
            panels.extend(inside);
        }
    }
    number(&mut panels, &mut 1);
    json!({
        "uid": "llm-diagnose",
        "title": "LLM serving",
        "description": "From what users feel to single replicas. Made by `llm-diagnose generate dashboard`.",
        "tags": ["llm", "llm-diagnose"],
        "schemaVersion": 39,
        "version": 1,
        "editable": true,
        "graphTooltip": 1,
        "refresh": "30s",
        "time": { "from": "now-3h", "to": "now" },
        "timezone": "browser",
        "links": [{
            "type": "link", "title": "Runbooks", "url": runbook_base, "icon": "doc", "tooltip": "One page a playbook",
            "asDropdown": false, "includeVars": false, "keepTime": false, "tags": [], "targetBlank": true
        }],
        "annotations": { "list": [incidents()] },
        "templating": { "list": variables() },
        "panels": panels,
    })
}

fn told(library: &Library, signal: &str) -> bool {
    library.engines.values().any(|engine| tells(engine, signal))
}

fn number(panels: &mut [Value], next: &mut u64) {
    for panel in panels {
        panel["id"] = json!(*next);
        *next += 1;
        if let Some(inside) = panel["panels"].as_array_mut() {
            number(inside, next);
        }
    }
}

fn datasource() -> Value {
    json!({ "type": "prometheus", "uid": "${datasource}" })
}

fn variables() -> Vec<Value> {
    let mut list = vec![json!({
        "type": "datasource", "name": "datasource", "label": "Prometheus", "query": "prometheus",
        "hide": 0, "includeAll": false, "multi": false, "refresh": 1
    })];
    list.extend(VARIABLES.iter().map(|(name, label)| {
        json!({
            "type": "query", "name": name, "label": label, "datasource": datasource(),
            "query": format!("label_values(llm:replicas_serving, {name})"),
            "hide": 0, "includeAll": true, "multi": true, "allValue": ".*", "refresh": 2, "sort": 1,
            "current": { "selected": true, "text": ["All"], "value": ["$__all"] }
        })
    }));
    list
}

/// Our own incidents: the alerts that lead to a playbook.
fn incidents() -> Value {
    json!({
        "name": "Incidents", "datasource": datasource(), "enable": true, "iconColor": "red",
        "expr": "ALERTS{alertstate=\"firing\", playbook!=\"\", namespace=~\"$namespace\"}",
        "titleFormat": "{{alertname}}", "textFormat": "{{namespace}}/{{model_name}}", "tagKeys": "severity,playbook"
    })
}

fn panel(library: &Library, name: &str, signal: &Signal, replicas: bool, at: Value, runbook_base: &str) -> Value {
    let recorded = Recorded { signal: name, each: if replicas { Each::Replica } else { Each::Pool } };
    let labels = recorded.labels(library);
    let matchers: Vec<String> = VARIABLES
        .iter()
        .filter(|(variable, _)| labels.iter().any(|label| label == variable))
        // An exporter's series have its own name as `engine`.
        .filter(|(variable, _)| *variable != "engine" || labels.iter().any(|label| label == "model_name"))
        .map(|(variable, _)| format!("{variable}=~\"${variable}\""))
        .collect();
    let expr = format!("{}{{{}}}", recorded.name(), matchers.join(", "));
    let legend = match replicas {
        true => "{{namespace}} {{exported_pod}} {{pod}} {{instance}}",
        false => "{{namespace}} {{model_name}}",
    };
    let limits = limits(library, name);
    let mut steps = vec![json!({ "color": "green", "value": null })];
    steps.extend(limits.iter().map(|(severity, limit)| {
        json!({ "color": if *severity == Severity::Critical { "red" } else { "orange" }, "value": limit })
    }));
    let style = if limits.is_empty() { "off" } else { "dashed" };
    json!({
        "type": "timeseries",
        "title": signal.title,
        "description": signal.meaning,
        "gridPos": at,
        "datasource": datasource(),
        "targets": [{
            "refId": "A", "datasource": datasource(), "expr": expr, "legendFormat": legend,
            "editorMode": "code", "range": true
        }],
        "links": links(library, name, runbook_base),
        "fieldConfig": {
            "defaults": {
                "unit": unit(signal.unit),
                "min": 0,
                "thresholds": { "mode": "absolute", "steps": steps },
                "custom": {
                    "drawStyle": "line", "lineWidth": 1, "fillOpacity": 5, "showPoints": "never", "spanNulls": 120_000,
                    "thresholdsStyle": { "mode": style }
                }
            },
            "overrides": []
        },
        "options": {
            "legend": { "displayMode": "list", "placement": "bottom", "showLegend": true, "calcs": ["lastNotNull"] },
            "tooltip": { "mode": "multi", "sort": "desc" }
        }
    })
}

/// The limits of the alerts on a signal, lowest first: what is above the last one pages.
fn limits(library: &Library, name: &str) -> Vec<(Severity, f64)> {
    let alerts = library.playbooks.values().flat_map(|playbook| &playbook.alerts);
    // A second condition of an alert is no limit of its own.
    let firsts = alerts.filter_map(|alert: &AlertRule| Some((alert.severity, alert.when.first()?)));
    let mut limits: Vec<(Severity, f64)> = firsts
        .filter(|(_, first): &(Severity, &Evidence)| first.signal.as_deref() == Some(name))
        .flat_map(|(severity, first)| {
            let comparisons = first.when.iter().flat_map(|when| when.comparisons());
            comparisons.filter_map(move |c| match (c.op, c.to) {
                (Op::Above | Op::AtLeast, Reference::Number(limit)) => Some((severity, limit)),
                _ => None,
            })
        })
        .collect();
    limits.sort_by(|a, b| a.1.total_cmp(&b.1));
    limits.dedup_by(|a, b| a.1 == b.1);
    limits
}

/// The runbooks of the playbooks whose symptom or alert rests on a signal.
fn links(library: &Library, name: &str, runbook_base: &str) -> Vec<Value> {
    let rests = |playbook: &&Playbook| {
        let alerts = playbook.alerts.iter().filter_map(|alert| alert.when.first());
        alerts.chain(&playbook.symptom).flat_map(Evidence::checks).any(|(signal, _)| signal == name)
    };
    let base = runbook_base.trim_end_matches('/');
    library
        .playbooks
        .values()
        .filter(|playbook| playbook.kind == crate::playbook::Kind::Symptom)
        .filter(rests)
        .map(|playbook| {
            json!({
                "title": format!("Runbook: {}", playbook.title), "url": format!("{base}/{}.md", playbook.playbook),
                "type": "link", "icon": "doc", "tooltip": "", "asDropdown": false, "includeVars": false,
                "keepTime": false, "tags": [], "targetBlank": true
            })
        })
        .collect()
}

/// Grafana's name of a unit (`@grafana/data`, value formats).
fn unit(unit: Unit) -> &'static str {
    match unit {
        Unit::Ratio => "percentunit",
        Unit::Seconds => "s",
        Unit::Tokens | Unit::Requests | Unit::Count | Unit::Factor => "short",
        Unit::TokensPerSecond | Unit::PerSecond => "cps",
        Unit::RequestsPerSecond => "reqps",
        Unit::Bytes => "bytes",
        Unit::BytesPerSecond => "binBps",
        Unit::Celsius => "celsius",
        Unit::Hertz => "hertz",
        Unit::Watts => "watt",
    }
}
