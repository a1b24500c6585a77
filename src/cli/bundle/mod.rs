//! `bundle`: everything about an incident or a pool in one file.

mod args;
mod open;
mod progress;
mod subject;
mod verify;

use std::fs::File;
use std::io::{BufRead, IsTerminal, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, bail};
use serde_json::Value;
use tempfile::TempDir;

use super::{FINDINGS, NOT_ANSWERED, ask, configuration, configured_library, output};
use crate::cli::output::out;
pub(super) use args::BundleCommand;
use args::{BundleArgs, BundleOpen, BundleSpan};
use findings::facts::Window;
use knowledge::clock;
use knowledge::playbook::Library;
use message::Line;
use progress::ProgressLines;
use prom::Prometheus;
use render::Phrases;

use app::stop_signals::StopSignals;
use bundle::{
    BuiltBundle, BundleLocation, BundleProgress, Draft, Name, Options, SourceRegistry, Sources, bundle_message,
    directory,
};
use service::config::Config;
use service::{Signer, Subject, around, known_signer};
use sources::exporter::ExporterReader;

/// Timeout of the check that Prometheus answers.
const PING: Duration = Duration::from_secs(5);
/// The text to type to confirm a bundle with secrets.
const CONFIRMATION: &str = "with secrets";

pub(super) fn run(args: BundleCommand) -> anyhow::Result<ExitCode> {
    match &args.open {
        Some(BundleOpen::Open(args)) => open::run(args),
        Some(BundleOpen::Verify(args)) => verify::run(args),
        None => create(&args.make),
    }
}

fn create(args: &BundleArgs) -> anyhow::Result<ExitCode> {
    let mut config = configuration(args.config.as_deref())?;
    if let Some(dir) = &args.state_dir {
        config.state_dir.clone_from(dir);
    }
    args.sources.put_into(&mut config);
    let library = configured_library(args.playbooks.as_deref(), &config)?;
    receivers(args, &library)?;
    confirm(args)?;
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .context("cannot start the runtime")?;
    let result = runtime.block_on(work(args, config, library));
    // A log or host that hangs must not delay the exit.
    runtime.shutdown_timeout(Duration::from_secs(1));
    result
}

/// Everything that the creation of a bundle needs.
struct BundleContext<'a> {
    args: &'a BundleArgs,
    config: Config,
    library: Arc<Library>,
    words: Arc<Phrases>,
    reader: ExporterReader,
}

async fn work(args: &BundleArgs, config: Config, library: Library) -> anyhow::Result<ExitCode> {
    let words = Arc::new(Phrases::load(config.playbooks.dir.as_deref())?);
    let reader =
        ExporterReader::new(&config.exporters.allow).context("cannot prepare the HTTP client for exporters")?;
    let context = BundleContext { args, config, library: Arc::new(library), words, reader };
    let (group, payload) = args.alert.as_deref().map(ask::read_whole).transpose()?.unzip();
    let registry = context.registry().await?;
    let (subject, remembered) = match subject::find_stored_incident(&context, &registry).await? {
        Ok(stored) => stored,
        Err(why) => (subject::of_pool(&context, group.as_ref(), &why).await?, Vec::new()),
    };
    let subject = Subject { window: context.window(&subject)?, ..subject };
    let sources = registry.sources(&subject.alerts, remembered, args.sources.logs.clone());
    let reachable = match &sources.prometheus {
        Some(prometheus) => prometheus.ping(clock::now(), PING).await.map_err(|error| (prometheus, error)),
        None => Ok(()),
    };
    if let Err((prometheus, error)) = &reachable {
        anstream::eprintln!("Prometheus at {} cannot be asked: {error}", render::clean(&prometheus.url));
    }
    let spool = to_stdout(args)?;
    let mut stop = StopSignals::new()?;
    let (path, built) = context.make(&sources, &subject, payload, spool.as_ref().map(TempDir::path)).await?;
    let report = &built.report;
    let place = match &spool {
        None => path.display().to_string(),
        Some(_) => "standard output".to_owned(),
    };
    let place = BundleLocation::File(place);
    let warning = args
        .no_redact
        .then(|| Line::default().bold("Secrets were left in: give this file only to people who may see them."));
    let message = bundle_message(report, built.bytes, &subject::name_of(&subject), place, warning, &context.words);
    match (spool, args.quiet) {
        (Some(_), quiet) => {
            // A reader may be slow, or not read at all.
            let copy = tokio::task::spawn_blocking(move || {
                let mut stdout = std::io::stdout().lock();
                std::io::copy(&mut File::open(&path)?, &mut stdout)?;
                stdout.flush()
            });
            tokio::select! {
                copied = copy => copied?.context("cannot write to standard output")?,
                () = stop.recv() => bail!("stopped: standard output has a part of the file at most"),
            }
            if !quiet {
                anstream::eprint!("{}", render::terminal(&message));
            }
        }
        (None, false) => out!("{}", render::terminal(&message)),
        (None, true) => {}
    }
    Ok(match (reachable, report.complete) {
        (Err(_), _) => ExitCode::from(NOT_ANSWERED),
        (Ok(()), false) => ExitCode::from(FINDINGS),
        (Ok(()), true) => ExitCode::SUCCESS,
    })
}

