//! The progress of a bundle: on a terminal one line for each part; elsewhere a line for each finished part.

use std::collections::BTreeMap;
use std::io::IsTerminal;
use std::time::Duration;

use indicatif::{MultiProgress, ProgressBar, ProgressStyle};

use knowledge::signal::{Unit, format_value};
use render::clean;
use report::{ReportPart, Stage};

/// The width of a part's name; longer names shift their line to the right.
const NAME: usize = 12;

/// The progress lines, by part.
pub(super) struct ProgressLines {
    quiet: bool,
    /// The progress bars; `None` if the output is not a terminal.
    terminal: Option<MultiProgress>,
    bars: BTreeMap<String, ProgressBar>,
    last_stages: BTreeMap<String, Stage>,
}

impl ProgressLines {
    pub(super) fn new(quiet: bool) -> Self {
        let terminal = (!quiet && std::io::stderr().is_terminal()).then(MultiProgress::new);
        Self { quiet, terminal, bars: BTreeMap::new(), last_stages: BTreeMap::new() }
    }

    /// Shows the state of the parts.
    pub(super) fn show(&mut self, parts: &[ReportPart]) {
        if self.quiet {
            return;
        }
        for part in parts {
            if self.last_stages.insert(part.name.clone(), part.stage) == Some(part.stage) {
                continue;
            }
            match &self.terminal {
                Some(terminal) => update(self.bars.entry(part.name.clone()).or_insert_with(|| bar(terminal)), part),
                None if part.stage.is_over() => anstream::eprintln!("{}", line(part)),
                None => {}
            }
        }
    }
}

fn bar(terminal: &MultiProgress) -> ProgressBar {
    let bar = terminal.add(ProgressBar::new_spinner());
    if let Ok(style) = ProgressStyle::with_template("{spinner} {msg}") {
        bar.set_style(style.tick_chars("-\\|/ "));
    }
    bar
}

fn update(bar: &ProgressBar, part: &ReportPart) {
    bar.set_message(line(part));
    match part.stage {
        Stage::Running => bar.enable_steady_tick(Duration::from_millis(120)),
        stage if stage.is_over() => {
            bar.disable_steady_tick();
            bar.finish();
        }
        _ => {}
    }
}

/// Formats a line: `failed   logs         Loki refused the connection`.
fn line(part: &ReportPart) -> String {
    let stage = match part.stage {
        Stage::Waiting => "waiting",
        Stage::Running => "running",
        Stage::Done => "done",
        Stage::Partial => "partial",
        Stage::Failed => "failed",
        Stage::Skipped => "skipped",
    };
    let size = match part.bytes {
        0 => String::new(),
        bytes => format!("{}  ", format_value(bytes as f64, Unit::Bytes)),
    };
    clean(&format!("{stage:<8} {:<NAME$} {size}{}", part.name, part.note)).trim_end().to_owned()
}
