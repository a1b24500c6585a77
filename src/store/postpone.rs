//! Why something is not delivered now.

use jiff::Timestamp;

/// The reason why something is not delivered now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PostponeReason {
    /// It waits for a condition.
    Waits,
    /// It failed and was not posted.
    Failed,
    /// It failed but may have been posted: the answer was lost.
    Unknown,
}

impl PostponeReason {
    /// Classifies a failure; `lost` if its answer was lost.
    pub fn failed(lost: bool) -> Self {
        if lost { Self::Unknown } else { Self::Failed }
    }

    /// Returns 1 if the start of the post stays stored, also that of an earlier post; 0 if not.
    pub(super) fn keeps(self, began: Option<Timestamp>) -> i64 {
        i64::from(self == Self::Unknown || began.is_some())
    }
}
