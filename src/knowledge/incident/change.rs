//! The reason of an incident's last change, as the store keeps it and messages show it.

use super::AdmitReason;

/// The reason of an incident's last change.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ChangeReason {
    /// A notification of Alertmanager.
    Notification(AdmitReason),
    /// Alertmanager has sent nothing for longer than `incident.stale_after`.
    Stale,
    /// Its row in the store could not be read; a new incident took its place.
    Unreadable,
    /// It stood for a notification that was too large; the group was read in full and has an incident of its own.
    ReadableAgain,
    /// A reason that another version of the program stored, in its words.
    Other(String),
}

impl ChangeReason {
    /// Returns the name in the store and in the API.
    pub fn as_str(&self) -> &str {
        match self {
            Self::Notification(reason) => reason.as_str(),
            Self::Stale => "stale",
            Self::Unreadable => "unreadable",
            Self::ReadableAgain => "readable_again",
            Self::Other(name) => name,
        }
    }

    /// Reads the name that the store keeps.
    pub fn from_name(name: &str) -> Self {
        match name {
            "stale" => Self::Stale,
            "unreadable" => Self::Unreadable,
            "readable_again" => Self::ReadableAgain,
            name => name.parse().map_or_else(|_| Self::Other(name.to_owned()), Self::Notification),
        }
    }
}

#[cfg(test)]
mod tests {
    use strum::VariantArray;

    use super::*;

    #[test]
    fn a_reason_is_read_as_it_was_stored_also_one_of_another_version() {
        let others = [ChangeReason::Stale, ChangeReason::Unreadable, ChangeReason::ReadableAgain];
        for reason in AdmitReason::VARIANTS.iter().copied().map(ChangeReason::Notification).chain(others) {
            assert_eq!(ChangeReason::from_name(reason.as_str()), reason);
        }
        assert_eq!(ChangeReason::from_name("merged"), ChangeReason::Other("merged".to_owned()));
    }
}
