//! The page with the list of incidents and the search form.

use jiff::Timestamp;
use maud::{Markup, html};
use serde::Deserialize;

use super::html::pill;
use super::{Page, UpdateMode};
use crate::{IncidentView, Phrases, facts, headline};
use findings::Diagnosis;
use knowledge::alert::Labels;
use knowledge::clock;
use message::{StateStyle, Tone};
use redact::Redactor;

/// Seconds between two polls of the list.
const EVERY: u32 = 10;

/// The search filters; an empty filter matches everything.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct IncidentFilter {
    /// Text in the headline, the labels, or the id.
    pub q: String,
    /// The state: `open` or `resolved`.
    pub state: String,
    /// The id or some words of a cause or playbook.
    pub cause: String,
    /// Label matchers on an alert: `namespace=llm, model=llama`.
    pub label: String,
    /// The pagination cursor: only incidents older than this id.
    pub before: String,
}

impl IncidentFilter {
    /// Returns true if a filter is set; the cursor does not count.
    pub fn is_set(&self) -> bool {
        [&self.q, &self.state, &self.cause, &self.label].iter().any(|text| !text.trim().is_empty())
    }

    /// Returns true if a filter needs the content of incidents, not only their state.
    pub fn needs_content(&self) -> bool {
        [&self.q, &self.cause, &self.label].iter().any(|text| !text.trim().is_empty())
    }

    /// Returns true if an incident matches the filters of [`Self::needs_content`].
    pub fn matches(&self, view: &IncidentView<'_>, headline: &str) -> bool {
        let holds = |text: &str, part: &str| text.to_lowercase().contains(&part.trim().to_lowercase());
        let labels = || view.alerts.iter().map(|alert| &alert.labels).chain(view.diagnosis.map(|d| &d.scope.labels));
        let text = || {
            let in_labels = labels().any(|labels| labels.values().any(|value| holds(value, &self.q)));
            in_labels || holds(headline, &self.q) || view.id.eq_ignore_ascii_case(self.q.trim())
        };
        let cause = || {
            let named = view.diagnosis.is_some_and(|d| {
                let chain = d.root().map(|root| root.chain.join(" ")).unwrap_or_default();
                holds(&chain, &self.cause) || holds(&d.symptom.playbook, &self.cause) || holds(&clauses(d), &self.cause)
            });
            named || view.because.is_some_and(|because| holds(because, &self.cause))
        };
        (self.q.trim().is_empty() || text())
            && (self.cause.trim().is_empty() || cause())
            && (self.label.trim().is_empty() || labels().any(|labels| has(labels, &self.label)))
    }

    /// Returns the URL of this search.
    fn address(&self) -> String {
        let mut query = url::form_urlencoded::Serializer::new(String::new());
        let all = [
            ("q", &self.q),
            ("state", &self.state),
            ("cause", &self.cause),
            ("label", &self.label),
            ("before", &self.before),
        ];
        for (name, value) in all.into_iter().filter(|(_, value)| !value.is_empty()) {
            query.append_pair(name, value);
        }
        format!("/incidents?{}", query.finish())
    }
}

/// Returns the titles of the best chain's links.
fn clauses(diagnosis: &Diagnosis) -> String {
    let root = diagnosis.root().into_iter();
    root.flat_map(|root| root.via.iter().map(|link| link.title.as_str()).chain([root.title.as_str()]))
        .collect::<Vec<_>>()
        .join(" ")
}

/// Returns true if labels have all of `a=b, c=d`; a name alone matches any value.
fn has(labels: &Labels, wanted: &str) -> bool {
    wanted.split(',').map(str::trim).filter(|one| !one.is_empty()).all(|one| match one.split_once('=') {
        Some((name, value)) => {
            let value = value.trim().trim_matches('"');
            labels.get(name.trim()).is_some_and(|is| is == value)
        }
        None => labels.contains_key(one),
    })
}

/// One incident of the list.
#[derive(Debug, Clone, PartialEq)]
pub struct IncidentRow {
    id: String,
    tone: Tone,
    state: String,
    what: String,
    whom: String,
    why: String,
    started_at: Timestamp,
    /// The start as short as it is clear: the time of day, with the date if it was not today.
    when: String,
    lasted: String,
}

impl IncidentRow {
    /// Builds the row of an incident.
    pub fn of(view: &IncidentView<'_>, now: Timestamp, words: &Phrases) -> Self {
        let tone = headline::tone(view);
        let ended = view.resolved_at.unwrap_or(now);
        Self {
            id: view.id.to_owned(),
            tone,
            state: headline::state(view, words),
            what: headline::symptom_or_alert_name(view),
            whom: headline::affected_pool(view),
            why: view.diagnosis.map(|diagnosis| facts::chain_summary(diagnosis, words)).unwrap_or_default(),
            started_at: view.started_at,
            when: short_time(view.started_at, now),
            lasted: clock::human_duration(clock::between(view.started_at, ended)),
        }
    }

    /// Returns the row with its texts redacted.
    #[must_use]
    pub fn cleaned(self, redactor: &Redactor) -> Self {
        let clean = |text: String| redactor.text("page", &text).into_owned();
        Self { what: clean(self.what), whom: clean(self.whom), why: clean(self.why), ..self }
    }
}

fn short_time(at: Timestamp, now: Timestamp) -> String {
    let day = |at: Timestamp| at.strftime("%Y-%m-%d").to_string();
    at.strftime(if day(at) == day(now) { "%H:%M" } else { "%b %-d %H:%M" }).to_string()
}

