//! Acts on an incident's page: the same authority, audit and effect as in chat. Forms, so that they work without a
//! script; each carries a proof that our own page made it.

use std::time::Duration;

use axum::body::Bytes;
use axum::extract::{Extension, Path, State};
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{Html, IntoResponse, Response};
use jiff::Timestamp;
use ring::digest::{SHA256, digest};
use ulid::Ulid;

use super::auth::Visitor;
use super::pages::{back_to, problem_line};
use super::state::Shared;
use crate::acts::silence::{self, Excess, NoSilence};
use crate::acts::{self, ActEnd, Actor, Attempt, find_incident};
use crate::bundle::{Links, NoBundle};
use crate::chatops::{Denial, Power, authorise_visitor};
use knowledge::clock;
use knowledge::incident::Act;
use message::{Block, Line};
use render::{FormSeal, SilenceFields};
use sources::alertmanager::{self, SilenceMatcher};
use store::{AuditResult, Incident};

/// Maximum bytes of a form: a comment of 1,000 characters, each escaped as 12, fits.
pub(super) const FORM_BYTES: usize = 32 << 10;
/// The place of the acts in the audit log.
const PLACE: &str = "http";
/// A token is good from the hour of its page on for this time.
const TOKEN_GOOD_FOR: Duration = Duration::from_secs(13 * 3_600);
/// Tokens of one hour are the same, so that the page has the same ETag.
const TOKEN_STEP: Duration = Duration::from_secs(3_600);
/// The acts of the page, in the order of its buttons.
const ACTS: [Act; 5] = [Act::Acknowledge, Act::Again, Act::Note, Act::Silence, Act::Bundle];

/// Returns the acts that a visitor may do on this incident now, and the reason why there are not more.
pub(super) fn offered(shared: &Shared, visitor: &Visitor, incident: &Incident) -> (Vec<Act>, Option<Denial>) {
    let refused = ACTS.iter().find_map(|act| may(shared, visitor, *act).err());
    let is_mine = incident.acknowledged.as_ref().is_some_and(|by| by.who == visitor.who);
    let fits = |act: &Act| match act {
        Act::Acknowledge => incident.open && !is_mine,
        Act::Again => incident.open && incident.entered().is_some(),
        Act::Silence => can_silence(shared, incident),
        _ => true,
    };
    (ACTS.into_iter().filter(fits).filter(|act| may(shared, visitor, *act).is_ok()).collect(), refused)
}

fn may(shared: &Shared, visitor: &Visitor, act: Act) -> Result<(), Denial> {
    authorise_visitor(visitor.name(), visitor.known, Power::of(act), &shared.service.config.pages.act)
}

fn can_silence(shared: &Shared, incident: &Incident) -> bool {
    let common = alertmanager::common(&incident.alerts);
    incident.open
        && !silence::selectable(incident).is_empty()
        && !alertmanager::chosen(&shared.pages.alertmanagers, &common).is_empty()
}

/// Returns the proof that a form of this incident is from a page that we made for this visitor.
pub(super) fn token(links: &Links, visitor: &Visitor, incident: &str, now: Timestamp) -> String {
    let expires = clock::after(clock::floor(now, TOKEN_STEP), TOKEN_GOOD_FOR).as_second();
    format!("{expires}.{}", links.sign(&sealed(visitor, incident, expires)))
}

fn is_valid(links: &Links, visitor: &Visitor, incident: &str, token: &str, now: Timestamp) -> bool {
    let Some((expires, signature)) = token.split_once('.') else { return false };
    let Ok(expires) = expires.parse::<i64>() else { return false };
    expires > now.as_second() && links.has_signed(&sealed(visitor, incident, expires), signature)
}

fn sealed(visitor: &Visitor, incident: &str, expires: i64) -> String {
    // The visitor's name is last, because it may hold anything.
    format!("llm-diagnose page form v1\n{incident}\n{expires}\n{}", visitor.who)
}

/// Returns true if a browser says that another site's page sent the form. Programs say nothing; they need the token.
fn is_foreign(headers: &HeaderMap, public_url: &str) -> bool {
    let text = |name: &str| headers.get(name).map(|value| value.to_str().unwrap_or("?"));
    if let Some(site) = text("sec-fetch-site") {
        return site != "same-origin";
    }
    let Some(origin) = text("origin") else { return false };
    let from = origin.split_once("://").map(|(_, authority)| authority);
    let public = url::Url::parse(public_url).ok().map(|url| url.origin().ascii_serialization());
    let is_here = from.is_some() && from == text(header::HOST.as_str());
    !is_here && public.as_deref() != Some(origin)
}

