//! The dashboard's row of error budgets: what is left of each, and how fast it burns.

use serde_json::{Value, json};

use super::budget::ALERTS;
use super::panel::{HEIGHT, VARIABLES, datasource, matchers};
use knowledge::playbook::Library;
use knowledge::signal::budget;

/// Builds the row; nothing without `slo:`.
pub(super) fn budget_panels(library: &Library) -> Vec<Value> {
    if !library.promised.iter().any(|pools| pools.slo.promises_something()) {
        return Vec::new();
    }
    let mut panels = vec![json!({
        "type": "row", "title": "Error budgets", "collapsed": false, "gridPos": { "x": 0, "y": 0, "w": 24, "h": 1 },
        "panels": []
    })];
    panels.push(left());
    panels.extend(ALERTS.iter().zip(0..).map(|((window, _, factor, _), i)| burn(i, window, *factor)));
    panels
}

/// Returns the matchers for the selected variables; an objective is about a pool, whichever engine serves it.
fn selected() -> String {
    matchers(VARIABLES.iter().map(|(variable, _)| *variable).filter(|variable| *variable != "engine"))
}

/// Builds the panel of what is left of each budget; an instant query, because each point reads a month of samples.
fn left() -> Value {
    let own = selected();
    let sum = |series: &str| format!("sum_over_time({series}{own}[30d:5m])");
    let expr = format!(
        "1 - {} / ({} > 0) / last_over_time({}{own}[1h])",
        sum(budget::VIOLATIONS),
        sum(budget::REQUESTS),
        budget::ALLOWED
    );
    json!({
        "type": "bargauge",
        "title": "Error budget left, of 30 days",
        "description": "The share of the requests that may miss the promise in 30 days and have not yet; below 0 it is \
                        overspent. Where the recorded series are younger, it is the budget of their time.",
        "gridPos": { "x": 0, "y": 1, "w": 24, "h": HEIGHT },
        "datasource": datasource(),
        "targets": [target(&expr, true)],
        "fieldConfig": { "defaults": {
            "unit": "percentunit", "min": 0, "max": 1,
            "thresholds": { "mode": "absolute", "steps": [
                { "color": "red", "value": null }, { "color": "orange", "value": 0.0001 }, { "color": "green", "value": 0.25 }
            ] }
        }, "overrides": [] },
        "options": {
            "displayMode": "gradient", "orientation": "horizontal",
            "reduceOptions": { "calcs": ["lastNotNull"], "fields": "", "values": false }
        }
    })
}

/// Builds the panel of a window's burn rates.
fn burn(i: u64, window: &str, factor: f64) -> Value {
    json!({
        "type": "timeseries",
        "title": format!("Burn rate of {window}"),
        "description": format!(
            "How many times faster than it lasts for 30 days the error budget was spent in the last {window}. The alert waits \
             for {factor}."
        ),
        "gridPos": { "x": i * 6, "y": 1 + HEIGHT, "w": 6, "h": HEIGHT },
        "datasource": datasource(),
        "targets": [target(&format!("{}{}", budget::burn_rate(window), selected()), false)],
        "fieldConfig": { "defaults": {
            "unit": "short", "min": 0,
            "thresholds": { "mode": "absolute", "steps": [
                { "color": "green", "value": null }, { "color": "red", "value": factor }
            ] },
            "custom": {
                "drawStyle": "line", "lineWidth": 1, "fillOpacity": 5, "showPoints": "never", "spanNulls": 120_000,
                "thresholdsStyle": { "mode": "dashed" }
            }
        }, "overrides": [] },
        "options": {
            "legend": { "displayMode": "list", "placement": "bottom", "showLegend": true, "calcs": ["lastNotNull"] },
            "tooltip": { "mode": "multi", "sort": "desc" }
        }
    })
}

fn target(expr: &str, instant: bool) -> Value {
    json!({
        "refId": "A", "datasource": datasource(), "expr": expr, "editorMode": "code", "instant": instant, "range": !instant,
        "legendFormat": "{{namespace}} {{model_name}} {{slo}} ({{sli}})"
    })
}
