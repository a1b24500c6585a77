//! `diagnose http://host:8000`: engines are read directly, or their saved pages, without Prometheus.

use std::cell::RefCell;
use std::collections::{BTreeSet, HashMap};
use std::io::IsTerminal;
use std::path::Path;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use anyhow::{Context, bail, ensure};
use futures::future::join_all;
use jiff::Timestamp;
use url::{Host, Url};

use super::args::{DiagnoseArgs, Output};
use super::printed_diagnosis::print_diagnosis;
use super::saved::saved;
use super::store::block_on;
use super::{NOT_ANSWERED, ask, redactor};
use crate::cli::output::out;
use diagnose::{Exporters, ExtraSources, SavedPages, diagnose_with, identify};
use findings::{ExporterTarget, Request, Scope};
use knowledge::alert::Labels;
use knowledge::clock;
use knowledge::playbook::Library;
use knowledge::signal::MetricFilter;
use prom::Prometheus;
use render::Phrases;
use service::config::Config;
use service::questions::target;
use sources::exporter::{Allowed, ExporterReader};

/// Time limit for the first look at a page, which shows the engine.
const FIRST_READ: Duration = Duration::from_secs(5);
/// Default time limit of a diagnosis: each page is read twice, and evaluated for the symptom and for its causes.
const DEADLINE: Duration = Duration::from_secs(20);

/// Returns the named addresses and files; `None` if the target is the name of a pool.
///
/// # Errors
/// If some names are addresses or files, and others are not.
pub(super) fn named(args: &DiagnoseArgs) -> anyhow::Result<Option<Vec<&str>>> {
    let names: Vec<&str> = args.what.target.iter().chain(&args.more).map(String::as_str).collect();
    let is_address_or_file = |name: &&str| is_address(name) || Path::new(name).is_file();
    match names.iter().find(|name| !is_address_or_file(name)) {
        None if names.is_empty() => Ok(None),
        None => Ok(Some(names)),
        Some(_) if names.len() < 2 => Ok(None),
        Some(name) => bail!("`{name}` is neither an address such as http://host:8000 nor a file with metrics"),
    }
}

fn is_address(name: &str) -> bool {
    name.starts_with("http://") || name.starts_with("https://")
}

/// Diagnoses the engines with these addresses or saved pages; with `--watch` again and again.
///
/// # Errors
/// If a page cannot be read or is of no known engine, or a flag contradicts them.
pub(super) fn run(args: &DiagnoseArgs, config: &Config, library: &Library, names: &[&str]) -> anyhow::Result<ExitCode> {
    let is_past = args.what.when.at.is_some() || args.what.when.last.is_some() || args.baseline.is_some();
    ensure!(
        !is_past && !args.fresh,
        "--at, --last, --baseline and --fresh need Prometheus: engines show only the present; leave them out"
    );
    ensure!(args.output != Output::Queries, "--output queries: without Prometheus there are no queries");
    let words = Phrases::load(config.playbooks.dir.as_deref())?;
    block_on(async {
        let Some(pages) = pages(library, names, args.apart).await? else { return Ok(ExitCode::from(NOT_ANSWERED)) };
        let (exporters, saved_at) = (pages.exporters, pages.saved_at);
        ensure!(args.watch.is_none() || saved_at.is_none(), "--watch reads addresses, and these are files");
        let redactor = redactor(library)?;
        let logs = ask::logs(config, &args.sources.logs).await?;
        let prometheus = Prometheus::absent()?;
        loop {
            let extra = ExtraSources { exporters: Some(&exporters), logs: Some(&logs) };
            let request = Request { at: saved_at.unwrap_or_else(clock::now), ..request(args, config, library)? };
            let diagnosis = diagnose_with(library, &prometheus, &request, extra).await;
            let pages_read = diagnosis.direct.as_ref().map_or(0, |direct| direct.engines + direct.gpu_exporters);
            redactor.learn_from(&diagnosis);
            let diagnosis = redactor.cleaned("output", &diagnosis).context("cannot clean the answer of secrets")?;
            if args.watch.is_some() && args.output == Output::Text && std::io::stdout().is_terminal() {
                // Clears the screen.
                out!("\x1b[2J\x1b[H");
            }
            print_diagnosis(&diagnosis, None, args.output, &words)?;
            let Some(pause) = args.watch else {
                return Ok(if pages_read > 0 { ExitCode::SUCCESS } else { ExitCode::from(NOT_ANSWERED) });
            };
            tokio::time::sleep(pause).await;
        }
    })
}

fn request(args: &DiagnoseArgs, config: &Config, library: &Library) -> anyhow::Result<Request> {
    let playbook = args.what.playbook.as_deref().map(|name| library.playbook_id(name)).transpose();
    let playbook = playbook.map_err(anyhow::Error::msg)?.unwrap_or_default().to_owned();
    let labels: Labels = args.labels.iter().cloned().collect();
    target::known_labels(config.prometheus.iter().map(|prometheus| &prometheus.labels), &labels)?;
    let window = args.window.unwrap_or(config.diagnose.window);
    let deadline = args.deadline.unwrap_or(DEADLINE);
    Ok(Request {
        screen: playbook.is_empty(),
        playbook,
        ..Request::without_past(Scope::of_labels(&labels), clock::now(), window, deadline)
    })
}

/// The pages that were named, and the time at which saved ones were written.
struct Pages {
    exporters: Exporters,
    saved_at: Option<Timestamp>,
}