impl BundleContext<'_> {
    async fn registry(&self) -> anyhow::Result<SourceRegistry> {
        let configured = match &self.args.prometheus {
            Some(_) => vec![ask::prometheus(&self.config, self.args.prometheus.as_deref(), None)?],
            None => self.config.prometheus.clone(),
        };
        let prometheus = Prometheus::sharing(&configured)?;
        let redactor = crate::cli::redactor(&self.library)?;
        let logs = ask::logs(&self.config, &[]).await?;
        let (library, words) = (Arc::clone(&self.library), Arc::clone(&self.words));
        Ok(SourceRegistry::new(&self.config, library, words, prometheus, self.reader.clone(), logs, redactor))
    }

    /// Returns the time range of the bundle.
    fn window(&self, subject: &Subject) -> anyhow::Result<Window> {
        let now = clock::now();
        let (from, to) = match &subject.incident {
            Some(incident) => (incident.started_at, incident.resolved_at.unwrap_or(now)),
            None => (subject.request.since.unwrap_or(subject.request.at), subject.request.at),
        };
        match self.args.window {
            None => Ok(around(from, to, self.config.bundle.margin, now)),
            Some(BundleSpan::Around(margin)) => Ok(around(from, to, margin, now)),
            Some(BundleSpan::Between(from, to)) => {
                let (from, to) = (from.resolve(now), to.resolve(now));
                if from >= to {
                    bail!("--window: {from} is not before {to}");
                }
                Ok(Window { from, to })
            }
        }
    }

    /// Returns the signer with the service's key; a bundle is written without a signature too.
    fn signer(&self) -> Option<Arc<Signer>> {
        let signer = known_signer(self.config.bundle.link_key_file.as_deref(), &self.config.state_dir);
        signer
            .unwrap_or_else(|error| {
                anstream::eprintln!("the bundle is not signed: {}", render::clean(&format!("{error:#}")));
                None
            })
            .map(Arc::new)
    }

    /// Writes the file, in the directory `spool` if there is one, and shows the progress.
    async fn make(
        &self,
        sources: &Sources,
        subject: &Subject,
        payload: Option<Value>,
        spool: Option<&Path>,
    ) -> anyhow::Result<(PathBuf, BuiltBundle)> {
        let args = self.args;
        // The file's name leaves the site too: a pool is named by its namespace and model.
        let subject_name =
            if args.anonymize && subject.incident.is_none() { "pool".to_owned() } else { subject::name_of(subject) };
        let path = place(spool.or(args.output.as_deref()), &subject_name);
        output::check(&path)?;
        if path.exists() && !args.force {
            bail!("{} is there already: name another with --output, or pass --force", path.display());
        }
        // Before a file exists that an interruption would leave behind.
        let mut stop = StopSignals::new()?;
        let dir = path.parent().filter(|dir| !dir.as_os_str().is_empty()).unwrap_or(Path::new("."));
        let room = directory::room(dir, self.config.bundle.min_free_bytes)?;
        let draft = Draft::new(path.clone(), room, self.config.bundle.min_free_bytes)?;
        let options = Options {
            redact: !args.no_redact,
            anonymize: args.anonymize,
            deadline: args.deadline.unwrap_or(self.config.bundle.deadline),
            file_bytes: draft.most,
            tickets: args.tickets.clone(),
            payload,
            signer: self.signer(),
            ..Options::of(&self.config.bundle)
        };
        let progress = BundleProgress::default();
        let mut board = progress.watch();
        let mut lines = ProgressLines::new(args.quiet);
        let mut build = Box::pin(bundle::make(sources, subject, &options, &draft.part, &progress));
        let result = loop {
            tokio::select! {
                result = &mut build => break result,
                Ok(()) = board.changed() => lines.show(&board.borrow_and_update()),
                () = stop.recv() => bail!("stopped: nothing was written"),
            }
        };
        drop(build);
        lines.show(&progress.board());
        let result = result.map_err(|error| draft.explain(error))?;
        Ok((draft.publish(args.force)?, result))
    }
}

/// Returns a directory for the file until it is copied to standard output, for `--output -`; `None` for any other output.
///
/// # Errors
/// When standard output is a terminal, or no directory can be made.
fn to_stdout(args: &BundleArgs) -> anyhow::Result<Option<TempDir>> {
    if args.output.as_deref() != Some(Path::new("-")) {
        return Ok(None);
    }
    if std::io::stdout().is_terminal() {
        bail!("--output -: a zip file would fill the terminal; pipe it into a file or a program");
    }
    tempfile::tempdir().map(Some).context("cannot make a directory for the file")
}

/// Returns the path of the file.
fn place(output: Option<&Path>, of: &str) -> PathBuf {
    let name = Name { of: of.to_owned(), at: clock::now() }.to_string();
    match output {
        None => PathBuf::from(name),
        Some(dir) if dir.is_dir() => dir.join(name),
        Some(file) => file.to_owned(),
    }
}

/// Checks that every named receiver has a form.
fn receivers(args: &BundleArgs, library: &Library) -> anyhow::Result<()> {
    let Some(unknown) = args.tickets.iter().find(|ticket| !library.tickets.contains_key(*ticket)) else {
        return Ok(());
    };
    let tickets: Vec<&str> = library.tickets.keys().map(String::as_str).collect();
    bail!("--ticket: there is no form for `{unknown}`; there are {}", tickets.join(", "))
}

/// Asks for confirmation before secrets are written.
fn confirm(args: &BundleArgs) -> anyhow::Result<()> {
    if !args.no_redact || args.yes_with_secrets {
        return Ok(());
    }
    let (input, error) = (std::io::stdin(), std::io::stderr());
    if !input.is_terminal() || !error.is_terminal() {
        bail!(
            "--no-redact leaves tokens, passwords and prompts in the file: where nobody can be asked, confirm it with \
             --yes-with-secrets"
        );
    }
    anstream::eprint!(
        "The file will contain tokens, passwords and prompts unchanged. Type `{CONFIRMATION}` to continue: "
    );
    let mut typed = String::new();
    input.lock().read_line(&mut typed).context("cannot read the typed answer")?;
    if typed.trim() != CONFIRMATION {
        bail!("not confirmed: nothing was made; without --no-redact secrets are redacted");
    }
    Ok(())
}
