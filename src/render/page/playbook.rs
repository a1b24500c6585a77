//! The playbook pages: the tree of possible causes of a symptom, with the verdicts of an incident's diagnosis.

use std::collections::{BTreeMap, BTreeSet};

use maud::{Markup, html};

use super::html::{fold, line, link, pill, span};
use super::{Page, UpdateMode};
use crate::{Phrases, facts, full_diagnosis};
use findings::{Diagnosis, EvidenceResult, Outcome, Verdict};
use knowledge::playbook::{Evidence, Library, Node, NodeKind, Playbook, PlaybookKind, Step};
use message::{Line, StateStyle, TextSpan};

/// Maximum depth of the drawn tree.
const DEPTH: usize = 6;

/// Renders the page with all playbooks.
pub fn playbooks_page(library: &Library, words: &Phrases) -> String {
    let say = |key: &str| words.text(key, &[]);
    let title = say("page-playbooks");
    let body = html! {
        h1 { (title) }
        p.lead { (say("page-playbooks-lead")) }
        @for (kind, key) in [(PlaybookKind::Symptom, "page-symptoms"), (PlaybookKind::Mechanism, "page-mechanisms")] {
            section.card aria-labelledby=(key) {
                h2 #(key) { (say(key)) }
                ul.tiles {
                    @for playbook in library.of_kind(kind) {
                        li {
                            h3 { a href={ "/playbooks/" (playbook.playbook) } { (playbook.title) } }
                            p { (first(&playbook.impact)) }
                        }
                    }
                }
            }
        }
    };
    Page { title: &title, place: "/playbooks", kept: UpdateMode::Still, body }.html(words)
}

/// Returns the first sentence.
fn first(text: &str) -> &str {
    text.trim().split_once(". ").map_or(text.trim(), |(first, _)| first)
}

/// The checks and causes of an incident's diagnosis, by id.
struct DiagnosisIndex<'a> {
    checks: BTreeMap<(&'a str, &'a str), &'a EvidenceResult>,
    verdicts: BTreeMap<&'a str, Verdict>,
    chain: &'a [String],
    blind: BTreeMap<&'a str, &'a str>,
}

impl<'a> DiagnosisIndex<'a> {
    fn of(diagnosis: &'a Diagnosis) -> Self {
        let causes = diagnosis.causes.iter();
        let judged = causes.clone().flat_map(|cause| {
            let via = cause.via.iter().map(|link| (link.id.as_str(), link.verdict));
            via.chain([(cause.id.as_str(), cause.verdict)])
        });
        let mut verdicts: BTreeMap<&str, Verdict> =
            diagnosis.unchecked.iter().flat_map(|u| &u.causes).map(|id| (id.as_str(), Verdict::Undetermined)).collect();
        verdicts.extend(diagnosis.not_looked_at.iter().map(|cause| (cause.id.as_str(), Verdict::Undetermined)));
        verdicts.extend(diagnosis.ruled_out.iter().map(|cause| (cause.id.as_str(), cause.verdict)));
        verdicts.extend(judged);
        let of_causes = causes.flat_map(|c| c.via.iter().flat_map(|link| &link.evidence).chain(&c.evidence));
        let all = diagnosis.symptom.evidence.iter().chain(of_causes);
        let all = all.chain(diagnosis.ruled_out.iter().filter_map(|cause| cause.because.as_ref()));
        Self {
            checks: all.map(|e| ((e.signal.as_str(), e.when.as_str()), e)).collect(),
            verdicts,
            chain: diagnosis.root().map(|root| root.chain.as_slice()).unwrap_or_default(),
            blind: diagnosis.unchecked.iter().map(|u| (u.signal.as_str(), u.why.as_str())).collect(),
        }
    }
}

