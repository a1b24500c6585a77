//! The two voices on the terminal: the story's lines with their times, and the service's messages behind a gutter.

use std::collections::HashSet;
use std::io::{IsTerminal, Write};
use std::path::PathBuf;
use std::time::{Duration, Instant};

const POLL: Duration = Duration::from_millis(100);

/// Prints the story.
#[derive(Debug, Clone, Copy)]
pub(super) struct Narrator {
    started: Instant,
    /// Whether the terminal shows colours.
    pub(super) colours: bool,
}

impl Narrator {
    /// A narrator whose clock starts now.
    pub(super) fn new() -> Self {
        let set = |name: &str| std::env::var_os(name).is_some_and(|value| !value.is_empty() && value != "0");
        let wanted = std::io::stdout().is_terminal() || set("CLICOLOR_FORCE");
        Self { started: Instant::now(), colours: wanted && !set("NO_COLOR") }
    }

    /// A step, with the seconds since the start: `[ 12s] healthy: …`.
    pub(super) fn say(&self, text: &str) {
        self.line("1;36", text);
    }

    /// Something good.
    pub(super) fn good(&self, text: &str) {
        self.line("1;32", text);
    }

    /// Something bad.
    pub(super) fn bad(&self, text: &str) {
        self.line("1;31", text);
    }

    /// A detail below a step.
    pub(super) fn note(&self, text: &str) {
        print(&format!("        {text}\n"));
    }

    fn line(&self, style: &str, text: &str) {
        let seconds = self.started.elapsed().as_secs();
        print(&format!("{}\n", self.styled(style, &format!("[{seconds:>3}s] {text}"))));
    }

    fn styled(&self, style: &str, text: &str) -> String {
        if self.colours { format!("\u{1b}[{style}m{text}\u{1b}[0m") } else { text.to_owned() }
    }

    /// Shows what is appended to a file, line by line behind a gutter, until it is dropped.
    pub(super) async fn relay(self, path: PathBuf) {
        let gutter = self.styled("2", "   ┃");
        let mut folding = Folding::default();
        let mut shown = 0;
        loop {
            tokio::time::sleep(POLL).await;
            let Ok(bytes) = tokio::fs::read(&path).await else { continue };
            let fresh = bytes.get(shown..).unwrap_or_default();
            // A line that is still being written waits for its end.
            let Some(end) = fresh.iter().rposition(|byte| *byte == b'\n') else { continue };
            shown += end + 1;
            let (text, now) = (String::from_utf8_lossy(&fresh[..=end]), Instant::now());
            let lines = text.lines().filter(|line| folding.shows(line, now));
            print(&lines.map(|line| format!("{gutter} {line}\n")).collect::<String>());
        }
    }
}

/// A living message is printed again with each change; what it has said in full is then cut to its first parts
/// (headline, symptom, chain), or left out when nothing but numbers changed within seconds, so that the story stays
/// readable. The incident's page has all of it.
#[derive(Debug, Default)]
pub(super) struct Folding {
    /// Headlines without their severity or state.
    told: HashSet<String>,
    /// The headline that was shown last, and when.
    last: Option<(String, Instant)>,
    cut: Cut,
    blank_lines: usize,
}

/// How much of a message is shown.
#[derive(Debug, Clone, Copy, Default)]
enum Cut {
    #[default]
    Whole,
    Beginning,
    Nothing,
}

/// What starts a message, and how many blank lines the beginning of one has.
const START: char = '▌';
const BLANK_LINES: usize = 3;
/// For so long the same headline is not shown again.
const QUIET: Duration = Duration::from_secs(20);

impl Folding {
    /// Whether the next line is shown.
    pub(super) fn shows(&mut self, line: &str, now: Instant) -> bool {
        if let Some((_, headline)) = line.split_once(START) {
            let words = headline.split_once(" · ").map_or(headline, |(_, words)| words);
            let just_shown = self.last.as_ref().is_some_and(|(last, at)| last == headline && now < *at + QUIET);
            self.cut = match (self.told.insert(words.to_owned()), just_shown) {
                (true, _) => Cut::Whole,
                (false, true) => Cut::Nothing,
                (false, false) => Cut::Beginning,
            };
            if !just_shown {
                self.last = Some((headline.to_owned(), now));
            }
            self.blank_lines = 0;
        }
        let shown = match self.cut {
            Cut::Whole => true,
            Cut::Beginning => self.blank_lines < BLANK_LINES,
            Cut::Nothing => false,
        };
        self.blank_lines += usize::from(line.trim().is_empty());
        shown
    }
}

/// One write per text, so that the voices do not mix. Nobody may be reading any more, which is no reason to fail.
fn print(text: &str) {
    let mut out = std::io::stdout().lock();
    out.write_all(text.as_bytes()).and_then(|()| out.flush()).ok();
}
