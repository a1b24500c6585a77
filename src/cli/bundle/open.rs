//! `bundle open`: opens a bundle on this machine.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;
use tokio::signal::unix::{SignalKind, signal};
use tokio_util::sync::CancellationToken;

use crate::cli::output::{failed, outln};
use crate::cli::store::block_on;
use crate::cli::{FINDINGS, library};
use bundle::open::{OpenError, Opened, open, request, same_root};
use findings::Diagnosis;
use render::{clean, graph};
use report::Report;

/// The arguments of `bundle open`.
#[derive(Debug, Args)]
#[command(after_help = "Needs prometheus and promtool on this machine; runs until Ctrl-C.\n\
Exit status: 0 opened (with --once: the same root cause came out), 1 another one came out (--once), 2 it cannot be opened.")]
pub struct OpenArgs {
    /// The bundle.
    #[arg(value_name = "FILE")]
    pub file: PathBuf,
    /// The Prometheus binary to run; promtool must be beside it [default: the one in the path].
    #[arg(long, value_name = "FILE")]
    pub prometheus_binary: Option<PathBuf>,
    /// Exit after the diagnosis is repeated.
    #[arg(long)]
    pub once: bool,
    /// A directory of playbooks on top of the shipped ones.
    #[arg(long, value_name = "DIR")]
    pub playbooks: Option<PathBuf>,
}

pub(super) fn run(args: &OpenArgs) -> anyhow::Result<ExitCode> {
    let library = library(args.playbooks.as_deref())?;
    block_on(async {
        let stop = CancellationToken::new();
        let signals = tokio::spawn(signals(stop.clone())?);
        anstream::eprintln!("loading {} …", clean(&args.file.display().to_string()));
        let done = match open(&args.file, args.prometheus_binary.as_deref(), &stop).await {
            Ok(opened) => Ok(serve_bundle(opened, &library, args.once, &stop).await),
            Err(OpenError::Stopped) => Ok(ExitCode::SUCCESS),
            Err(error) => Err(error.into()),
        };
        signals.abort();
        done
    })
}

/// Cancels `stop` at SIGINT, SIGTERM or SIGHUP.
pub(super) fn signals(stop: CancellationToken) -> anyhow::Result<impl Future<Output = ()>> {
    let kinds = [SignalKind::interrupt(), SignalKind::terminate(), SignalKind::hangup()];
    let [interrupt, terminate, hangup] = kinds.map(signal);
    let (mut interrupt, mut terminate, mut hangup) = (interrupt?, terminate?, hangup?);
    Ok(async move {
        tokio::select! {
            _ = interrupt.recv() => {}
            _ = terminate.recv() => {}
            _ = hangup.recv() => {}
        }
        stop.cancel();
    })
}

/// Prints the bundle's summary, repeats its diagnosis, and serves until it is stopped.
async fn serve_bundle(
    mut opened: Opened,
    library: &knowledge::playbook::Library,
    once: bool,
    stop: &CancellationToken,
) -> ExitCode {
    about(&opened.report, &opened.url);
    let again = tokio::select! {
        again = opened.replay(library) => again,
        () = stop.cancelled() => {
            opened.close().await;
            return ExitCode::SUCCESS;
        }
    };
    let same = compare(&opened, again.as_ref());
    if !once {
        outln!("\nserved until Ctrl-C");
    }
    // Nobody can use what could not be printed.
    if !once && !failed() {
        tokio::select! {
            () = stop.cancelled() => {}
            why = opened.ended() => anstream::eprintln!("error: {}", clean(&why)),
        }
    }
    opened.close().await;
    if once && !same { ExitCode::from(FINDINGS) } else { ExitCode::SUCCESS }
}

fn about(report: &Report, url: &str) {
    let bold = anstyle::Style::new().bold();
    let minute = |at: jiff::Timestamp| at.strftime("%Y-%m-%d %H:%M UTC").to_string();
    outln!("{bold}{}{bold:#}", clean(&report.headline));
    line("window", &format!("{} to {}", minute(report.window.from), minute(report.window.to)));
    match report.complete {
        true => line("complete", "yes"),
        false => line("complete", "no"),
    }
    for part in report.parts.iter().filter(|part| part.stage.is_trouble()) {
        line("", &format!("{}: {}", part.name, part.note));
    }
    line("Prometheus", url);
}

/// Compares the root causes and prints the result; returns true if they are the same.
fn compare(opened: &Opened, again: Option<&Diagnosis>) -> bool {
    let (Some(then), Some(now)) = (&opened.report.diagnosis, again) else {
        line("root cause", "the bundle holds no diagnosis to compare with");
        return false;
    };
    if let Some(url) = graph(now, Some(&opened.url), None) {
        line("graph", &url);
    }
    if let Some(command) = command(&opened.report, &opened.url) {
        line("again", &command);
    }
    let named = |diagnosis: &Diagnosis| match diagnosis.root() {
        Some(root) => format!("{} ({})", root.id, root.title),
        None => "none".to_owned(),
    };
    let same = same_root(then, now);
    match same {
        true => line("root cause", &format!("the same as in the bundle: {}", named(now))),
        false => line("root cause", &format!("another: {}; the bundle has {}", named(now), named(then))),
    }
    now.problems.iter().for_each(|problem| line("", problem));
    same
}

/// Returns the command that repeats the diagnosis.
fn command(report: &Report, url: &str) -> Option<String> {
    let request = request(report)?;
    let (at, window) = (request.at.to_string(), format!("{}s", request.window.as_secs()));
    let mut words = vec!["llm-diagnose", "diagnose", "--prometheus", url, "--playbook", &request.playbook];
    let labels: Vec<String> = request.scope.dimensions.iter().map(|(name, value)| format!("{name}={value}")).collect();
    words.extend(labels.iter().flat_map(|label| ["--label", label.as_str()]));
    words.extend(["--at", &at, "--window", &window]);
    shlex::try_join(words).ok()
}

/// Prints one line of a result.
pub(super) fn line(what: &str, text: &str) {
    outln!("  {what:<11} {}", clean(text));
}
