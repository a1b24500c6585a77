//! Phrases: sentences are data (`playbooks/phrases/en/*.ftl`, Project Fluent), and code refers to them by name.
//!
//! A sentence may contain `**bold**` and `` `code` ``. Its arguments keep their own formatting: untrusted text is never
//! read as markup.

use std::path::Path;

use fluent_bundle::concurrent::FluentBundle;
use fluent_bundle::{FluentArgs, FluentResource};
use unic_langid::LanguageIdentifier;

use knowledge::playbook::{Lint, Problem, SourceFile, is_unfinished, phrases};
use message::{Line, TextSpan};

/// The only language; the directory name of its phrases.
pub const ENGLISH: &str = "en";
/// The delimiters of an argument in a formatted sentence: private-use characters that no phrase contains.
const OPEN: char = '\u{e000}';
const CLOSE: char = '\u{e001}';

/// An argument of a sentence.
#[derive(Debug, Clone, PartialEq)]
pub enum PhraseArgument {
    /// A count, which selects the plural form.
    Count(usize),
    /// Plain text.
    Text(String),
    /// Formatted text.
    Line(Line),
}

impl From<usize> for PhraseArgument {
    fn from(n: usize) -> Self {
        Self::Count(n)
    }
}
impl From<u32> for PhraseArgument {
    fn from(n: u32) -> Self {
        Self::Count(n as usize)
    }
}
impl From<u64> for PhraseArgument {
    fn from(n: u64) -> Self {
        Self::Count(usize::try_from(n).unwrap_or(usize::MAX))
    }
}
impl From<&str> for PhraseArgument {
    fn from(text: &str) -> Self {
        Self::Text(text.to_owned())
    }
}
impl From<String> for PhraseArgument {
    fn from(text: String) -> Self {
        Self::Text(text)
    }
}
impl From<Line> for PhraseArgument {
    fn from(line: Line) -> Self {
        Self::Line(line)
    }
}
impl From<TextSpan> for PhraseArgument {
    fn from(span: TextSpan) -> Self {
        Self::Line(Line(vec![span]))
    }
}

/// The phrases.
pub struct Phrases {
    shipped: FluentBundle<FluentResource>,
    /// The shipped ones with a user's over them; `None` without any.
    own: Option<FluentBundle<FluentResource>>,
}

impl std::fmt::Debug for Phrases {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Words").finish_non_exhaustive()
    }
}

impl Phrases {
    /// Loads the built-in phrases, overridden by those of `dir/phrases/en/*.ftl`. A user's phrase that is
    /// none, or asks for what nobody gives, and a file that cannot be read are left out; `authoring::check` names them.
    ///
    /// # Errors
    /// If a shipped file cannot be read; the error names the file and the reason.
    pub fn load(dir: Option<&Path>) -> anyhow::Result<Self> {
        let own = dir.map(own_phrases).unwrap_or_default().files;
        let with_own = if own.is_empty() { None } else { Some(bundle(own)?) };
        Ok(Self { shipped: bundle(Vec::new())?, own: with_own })
    }

    /// Loads only the built-in phrases.
    pub fn english() -> Self {
        #[expect(clippy::expect_used, reason = "the shipped files are tested")]
        Self::load(None).expect("the shipped phrases can be read")
    }

    /// Formats a sentence.
    pub fn line(&self, key: &str, pieces: &[(&str, PhraseArgument)]) -> Line {
        let mut args = FluentArgs::new();
        for (i, (name, piece)) in pieces.iter().enumerate() {
            match piece {
                PhraseArgument::Count(n) => args.set(*name, *n),
                PhraseArgument::Text(_) | PhraseArgument::Line(_) => args.set(*name, format!("{OPEN}{i}{CLOSE}")),
            }
        }
        // A user's sentence that asks for what is not given (any more), or is still to be written, gives way.
        let own = self.own.as_ref().and_then(|own| formatted(own, key, &args));
        let own = own.filter(|(text, error)| error.is_none() && !is_unfinished(text));
        let Some((text, error)) = own.or_else(|| formatted(&self.shipped, key, &args)) else {
            tracing::error!(key, "there is no such phrase");
            return Line::default().plain(key);
        };
        if let Some(error) = error {
            tracing::error!(key, error, "a phrase lacks something");
        }
        parse_markup(&text, pieces)
    }

    /// Formats a sentence as plain text.
    pub fn text(&self, key: &str, pieces: &[(&str, PhraseArgument)]) -> String {
        self.line(key, pieces).text()
    }
}

/// Reads the shipped phrases, with a user's over them.
fn bundle(own: Vec<SourceFile>) -> anyhow::Result<FluentBundle<FluentResource>> {
    let mut bundle = FluentBundle::new_concurrent(vec![ENGLISH.parse::<LanguageIdentifier>()?]);
    // Isolation marks around arguments would show in terminals; all text has one direction anyway.
    bundle.set_use_isolating(false);
    for file in phrases() {
        let resource = FluentResource::try_new(file.text.into_owned())
            .map_err(|(_, errors)| anyhow::anyhow!("{}: {}", file.path, first(&errors)))?;
        bundle.add_resource_overriding(resource);
    }
    for file in own {
        let (Ok(resource) | Err((resource, _))) = FluentResource::try_new(file.text.into_owned());
        bundle.add_resource_overriding(resource);
    }
    Ok(bundle)
}

