//! `generate dashboard`: Grafana panels over the recorded `llm:*` series, from user-facing signals to single
//! replicas.
//!
//! Rows, order, titles and units come from the catalog, thresholds from the alerts, links from the playbooks, so that
//! the dashboard, the alerts and the diagnosis cannot disagree. Variables have the names of the recorded series'
//! labels.
//! Shape: Grafana's dashboard JSON model, schema version 39
//! (<https://grafana.com/docs/grafana/latest/dashboards/build-dashboards/view-dashboard-json-model/>).

use serde_json::{Value, json};

use super::budget_panels::budget_panels;
use super::panel::{HEIGHT, VARIABLES, datasource, matchers};
use super::recording::{RecordingRule, tells};
use knowledge::playbook::{
    AlertRule, AlertScope, CATALOG, Evidence, Library, Op, Playbook, PlaybookKind, Reference, Severity,
};
use knowledge::signal::{DashboardRow, Engine, EngineKind, Signal, Unit};

/// Panels beside each other; Grafana's grid is 24 wide.
const COLUMNS: u64 = 3;
/// The series whose labels are the pools.
const POOLS: &str = "llm:replicas_serving";
/// The label that panels add with each replica's name.
const NAME: &str = "replica_name";
/// The rows with their titles; the last one is collapsed.
const ROWS: [(Option<DashboardRow>, &str); 5] = [
    (Some(DashboardRow::User), "Effects on users"),
    (Some(DashboardRow::System), "State of the fleet"),
    (Some(DashboardRow::Diagnostic), "Signs of causes"),
    (Some(DashboardRow::Gpu), "GPUs"),
    (None, "Each replica"),
];