/// Renders the page of a playbook; `met` is the id and the diagnosis of an incident.
pub fn playbook_page(
    library: &Library,
    playbook: &Playbook,
    met: Option<(&str, &Diagnosis)>,
    words: &Phrases,
) -> String {
    let say = |key: &str| words.text(key, &[]);
    let known = met.map(|(_, diagnosis)| DiagnosisIndex::of(diagnosis));
    let mut drawing = Drawing { library, known: known.as_ref(), words, drawn: BTreeSet::new() };
    let root = library.playbook_node(&playbook.playbook);
    let kind = if playbook.kind == PlaybookKind::Symptom { "page-symptom" } else { "page-mechanism" };
    let body = html! {
        p.above { a href="/playbooks" { (say("page-playbooks")) } span { (say(kind)) } code { (playbook.playbook) } }
        h1 { (playbook.title) }
        p.lead { (line(&Line::of(playbook.meaning.trim()))) }
        p { b { (say("page-impact")) ": " } (line(&Line::of(playbook.impact.trim()))) }
        @if let Some((id, diagnosis)) = met {
            div.card {
                p { (line(&words.line("page-met-of", &[("incident", Line::default().link(id, format!("/incidents/{id}")).into())])))
                    " " (super::html::moment(diagnosis.at)) }
                (symptom(diagnosis, words))
            }
        }
        section.card aria-labelledby="tree" {
            h2 #tree { (say("page-tree")) }
            @if let Some(root) = root {
                p.dim { (say("page-tree-lead")) }
                (drawing.changed(root.id))
                (drawing.conditions(root.evidence))
                @if root.causes.is_empty() { p { (say("page-no-causes")) } }
                ul.tree { (drawing.children(root, &mut vec![root.id])) }
                (steps(root.now, "do-now", words))
                (steps(root.lasting, "lasting", words))
            }
        }
        @if !playbook.known_gaps.is_empty() {
            section.card { h2 { (say("page-gaps")) } ul { @for gap in &playbook.known_gaps { li { (line(&Line::of(gap))) } } } }
        }
        @if !playbook.alerts.is_empty() || !playbook.matches.is_empty() {
            section.card { h2 { (say("page-enters")) } ul {
                @for rule in &playbook.alerts { li { code { (rule.alert) } " (" (rule.severity.to_string()) ", " (rule.hold) ")" } }
                @for name in &playbook.matches { li { code { (name) } } }
            } }
        }
        @if !playbook.references.is_empty() {
            section.card { h2 { (say("page-sources")) } ul { @for url in &playbook.references { li { (link(url, url)) } } } }
        }
    };
    Page { title: &playbook.title, place: "/playbooks", kept: UpdateMode::Still, body }.html(words)
}

fn symptom(diagnosis: &Diagnosis, words: &Phrases) -> Markup {
    let (tone, key) = full_diagnosis::verdict_tone(diagnosis);
    pill(StateStyle::of(tone), &words.text(key, &[]))
}

struct Drawing<'a> {
    library: &'a Library,
    known: Option<&'a DiagnosisIndex<'a>>,
    words: &'a Phrases,
    drawn: BTreeSet<&'a str>,
}

impl<'a> Drawing<'a> {
    /// Renders the causes below a node; `path` holds the ids above it, so that a cycle ends.
    fn children(&mut self, node: Node<'a>, path: &mut Vec<&'a str>) -> Markup {
        let mut out = Vec::new();
        for entry in node.causes {
            let Some(child) = self.library.node(entry) else { continue };
            out.push(self.node(child, entry.fallback, path));
        }
        html! { @for child in out { li { (child) } } }
    }

