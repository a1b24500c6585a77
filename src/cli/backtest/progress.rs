//! The progress of a backtest: a bar on a terminal; elsewhere a line for each stage.

use std::io::IsTerminal;
use std::time::Duration;

use indicatif::{ProgressBar, ProgressStyle};

/// The progress of a run.
pub(super) struct BacktestProgress {
    quiet: bool,
    bar: Option<ProgressBar>,
}

impl BacktestProgress {
    pub(super) fn new(quiet: bool) -> Self {
        let bar = (!quiet && std::io::stderr().is_terminal()).then(ProgressBar::hidden);
        Self { quiet, bar }
    }

    /// Begins a stage with so many steps, of which some are done.
    pub(super) fn stage(&mut self, name: &str, steps: usize, done: usize) {
        self.end();
        if self.quiet {
            return;
        }
        if self.bar.is_none() {
            match done {
                0 => anstream::eprintln!("{name}: {steps}"),
                done => anstream::eprintln!("{name}: {steps}, of which {done} are done"),
            }
            return;
        }
        let bar = ProgressBar::new(steps as u64).with_position(done as u64);
        if let Ok(style) = ProgressStyle::with_template("{prefix} [{bar:30}] {pos} of {len}, {msg}{eta} left") {
            bar.set_style(style.progress_chars("=> "));
        }
        bar.set_prefix(name.to_owned());
        bar.enable_steady_tick(Duration::from_millis(200));
        self.bar = Some(bar);
    }

    /// Counts a step.
    pub(super) fn step(&self, queries: usize) {
        if let Some(bar) = &self.bar {
            bar.inc(1);
            bar.set_message(format!("{queries} queries, "));
        }
    }

    /// Removes the bar, so that the next output begins on an empty line.
    pub(super) fn end(&self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }
}
