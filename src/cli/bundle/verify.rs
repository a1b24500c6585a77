//! `bundle verify`: is a bundle as it was made, and does its diagnosis come out again?

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::Args;
use tokio_util::sync::CancellationToken;

use super::open::{line, signals};
use crate::cli::store::block_on;
use crate::cli::{FINDINGS, configuration, configured_library};
use bundle::open::{Examined, Fault, OpenError, differences, examine, open};
use findings::Diagnosis;
use knowledge::playbook::Library;
use report::Report;

/// Exit status of a bundle that is damaged or not signed by the expected key.
const DAMAGED: u8 = 2;
/// Maximum names of playbooks that are listed.
const NAMED: usize = 5;

/// The arguments of `bundle verify`.
#[derive(Debug, Args)]
#[command(after_help = "Needs prometheus and promtool on this machine to repeat the diagnosis.\n\
Exit status: 0 reproduced, 1 another diagnosis came out, 2 wrong use, damaged, or not signed by the key.")]
pub struct VerifyArgs {
    /// The bundle.
    #[arg(value_name = "FILE")]
    pub file: PathBuf,
    /// The public key that must have signed it, as `doctor` prints it.
    #[arg(long, value_name = "KEY")]
    pub key: Option<String>,
    /// The Prometheus binary to run; promtool must be beside it [default: the one in the path].
    #[arg(long, value_name = "FILE")]
    pub prometheus_binary: Option<PathBuf>,
    /// The configuration of the service that made it, for its promises and playbooks.
    #[arg(long, value_name = "FILE", env = "LLM_DIAGNOSE_CONFIG")]
    pub config: Option<PathBuf>,
    /// A directory of playbooks on top of the shipped ones.
    #[arg(long, value_name = "DIR")]
    pub playbooks: Option<PathBuf>,
}

pub(super) fn run(args: &VerifyArgs) -> anyhow::Result<ExitCode> {
    let library = configured_library(args.playbooks.as_deref(), &configuration(args.config.as_deref())?)?;
    block_on(async {
        let stop = CancellationToken::new();
        let signals = tokio::spawn(signals(stop.clone())?);
        let done = verify(args, &library, &stop).await;
        signals.abort();
        match done {
            Err(OpenError::Stopped) => Err(anyhow::anyhow!("stopped: the bundle was not verified")),
            done => Ok(done?),
        }
    })
}

async fn verify(args: &VerifyArgs, library: &Library, stop: &CancellationToken) -> Result<ExitCode, OpenError> {
    let (file, stopped) = (args.file.clone(), stop.clone());
    let examined = tokio::task::spawn_blocking(move || examine(&file, &|| stopped.is_cancelled())).await;
    let examined = examined.unwrap_or(Err(OpenError::Stopped))?;
    // Both are told before either ends it.
    let (whole, signed) = (is_whole(&examined), is_signed(&examined, args.key.as_deref()));
    if !(whole && signed) {
        return Ok(ExitCode::from(DAMAGED));
    }
    let (report, again) = replay(&args.file, args.prometheus_binary.as_deref(), library, stop).await?;
    let (Some(then), Some(now)) = (&report.diagnosis, again) else {
        line("verdict", "the bundle holds no diagnosis to repeat");
        return Ok(ExitCode::from(FINDINGS));
    };
    Ok(if is_reproduced(then, &now, &examined, library) { ExitCode::SUCCESS } else { ExitCode::from(FINDINGS) })
}

async fn replay(
    file: &Path,
    binary: Option<&Path>,
    library: &Library,
    stop: &CancellationToken,
) -> Result<(Report, Option<Diagnosis>), OpenError> {
    let opened = open(file, binary, stop).await?;
    let again = tokio::select! {
        again = opened.replay(library) => Some(again),
        () = stop.cancelled() => None,
    };
    let report = opened.report.clone();
    opened.close().await;
    Ok((report, again.ok_or(OpenError::Stopped)?))
}

/// Prints the faults; returns true if there are none.
fn is_whole(examined: &Examined) -> bool {
    for fault in &examined.faults {
        let text = match fault {
            Fault::Changed(name) => format!("`{name}` was changed after the bundle was made"),
            Fault::Unreadable(name, why) => format!("`{name}` is damaged: {why}"),
            Fault::Missing(name) => format!("`{name}` was removed"),
            Fault::Added(name) => format!("`{name}` was added"),
        };
        line("checksums", &text);
    }
    if examined.faults.is_empty() {
        line("checksums", &format!("{} files are as they were made", examined.manifest.files.len()));
    }
    examined.faults.is_empty()
}

/// Prints who signed the bundle; returns false if the signature is wrong, or not by the expected key.
fn is_signed(examined: &Examined, expected: Option<&str>) -> bool {
    let (text, fine) = match (&examined.signed_by, expected) {
        (Some((_, false)), _) => ("forged: it does not fit the manifest".to_owned(), false),
        (None, Some(_)) => ("missing: the bundle is not signed".to_owned(), false),
        (None, None) => ("none: who made the bundle is not known".to_owned(), true),
        (Some((key, true)), Some(expected)) if key == expected.trim() => (format!("by the given key {key}"), true),
        (Some((key, true)), Some(_)) => (format!("by another key than the given one: {key}"), false),
        (Some((key, true)), None) => {
            (format!("by {key}; whose key this is says `--key` with the one that `doctor` prints"), true)
        }
    };
    line("signature", &text);
    fine
}

/// Prints what differs; returns true if nothing of the verdict does.
fn is_reproduced(then: &Diagnosis, now: &Diagnosis, examined: &Examined, library: &Library) -> bool {
    let (made_by, own) = (&examined.manifest.program, service::version());
    match *made_by == own {
        true => line("program", &format!("{own}, the same")),
        false => line("program", &format!("{own}; the bundle was made by {made_by}")),
    }
    let others = examined.manifest.other_playbooks(library);
    match others.len() {
        0 => line("playbooks", "the same"),
        n => {
            let more = n.checked_sub(NAMED).filter(|more| *more > 0).map(|more| format!(" and {more} more"));
            let named = others.iter().take(NAMED).map(String::as_str).collect::<Vec<_>>().join(", ");
            line("playbooks", &format!("{n} differ: {named}{}", more.unwrap_or_default()));
        }
    }
    let differences = differences(then, now);
    let root = now.root().map_or("no cause".to_owned(), |root| root.chain.join(" ← "));
    match differences.is_empty() {
        true => line("verdict", &format!("reproduced: {} ({root})", now.symptom.playbook)),
        false => line("verdict", "not reproduced"),
    }
    for (what, then, now) in &differences {
        line("", &format!("{what}: {now}, in the bundle {then}"));
    }
    if !differences.is_empty() {
        if then.direct.is_some() {
            line("", "some values of the bundle's diagnosis were read from exporters: its series do not have them");
        }
        now.problems.iter().for_each(|problem| line("", problem));
    }
    differences.is_empty()
}
