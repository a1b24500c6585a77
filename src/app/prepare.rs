//! The parts that the service makes from its configuration before it starts: clients, credentials, phrases.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;

use anyhow::{Context, bail};
use secrecy::{ExposeSecret, SecretString};

use bundle::BundleDirectory;
use diagnose::LogSources;
use knowledge::playbook::{Library, Problem};
use notify::PagerClient;
use prom::Prometheus;
use redact::Redactor;
use render::Phrases;
use service::config::{Config, SlackInlet, bot_token, inlet, secret};
use service::{Signer, known_signer, own_key};
use slack::Slack;
use sources::exporter::ExporterReader;
use telemetry::Metrics;
use web::Login;
use web::{Access, Credentials};

/// A configuration and everything that is made of it before the store is opened. To make it is the check of a
/// configuration.
pub(crate) struct Prepared {
    pub config: Config,
    pub library: Arc<Library>,
    /// The problems by which a part of the user's directory of playbooks is not used.
    pub unused: Vec<Problem>,
    pub prometheus: Vec<(Prometheus, BTreeMap<String, String>)>,
    pub reader: ExporterReader,
    pub slack: Option<Slack>,
    pub inlet: SlackInlet,
    pub credentials: Credentials,
    pub access: Access,
    pub login: Option<Login>,
    pub redactor: Redactor,
    pub words: Phrases,
    pub pagers: Vec<PagerClient>,
    pub logs: LogSources,
    /// The directory of bundles.
    pub bundles: BundleDirectory,
    /// Signs download links, and the forms of the pages.
    pub signer: Signer,
    /// The address of a PostgreSQL; `None` for SQLite.
    pub database: Option<SecretString>,
}

impl Prepared {
    /// Reads every secret and prepares every client of a service that listens on `address`; makes the directory of
    /// bundles and the key of signatures if they are missing. Makes no calls, but a kubeconfig may run a program.
    ///
    /// # Errors
    /// When a value of the configuration cannot be used, or a file cannot be read or made.
    pub(crate) async fn new(
        config: Config,
        library: Arc<Library>,
        address: SocketAddr,
        metrics: &Metrics,
    ) -> anyhow::Result<Self> {
        let prometheus = Prometheus::sharing(&config.prometheus)?.into_iter();
        let prometheus = prometheus.map(|(p, labels)| (p.timed(metrics.query_seconds.clone()), labels)).collect();
        if let Some(target) =
            config.exporters.targets.iter().find(|target| !library.engines.contains_key(&target.engine))
        {
            bail!("`exporters.targets`: there is no signal file for engine `{}`", target.engine);
        }
        let reader =
            ExporterReader::new(&config.exporters.allow).context("cannot prepare the HTTP client for exporters")?;
        let slack = slack(&config)?;
        let inlet = match &slack {
            Some(_) => inlet(&config.slack)?,
            None => SlackInlet::Off("set `slack.channel`"),
        };
        let credentials = Credentials::new(&config.webhook)?;
        let pager = |pager| PagerClient::new(pager, secret(&pager.key_file)?);
        Ok(Self {
            prometheus,
            reader,
            slack,
            inlet,
            login: config.pages.oidc.as_ref().map(|oidc| Login::new(oidc, &config.public_url)).transpose()?,
            access: Access::new(&config.pages, &credentials, address, &config.public_url)?,
            credentials,
            redactor: Redactor::new(&report::redaction(&library), false)
                .context("cannot read the rules of redaction")?,
            unused: unused(&config, &library).await?,
            words: Phrases::load(config.playbooks.dir.as_deref()).context("cannot read the phrases")?,
            pagers: config.pagers.iter().map(pager).collect::<anyhow::Result<_>>()?,
            logs: LogSources::connect(&config.kubernetes, &config.loki).await.context("in `loki:`")?,
            bundles: BundleDirectory::open(&config.bundle, &config.state_dir)
                .context("cannot keep bundles (`bundle.dir`)")?,
            signer: match known_signer(config.bundle.link_key_file.as_deref(), &config.state_dir)? {
                Some(signer) => signer,
                None => Signer::new(&own_key(&config.state_dir).context("cannot make the key of download links")?)?,
            },
            database: config.database.url_file.as_deref().map(secret).transpose()?,
            config,
            library,
        })
    }
}

/// Checks the user's directory of playbooks, on a thread that may block.
async fn unused(config: &Config, library: &Arc<Library>) -> anyhow::Result<Vec<Problem>> {
    let Some(dir) = config.playbooks.dir.clone() else { return Ok(Vec::new()) };
    let library = Arc::clone(library);
    let check = tokio::task::spawn_blocking(move || authoring::check::unused(&library, &dir));
    check.await.context("the check of the playbooks panicked")
}

fn slack(config: &Config) -> anyhow::Result<Option<Slack>> {
    if config.slack.channel.is_empty() && config.slack.routes.is_empty() {
        return Ok(None);
    }
    let token = bot_token(&config.slack)?;
    Slack::new(&config.slack.api_url, token.expose_secret()).map(Some).context("cannot prepare the Slack client")
}
