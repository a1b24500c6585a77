//! Answers that need no Prometheus: explanations, the playbooks, the measured accuracy, the help.

use super::super::command::{Topic, topics};
use crate::wording::{command_button, sentence, with};
use authoring::explain;
use knowledge::playbook::{Library, Node, Playbook, PlaybookKind};
use message::{Block, Line, Message, Tone};
use render::Phrases;
use store::Store;

/// The accuracy as measured by `make scenarios`.
const MEASURED: &str = include_str!("../../../docs/accuracy.md");
/// The address of the page that explains the measured figures.
const MEASURED_AT: &str = "https://github.com/llm-diagnose/llm-diagnose/blob/main/docs/accuracy.md";
/// The address of the runbooks.
const RUNBOOKS: &str = "https://github.com/llm-diagnose/llm-diagnose/blob/main/docs/runbooks";
/// Maximum number of lines of an explanation from a table.
const LINES: usize = 40;

/// Explains a playbook, cause, code, flag, log line, signal or engine.
pub(super) fn explain(library: &Library, words: &Phrases, id: &str, name: Option<&str>) -> Message {
    if let (None, Some(node)) = (name, explain::node(library, id)) {
        return explain_node(library, words, &node);
    }
    match explain::explain(library, id, name) {
        Ok(text) => {
            let text = anstream::adapter::strip_str(&text).to_string();
            let mut lines = text.lines().map(str::trim_end).filter(|line| !line.is_empty());
            let headline = lines.next().unwrap_or_default().to_owned();
            let lines: Vec<Line> = lines.take(LINES).map(labelled).collect();
            let title = std::iter::once(id).chain(name).collect::<Vec<_>>().join(" ");
            Message { tone: Tone::Unknown, headline, parts: vec![Block::Section(title, lines)] }
        }
        Err(problem) => {
            let mut lines = problem.lines().map(str::trim);
            let first = lines.next().unwrap_or_default().to_owned();
            let notes = lines.filter(|line| !line.starts_with("playbooks:")).map(|line| Block::Note(Line::of(line)));
            let mut message = Message { tone: Tone::Unknown, headline: first, parts: notes.collect() };
            message.parts.push(Block::Buttons(vec![command_button(0, "playbooks", "playbooks")]));
            message
        }
    }
}

/// Formats a line such as `  at once       text` with its label in bold.
fn labelled(line: &str) -> Line {
    match line.trim_start().split_once("  ") {
        Some((label, text)) if line.starts_with("  ") => {
            Line::default().bold(label).plain(" ").then(Line::of(text.trim()))
        }
        _ => Line::of(line),
    }
}

/// Explains a playbook or cause: meaning, impact, causes, steps and runbook.
fn explain_node(library: &Library, words: &Phrases, node: &Node<'_>) -> Message {
    let mut parts = vec![Block::Paragraph(Line::of(&flat(node.meaning)))];
    if let Some(playbook) = library.playbooks.get(node.id) {
        parts.push(Block::Section(words.text("explain-impact", &[]), vec![Line::of(&flat(&playbook.impact))]));
    }
    let causes = node.causes.iter().filter_map(|entry| library.node(entry));
    let causes: Vec<Line> =
        causes.map(|cause| Line::default().plain(cause.title).plain(" · ").code(cause.id)).collect();
    if !causes.is_empty() {
        parts.push(Block::Section(words.text("explain-causes", &[]), causes));
    }
    for (title, steps) in [("explain-now", node.now), ("explain-lasting", node.lasting)] {
        let lines = steps.iter().map(|step| {
            let only = step.holds_for().map(|only| format!(" ({only})")).unwrap_or_default();
            Line::of(&flat(&step.action)).plain(only)
        });
        let lines: Vec<Line> = lines.collect();
        if !lines.is_empty() {
            parts.push(Block::Steps(words.text(title, &[]), lines));
        }
    }
    if library.playbooks.contains_key(node.id) {
        let runbook = format!("{RUNBOOKS}/{}.md", node.id);
        parts.push(Block::Note(Line::default().link(words.text("explain-runbook", &[]), runbook)));
    }
    Message { tone: Tone::Unknown, headline: format!("{} ({})", node.title, node.id), parts }
}