/// Returns a sentence with what is put in, and its first error; `None` if there is no such phrase.
fn formatted(
    bundle: &FluentBundle<FluentResource>,
    key: &str,
    args: &FluentArgs<'_>,
) -> Option<(String, Option<String>)> {
    let pattern = bundle.get_message(key)?.value()?;
    let mut errors = Vec::new();
    let text = bundle.format_pattern(pattern, Some(args), &mut errors).into_owned();
    Some((text, errors.first().map(ToString::to_string)))
}

/// A user's files of phrases.
#[derive(Debug, Default)]
pub struct OwnPhrases {
    /// The files, by name.
    pub files: Vec<SourceFile>,
    /// The reasons why others cannot be read, each with its path.
    pub unreadable: Vec<Problem>,
}

/// Returns a user's own phrases, from `dir/phrases/en/`.
pub fn own_phrases(dir: &Path) -> OwnPhrases {
    let mut own = OwnPhrases::default();
    let dir = dir.join("phrases").join(ENGLISH);
    if !dir.is_dir() {
        return own;
    }
    let unreadable = |path: &Path, error: &std::io::Error| {
        let file = SourceFile::new(path.display().to_string(), String::new());
        let hint = "save it as UTF-8, and let the service's user read it".to_owned();
        Problem::on_line(Lint::PhraseRead, &file, 1, format!("cannot be read: {error}"), Some(hint))
    };
    let entries = match std::fs::read_dir(&dir) {
        Ok(entries) => entries,
        Err(error) => {
            own.unreadable.push(unreadable(&dir, &error));
            return own;
        }
    };
    let paths = entries.filter_map(|entry| Some(entry.ok()?.path()));
    let mut paths: Vec<_> = paths
        .filter(|path| path.extension().is_some_and(|e| e == "ftl") && !is_hidden(path) && path.is_file())
        .collect();
    paths.sort();
    for path in paths {
        match std::fs::read_to_string(&path) {
            Ok(text) => own.files.push(SourceFile::new(path.display().to_string(), text)),
            Err(error) => own.unreadable.push(unreadable(&path, &error)),
        }
    }
    own
}

/// Returns true for names that begin with a dot, as editors and archives leave them.
fn is_hidden(path: &Path) -> bool {
    path.file_name().is_some_and(|name| name.as_encoded_bytes().starts_with(b"."))
}

fn first(errors: &[impl std::fmt::Debug]) -> String {
    errors.first().map(|e| format!("{e:?}")).unwrap_or_default()
}

/// Parses a formatted sentence into spans: `**` and back-ticks of the sentence are markup, those of arguments are not.
fn parse_markup(text: &str, pieces: &[(&str, PhraseArgument)]) -> Line {
    let mut line = Line::default();
    for (b, bold) in text.split("**").enumerate() {
        for (c, code) in bold.split('`').enumerate() {
            for span in filled(code, pieces) {
                line.0.push(match span {
                    TextSpan::Plain(text) if c % 2 == 1 => TextSpan::Code(text),
                    TextSpan::Plain(text) if b % 2 == 1 => TextSpan::Bold(text),
                    other => other,
                });
            }
        }
    }
    line.joined()
}

fn filled(text: &str, pieces: &[(&str, PhraseArgument)]) -> Vec<TextSpan> {
    let mut out = Vec::new();
    let mut rest = text;
    while let Some(at) = rest.find(OPEN) {
        if at > 0 {
            out.push(TextSpan::Plain(rest[..at].to_owned()));
        }
        let inside = &rest[at + OPEN.len_utf8()..];
        let Some(end) = inside.find(CLOSE) else { break };
        match inside[..end].parse::<usize>().ok().and_then(|i| pieces.get(i)) {
            Some((_, PhraseArgument::Text(text))) => out.push(TextSpan::Plain(text.clone())),
            Some((_, PhraseArgument::Line(line))) => out.extend(line.0.iter().cloned()),
            Some((_, PhraseArgument::Count(_))) | None => {}
        }
        rest = &inside[end + CLOSE.len_utf8()..];
    }
    if !rest.is_empty() {
        out.push(TextSpan::Plain(rest.to_owned()));
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_put_into_a_sentence_is_never_read_as_its_markup() {
        let pieces = [("who", PhraseArgument::from("**x** `y` \u{e000}0\u{e001}"))];
        let line = parse_markup("**Hit** by \u{e000}0\u{e001}", &pieces);
        assert_eq!(line.0[0], TextSpan::Bold("Hit".into()));
        assert_eq!(line.0[1], TextSpan::Plain(" by **x** `y` \u{e000}0\u{e001}".into()));
    }
}