/// The fields of a form that was sent.
struct Sent(Vec<(String, String)>);

impl Sent {
    fn read(body: &[u8]) -> Self {
        Self(url::form_urlencoded::parse(body).into_owned().collect())
    }

    fn all<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a str> {
        self.0.iter().filter(move |(is, _)| is == name).map(|(_, value)| value.trim())
    }

    fn get(&self, name: &str) -> &str {
        self.0.iter().find(|(is, _)| is == name).map(|(_, value)| value.trim()).unwrap_or_default()
    }
}

/// One request of a visitor about an incident.
struct Visit<'a> {
    shared: &'a Shared,
    visitor: &'a Visitor,
    incident: &'a Incident,
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
    let Some(act) = Act::of(&act).filter(|act| ACTS.contains(act)) else { return super::pages::lost(&shared) };
    let sent = Sent::read(&body);
    if is_foreign(&headers, &shared.service.config.public_url)
        || !is_valid(&shared.bundles.links, &visitor, &id, sent.get("token"), clock::now())
    {
        tracing::warn!(user = visitor.who, what = act.as_str(), "refused a form that our own page did not make");
        shared.service.metrics.act(act.as_str(), AuditResult::Refused.as_str());
        return said(&shared, StatusCode::FORBIDDEN, &id, "page-form-strange");
    }
    let incident = match admitted(&shared, &visitor, act, &id).await {
        Ok(incident) => incident,
        Err(answer) => return *answer,
    };
    let visit = Visit { shared: &shared, visitor: &visitor, incident: &incident, act };
    match act {
        Act::Silence => visit.silence(&sent).await,
        _ => visit.simple(&sent).await,
    }
}

/// Shows the form of a note or a silence.
pub(super) async fn form(shared: Shared, id: String, visitor: Visitor, act: Act) -> Response {
    let incident = match admitted(&shared, &visitor, act, &id).await {
        Ok(incident) => incident,
        Err(answer) => return *answer,
    };
    let visit = Visit { shared: &shared, visitor: &visitor, incident: &incident, act };
    match act {
        Act::Silence if can_silence(&shared, &incident) => {
            let named = alertmanager::preselected(&incident.alerts).is_ok();
            let offered = silence::selectable(&incident);
            let chosen = if named { offered.clone() } else { Vec::new() };
            let first = silence::durations(&shared.service).next().map_or("", |(value, ..)| value);
            let problem = (!named).then(|| shared.service.words.line("silence-whole-pool", &[]));
            let fields = visit.fields(&chosen, (first, "", ""), None);
            visit.silence_page(StatusCode::OK, problem.as_ref(), &fields).await
        }
        Act::Silence => said(&shared, StatusCode::CONFLICT, &id, "act-over"),
        _ => visit.note_page(StatusCode::OK, None, "").await,
    }
}

