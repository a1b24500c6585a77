//! The parts that the stages of a run share.

use super::Setting;
use super::labels::TrueCauses;
use super::progress::BacktestProgress;
use super::state::BacktestState;
use crate::cli::args::BacktestArgs;
use knowledge::alert::Labels;
use report::backtest::BacktestFindings;

/// A run.
pub(super) struct Work<'a> {
    pub(super) args: &'a BacktestArgs,
    pub(super) setting: &'a Setting<'a>,
    pub(super) causes: &'a TrueCauses,
    pub(super) state: &'a mut BacktestState,
    pub(super) progress: &'a mut BacktestProgress,
    pub(super) findings: &'a mut BacktestFindings,
    /// The labels that this Prometheus adds to what it sends; `ALERTS` has none of them.
    pub(super) external: &'a Labels,
}