/// Builds the dashboard as Grafana imports it.
pub fn dashboard(library: &Library, runbook_base: &str) -> Value {
    let mut panels: Vec<Value> = Vec::new();
    panels.extend(budget_panels(library));
    let mut y = panels.iter().filter_map(|panel| panel["gridPos"]["y"].as_u64()).max().map_or(0, |y| y + HEIGHT);
    for (row, title) in ROWS {
        let mut signals: Vec<(&String, &Signal)> = library
            .signals
            .iter()
            .filter(|(_, signal)| row.map_or(signal.by_replica, |row| signal.row == Some(row)))
            .filter(|(name, _)| engines_reporting(library, name).next().is_some())
            .collect();
        signals.sort_by_key(|(name, _)| position(library, name));
        let each = if row.is_some() { AlertScope::Pool } else { AlertScope::Replica };
        let folded = row.is_none();
        let mut inside = Vec::new();
        let header = y;
        y += 1;
        for (i, (name, signal)) in signals.iter().enumerate() {
            let (column, line) = (i as u64 % COLUMNS, i as u64 / COLUMNS);
            let at = json!({ "x": column * 24 / COLUMNS, "y": y + line * HEIGHT, "w": 24 / COLUMNS, "h": HEIGHT });
            inside.push(panel(library, RecordingRule { signal: name, each }, signal, at, runbook_base));
        }
        y += (signals.len() as u64).div_ceil(COLUMNS) * HEIGHT;
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

fn engines_reporting<'a>(library: &'a Library, signal: &'a str) -> impl Iterator<Item = &'a Engine> {
    library.engines.values().filter(move |engine| tells(engine, signal))
}

/// Returns a signal's position in the catalog; signals of a user's own catalog come last.
fn position(library: &Library, signal: &str) -> (bool, usize) {
    let entry = format!("  {signal}:");
    let line = library.files.get(CATALOG).and_then(|file| file.text.lines().position(|line| line.starts_with(&entry)));
    (line.is_none(), line.unwrap_or_default())
}

fn number(panels: &mut [Value], next: &mut u64) {
    for panel in panels {
        panel["id"] = json!(*next);
        *next += 1;
        if let Some(inside) = panel.get_mut("panels").and_then(Value::as_array_mut) {
            number(inside, next);
        }
    }
}

fn variables() -> Vec<Value> {
    let mut list = vec![json!({
        "type": "datasource", "name": "datasource", "label": "Prometheus", "query": "prometheus",
        "hide": 0, "includeAll": false, "multi": false, "refresh": 1
    })];
    list.extend(VARIABLES.iter().enumerate().map(|(i, (name, label))| {
        // Each variable is limited by the choices before it.
        let within = matchers(VARIABLES[..i].iter().map(|(before, _)| *before));
        json!({
            "type": "query", "name": name, "label": label, "datasource": datasource(),
            "query": format!("label_values({POOLS}{within}, {name})"),
            "hide": 0, "includeAll": true, "multi": true, "allValue": ".*", "refresh": 2, "sort": 1,
            "current": { "selected": true, "text": ["All"], "value": ["$__all"] }
        })
    }));
    list
}

/// Builds the annotation of incidents: the alerts with a playbook. The data source itself reads the three formats:
/// <https://github.com/grafana/grafana/blob/main/packages/grafana-prometheus/src/datasource.ts>
fn incidents() -> Value {
    json!({
        "name": "Incidents", "datasource": datasource(), "enable": true, "iconColor": "red",
        "expr": "ALERTS{alertstate=\"firing\", playbook!=\"\", cluster=~\"$cluster\", namespace=~\"$namespace\"}",
        "titleFormat": "{{alertname}}", "textFormat": "{{namespace}}/{{model_name}}", "tagKeys": "severity,playbook"
    })
}

fn panel(library: &Library, recorded: RecordingRule<'_>, signal: &Signal, at: Value, runbook_base: &str) -> Value {
    let steps = thresholds(library, recorded);
    let style = if steps.len() > 1 { "dashed" } else { "off" };
    json!({
        "type": "timeseries",
        "title": capitalised(&signal.title),
        "description": signal.meaning,
        "gridPos": at,
        "datasource": datasource(),
        "targets": [{
            "refId": "A", "datasource": datasource(), "expr": expression(library, recorded),
            "legendFormat": legend(library, recorded), "editorMode": "code", "range": true
        }],
        "links": links(library, recorded.signal, runbook_base),
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

/// Returns the query for the recorded series of the selected variables.
fn expression(library: &Library, recorded: RecordingRule<'_>) -> String {
    let labels = recorded.labels(library);
    // Series of exporters and gateways carry their own name as `engine`, which is not selected.
    let served = engines_reporting(library, recorded.signal).any(|engine| engine.kind == EngineKind::Serving);
    let variables = VARIABLES.iter().map(|(variable, _)| *variable);
    let own = variables.clone().filter(|v| labels.iter().any(|label| label == v)).filter(|v| *v != "engine" || served);
    let series = format!("{}{}", recorded.name(), matchers(own));
    if engines_reporting(library, recorded.signal).all(|engine| engine.kind == EngineKind::Platform) {
        // The orchestrator reports on every namespace; only those that served within the last day count.
        let pools = format!("last_over_time({POOLS}{}[1d])", matchers(variables));
        return format!("{series} and on (cluster, namespace) {pools}");
    }
    match recorded.each {
        AlertScope::Pool => series,
        // The first label that is not empty names a replica, as in a diagnosis.
        AlertScope::Replica => {
            let names: Vec<String> = named_by(library, recorded).iter().map(|label| format!("\"{label}\"")).collect();
            let joined = format!("label_join({series}, \"{NAME}\", \";\", {})", names.join(", "));
            format!("label_replace({joined}, \"{NAME}\", \"$1\", \"{NAME}\", \";*([^;]+).*\")")
        }
    }
}

/// Returns the labels that may name a replica, in the engines' order of preference.
fn named_by(library: &Library, recorded: RecordingRule<'_>) -> Vec<String> {
    let place = |label: &String| {
        engines_reporting(library, recorded.signal)
            .filter_map(|engine| engine.replica.iter().position(|l| l == label))
            .max()
    };
    let mut labels = recorded.labels(library);
    labels.retain(|label| place(label).is_some());
    labels.sort_by_key(place);
    labels
}

fn legend(library: &Library, recorded: RecordingRule<'_>) -> String {
    let labels = recorded.labels(library);
    let legend: &[&str] = match recorded.each {
        AlertScope::Pool => &["cluster", "namespace", "model_name", "engine"],
        AlertScope::Replica => &["cluster", "namespace", NAME, "gpu"],
    };
    let present = legend.iter().filter(|label| **label == NAME || labels.iter().any(|l| l == **label));
    present.map(|label| format!("{{{{{label}}}}}")).collect::<Vec<_>>().join(" ")
}

/// Returns the colours between the alert thresholds of a recorded series: each interval has that of its worst alert.
fn thresholds(library: &Library, recorded: RecordingRule<'_>) -> Vec<Value> {
    let alerts = library.playbooks.values().flat_map(|playbook| &playbook.alerts);
    let of = |most: usize| {
        let alerts = alerts.clone().filter(move |alert| alert.each == recorded.each && alert.when.len() <= most);
        limits(recorded.signal, alerts)
    };
    // If an alert needs only this signal, alerts that need more would confuse.
    let alone = of(1);
    let limits = if alone.is_empty() { of(usize::MAX) } else { alone };
    let colour = |value: f64| {
        let firing = || limits.iter().filter(|(_, op, limit)| op.holds(value, *limit)).map(|(severity, ..)| *severity);
        if firing().any(|severity| severity == Severity::Critical) {
            "red"
        } else if firing().next().is_some() {
            "orange"
        } else {
            "green"
        }
    };
    let mut edges: Vec<f64> = limits.iter().map(|(.., limit)| *limit).collect();
    edges.sort_by(f64::total_cmp);
    edges.dedup();
    let first = edges.first().map_or("green", |edge| colour(edge - 1.0));
    let mut steps = vec![json!({ "color": first, "value": null })];
    steps.extend(edges.iter().enumerate().map(|(i, edge)| {
        let next = edges.get(i + 1).copied().unwrap_or(edge + 2.0);
        json!({ "color": colour(f64::midpoint(*edge, next)), "value": edge })
    }));
    steps
}

/// Returns the thresholds of the alerts' first conditions; a second condition is no threshold of its own.
fn limits<'a>(signal: &str, alerts: impl Iterator<Item = &'a AlertRule>) -> Vec<(Severity, Op, f64)> {
    let firsts = alerts.filter_map(|alert| Some((alert.severity, alert.when.first()?)));
    firsts
        .flat_map(|(severity, first)| first.checks().into_iter().map(move |check| (severity, check)))
        .filter(|(_, (checked, _))| *checked == signal)
        .flat_map(|(severity, (_, when))| {
            when.comparisons().iter().filter_map(move |c| match c.to {
                Reference::Number(limit) => Some((severity, c.op, limit)),
                Reference::Baseline(_) | Reference::Peers(_) => None,
            })
        })
        .collect()
}

/// Returns links to the runbooks of the playbooks whose symptom or alert uses a signal.
fn links(library: &Library, name: &str, runbook_base: &str) -> Vec<Value> {
    let rests = |playbook: &&Playbook| {
        let alerts = playbook.alerts.iter().filter_map(|alert| alert.when.first());
        alerts.chain(&playbook.symptom).flat_map(Evidence::checks).any(|(signal, _)| signal == name)
    };
    let base = runbook_base.trim_end_matches('/');
    library
        .playbooks
        .values()
        .filter(|playbook| playbook.kind == PlaybookKind::Symptom)
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

fn capitalised(title: &str) -> String {
    let mut letters = title.chars();
    letters.next().map(|first| first.to_uppercase().chain(letters).collect()).unwrap_or_default()
}

/// Returns Grafana's name of a unit (`@grafana/data`, value formats).
fn unit(unit: Unit) -> &'static str {
    match unit {
        Unit::Ratio => "percentunit",
        Unit::Seconds => "s",
        Unit::Tokens | Unit::Requests | Unit::Count | Unit::Factor => "short",
        Unit::TokensPerSecond => "cps",
        Unit::PerSecond => "eps",
        Unit::RequestsPerSecond => "reqps",
        Unit::Bytes => "bytes",
        Unit::BytesPerSecond => "binBps",
        Unit::Celsius => "celsius",
        Unit::Hertz => "hertz",
        Unit::Watts => "watt",
    }
}
