//! The subject of a bundle: an incident of the service's store, else a pool.

use anyhow::{Context, bail};

use super::BundleContext;
use crate::cli::ask;
use bundle::SourceRegistry;
use chat::named_id;
use diagnose::health::Triage;
use diagnose::{Exporters, ExtraSources, LogSources};
use findings::{ExporterTarget, Scope};
use knowledge::alert::AlertGroup;
use knowledge::clock;
use notify::stored_view;
use prom::Prometheus;
use service::config::visit_store;
use service::{Subject, around};
use store::{Incident, Store, StoreAccess};

/// Maximum number of events of an incident.
const EVENTS: u32 = 10_000;
/// The hint of how to name a pool instead of an incident.
const POOL: &str = "for a pool pass --playbook, --label or --alert, or its name";

/// Returns the named incident with its stored exporters; else the reason why the subject must be a pool.
pub(super) async fn find_stored_incident(
    context: &BundleContext<'_>,
    registry: &SourceRegistry,
) -> anyhow::Result<Result<(Subject, Vec<ExporterTarget>), String>> {
    let args = context.args;
    if args.alert.is_some() || args.playbook.is_some() || !args.labels.is_empty() || args.when.at.is_some() {
        return Ok(Err(String::new()));
    }
    let store = match visit_store(&context.config, StoreAccess::ReadOnly).await {
        Ok(store) => store,
        Err(error) => {
            return match &args.what {
                // The name may be a pool's, which needs no store.
                Some(_) => Ok(Err(format!("{error:#}"))),
                None => Err(error.context(format!("which incident? {POOL}"))),
            };
        }
    };
    let result = find(context, registry, &store).await;
    store.close().await;
    result
}

async fn find(
    context: &BundleContext<'_>,
    registry: &SourceRegistry,
    store: &Store,
) -> anyhow::Result<Result<(Subject, Vec<ExporterTarget>), String>> {
    let ids = match &context.args.what {
        Some(name) => named_id(store, name).await?,
        None => store.recent(1).await?,
    };
    let incident = match ids.as_slice() {
        [id] => store.incident_with_related(id).await?,
        [] if context.args.what.is_some() => return Ok(Err("there is no such incident".to_owned())),
        [] => None,
        ids => bail!("several incidents are called so: {}", ids.join(", ")),
    };
    let Some(incident) = incident else { bail!("there is no such incident: `incidents all` lists them; {POOL}") };
    let events = store.events(&incident.id, EVENTS).await?;
    let remembered = match registry.prometheus(&incident.alerts) {
        Some(prometheus) => store.exporters(&prometheus.key).await?,
        None => Vec::new(),
    };
    let headline = headline(&incident, context);
    let (diagnosing, margin) = (&context.config.diagnose, context.config.bundle.margin);
    let subject = Subject::of_incident(&context.library, incident, headline, &events, diagnosing, margin, clock::now());
    Ok(Ok((subject, remembered)))
}

fn headline(incident: &Incident, context: &BundleContext<'_>) -> String {
    render::incident_message(&stored_view(incident), &context.words).headline
}

/// Returns a pool, with its symptom and the alerts of the given notification. `why` is the reason why the name is not an incident's.
pub(super) async fn of_pool(
    context: &BundleContext<'_>,
    group: Option<&AlertGroup>,
    why: &str,
) -> anyhow::Result<Subject> {
    let (args, config) = (context.args, &context.config);
    let target = args.what.as_deref();
    let playbook = args.playbook.as_deref();
    let mut request = ask::request(&context.library, config, playbook, target, &args.labels, &args.when, group)?;
    let selected: prom::Config = ask::prometheus(config, args.prometheus.as_deref(), group)?;
    let prometheus = Prometheus::new(&selected)?;
    let exporters = Exporters::known(&config.exporters, &context.reader, &prometheus, None);
    // Exporters' pages show only the current state.
    let exporters = Some(&exporters).filter(|_| ask::is_now(&request));
    // The bundle reports a log that cannot be read.
    let (files, _) = logs::files::read(&args.sources.logs, config.bundle.log_bytes);
    let logs = LogSources { files, ..ask::logs(config, &[]).await? };
    let extra = ExtraSources { exporters, logs: Some(&logs) };
    let source = (&prometheus, &selected.labels);
    let answer = ask::answer(&context.library, source, &mut request, target, &args.labels, extra).await;
    let answer = if why.is_empty() { answer } else { answer.with_context(|| format!("{why}, and no pool either")) };
    let (headline, diagnosis) = match answer? {
        Triage::Found(diagnosis) => {
            request.playbook.clone_from(&diagnosis.symptom.playbook);
            let message = render::diagnosis_message(&diagnosis, Some(&prometheus.url), &context.words);
            (message.headline, Some(*diagnosis))
        }
        Triage::Quiet(_) => (context.words.text("bundle-quiet", &[]), None),
    };
    let from = request.since.unwrap_or(request.at);
    let window = around(from, request.at, config.bundle.margin, clock::now());
    let alerts = group.map(|group| group.alerts.clone()).unwrap_or_default();
    Ok(Subject { incident: None, headline, request, diagnosis, window, happened: Vec::new(), alerts })
}

/// Returns a name for the file: the incident's id, else the names of the pool or the playbook.
pub(super) fn name_of(subject: &Subject) -> String {
    let pool = || {
        let Scope { dimensions, .. } = &subject.request.scope;
        let values = ["namespace", "model", "cluster"].iter().filter_map(|dimension| dimensions.get(*dimension));
        let words = values.map(String::as_str).chain([subject.request.playbook.as_str()]);
        words.filter(|word| !word.is_empty()).collect::<Vec<_>>().join("-")
    };
    let of = subject.incident.as_ref().map_or_else(pool, |incident| incident.id.clone());
    let fine = |c: char| if c.is_ascii_alphanumeric() { c } else { '-' };
    let of: String = of.chars().map(fine).take(60).collect();
    match of.trim_matches('-') {
        "" => "pool".to_owned(),
        of => of.to_owned(),
    }
}
