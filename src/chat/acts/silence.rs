//! A silence that a person asks for: what it may match, what it would silence besides the incident, and its creation.

use std::time::Duration;

use jiff::Timestamp;

use super::{Actor, AuditLog};
use findings::silence::SilenceMatcher;
use knowledge::clock::{self, human_duration};
use knowledge::incident::Act;
use message::{Block, Button, Line, SlackMessage, TextSpan, Tone};
use notify::Notifier;
use redact::Redactor;
use render::{PhraseArgument, Phrases, cut};
use service::Service;
use sources::alertmanager::{
    self, Alertmanager, AlertmanagerError, COMMENT_CHARS, CreatedSilence, SHORTEST, SilenceError, SilenceParameters,
};
use store::{AuditResult, Incident};

/// The prefix of the incident's id in a silence's comment.
pub const ABOUT: &str = "llm-diagnose incident ";
/// The fixed durations, each with the key of its phrase.
const DURATIONS: [(&str, Duration, &str); 2] =
    [("1h", Duration::from_secs(3_600), "silence-1h"), ("4h", Duration::from_secs(4 * 3_600), "silence-4h")];
/// The option for a duration that the person types.
pub const CUSTOM: &str = "custom";
/// Maximum number of labels in a menu; Slack shows 100.
const LABELS: usize = 99;
/// Maximum UTF-16 units of a label's name; a menu of Slack's shows so many.
const NAME_CHARS: usize = 75;
/// The timeout of the count of other alerts: Slack closes a form whose answer takes 3 seconds.
const COUNT_WITHIN: Duration = Duration::from_millis(1_000);
/// A number of other alerts that Alertmanager does not tell, in a confirmation.
const UNKNOWN: &str = "?";
/// The longest text of matchers, in UTF-16 units.
const MATCHERS_CHARS: usize = 300;

/// The reason why there is no silence.
#[derive(Debug)]
pub enum NoSilence {
    /// Alertmanager or the request.
    Refused(SilenceError),
    /// The audit log cannot be written.
    NoStore,
}

/// Returns the matchers that the firing alerts share, as far as they fit into a menu.
pub fn selectable(incident: &Incident) -> Vec<SilenceMatcher> {
    let fits_option = |name: &str| !name.contains(',') && name.encode_utf16().count() <= NAME_CHARS;
    findings::silence::shared(&incident.alerts)
        .into_iter()
        .filter(|matcher| fits_option(&matcher.name))
        .take(LABELS)
        .collect()
}

/// Returns the fixed durations that are allowed: value, duration, key of the phrase.
pub fn durations(longest: Duration) -> impl Iterator<Item = (&'static str, Duration, &'static str)> {
    DURATIONS.into_iter().filter(move |(_, duration, _)| *duration <= longest)
}

/// Finds the chosen matchers by their keys; the error says what is wrong with the choice. A key holds the value too:
/// alerts fired or resolved while the form was open, so a name may have another value.
pub fn matchers_of<'a>(
    words: &Phrases,
    offered: &[SilenceMatcher],
    keys: impl IntoIterator<Item = &'a str>,
) -> Result<Vec<SilenceMatcher>, String> {
    let (mut matchers, mut unknown) = (Vec::new(), Vec::new());
    for key in keys.into_iter().filter(|key| !key.is_empty()) {
        match offered.iter().find(|matcher| matcher.key() == key) {
            Some(matcher) => matchers.push(matcher.clone()),
            None => unknown.push(key.rsplit_once(' ').map_or(key, |(name, _)| name)),
        }
    }
    if !unknown.is_empty() {
        let labels = cut(&unknown.join(", "), NAME_CHARS);
        return Err(words.text("silence-not-offered", &[("labels", labels.into())]));
    }
    if matchers.is_empty() {
        return Err(words.text("silence-no-label", &[]));
    }
    Ok(matchers)
}

/// Parses a duration; the error says how to write one.
pub fn duration_of(words: &Phrases, longest: Duration, text: &str) -> Result<Duration, String> {
    match humantime::parse_duration(text) {
        Ok(duration) if (SHORTEST..=longest).contains(&duration) => Ok(duration),
        _ => {
            let longest = [("longest", human_duration(longest).into())];
            Err(words.text("silence-wrong-duration", &longest))
        }
    }
}

