//! The two voices on the terminal: the story's lines with their times, and the service's messages behind a gutter.

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
        let gutter = self.styled("2", "   ┃ ");
        let mut shown = 0;
        loop {
            tokio::time::sleep(POLL).await;
            let Ok(bytes) = tokio::fs::read(&path).await else { continue };
            let fresh = bytes.get(shown..).unwrap_or_default();
            // A line that is still being written waits for its end.
            let Some(end) = fresh.iter().rposition(|byte| *byte == b'\n') else { continue };
            shown += end + 1;
            let text = String::from_utf8_lossy(&fresh[..=end]);
            print(&text.lines().map(|line| format!("{gutter}{line}\n")).collect::<String>());
        }
    }
}

/// One write per text, so that the voices do not mix. Nobody may be reading any more, which is no reason to fail.
fn print(text: &str) {
    let mut out = std::io::stdout().lock();
    out.write_all(text.as_bytes()).and_then(|()| out.flush()).ok();
}