/// The content of the list.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct IncidentList {
    /// Open incidents, newest first; all results in case of a search.
    pub open: Vec<IncidentRow>,
    /// The other recent incidents.
    pub recent: Vec<IncidentRow>,
    /// Number of open incidents, and of all stored ones.
    pub counts: (u64, u64),
    /// Number of incidents that a search inspected.
    pub looked_at: usize,
    /// The cursor of the next page, if there is one.
    pub older: Option<String>,
}

/// Renders the page with the list.
pub fn incidents_page(list: &IncidentList, find: &IncidentFilter, words: &Phrases) -> String {
    let say = |key: &str| words.text(key, &[]);
    let title = say("page-incidents");
    let older = list.older.as_ref().map(|id| IncidentFilter { before: id.clone(), ..find.clone() }.address());
    let (open, all) = list.counts;
    let body = html! {
        p.above #counts data-part { (words.text("page-counts", &[("open", open.into()), ("all", all.into())])) }
        h1 { (title) }
        @if all > 0 || find.is_set() { div.card { (form(find, words)) } }
        div #list data-part {
            @if find.is_set() {
                (section("found", &say("page-found"), &list.open, words))
                p.dim { (words.text("page-looked-at", &[("n", list.looked_at.into())])) }
            } @else if all == 0 {
                div.card { h2 { (say("no-incidents")) } p { (super::html::line(&words.line("page-empty", &[]))) } }
            } @else {
                @if find.before.is_empty() {
                    @if list.open.is_empty() {
                        div.card { h2 { (say("page-open")) } p { (pill(StateStyle::Good, &say("page-none-open"))) } }
                    } @else { (by_pool("open", &say("page-open"), &list.open, words)) }
                }
                @if !list.recent.is_empty() { (section("recent", &say("page-recent"), &list.recent, words)) }
            }
            @if let Some(older) = older { p.more { a href=(older) { (say("page-older")) } } }
        }
    };
    Page { title: &title, place: "/incidents", kept: UpdateMode::Live { every: EVERY, alone: !find.is_set() }, body }
        .html(words)
}

fn section(id: &str, title: &str, rows: &[IncidentRow], words: &Phrases) -> Markup {
    html! {
        section.card aria-labelledby=(id) {
            h2 #(id) { (title) }
            @if rows.is_empty() { p { (words.text("page-none-found", &[])) } }
            ul.rows { @for row in rows { li { (incident_row(row, true)) } } }
        }
    }
}

/// Renders the open incidents, those of one pool together; the worst come first, then the newest.
fn by_pool(id: &str, title: &str, rows: &[IncidentRow], words: &Phrases) -> Markup {
    let rank = |row: &&IncidentRow| match row.tone {
        Tone::Critical => 0,
        Tone::Warning => 1,
        Tone::Firing | Tone::Unknown => 2,
        Tone::Good => 3,
    };
    let mut sorted: Vec<&IncidentRow> = rows.iter().collect();
    sorted.sort_by_key(rank);
    let pools = facts::group_by_key(sorted.into_iter().map(|row| (row.whom.as_str(), row)));
    html! {
        section.card aria-labelledby=(id) {
            h2 #(id) { (title) }
            @for (whom, rows) in &pools {
                @let name = if whom.is_empty() { words.text("health-no-name", &[]) } else { (*whom).to_owned() };
                h3.pool { (name) @if rows.len() > 1 { " " span.dim { "(" (rows.len()) ")" } } }
                ul.rows { @for row in rows { li { (incident_row(row, false)) } } }
            }
        }
    }
}

/// Renders an incident; its heading is one level deeper below a pool's name.
fn incident_row(row: &IncidentRow, names_pool: bool) -> Markup {
    let link = html! { a href={ "/incidents/" (row.id) } { (row.what) } };
    html! {
        div.row {
            div { (pill(StateStyle::of(row.tone), &row.state)) }
            div {
                @if names_pool { h3 { (link) } } @else { h4 { (link) } }
                @if names_pool && !row.whom.is_empty() { p.dim { (row.whom) } }
                @if !row.why.is_empty() { p { (row.why) } }
            }
            div.when {
                time datetime=(row.started_at) title=(row.started_at.strftime("%Y-%m-%d %H:%M:%S UTC")) { (row.when) " UTC" }
                br; (row.lasted)
            }
        }
    }
}

fn form(find: &IncidentFilter, words: &Phrases) -> Markup {
    let say = |key: &str| words.text(key, &[]);
    let field = |name: &str, title: String, value: &str, hint: String| {
        html! {
            div {
                label for=(name) { (title) }
                input #(name) name=(name) value=(value) placeholder=(hint) maxlength="200" autocomplete="off";
            }
        }
    };
    html! {
        form.find method="get" action="/incidents" role="search" {
            (field("q", say("page-find-text"), &find.q, String::new()))
            (field("cause", say("page-find-cause"), &find.cause, "kv-cache".to_owned()))
            (field("label", say("page-find-label"), &find.label, "namespace=llm".to_owned()))
            div {
                label for="state" { (say("page-find-state")) }
                select #state name="state" {
                    @for (value, key) in [("", "page-state-any"), ("open", "page-state-open"), ("resolved", "page-state-resolved")] {
                        option value=(value) selected[value == find.state] { (say(key)) }
                    }
                }
            }
            button type="submit" { (say("page-find")) }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_are_asked_by_name_and_value_and_all_of_them_hold() {
        let labels = Labels::from([("namespace".into(), "llm".into()), ("model".into(), "a=b".into())]);
        for yes in ["namespace=llm", "namespace=\"llm\", model=a=b", "model", " , "] {
            assert!(has(&labels, yes), "{yes}");
        }
        for no in ["namespace=ll", "namespace=llm,pod=x", "pod"] {
            assert!(!has(&labels, no), "{no}");
        }
    }
}