/// Finds out which engines the pages are of; `None` if no address answers, which is said on standard error.
async fn pages(library: &Library, names: &[&str], apart: Option<Duration>) -> anyhow::Result<Option<Pages>> {
    let (addresses, files): (Vec<&str>, Vec<&str>) = names.iter().copied().partition(|name| is_address(name));
    ensure!(apart.is_none() || files.len() == 2, "--apart is the time between two saved pages");
    let urls: Vec<Url> = addresses.into_iter().map(page_address).collect::<anyhow::Result<_>>()?;
    // A named address is allowed, whatever network it is in, but link-local ones and those of clouds' metadata.
    let host = |url: &Url| match url.host()? {
        Host::Ipv6(address) => Some(address.to_string()),
        other => Some(other.to_string()),
    };
    let allow: Vec<Allowed> = urls.iter().filter_map(|url| Allowed::try_from(host(url)?).ok()).collect();
    let reader = ExporterReader::new(&allow).context("cannot prepare the HTTP client for exporters")?;
    let series: BTreeSet<String> = library.engines.values().flat_map(|engine| engine.detected_by()).collect();
    let mut targets = addressed(library, &reader, &urls, &series).await?;
    if targets.is_empty() && !urls.is_empty() {
        return Ok(None);
    }
    let engines = library.engines.values().filter(|_| !files.is_empty());
    let filters: Vec<MetricFilter> = engines.map(MetricFilter::of).collect();
    // A record names each metric at every read.
    let known: RefCell<HashMap<String, bool>> = RefCell::default();
    let needed = |name: &str| {
        let asked = known.borrow().get(name).copied();
        let filter = || filters.iter().any(|filter| filter.has(name));
        asked.unwrap_or_else(|| *known.borrow_mut().entry(name.to_owned()).or_insert_with(filter))
    };
    let saved = saved(&files, apart, &needed)?;
    let (saved, saved_at) = saved.map(|saved| (saved.pages, saved.at)).unzip();
    let saved: Vec<SavedPages> = saved.unwrap_or_default();
    for pages in &saved {
        // A benchmark's record names its targets by their addresses.
        let instance = Url::parse(&pages.name).map_or_else(|_| pages.name.clone(), |url| instance(&url, &[]));
        targets.extend(identify(library, &pages.name, &instance, |name| pages.reads.has(name)));
    }
    if let (Some(file), true) = (files.first(), targets.is_empty()) {
        return Err(unknown(file));
    }
    let exporters = Exporters { reader, targets, learn: false, fresh: false, saved };
    Ok(Some(Pages { exporters, saved_at }))
}

/// Returns the exporters at these addresses. One that does not answer counts as a replica of the others if they are of
/// one engine: it may be the one that has died. Else it is left out.
async fn addressed(
    library: &Library,
    reader: &ExporterReader,
    urls: &[Url],
    series: &BTreeSet<String>,
) -> anyhow::Result<Vec<ExporterTarget>> {
    let deadline = Instant::now() + FIRST_READ;
    let reads = join_all(urls.iter().map(|url| async move {
        let labels = Labels::new();
        let target = ExporterTarget { engine: String::new(), url: url.to_string(), labels, seen: None };
        (url, reader.read(&target, |name| series.contains(name), deadline).await)
    }));
    let (mut targets, mut silent) = (Vec::new(), Vec::new());
    for (url, read) in reads.await {
        match read {
            Ok((samples, _)) => {
                let has = |name: &str| samples.iter().any(|sample| sample.name == name);
                let found = identify(library, url.as_str(), &instance(url, urls), has);
                ensure!(!found.is_empty(), unknown(url.as_str()));
                targets.extend(found);
            }
            Err(error) => silent.push((url, error)),
        }
    }
    let engines: BTreeSet<&str> = targets.iter().map(|target| target.engine.as_str()).collect();
    let only = engines.first().filter(|_| engines.len() == 1).map(|engine| (*engine).to_owned());
    for (url, error) in silent {
        match &only {
            Some(engine) => {
                let labels = Labels::from([("instance".to_owned(), instance(url, urls))]);
                targets.push(ExporterTarget { engine: engine.clone(), url: url.to_string(), labels, seen: None });
            }
            None => anstream::eprintln!("{} {error}", http_client::address(url.as_str())),
        }
    }
    Ok(targets)
}

/// Returns the name of a replica: its host and port, and the path where several have the same.
fn instance(url: &Url, urls: &[Url]) -> String {
    let place =
        |url: &Url| format!("{}:{}", url.host_str().unwrap_or_default(), url.port_or_known_default().unwrap_or(80));
    match urls.iter().filter(|other| place(other) == place(url)).count() {
        0 | 1 => place(url),
        _ => format!("{}{}", place(url), url.path()),
    }
}

/// Returns the error of a page with metrics of no program that is known.
fn unknown(page: &str) -> anyhow::Error {
    anyhow::anyhow!(
        "{} has metrics of no engine, no gateway and no GPU exporter that is known",
        http_client::address(page)
    )
}

/// Returns the address of the metrics page: an address without a path means its `/metrics`.
fn page_address(name: &str) -> anyhow::Result<Url> {
    let mut url =
        Url::parse(name).map_err(|error| anyhow::anyhow!("`{}` is no address: {error}", http_client::address(name)))?;
    ensure!(
        url.username().is_empty() && url.password().is_none(),
        "{}: engines are asked without credentials; leave user and password out",
        http_client::address(name)
    );
    if url.path() == "/" {
        url.set_path("/metrics");
    }
    Ok(url)
}