    fn node(&mut self, node: Node<'a>, fallback: bool, path: &mut Vec<&'a str>) -> Markup {
        // A cause that several others share is drawn only at its first occurrence; a cycle ends there too. One that is too
        // deep to be drawn is not drawn yet.
        let again = path.contains(&node.id) || path.len() >= DEPTH || !self.drawn.insert(node.id);
        let verdict = self.known.and_then(|known| known.verdicts.get(node.id));
        let on_chain = self.known.is_some_and(|known| known.chain.iter().any(|id| id == node.id));
        let may_be = self.known.is_none() || matches!(verdict, Some(Verdict::Possible | Verdict::Likely));
        let say = |key: &str| self.words.text(key, &[]);
        let title = html! {
            (node.title)
            @if let Some(verdict) = verdict { (span(&facts::verdict_state(*verdict, facts::verdict(*verdict, self.words)))) }
            @if fallback { small { " (" (say("page-fallback")) ")" } }
        };
        if again {
            let to =
                if node.kind == NodeKind::Leaf { format!("#{}", node.id) } else { format!("/playbooks/{}", node.id) };
            return html! { p { "↳ " (link(node.title, &to)) @if let Some(verdict) = verdict { " " (span(&facts::verdict_state(*verdict, facts::verdict(*verdict, self.words)))) } } };
        }
        let inside = html! {
            // For an incident, an unlikely cause has its checks alone, and prevention is shown only for the chain.
            @if (on_chain || may_be) && !node.meaning.trim().is_empty() { p { (line(&Line::of(node.meaning.trim()))) } }
            (self.changed(node.id))
            (self.conditions(node.evidence))
            @if on_chain || may_be { (steps(node.now, "do-now", self.words)) }
            @if on_chain || self.known.is_none() { (steps(node.lasting, "lasting", self.words)) }
            @if node.kind != NodeKind::Leaf { p { a href={ "/playbooks/" (node.id) } { (say("page-open-playbook")) } } }
            @if !node.causes.is_empty() {
                ul {
                    @let below = { path.push(node.id); let below = self.children(node, path); path.pop(); below };
                    (below)
                }
            }
        };
        // A node is drawn in full once on a page.
        html! { div id=(node.id) { (fold(node.id, &title, on_chain, &inside)) } }
    }

    /// Names the user's file that changes a node: what is shown is not what is shipped.
    fn changed(&self, id: &str) -> Markup {
        let file = self.library.changed_by(id).map(|_| TextSpan::Code(format!("overrides/{id}.yaml")));
        html! { @if let Some(file) = file { p.dim { (line(&self.words.line("page-changed-by", &[("file", file.into())]))) } } }
    }

    /// Renders the conditions of a node, with their outcomes if known.
    fn conditions(&self, evidence: &[Evidence]) -> Markup {
        let say = |key: &str| self.words.text(key, &[]);
        html! {
            ul.c {
                @for e in evidence {
                    @for (i, (signal, when, without_past)) in e.alternatives().into_iter().enumerate() {
                        li {
                            @if i > 0 { i { (say("page-or")) " " } }
                            (self.check(signal, &when.to_string()))
                            @if without_past { " " small { (say("page-without-past")) } }
                            @if e.required && i == 0 { " " small { (say("page-required")) } }
                        }
                    }
                }
            }
        }
    }

    fn check(&self, signal: &str, when: &str) -> Markup {
        let title = self.library.signals.get(signal).map_or(signal, |s| s.title.as_str());
        let asked = html! { (title) " " code { (when) } };
        let Some(known) = self.known else { return asked };
        let result = known.checks.get(&(signal, when));
        let blind = known.blind.get(signal).map(|_| Outcome::NoData);
        html! {
            // Most checks of a cause that is ruled out were not needed.
            @if let Some(outcome) = result.map(|e| e.outcome).or(blind) { (span(&facts::outcome_state(outcome, self.words))) " " }
            (asked)
            @if let Some(e) = result.filter(|e| e.value.is_some()) { " " i { (facts::fact(e, self.words)) } }
        }
    }
}

fn steps(steps: &[Step], title: &str, words: &Phrases) -> Markup {
    html! {
        @if !steps.is_empty() {
            h3 { (words.text(title, &[])) }
            ul.fixes {
                @for step in steps {
                    li {
                        (line(&Line::of(step.action.trim())))
                        @if let Some(only) = step.holds_for() { " " small { "(" (only) ")" } }
                        @if let Some(source) = &step.source { " " (link(&words.text("source", &[]), source)) }
                    }
                }
            }
        }
    }
}
