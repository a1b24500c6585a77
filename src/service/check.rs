//! The result of one check of what the service needs: by `doctor` or by a probe of the running service.

use serde::Serialize;

/// The severity of a check's result.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Level {
    /// It works.
    Ok,
    /// It works, but something is worse or missing because of this.
    Warn,
    /// It does not work.
    Fail,
}

/// The result of one check. Serialised, it is an entry of `doctor`'s JSON.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ServiceCheck {
    /// The part that was checked. `doctor` and the probes give one name to one part.
    pub name: String,
    /// The severity.
    pub level: Level,
    /// The result, in words; may be empty if it works.
    pub found: String,
    /// The recommended action; `None` if there is nothing to do, or `found` says it.
    pub todo: Option<String>,
}

impl ServiceCheck {
    /// Creates the result of a probe: it fails for this reason with its consequence, or works.
    pub(crate) fn probed(name: impl Into<String>, problem: Option<String>) -> Self {
        let level = if problem.is_none() { Level::Ok } else { Level::Fail };
        Self { name: name.into(), level, found: problem.unwrap_or_default(), todo: None }
    }

    /// Returns true if it works.
    pub fn is_ok(&self) -> bool {
        self.level == Level::Ok
    }
}
