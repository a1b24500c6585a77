//! Acts on an incident's page: the same authority, audit and effect as in chat. Forms, so that they work without a
//! script; each carries a proof that our own page made it.

use std::time::Duration;

use axum::body::Bytes;
use axum::extract::{Extension, Path, State};
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{Html, IntoResponse, Response};
use ulid::Ulid;

use super::auth::Visitor;
use super::page_forms::{self, Sent};
use super::page_parts::{back_to, lost, problem_line};
use super::state::Shared;
use chat::acts::silence::{Excess, NoSilence, Silencer};
use chat::acts::{ActEnd, Actor, AuditLog, find_incident, silence};
use chat::{Denial, Power, acts, authorise_visitor};
use findings::silence::SilenceMatcher;
use knowledge::clock;
use knowledge::incident::Act;
use message::{Block, Line};
use render::{FormSeal, PAGE_ACTS, SilenceFields};
use sources::alertmanager::{self, SilenceError};
use store::{AuditResult, Incident};

/// The place of the acts in the audit log.
const PLACE: &str = "http";

/// Returns the acts that a visitor may do on this incident now, and the reason why there are not more.
pub(super) fn offered(shared: &Shared, visitor: &Visitor, incident: &Incident) -> (Vec<Act>, Option<Denial>) {
    let acts = || PAGE_ACTS.iter().map(|(act, _)| *act);
    let refused = acts().find_map(|act| may(shared, visitor, act).err());
    let is_mine = incident.acknowledged.as_ref().is_some_and(|by| by.who == visitor.who);
    let fits = |act: &Act| match act {
        Act::Acknowledge => incident.open && !is_mine,
        Act::Again => incident.open && incident.entered().is_some(),
        Act::Silence => no_silence(shared, incident).is_none(),
        _ => true,
    };
    (acts().filter(fits).filter(|act| may(shared, visitor, *act).is_ok()).collect(), refused)
}

fn may(shared: &Shared, visitor: &Visitor, act: Act) -> Result<(), Denial> {
    let config = &shared.service.config;
    authorise_visitor(visitor.name(), visitor.known, Power::of(act), &config.pages.act, &config.slack.act)
}

/// Returns the key of the phrase that says why this incident cannot be silenced; `None` if it can.
fn no_silence(shared: &Shared, incident: &Incident) -> Option<&'static str> {
    let common = findings::silence::common(&incident.alerts);
    if !incident.open || findings::silence::shared(&incident.alerts).is_empty() {
        return Some("act-over");
    }
    let chosen = alertmanager::chosen(&shared.pages.alertmanagers, &common);
    (silence::selectable(incident).is_empty() || chosen.is_empty()).then_some("silence-no-alertmanager")
}

/// One request of a visitor about an incident.
pub(super) struct Visit<'a> {
    pub(super) shared: &'a Shared,
    visitor: &'a Visitor,
    pub(super) incident: &'a Incident,
    act: Act,
}

/// Handles a form: 303 back to the incident's page, or a page that says what is wrong and leads back.
pub(super) async fn act(
    State(shared): State<Shared>,
    Path((id, act)): Path<(String, String)>,
    Extension(visitor): Extension<Visitor>,
    headers: HeaderMap,
    body: Bytes,
) -> Response {
    let Some(act) = Act::of(&act).filter(|act| PAGE_ACTS.iter().any(|(one, _)| one == act)) else {
        return lost(&shared);
    };
    // Not in the audit log: another site's page could write there in the visitor's name, and without end.
    if page_forms::is_foreign(&headers, &shared.service.config.public_url) {
        return turned_away(&shared, &visitor, act, &id, (StatusCode::FORBIDDEN, "page-form-elsewhere"));
    }
    if !shared.pages.admits_form(&visitor.who) {
        return turned_away(&shared, &visitor, act, &id, (StatusCode::TOO_MANY_REQUESTS, "page-too-often"));
    }
    // In a task, so that an act is not dropped half-way if the browser goes away.
    let (own, about) = (shared.clone(), id.clone());
    let tasks = shared.tasks.clone();
    let work = tasks.spawn(async move { carry_out(&own, &visitor, act, &about, &Sent::read(&body)).await });
    work.await.unwrap_or_else(|error| {
        tracing::error!(%error, what = act.as_str(), "an act on a page ended half-way");
        let why = shared.service.words.line("page-unsure-why", &[]);
        problem_line(&shared, StatusCode::INTERNAL_SERVER_ERROR, "page-unsure", &why, &back_to(&shared, &id))
    })
}

