//! `bundle` and its button: builds one file with everything about an incident and uploads it, or links to it.

use std::sync::Arc;
use std::time::Duration;

use tracing::warn;

use crate::Desk;
use crate::attempt;
use crate::authority::Power;
use crate::command::OfIncident;
use crate::incidents::find;
use crate::replies::Caller;
use crate::reply::Reply;
use crate::wording::sentence;
use bundle::{Bundle, BundleLocation, BundleService, NoBundle, bundle_message};
use knowledge::clock;
use knowledge::incident::{Act, short_id};
use knowledge::signal::{Unit, format_value};
use message::{Line, Message, Tone};
use notify::ANSWER_WITHIN;
use slack::Destination;
use store::{AuditResult, Incident};

/// Timeout for the upload, in addition to the build.
pub(super) const UPLOAD: Duration = Duration::from_secs(120);

/// Handles the command.
pub(super) async fn run(desk: &Desk, caller: Caller<'_>, reply: &Reply<'_>, of: &OfIncident) {
    let (store, words) = (&desk.service.store, &desk.service.words);
    let incident = match find(store, words, reply.place, of).await {
        Ok(incident) => incident,
        Err(message) => return reply.send_message(&message).await,
    };
    if caller.permit(Act::Bundle.as_str(), Some(&incident.id), Power::of(Act::Bundle)).await {
        bundle(caller, &desk.bundles, reply, &incident, None).await;
    }
}

/// Handles the button of an incident's message: the file goes to that message's thread.
pub(crate) async fn press(caller: Caller<'_>, bundles: &Arc<BundleService>, id: &str) {
    let (log, request) = (caller.log, caller.request);
    let Some(incident) = &caller.begin_act(Act::Bundle, id).await else { return };
    let posted = log.store.place_of(&incident.id).await.unwrap_or_else(|error| {
        warn!(%error, incident.id = incident.id, "cannot read the place of the message");
        None
    });
    // The message may not be recorded yet. Then the pressed one is used, if it is no ephemeral answer.
    let pressed = request.place.thread.as_deref().or(request.place.message.as_deref());
    let (channel, thread) = match &posted {
        Some((channel, ts)) => (channel.as_str(), Some(ts.as_str())),
        None => (request.place.channel.as_str(), pressed),
    };
    let thread = thread.map(|ts| Destination { channel, thread: Some(ts) });
    let reply = Reply::new(caller);
    let time_limit = bundles.max_wait() + UPLOAD + ANSWER_WITHIN;
    let work = tokio::time::timeout(time_limit, Box::pin(bundle(caller, bundles, &reply, incident, thread)));
    if reply.watched(Act::Bundle.as_str(), work).await.is_err() {
        reply.send_message(&sentence(Tone::Unknown, caller.notifier.words.line("command-late", &[]))).await;
    }
}

/// Builds the bundle, or joins a running build, and uploads or links it, for an authorised user. The audit log records
/// who received it.
async fn bundle(
    caller: Caller<'_>,
    bundles: &Arc<BundleService>,
    reply: &Reply<'_>,
    incident: &Incident,
    thread: Option<Destination<'_>>,
) {
    let Some(attempt) = attempt::begin(caller, Act::Bundle, Some(&incident.id)).await else { return };
    let words = &caller.notifier.words;
    let result = match bundles.get_or_start(&incident.id) {
        Ok(job) => {
            // Set only once, because a reply belongs to one request.
            let _ = reply.bundle.set(job.progress.clone());
            job.done().await
        }
        Err(error) => Err(Arc::new(error)),
    };
    match result {
        Ok(bundle) => {
            let message = hand_over(bundles, caller, reply, incident, &bundle, thread).await;
            attempt.end(caller.log, AuditResult::Done, &bundle.name.to_string(), "").await;
            reply.send_message(&message).await;
        }
        Err(error) => {
            attempt.end(caller.log, AuditResult::Failed, "", &error.to_string()).await;
            let line = match &*error {
                NoBundle::Busy => words.line("bundle-busy", &[]),
                other => {
                    let id = Line::default().code(short_id(&incident.id));
                    let why = Line::of(&other.to_string());
                    words.line("bundle-none", &[("id", id.into()), ("why", why.into())])
                }
            };
            reply.send_message(&sentence(Tone::Unknown, line)).await;
        }
    }
}

/// Uploads the file, which everybody in the channel sees; links to it if it is too large or the upload fails.
async fn hand_over(
    bundles: &BundleService,
    caller: Caller<'_>,
    reply: &Reply<'_>,
    incident: &Incident,
    bundle: &Bundle,
    thread: Option<Destination<'_>>,
) -> Message {
    let (id, words) = (short_id(&incident.id), &caller.notifier.words);
    let message = |place, reason| bundle_message(&bundle.report, bundle.bytes, id, place, reason, words);
    let limit = bundles.directory.config.upload_bytes;
    let reason = if bundle.bytes > limit {
        words.line("bundle-too-large", &[("most", format_value(limit as f64, Unit::Bytes).into())])
    } else {
        let (name, title) = (bundle.name.to_string(), words.text("bundle-title", &[("id", id.into())]));
        let to = thread.unwrap_or_else(|| reply.destination());
        match caller.slack.upload_file(&name, &title, &bundle.path, to).await {
            Ok(_) => return message(BundleLocation::Here, None),
            Err(error) => {
                warn!(%error, incident.id = incident.id, "cannot upload a bundle");
                words.line("bundle-upload-failed", &[("why", Line::of(&error.to_string()).into())])
            }
        }
    };
    let place = match bundles.links.link(&bundle.name, clock::now()) {
        Some((url, until)) => BundleLocation::Link(url, until),
        None => BundleLocation::Disk(bundle.path.display().to_string()),
    };
    message(place, Some(reason))
}
