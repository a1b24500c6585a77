//! A diagnosis, printed: as text, JSON, queries, or Slack's blocks.

use super::args::Output;
use crate::cli::output::{out, outln};
use authoring::explain;
use findings::Diagnosis;
use render::{Commands, Phrases};

/// Prints a diagnosis; `prometheus` is the address for links.
pub(super) fn print_diagnosis(
    diagnosis: &Diagnosis,
    prometheus: Option<&str>,
    output: Output,
    words: &Phrases,
) -> anyhow::Result<()> {
    match output {
        Output::Json => outln!("{}", serde_json::to_string_pretty(diagnosis)?),
        Output::Queries => out!("{}", explain::queries_of(diagnosis)),
        Output::Slack => {
            let message = render::diagnosis_message(diagnosis, prometheus, words);
            outln!("{}", serde_json::to_string_pretty(&render::slack(&message))?);
        }
        Output::Text => {
            let message = render::diagnosis_message(diagnosis, prometheus, words);
            let queries = prometheus.map(|_| "--output queries".to_owned()).unwrap_or_default();
            out!("{}", render::terminal_with(&message, &Commands { queries, ..Commands::default() }));
        }
    }
    Ok(())
}