/// A silence that matches more than the incident's own alerts, or perhaps does.
pub struct Excess {
    /// The number of other alerts; the error if Alertmanager cannot be asked.
    others: Result<usize, SilenceError>,
    /// The matchers.
    pub matchers: Vec<SilenceMatcher>,
}

impl Excess {
    /// Counts the alerts that these matchers meet besides the incident's own.
    pub async fn of(all: &[Alertmanager], incident: &Incident, matchers: Vec<SilenceMatcher>) -> Self {
        let count = alertmanager::others(all, &incident.alerts, &matchers);
        let others = tokio::time::timeout(COUNT_WITHIN, count).await;
        let others = others.unwrap_or_else(|_| Err(AlertmanagerError::Late.into()));
        Self { others, matchers }
    }

    /// Returns the value of the box that confirms it: the digest of the matchers, and the number of other alerts or
    /// [`UNKNOWN`].
    pub fn confirmation(&self) -> String {
        let others = self.others.as_ref().map_or(UNKNOWN.to_owned(), ToString::to_string);
        format!("{} {others}", findings::silence::digest(&self.matchers))
    }

    /// Returns true if nothing has to be confirmed, or the person confirmed these matchers with at least this number of
    /// other alerts, an unknown one only as unknown.
    pub fn is_confirmed_by(&self, confirmed: &str) -> bool {
        let (digest, others) = confirmed.split_once(' ').unwrap_or_default();
        let is_same = digest == findings::silence::digest(&self.matchers);
        match self.others {
            Ok(0) => true,
            Ok(n) => is_same && others.parse::<usize>().is_ok_and(|confirmed| n <= confirmed),
            Err(_) => is_same && others == UNKNOWN,
        }
    }

    /// Says what else would be silent, and names the box that confirms it.
    pub fn warning(&self, words: &Phrases) -> (Line, String) {
        match &self.others {
            Ok(n) => {
                let n = [("n", (*n).into())];
                (words.line("silence-others", &n), words.text("silence-confirm-others", &n))
            }
            Err(error) => {
                let error = [("error", Line::of(&error.to_string()).into())];
                (words.line("silence-others-unknown", &error), words.text("silence-confirm-unknown", &[]))
            }
        }
    }
}

/// The parts that make silences.
#[derive(Debug, Clone, Copy)]
pub struct Silencer<'a> {
    /// The Alertmanagers that may get them.
    pub alertmanagers: &'a [Alertmanager],
    /// The longest duration.
    pub longest: Duration,
    /// Cleans and renders what is said of them.
    pub notifier: &'a Notifier,
}

impl<'a> Silencer<'a> {
    /// Returns what a running service makes silences with, in these Alertmanagers.
    pub fn of(service: &'a Service, alertmanagers: &'a [Alertmanager]) -> Self {
        Self { alertmanagers, longest: service.config.slack.silence_max, notifier: &service.notifier }
    }
}