/// Refuses a form before anything of it is looked at: in the log and the metrics alone.
fn turned_away(
    shared: &Shared,
    visitor: &Visitor,
    act: Act,
    id: &str,
    (status, why): (StatusCode, &'static str),
) -> Response {
    tracing::warn!(user = visitor.who, what = act.as_str(), why, "refused a form");
    shared.service.metrics.act(act.as_str(), AuditResult::Refused.as_str());
    said(shared, status, id, why)
}

/// Carries out what a form of this visitor asks for. Somebody without the power is refused first and written down, since
/// no page makes a form for them.
async fn carry_out(shared: &Shared, visitor: &Visitor, act: Act, id: &str, sent: &Sent) -> Response {
    if let Err(denial) = may(shared, visitor, act) {
        let actor = Actor { who: &visitor.who, place: PLACE };
        AuditLog::of(&shared.service).write_refusal(actor, act.as_str(), Some(id), denial.as_str()).await;
        return said(shared, StatusCode::FORBIDDEN, id, denial.page_key());
    }
    if !page_forms::is_valid(&shared.signer, visitor, id, sent.get("token"), clock::now()) {
        return turned_away(shared, visitor, act, id, (StatusCode::FORBIDDEN, "page-form-strange"));
    }
    let incident = match found(shared, id).await {
        Ok(incident) => incident,
        Err(answer) => return *answer,
    };
    let visit = Visit { shared, visitor, incident: &incident, act };
    match act {
        Act::Note => visit.note(sent).await,
        Act::Silence => visit.silence(sent).await,
        Act::Bundle => visit.bundle().await,
        _ => visit.simple().await,
    }
}

/// Shows the form of a note or a silence. Refusals are not audited: any link leads here.
pub(super) async fn form(
    State(shared): State<Shared>,
    Path((id, act)): Path<(String, String)>,
    Extension(visitor): Extension<Visitor>,
) -> Response {
    let forms = [Act::Note, Act::Silence];
    let Some(act) = forms.into_iter().find(|one| one.as_str() == act) else { return lost(&shared) };
    if let Err(denial) = may(&shared, &visitor, act) {
        return said(&shared, StatusCode::FORBIDDEN, &id, denial.page_key());
    }
    let incident = match found(&shared, &id).await {
        Ok(incident) => incident,
        Err(answer) => return *answer,
    };
    let visit = Visit { shared: &shared, visitor: &visitor, incident: &incident, act };
    match (act, no_silence(&shared, &incident)) {
        (Act::Silence, None) => {
            let named = findings::silence::preselected(&incident.alerts).is_ok();
            let offered = silence::selectable(&incident);
            let chosen = if named { offered.clone() } else { Vec::new() };
            let first = silence::durations(visit.silencer().longest).next().map_or("", |(value, ..)| value);
            let problem = (!named).then(|| shared.service.words.line("silence-whole-pool", &[]));
            let fields = visit.fields(&chosen, (first, "", ""), None);
            visit.silence_page(StatusCode::OK, problem.as_ref(), &fields).await
        }
        (Act::Silence, Some(why)) => said(&shared, StatusCode::CONFLICT, &id, why),
        _ => visit.note_page(StatusCode::OK, None, "").await,
    }
}

/// Returns the incident, or the page that says why there is none.
async fn found(shared: &Shared, id: &str) -> Result<Incident, Box<Response>> {
    find_incident(&shared.service.store, id).await.map_err(|key| {
        let gone = key == "act-gone";
        let status = if gone { StatusCode::NOT_FOUND } else { StatusCode::SERVICE_UNAVAILABLE };
        Box::new(said(shared, status, if gone { "" } else { id }, key))
    })
}

/// Says that nothing was done, with the way back to the incident; without an id to the list.
fn said(shared: &Shared, status: StatusCode, id: &str, key: &str) -> Response {
    let line = shared.service.words.line(key, &[]);
    problem_line(shared, status, "page-not-done", &line, &back_to(shared, id))
}

impl Visit<'_> {
    pub(super) fn log(&self) -> AuditLog<'_> {
        AuditLog::of(&self.shared.service)
    }

    fn silencer(&self) -> Silencer<'_> {
        Silencer::of(&self.shared.service, &self.shared.pages.alertmanagers)
    }

    pub(super) fn actor(&self) -> Actor<'_> {
        Actor { who: &self.visitor.who, place: PLACE }
    }

    /// Carries out an act whose form counts once; an act that failed may be sent again, with the same form too.
    async fn once(&self, sent: &Sent, work: impl Future<Output = Result<Response, Box<Response>>>) -> Response {
        let store = &self.shared.service.store;
        let claim = sent.claim(&self.visitor.who, &self.incident.id, self.act);
        match store.claim_request(&claim, store.now()).await {
            Ok(true) => {}
            Ok(false) => return self.back("repeated"),
            Err(error) => {
                tracing::error!(%error, "cannot record a form: it is refused");
                return self.not_done("act-store");
            }
        }
        match work.await {
            Ok(done) => done,
            Err(not_done) => {
                if let Err(error) = store.forget_request(&claim).await {
                    tracing::error!(%error, "cannot release the form of a failed act: it counts as sent");
                }
                *not_done
            }
        }
    }

    /// Returns to the page of the incident, which says what was done.
    pub(super) fn back(&self, did: &str) -> Response {
        let signer = &self.shared.signer;
        let did = page_forms::did(signer, self.visitor, &self.incident.id, did, clock::now());
        let to = format!("/incidents/{}?did={did}#head", self.incident.id);
        (StatusCode::SEE_OTHER, [(header::LOCATION, to)]).into_response()
    }

    pub(super) fn not_done(&self, key: &str) -> Response {
        let status = if key == "act-store" { StatusCode::SERVICE_UNAVAILABLE } else { StatusCode::CONFLICT };
        said(self.shared, status, &self.incident.id, key)
    }

    /// Acknowledges or runs again; a second time changes nothing, so it counts as done.
    async fn simple(&self) -> Response {
        let diagnoses = &self.shared.service.diagnoses;
        let end = acts::simple(self.log(), diagnoses, self.actor(), self.act, self.incident).await;
        match end.problem(self.act) {
            Some(key) if end != ActEnd::Nothing || self.act != Act::Acknowledge => self.not_done(key),
            _ => self.back(self.act.as_str()),
        }
    }

    async fn note(&self, sent: &Sent) -> Response {
        let text = sent.get("text");
        if text.is_empty() {
            let problem = self.shared.service.words.line("page-note-empty", &[]);
            return self.note_page(StatusCode::UNPROCESSABLE_ENTITY, Some(&problem), "").await;
        }
        let work = async {
            let notifier = &self.shared.service.notifier;
            match acts::note(self.log(), notifier, self.actor(), self.incident, text).await.problem(Act::Note) {
                None => Ok(self.back(Act::Note.as_str())),
                Some(key) => Err(Box::new(self.not_done(key))),
            }
        };
        self.once(sent, work).await
    }

    /// Creates a silence; asks again if it would silence more than the incident, or if a field is wrong.
    async fn silence(&self, sent: &Sent) -> Response {
        let (shared, silencer) = (self.shared, self.silencer());
        let words = &shared.service.words;
        if let Some(why) = no_silence(shared, self.incident) {
            return self.not_done(why);
        }
        let offered = silence::selectable(self.incident);
        let (chosen, own) = (sent.get("duration"), sent.get("custom"));
        let typed = (chosen, own, sent.get("comment"));
        let matchers = silence::matchers_of(words, &offered, sent.all("label"));
        let duration = silence::duration_of(words, silencer.longest, if own.is_empty() { chosen } else { own });
        let (matchers, duration) = match (matchers, duration) {
            (Ok(matchers), Ok(duration)) => (matchers, duration),
            (matchers, duration) => {
                let problem = matchers.as_ref().err().or(duration.as_ref().err()).map(|text| Line::of(text));
                let fields = self.fields(&matchers.unwrap_or_default(), typed, None);
                return self.silence_page(StatusCode::UNPROCESSABLE_ENTITY, problem.as_ref(), &fields).await;
            }
        };
        let excess = Excess::of(silencer.alertmanagers, self.incident, matchers).await;
        if !excess.is_confirmed_by(sent.get("confirm")) {
            let (warning, text) = excess.warning(words);
            let fields = self.fields(&excess.matchers, typed, Some((text, excess.confirmation())));
            return self.silence_page(StatusCode::OK, Some(&warning), &fields).await;
        }
        self.once(sent, self.create(&excess.matchers, duration, typed)).await
    }

    /// Creates a silence and tells the thread; the error is the page that says why there is none.
    async fn create(
        &self,
        matchers: &[SilenceMatcher],
        duration: Duration,
        typed: (&str, &str, &str),
    ) -> Result<Response, Box<Response>> {
        let (shared, comment) = (self.shared, typed.2);
        let (words, notifier) = (&shared.service.words, &shared.service.notifier);
        let author = (self.actor(), format!("{} on the page of llm-diagnose", self.visitor.name()));
        let wanted = (matchers, duration, comment);
        match silence::create(self.log(), self.silencer(), author, self.incident, wanted).await {
            Ok(created) => {
                // The button works only where Slack reaches us.
                let is_heard = shared.slack_state.is_some() || shared.socket.is_some();
                let button = is_heard.then(|| silence::expire_button(words, &created.id, Act::Expire.as_str()));
                let end = Block::Buttons(button.into_iter().collect());
                let body = silence::announcement(notifier, self.actor(), self.incident, &created, comment, end);
                if let Err(error) = self.log().tell_thread(&self.incident.id, &body).await {
                    tracing::warn!(%error, incident.id = self.incident.id, "cannot store the post for the thread");
                }
                Ok(self.back(Act::Silence.as_str()))
            }
            Err(NoSilence::NoStore) => Err(Box::new(self.not_done("act-store"))),
            Err(NoSilence::Refused(error @ SilenceError::Unsure(_))) => {
                // The form counts as sent: sent again, it would create a second one.
                let back = back_to(shared, &self.incident.id);
                let why = silence::problem(words, &error);
                Ok(problem_line(shared, StatusCode::GATEWAY_TIMEOUT, "page-unsure", &why, &back))
            }
            Err(NoSilence::Refused(error)) => {
                let fields = self.fields(matchers, typed, None);
                let problem = silence::problem(words, &error);
                Err(Box::new(self.silence_page(StatusCode::BAD_GATEWAY, Some(&problem), &fields).await))
            }
        }
    }

    fn fields(
        &self,
        chosen: &[SilenceMatcher],
        (duration, custom, comment): (&str, &str, &str),
        confirm: Option<(String, String)>,
    ) -> SilenceFields {
        let service = &self.shared.service;
        let offered = silence::selectable(self.incident);
        let redactor = silence::redactor(&service.notifier, Some(self.incident), &offered);
        let label = |one: &SilenceMatcher| {
            (one.key(), silence::shown_matcher(&redactor, one).to_string(), chosen.contains(one))
        };
        SilenceFields {
            labels: offered.iter().map(label).collect(),
            durations: silence::durations(service.config.slack.silence_max)
                .map(|(value, _, key)| (value, service.words.text(key, &[])))
                .collect(),
            duration: duration.to_owned(),
            custom: custom.to_owned(),
            comment: comment.to_owned(),
            confirm,
        }
    }

    async fn silence_page(&self, status: StatusCode, problem: Option<&Line>, fields: &SilenceFields) -> Response {
        let (token, once) = self.seal();
        let seal = FormSeal { incident: &self.incident.id, token: &token, once: &once };
        // An error of Alertmanager quotes matchers with their values.
        let service = &self.shared.service;
        let redactor = silence::redactor(&service.notifier, Some(self.incident), &silence::selectable(self.incident));
        let clean = |text: String| redactor.text("page", &text).into_owned();
        let problem = problem.map(|line| line.clone().map_text(&clean));
        let page = render::silence_page(seal, &self.headline().await, problem.as_ref(), fields, &service.words);
        (status, Html(page)).into_response()
    }

    async fn note_page(&self, status: StatusCode, problem: Option<&Line>, text: &str) -> Response {
        let (token, once) = self.seal();
        let seal = FormSeal { incident: &self.incident.id, token: &token, once: &once };
        let wanted = (text, acts::NOTE_CHARS);
        let page = render::note_page(seal, &self.headline().await, problem, wanted, &self.shared.service.words);
        (status, Html(page)).into_response()
    }

    fn seal(&self) -> (String, String) {
        let token = page_forms::token(&self.shared.signer, self.visitor, &self.incident.id, clock::now());
        (token, Ulid::generate().to_string())
    }

    /// Returns the headline of the incident, cleaned.
    async fn headline(&self) -> String {
        let notifier = &self.shared.service.notifier;
        let headline = notifier.message(self.incident).await.headline;
        notifier.redactor_of([self.incident]).text("page", &headline).into_owned()
    }
}
