//! Acts of a visitor on an incident's page: forms that work without a script.

use maud::{Markup, html};

use super::html::line;
use super::{Page, UpdateMode};
use crate::Phrases;
use knowledge::incident::Act;
use message::Line;

/// The acts of an incident's page, in the order of its buttons, each with the key of its label.
pub const PAGE_ACTS: &[(Act, &str)] = &[
    (Act::Acknowledge, "button-acknowledge"),
    (Act::Again, "button-again"),
    (Act::Note, "page-note"),
    (Act::Silence, "button-silence"),
    (Act::Bundle, "button-bundle"),
];

/// The hidden content of every form of an incident.
#[derive(Debug, Clone, Copy)]
pub struct FormSeal<'a> {
    /// The incident's id.
    pub incident: &'a str,
    /// The proof that our own page made the form, for this visitor.
    pub token: &'a str,
    /// The same in a form that is sent twice.
    pub once: &'a str,
}

/// The acts on the page of an incident.
#[derive(Debug, Clone)]
pub struct PageActs<'a> {
    /// The hidden content of every form.
    pub seal: FormSeal<'a>,
    /// The acts that this visitor may do now, in this order.
    pub offered: &'a [Act],
    /// The reason why there are not more.
    pub refused: Option<Line>,
    /// The act that was done just now, as a sentence.
    pub done: Option<Line>,
}

/// The fields of the form for a silence.
#[derive(Debug, Clone, Default)]
pub struct SilenceFields {
    /// The labels: key, text, and whether it is chosen.
    pub labels: Vec<(String, String, bool)>,
    /// The fixed durations: value and text.
    pub durations: Vec<(&'static str, String)>,
    /// The chosen duration.
    pub duration: String,
    /// A duration as typed.
    pub custom: String,
    /// The comment.
    pub comment: String,
    /// A box that confirms what else would be silent: its text and its value.
    pub confirm: Option<(String, String)>,
}

impl PageActs<'_> {
    /// Renders the acts as a row of buttons.
    pub(super) fn bar(&self, words: &Phrases) -> Markup {
        html! {
            @if let Some(done) = &self.done { p.done role="status" { (line(done)) } }
            @if !self.offered.is_empty() {
                ul.acts aria-label=(words.text("page-acts", &[])) {
                    @for act in self.offered { li { (self.one(*act, words)) } }
                }
            }
            @if let Some(refused) = &self.refused { p.dim.acts { (line(refused)) } }
        }
    }

    fn one(&self, act: Act, words: &Phrases) -> Markup {
        let label = words.text(label(act), &[]);
        let incident = self.seal.incident;
        html! {
            @if matches!(act, Act::Note | Act::Silence) {
                a.button href={ "/incidents/" (incident) "/" (act.as_str()) } { (label) "…" }
            } @else {
                (self.seal.form(act, &html! { button.plain type="submit" { (label) } }))
            }
        }
    }
}

/// Returns the key of an act's label.
fn label(act: Act) -> &'static str {
    PAGE_ACTS.iter().find(|(one, _)| *one == act).map_or("page-note", |(_, key)| key)
}

impl FormSeal<'_> {
    fn form(&self, act: Act, inside: &Markup) -> Markup {
        html! {
            form method="post" action={ "/incidents/" (self.incident) "/acts/" (act.as_str()) } {
                input type="hidden" name="token" value=(self.token);
                input type="hidden" name="once" value=(self.once);
                (inside)
            }
        }
    }

    /// Renders the page of one form, with a way back.
    fn page(&self, act: Act, headline: &str, problem: Option<&Line>, fields: &Markup, words: &Phrases) -> String {
        let title = words.text(label(act), &[]);
        let inside = html! {
            (fields)
            p.send {
                button type="submit" { (title) } " "
                a href={ "/incidents/" (self.incident) } { (words.text("page-back-incident", &[])) }
            }
        };
        let body = html! {
            div.card {
                p.above { a href={ "/incidents/" (self.incident) } { (headline) } }
                h1 { (title) }
                @if let Some(problem) = problem { p.none role="alert" { (line(problem)) } }
                (self.form(act, &inside))
            }
        };
        Page { title: &title, place: "/incidents", kept: UpdateMode::Still, body }.html(words)
    }
}

/// Renders the form for a note of at most `most` characters, filled with `text`.
pub fn note_page(
    seal: FormSeal<'_>,
    headline: &str,
    problem: Option<&Line>,
    (text, most): (&str, usize),
    words: &Phrases,
) -> String {
    let fields = html! {
        p { label for="text" { (words.text("page-note-what", &[])) } }
        p { textarea #text name="text" rows="4" maxlength=(most) required { (text) } }
    };
    seal.page(Act::Note, headline, problem, &fields, words)
}

/// Renders the form for a silence: the labels before it is created, a duration, a comment.
pub fn silence_page(
    seal: FormSeal<'_>,
    headline: &str,
    problem: Option<&Line>,
    fields: &SilenceFields,
    words: &Phrases,
) -> String {
    let say = |key: &str| words.text(key, &[]);
    let choice = |kind: &str, name: &str, value: &str, text: &str, checked: bool, id: &str| {
        html! {
            p.choice {
                input type=(kind) name=(name) value=(value) id=(id) checked[checked];
                " " label for=(id) { (text) }
            }
        }
    };
    let fields = html! {
        p { (line(&words.line("silence-what", &[]))) }
        fieldset {
            legend { (say("silence-labels")) }
            @for (i, (key, text, chosen)) in fields.labels.iter().enumerate() {
                (choice("checkbox", "label", key, text, *chosen, &format!("label-{i}")))
            }
        }
        fieldset {
            legend { (say("silence-duration")) }
            @for (value, text) in &fields.durations {
                (choice("radio", "duration", value, text, fields.duration == *value, &format!("for-{value}")))
            }
            p { label for="own" { (say("silence-custom-duration")) } input #own name="custom" value=(fields.custom) placeholder="90m, 2h, 1d" maxlength="40" autocomplete="off"; }
        }
        p { label for="comment" { (say("form-comment")) } }
        p { textarea #comment name="comment" rows="2" maxlength="1000" { (fields.comment) } }
        @if let Some((text, value)) = &fields.confirm {
            fieldset { legend { (say("silence-confirm")) } (choice("checkbox", "confirm", value, text, false, "confirm")) }
        }
    };
    seal.page(Act::Silence, headline, problem, &fields, words)
}