fn flat(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// Lists the playbooks, symptoms first.
pub(super) fn playbooks(library: &Library, words: &Phrases) -> Message {
    let line = |playbook: &Playbook| Line::default().code(&*playbook.playbook).plain(" ").plain(&*playbook.title);
    let listed = |kind: PlaybookKind| -> Vec<Line> { library.of_kind(kind).map(line).collect() };
    let counts = [("n", library.playbooks.len().into())];
    Message {
        tone: Tone::Unknown,
        headline: words.text("playbooks-headline", &counts),
        parts: vec![
            Block::Section(words.text("playbooks-symptoms", &[]), listed(PlaybookKind::Symptom)),
            Block::Section(words.text("playbooks-mechanisms", &[]), listed(PlaybookKind::Mechanism)),
            Block::Note(words.line("playbooks-more", &[("example", Line::default().code("explain high-ttft").into())])),
        ],
    }
}

/// Returns the measured figures of all scenarios: mechanism first, root first, root among three, confident and wrong,
/// healthy.
pub fn measured() -> Option<[String; 5]> {
    let row = MEASURED.lines().find(|line| line.starts_with("| all |"))?;
    let cells: Vec<String> = row.split('|').skip(2).map(|cell| cell.trim().to_owned()).take(5).collect();
    cells.try_into().ok()
}

/// Returns the number of correct diagnoses of captured servers, such as `36 of 36`.
fn captured() -> Option<&'static str> {
    let row = MEASURED.lines().find(|line| line.starts_with("| the alert's own name |"))?;
    row.split('|').nth(2).map(str::trim)
}

/// Reports the accuracy: as measured on scenarios and captures, and by feedback.
pub(super) async fn accuracy(store: &Store, words: &Phrases) -> Message {
    let mut parts = Vec::new();
    let ratings = store.found_right().await.unwrap_or_default();
    let count = |n: i64| usize::try_from(n).unwrap_or_default();
    let local_accuracy = match ratings {
        (0, 0) => words.line("accuracy-no-feedback", &[]),
        (yes, no) => words.line("accuracy-feedback", &[("yes", count(yes).into()), ("no", count(no).into())]),
    };
    parts.push(Block::Section(words.text("accuracy-here", &[]), vec![local_accuracy]));
    let headline = match measured() {
        Some([mechanism, root, three, wrong, healthy]) => {
            let lines = [
                ("accuracy-mechanism", &mechanism),
                ("accuracy-three", &three),
                ("accuracy-wrong", &wrong),
                ("accuracy-healthy", &healthy),
            ];
            let lines = lines.map(|(key, figure)| words.line(key, &[("figure", figure.as_str().into())]));
            let real = captured().map(|figure| words.line("accuracy-captures", &[("figure", figure.into())]));
            let lines = real.into_iter().chain(lines).collect();
            parts.insert(0, Block::Section(words.text("accuracy-measured", &[]), lines));
            words.text("accuracy-headline", &[("figure", root.into())])
        }
        None => words.text("accuracy-here", &[]),
    };
    parts.push(Block::Note(Line::default().link("docs/accuracy.md", MEASURED_AT)));
    Message { tone: Tone::Unknown, headline, parts }
}

/// Lists the commands, or explains one of them.
pub(super) fn help(words: &Phrases, command: Option<&str>) -> Message {
    let topics = topics();
    let name = command.map(str::to_lowercase);
    if let Some(Topic { usage, about, arguments, examples, .. }) =
        name.as_deref().and_then(|name| topics.iter().find(|topic| topic.name == name))
    {
        let usage = Line::default().code(format!("/llm-diagnose {usage}"));
        let mut parts = vec![Block::Paragraph(usage)];
        let arguments =
            arguments.iter().map(|(name, help)| Line::default().code(name.as_str()).plain(" ").then(Line::of(help)));
        let arguments: Vec<Line> = arguments.collect();
        if !arguments.is_empty() {
            parts.push(Block::Section(words.text("help-arguments", &[]), arguments));
        }
        let buttons = examples.iter().enumerate().map(|(i, line)| command_button(i, line, line));
        parts.push(Block::Buttons(buttons.collect()));
        return Message { tone: Tone::Unknown, headline: about.clone(), parts };
    }
    let mut message = sentence(Tone::Unknown, words.line("help-headline", &[]));
    if let Some(unknown) = name {
        let line = words.line("help-unknown", &[("command", Line::default().code(unknown).into())]);
        message.parts.push(Block::Paragraph(line));
    }
    let lines: Vec<Line> = topics
        .iter()
        .map(|topic| Line::default().code(topic.usage.as_str()).plain(" ").plain(topic.about.as_str()))
        .collect();
    message = with(message, Block::Section(words.text("help-commands", &[]), lines));
    let [why, bundle] = ["why", "bundle"].map(|word| Line::default().code(format!("@llm-diagnose {word}")).into());
    message.parts.push(Block::Paragraph(words.line("help-threads", &[("why", why), ("bundle", bundle)])));
    let examples = ["health", "incidents", "help diagnose"];
    with(message, Block::Buttons(examples.iter().enumerate().map(|(i, line)| command_button(i, line, line)).collect()))
}
