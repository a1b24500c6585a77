//! `health`: the state of the fleet in one screen and one exit status.

use std::collections::BTreeMap;
use std::process::ExitCode;

use anyhow::bail;

use super::args::{HealthArgs, HealthOutput};
use super::store::block_on;
use super::{cleaned, configuration, configured_library};
use crate::cli::output::{out, outln};
use diagnose::health::{DIMENSIONS, HealthQuery, HealthSource, evaluate_fleet};
use findings::Scope;
use knowledge::clock;
use prom::Prometheus;
use render::Phrases;
use service::questions::target;

pub(super) fn run(args: HealthArgs) -> anyhow::Result<ExitCode> {
    let config = configuration(args.config.as_deref())?;
    let library = configured_library(args.playbooks.as_deref(), &config)?;
    let now = clock::now();
    let at = args.what.at.map_or(now, |at| at.resolve(now));
    let mut query = HealthQuery {
        scope: scope(&args.scope)?,
        at,
        window: args.window.unwrap_or(config.diagnose.window),
        deadline: args.deadline.unwrap_or(config.diagnose.deadline),
    };
    let flags = flags(
        [
            ("prometheus", args.prometheus.as_deref().map(http_client::address)),
            ("config", args.config.as_deref().map(path_value)),
            ("playbooks", args.playbooks.as_deref().map(path_value)),
            ("at", args.what.at.map(|_| at.to_string())),
            ("window", args.window.map(duration)),
            ("deadline", args.deadline.map(duration)),
        ],
        &args.scope,
    );
    let configured = match args.prometheus {
        Some(url) => vec![prom::Config { url, ..prom::Config::default() }],
        None => config.prometheus,
    };
    let clients = Prometheus::sharing(&configured)?;
    let sources: Vec<HealthSource<'_>> = clients.iter().map(|(prometheus, labels)| (prometheus, labels)).collect();
    let words = Phrases::load(config.playbooks.dir.as_deref())?;
    let health = block_on(async {
        if let Some(typed) = &args.what.target {
            let matches = target::find(&library, &sources, typed, query.at, query.deadline).await?;
            query.scope.extend(target::shared(&matches));
        }
        cleaned(&library, &evaluate_fleet(&library, &sources, &query).await)
    })?;
    match args.output {
        HealthOutput::Json => outln!("{}", serde_json::to_string_pretty(&health)?),
        HealthOutput::Text => out!("{}", render::health(&health, &flags, &words)),
    }
    Ok(ExitCode::from(health.state.code()))
}

/// Returns the given flags, including `--label`, for the follow-up commands in the output.
pub(super) fn flags<const N: usize>(
    optional: [(&'static str, Option<String>); N],
    labels: &[(String, String)],
) -> Vec<(&'static str, String)> {
    let labels = labels.iter().map(|(name, value)| ("label", format!("{name}={value}")));
    optional.into_iter().filter_map(|(name, value)| Some((name, value?))).chain(labels).collect()
}

/// Formats a path as a flag's value.
pub(super) fn path_value(path: &std::path::Path) -> String {
    path.display().to_string()
}

/// Formats a duration as a flag's value.
pub(super) fn duration(duration: std::time::Duration) -> String {
    humantime::format_duration(duration).to_string().replace(' ', "")
}

/// Converts labels to dimensions of a scope. Refuses a label that selects no pool: it would select the whole fleet.
pub(crate) fn scope(labels: &[(String, String)]) -> anyhow::Result<BTreeMap<String, String>> {
    let mut scope = BTreeMap::new();
    for (name, value) in labels {
        let dimensions = Scope::of_labels(&[(name.clone(), value.clone())].into()).dimensions;
        let dimension = dimensions.into_iter().find(|(dimension, _)| DIMENSIONS.contains(&dimension.as_str()));
        let Some((dimension, value)) = dimension else {
            bail!("`{name}={value}` does not select a pool: expected {} with a value", DIMENSIONS.join(", "));
        };
        scope.insert(dimension, value);
    }
    Ok(scope)
}

#[cfg(test)]
mod tests {
    use super::flags;

    #[test]
    fn the_next_command_asks_with_the_same_flags_and_labels() {
        let labels = [("namespace".to_owned(), "llm".to_owned()), ("cluster".to_owned(), "eu".to_owned())];
        let arguments = flags([("window", Some("4m".to_owned())), ("at", None)], &labels);
        let arguments: Vec<String> = arguments.iter().map(|(name, value)| format!("--{name}={value}")).collect();
        assert_eq!(arguments, ["--window=4m", "--label=namespace=llm", "--label=cluster=eu"]);
    }
}