/// Returns the incident if the visitor may do this to it; else the page that says why not. Refusals are audited.
async fn admitted(shared: &Shared, visitor: &Visitor, act: Act, id: &str) -> Result<Incident, Box<Response>> {
    let actor = Actor { who: &visitor.who, place: PLACE };
    if let Err(denial) = may(shared, visitor, act) {
        acts::write_refusal(&shared.service, actor, act.as_str(), Some(id), denial.as_str()).await;
        return Err(Box::new(said(shared, StatusCode::FORBIDDEN, id, denial.page_key())));
    }
    find_incident(&shared.service, id).await.map_err(|key| {
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
    fn actor(&self) -> Actor<'_> {
        Actor { who: &self.visitor.who, place: PLACE }
    }

    /// Claims a form: one that was sent twice counts once.
    async fn claim(&self, sent: &Sent) -> Result<bool, ActEnd> {
        let mut whole = format!("{}\n{}\n{}", self.visitor.who, self.incident.id, self.act.as_str());
        sent.0.iter().filter(|(name, _)| name != "token").for_each(|(name, value)| {
            whole.push_str(&format!("\n{}:{name}={value}", name.len()));
        });
        let hash: String =
            digest(&SHA256, whole.as_bytes()).as_ref().iter().map(|byte| format!("{byte:02x}")).collect();
        let store = &self.shared.service.store;
        store.claim_request(&format!("page:{hash}"), store.now()).await.map_err(|error| {
            tracing::error!(%error, "cannot record a form: it is refused");
            ActEnd::NoStore
        })
    }

    /// Returns to the page of the incident, which says what was done.
    fn back(&self, did: &str) -> Response {
        let to = format!("/incidents/{}?did={did}#head", self.incident.id);
        (StatusCode::SEE_OTHER, [(header::LOCATION, to)]).into_response()
    }

    fn not_done(&self, key: &str) -> Response {
        let status = if key == "act-store" { StatusCode::SERVICE_UNAVAILABLE } else { StatusCode::CONFLICT };
        said(self.shared, status, &self.incident.id, key)
    }

    /// Carries out an act without further questions.
    async fn simple(&self, sent: &Sent) -> Response {
        let text = sent.get("text");
        if self.act == Act::Note && text.is_empty() {
            let problem = self.shared.service.words.line("page-note-empty", &[]);
            return self.note_page(StatusCode::UNPROCESSABLE_ENTITY, Some(&problem), "").await;
        }
        match self.claim(sent).await {
            Ok(true) => {}
            Ok(false) => return self.back("repeated"),
            Err(_) => return self.not_done("act-store"),
        }
        let service = &self.shared.service;
        let (end, nothing) = match self.act {
            Act::Acknowledge => (acts::acknowledge(service, self.actor(), self.incident).await, "acknowledged-already"),
            Act::Again => (acts::again(service, self.actor(), self.incident).await, "again-no-playbook"),
            Act::Note => (acts::note(service, self.actor(), self.incident, text).await, ""),
            _ => return self.bundle().await,
        };
        match end.problem(nothing) {
            None => self.back(self.act.as_str()),
            Some(key) => self.not_done(key),
        }
    }

    /// Starts a bundle, or joins one that is being made; the audit log has its end.
    async fn bundle(&self) -> Response {
        let (shared, id) = (self.shared, self.incident.id.as_str());
        let Ok(attempt) = Attempt::begin(&shared.service, self.actor(), Act::Bundle.as_str(), Some(id)).await else {
            return self.not_done("act-store");
        };
        match shared.bundles.get_or_start(id) {
            Ok(job) => {
                let service = shared.service.clone();
                shared.bundles.tasks.spawn(async move {
                    match job.done().await {
                        Ok(bundle) => attempt.end(&service, AuditResult::Done, &bundle.name.to_string(), "").await,
                        Err(error) => attempt.end(&service, AuditResult::Failed, "", &error.to_string()).await,
                    }
                });
                self.back(Act::Bundle.as_str())
            }
            Err(error) => {
                attempt.end(&shared.service, AuditResult::Failed, "", &error.to_string()).await;
                let line = match error {
                    NoBundle::Busy => shared.service.words.line("bundle-busy", &[]),
                    other => Line::of(&other.to_string()),
                };
                problem_line(shared, StatusCode::SERVICE_UNAVAILABLE, "page-not-done", &line, &back_to(shared, id))
            }
        }
    }

    /// Creates a silence; asks again if it would silence more than the incident, or if a field is wrong.
    async fn silence(&self, sent: &Sent) -> Response {
        let (shared, service) = (self.shared, &self.shared.service);
        if !can_silence(shared, self.incident) {
            return self.not_done("act-over");
        }
        let offered = silence::selectable(self.incident);
        let (chosen, own) = (sent.get("duration"), sent.get("custom"));
        let comment = render::cut(sent.get("comment"), silence::COMMENT_CHARS);
        let typed = (chosen, own, comment.as_str());
        let matchers = silence::matchers_of(service, &offered, sent.all("label"));
        let duration = silence::duration_of(service, if own.is_empty() { chosen } else { own });
        let (matchers, duration) = match (matchers, duration) {
            (Ok(matchers), Ok(duration)) => (matchers, duration),
            (matchers, duration) => {
                let problem = matchers.as_ref().err().or(duration.as_ref().err()).map(|text| Line::of(text));
                let fields = self.fields(&matchers.unwrap_or_default(), typed, None);
                return self.silence_page(StatusCode::UNPROCESSABLE_ENTITY, problem.as_ref(), &fields).await;
            }
        };
        let excess = Excess::of(&shared.pages.alertmanagers, self.incident, matchers).await;
        if !excess.is_confirmed_by(sent.get("confirm")) {
            let (warning, text) = excess.warning(service);
            let fields = self.fields(&excess.matchers, typed, Some((text, excess.confirmation())));
            return self.silence_page(StatusCode::OK, Some(&warning), &fields).await;
        }
        match self.claim(sent).await {
            Ok(true) => {}
            Ok(false) => return self.back("repeated"),
            Err(_) => return self.not_done("act-store"),
        }
        let author = (self.actor(), format!("{} on the page of llm-diagnose", self.visitor.name()));
        let wanted = (excess.matchers.as_slice(), duration, comment.as_str());
        match silence::create(service, &shared.pages.alertmanagers, author, self.incident, wanted).await {
            Ok(created) => {
                let no_button = Block::Buttons(Vec::new());
                let body = silence::announcement(service, self.actor(), self.incident, &created, &comment, no_button);
                acts::tell_thread(service, self.incident, &body).await;
                self.back(Act::Silence.as_str())
            }
            Err(NoSilence::NoStore) => self.not_done("act-store"),
            Err(NoSilence::Refused(error)) => {
                let fields = self.fields(&excess.matchers, typed, None);
                let problem = silence::problem(service, &error);
                self.silence_page(StatusCode::BAD_GATEWAY, Some(&problem), &fields).await
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
        let redactor = silence::redactor(service, Some(self.incident), &offered);
        let label = |one: &SilenceMatcher| {
            (one.key(), silence::shown_matcher(&redactor, one).to_string(), chosen.contains(one))
        };
        SilenceFields {
            labels: offered.iter().map(label).collect(),
            durations: silence::durations(service)
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
        let page = render::silence_page(seal, &self.headline().await, problem, fields, &self.shared.service.words);
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
        let token = token(&self.shared.bundles.links, self.visitor, &self.incident.id, clock::now());
        (token, Ulid::generate().to_string())
    }

    /// Returns the headline of the incident, cleaned.
    async fn headline(&self) -> String {
        let notifier = &self.shared.service.notifier;
        let headline = notifier.message(self.incident).await.headline;
        notifier.redactor_of([self.incident]).text("page", &headline).into_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::chatops::KnownBy;

    fn visitor(who: &str) -> Visitor {
        Visitor { who: who.to_owned(), known: KnownBy::Name }
    }

    #[test]
    fn a_form_is_good_for_its_visitor_and_its_incident_until_it_expires() {
        let links = Links::new(&[7; 32], "", Duration::ZERO).unwrap();
        let now: Timestamp = "2026-11-20T03:59:00Z".parse().unwrap();
        let token = token(&links, &visitor("page:anna"), "01ABC", now);
        let holds = |who: &str, incident: &str, token: &str, hours: u64| {
            let at = clock::after(now, Duration::from_secs(hours * 3_600));
            is_valid(&links, &visitor(who), incident, token, at)
        };
        assert!(holds("page:anna", "01ABC", &token, 0) && holds("page:anna", "01ABC", &token, 12));
        assert!(!holds("page:anna", "01ABC", &token, 13), "it has expired");
        assert!(!holds("page:eve", "01ABC", &token, 0) && !holds("page:anna", "01ABD", &token, 0));
        let (expires, signature) = token.split_once('.').unwrap();
        let later = format!("{}.{signature}", expires.parse::<i64>().unwrap() + 3_600);
        for forged in ["", ".", "x", expires, &later, &format!("{expires}.AAAA")] {
            assert!(!holds("page:anna", "01ABC", forged, 0), "{forged}");
        }
    }

    #[test]
    fn a_form_from_another_site_is_refused_by_what_the_browser_says_of_it() {
        let foreign = |headers: &[(&'static str, &str)]| {
            let pairs = headers.iter().map(|(name, value)| (name.parse().unwrap(), value.parse().unwrap()));
            is_foreign(&HeaderMap::from_iter(pairs), "https://triage.example.org/")
        };
        let host = ("host", "127.0.0.1:9098");
        for own in [
            &[host][..],
            &[host, ("origin", "http://127.0.0.1:9098")],
            &[host, ("origin", "https://triage.example.org"), ("sec-fetch-site", "same-origin")],
        ] {
            assert!(!foreign(own), "{own:?}");
        }
        for other in [
            [host, ("origin", "null")],
            [host, ("origin", "http://127.0.0.1:9099")],
            [host, ("origin", "https://triage.example.org.evil.net")],
            [host, ("sec-fetch-site", "same-site")],
            [host, ("sec-fetch-site", "cross-site")],
        ] {
            assert!(foreign(&other), "{other:?}");
        }
    }
}
