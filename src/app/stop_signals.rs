//! The signals that end a command: SIGTERM and SIGINT.

use anyhow::Context;
use tokio::signal::unix::{Signal, SignalKind, signal};

/// The signals that end a command. From its creation on they do not end the process by themselves.
#[derive(Debug)]
pub struct StopSignals {
    terminate: Signal,
    interrupt: Signal,
}

impl StopSignals {
    /// Begins to wait for the signals.
    ///
    /// # Errors
    /// When the system refuses it.
    pub fn new() -> anyhow::Result<Self> {
        Ok(Self {
            terminate: signal(SignalKind::terminate()).context("cannot wait for SIGTERM")?,
            interrupt: signal(SignalKind::interrupt()).context("cannot wait for SIGINT")?,
        })
    }

    /// Completes at the next of them, also if it came since the last call.
    pub async fn recv(&mut self) {
        tokio::select! {
            _ = self.terminate.recv() => {}
            _ = self.interrupt.recv() => {}
        }
    }
}