/// Creates a silence; the audit log has its matchers and its end.
///
/// # Errors
/// When it cannot be written down, or no Alertmanager takes it.
pub async fn create(
    log: AuditLog<'_>,
    silencer: Silencer<'_>,
    (actor, author): (Actor<'_>, String),
    incident: &Incident,
    (matchers, duration, comment): (&[SilenceMatcher], Duration, &str),
) -> Result<CreatedSilence, NoSilence> {
    let Silencer { alertmanagers, longest, notifier } = silencer;
    let attempt = log.begin(actor, Act::Silence.as_str(), Some(&incident.id)).await;
    let attempt = attempt.map_err(|_| NoSilence::NoStore)?;
    let reference = format!("{ABOUT}{}", incident.id);
    // Cleaned before it is cut: half a secret has no pattern. The reference stays whole: by it the end is told.
    let comment = redactor(notifier, Some(incident), matchers).text("message", comment.trim()).into_owned();
    let comment = cut(&comment, COMMENT_CHARS.saturating_sub(reference.len() + " ()".len()));
    let parameters = SilenceParameters {
        who: author,
        comment: if comment.is_empty() { reference } else { format!("{comment} ({reference})") },
        duration,
        longest,
    };
    match alertmanager::create(alertmanagers, &incident.alerts, matchers, &parameters, clock::now()).await {
        Err(error) => {
            let is_unsure = matches!(error, SilenceError::Unsure(_));
            let result = if is_unsure { AuditResult::Begun } else { AuditResult::Failed };
            attempt.end(log, result, "", &error.to_string()).await;
            Err(NoSilence::Refused(error))
        }
        Ok(created) => {
            let until = [("day", day(created.until).into()), ("until", TextSpan::Time(created.until).into())];
            let detail = notifier.words.text("silence-note", &until);
            let matchers: Vec<String> = created.matchers.iter().map(ToString::to_string).collect();
            let target = format!("{} {}", created.id, matchers.join(" "));
            attempt.end(log, AuditResult::Done, &target, &detail).await;
            Ok(created)
        }
    }
}

/// Builds the post that announces a silence in the incident's thread; `end` holds the button that ends it.
pub fn announcement(
    notifier: &Notifier,
    actor: Actor<'_>,
    incident: &Incident,
    created: &CreatedSilence,
    comment: &str,
    end: Block,
) -> SlackMessage {
    let words = &notifier.words;
    let redactor = redactor(notifier, Some(incident), &created.matchers);
    let mut arguments = arguments(&redactor, &created.matchers, created.until);
    arguments.push(("who", TextSpan::User(actor.who.to_owned()).into()));
    let line = words.line("silence-made", &arguments);
    let mut parts = Vec::new();
    if !comment.trim().is_empty() {
        let comment = cut(&redactor.text("message", comment), COMMENT_CHARS);
        parts.push(Block::Paragraph(words.line("said-comment", &[("comment", comment.into())])));
    }
    if let Some(n) = created.alerts {
        parts.push(Block::Note(words.line("silence-takes", &[("n", n.into())])));
    }
    parts.push(Block::Note(words.line("silence-deaf", &[])));
    parts.push(end);
    render::slack_with_blocks(&line, Tone::Unknown, &parts)
}

/// Builds the button that ends a silence.
pub fn expire_button(words: &Phrases, id: &str, action: &str) -> Button {
    let confirm = Some(words.text("silence-expire-sure", &[]));
    Button { confirm, ..render::button(action, words.text("silence-expire", &[]), id) }
}

/// Says why there is no silence.
pub fn problem(words: &Phrases, error: &SilenceError) -> Line {
    let key = match error {
        SilenceError::NoAlertmanager => "silence-no-alertmanager",
        SilenceError::NothingFires => "act-over",
        SilenceError::NoMatcher => "silence-changed",
        SilenceError::Unknown(_) => "silence-unknown",
        SilenceError::Over(_) => "silence-over",
        SilenceError::Unsure(error) => {
            let error = [("error", Line::of(&error.to_string()).into())];
            return words.line("silence-unsure", &error);
        }
        SilenceError::WholePool(_) | SilenceError::Duration(_) | SilenceError::Alertmanager(_) => {
            let error = [("error", Line::of(&error.to_string()).into())];
            return words.line("silence-failed", &error);
        }
    };
    words.line(key, &[])
}

/// Creates a redactor for texts about a silence; it learns the values of matchers and labels that are named as secrets.
pub fn redactor(notifier: &Notifier, incident: Option<&Incident>, matchers: &[SilenceMatcher]) -> Redactor {
    let redactor = notifier.redactor_of(incident);
    matchers.iter().for_each(|matcher| redactor.learn_label(&matcher.name, &matcher.value));
    redactor
}

/// Returns a matcher as people see it: without a secret in its value.
pub fn shown_matcher(redactor: &Redactor, matcher: &SilenceMatcher) -> SilenceMatcher {
    let value = redactor.label("message", &matcher.name, &matcher.value).into_owned();
    SilenceMatcher { value, ..matcher.clone() }
}

/// Returns the arguments of phrases about a silence.
pub fn arguments(
    redactor: &Redactor,
    matchers: &[SilenceMatcher],
    until: Timestamp,
) -> Vec<(&'static str, PhraseArgument)> {
    let matchers: Vec<String> = matchers.iter().map(|one| shown_matcher(redactor, one).to_string()).collect();
    let matchers = Line::default().code(cut(&matchers.join(" "), MATCHERS_CHARS));
    vec![("matchers", matchers.into()), ("until", TextSpan::Time(until).into()), ("day", day(until).into())]
}

/// Formats the date: a silence may last for days, so the time of day is not enough.
fn day(at: Timestamp) -> String {
    at.strftime("%Y-%m-%d").to_string()
}
