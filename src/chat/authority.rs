//! Authorisation: decides who may do what, in Slack and on the pages. Pure; [`super::people`] collects the facts of Slack.

use super::people::UserFacts;
use knowledge::incident::Act;
use service::config::ANYBODY;
use slack::{Powers, RequestPlace, SlackActor};

/// The power that a request needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Power {
    /// Read: evidence, diagnoses, lists.
    Read,
    /// Change our own state: acknowledge, diagnose again, write a note, rate a cause as right or wrong, verify.
    Note,
    /// Change or hand out something outside: create silences, call people, collect bundles.
    Act,
}

impl Power {
    /// Returns the power that an act needs.
    pub fn of(act: Act) -> Self {
        match act {
            Act::Evidence | Act::Digest => Self::Read,
            Act::Acknowledge | Act::Again | Act::Note | Act::Right | Act::Wrong | Act::Done | Act::Verify => Self::Note,
            Act::Snooze | Act::Unsnooze => Self::Note,
            Act::Silence | Act::Expire | Act::Escalate => Self::Act,
            // It hands out logs and objects of the cluster.
            Act::Bundle => Self::Act,
        }
    }
}

/// The reason for a refusal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Denial {
    /// The user is a bot.
    Bot,
    /// The user belongs to another workspace or, in a shared channel, to another organisation.
    Stranger,
    /// The user is a guest whom the configuration does not name.
    Guest,
    /// The account is closed.
    Gone,
    /// The configuration names no user, group or channel that may act.
    Nobody,
    /// The configuration names others, but not this user.
    NotNamed,
    /// Slack did not return the user's data, so no decision is possible.
    Unknown,
}

impl Denial {
    /// Returns the key of the refusal's phrase.
    pub(super) fn key(self) -> &'static str {
        match self {
            Self::Bot => "refused-bot",
            Self::Stranger => "refused-stranger",
            Self::Guest => "refused-guest",
            Self::Gone => "refused-gone",
            Self::Nobody => "refused-nobody",
            Self::NotNamed => "refused-not-named",
            Self::Unknown => "refused-unknown",
        }
    }

    /// Returns the key of the refusal's phrase on a page.
    pub fn page_key(self) -> &'static str {
        match self {
            Self::Bot => "page-may-program",
            Self::Nobody => "page-may-nobody",
            Self::NotNamed | Self::Stranger | Self::Guest | Self::Gone => "page-may-not-named",
            Self::Unknown => "page-may-unknown",
        }
    }

    /// Returns the name in the audit log.
    pub fn as_str(self) -> &'static str {
        self.key().trim_start_matches("refused-")
    }
}

/// Checks that a user has a power. Users who are configured by id or through a user group may do everything, guests
/// included. Other members of the workspace may read; they may note and act in configured channels; and they may note
/// everywhere while nobody is configured.
///
/// If Slack does not return the user's data, only configured users may do more than read; without our own workspace's
/// id, no user may do more.
pub fn authorise(
    who: &SlackActor,
    facts: &UserFacts,
    place: &RequestPlace,
    power: Power,
    powers: &Powers,
) -> Result<(), Denial> {
    if who.is_bot || facts.user.as_ref().is_some_and(|user| user.is_bot) {
        return Err(Denial::Bot);
    }
    let Powers { groups, users, channels } = powers;
    let user_team = facts.user.as_ref().and_then(|user| user.team_id.as_deref());
    let is_other_team = |team: &str| !team.is_empty() && facts.own_team.as_deref().is_some_and(|own| own != team);
    let stranger = facts.user.as_ref().is_some_and(|user| user.is_stranger);
    if stranger || is_other_team(&who.team) || user_team.is_some_and(is_other_team) {
        return Err(Denial::Stranger);
    }
    if facts.user.as_ref().is_some_and(|user| user.deleted) {
        return Err(Denial::Gone);
    }
    let is_named = users.contains(&who.user) || groups.iter().any(|group| facts.groups.contains(group));
    if is_named && facts.own_team.is_some() {
        return Ok(());
    }
    let Some(user) = facts.user.as_ref().filter(|_| facts.own_team.is_some()) else {
        return if power == Power::Read { Ok(()) } else { Err(Denial::Unknown) };
    };
    if user.is_restricted || user.is_ultra_restricted {
        return Err(Denial::Guest);
    }
    match power {
        Power::Read => Ok(()),
        _ if channels.contains(&place.channel) => Ok(()),
        Power::Note if names_nobody(powers) => Ok(()),
        Power::Act if names_nobody(powers) => Err(Denial::Nobody),
        // Slack did not return the members of a group that may contain the user.
        Power::Note | Power::Act if facts.groups_unknown => Err(Denial::Unknown),
        Power::Note | Power::Act => Err(Denial::NotNamed),
    }
}

/// Returns true while `slack.act` names neither users nor groups nor channels.
fn names_nobody(powers: &Powers) -> bool {
    powers.groups.is_empty() && powers.users.is_empty() && powers.channels.is_empty()
}

/// The way in which the pages know a visitor.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KnownBy {
    /// A person: by a user name of `pages:`, or by the authenticating proxy.
    Name,
    /// By credentials that programs have: a bearer token, or those of the webhook.
    Program,
    /// Not at all: the pages ask for no credentials, or a signed link was opened.
    Nothing,
}

/// Checks that a visitor of the pages has a power: the same ladder as in Slack, see [`authorise`]. `named` is
/// `pages.act`; whom it names may do everything. Everybody else reads; people whose name is known may also note while
/// nobody is named, there or in `slack.act`: a page gives nobody what chat does not.
pub fn authorise_visitor(
    name: &str,
    known: KnownBy,
    power: Power,
    named: &[String],
    powers: &Powers,
) -> Result<(), Denial> {
    let nobody_named = named.is_empty() && names_nobody(powers);
    let is_named = named.iter().any(|one| one == ANYBODY || (one == name && known != KnownBy::Nothing));
    match (power, known) {
        (Power::Read, _) => Ok(()),
        _ if is_named => Ok(()),
        (_, KnownBy::Nothing) => Err(Denial::Unknown),
        (_, KnownBy::Program) => Err(Denial::Bot),
        (Power::Note, KnownBy::Name) if nobody_named => Ok(()),
        (Power::Act, KnownBy::Name) if nobody_named => Err(Denial::Nobody),
        (_, KnownBy::Name) => Err(Denial::NotNamed),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use slack::User;

    #[test]
    fn a_visitor_of_the_pages_has_the_powers_that_the_same_person_has_in_slack() {
        let decide = |name: &str, known, named: &[&str]| {
            let named: Vec<String> = named.iter().map(ToString::to_string).collect();
            ALL.map(|power| authorise_visitor(name, known, power, &named, &Powers::default()).err())
        };
        let no = Some;
        assert_eq!(decide("anna", KnownBy::Name, &[]), [None, None, no(Denial::Nobody)]);
        assert_eq!(decide("anna", KnownBy::Name, &["anna"]), [None; 3]);
        assert_eq!(decide("ben", KnownBy::Name, &["anna"]), [None, no(Denial::NotNamed), no(Denial::NotNamed)]);
        let token = "program:token";
        assert_eq!(decide(token, KnownBy::Program, &[]), [None, no(Denial::Bot), no(Denial::Bot)]);
        assert_eq!(decide(token, KnownBy::Program, &[token]), [None; 3]);
        assert_eq!(decide("anybody", KnownBy::Nothing, &["anna"]), [None, no(Denial::Unknown), no(Denial::Unknown)]);
        for known in [KnownBy::Name, KnownBy::Program, KnownBy::Nothing] {
            assert_eq!(decide("x", known, &["anybody"]), [None; 3]);
        }
    }

    #[test]
    fn whom_slack_names_is_not_named_on_the_pages_and_others_may_note_on_neither() {
        for powers in [powers(&[], &["U1"], &[]), powers(&["S1"], &[], &[]), powers(&[], &[], &["C1"])] {
            let decide = |name: &str, known, named: &[String]| {
                ALL.map(|power| authorise_visitor(name, known, power, named, &powers).err())
            };
            let refused = [None, Some(Denial::NotNamed), Some(Denial::NotNamed)];
            assert_eq!(decide("anna", KnownBy::Name, &[]), refused, "{powers:?}");
            assert_eq!(decide("U1", KnownBy::Name, &[]), refused, "a proxy's user may call themselves anything");
            assert_eq!(decide("anna", KnownBy::Name, &["anna".to_owned()]), [None; 3]);
            assert_eq!(decide("ben", KnownBy::Name, &["anna".to_owned()]), refused);
        }
    }

    fn facts(change: impl FnOnce(&mut UserFacts, &mut User)) -> UserFacts {
        let mut user = User { team_id: Some("T1".into()), ..User::default() };
        let mut facts = UserFacts { own_team: Some("T1".into()), ..UserFacts::default() };
        change(&mut facts, &mut user);
        facts.user = facts.user.or(Some(user));
        facts
    }

    fn decide(facts: &UserFacts, power: Power, powers: &Powers) -> Result<(), Denial> {
        let who = SlackActor { user: "U1".into(), team: "T1".into(), is_bot: false };
        let place = RequestPlace { channel: "C1".into(), ..RequestPlace::default() };
        authorise(&who, facts, &place, power, powers)
    }

    fn powers(groups: &[&str], users: &[&str], channels: &[&str]) -> Powers {
        let own = |names: &[&str]| names.iter().map(ToString::to_string).collect();
        Powers { groups: own(groups), users: own(users), channels: own(channels) }
    }

    const ALL: [Power; 3] = [Power::Read, Power::Note, Power::Act];

    #[test]
    fn while_nobody_is_configured_members_read_and_note_but_silence_nothing() {
        let member = facts(|_, _| {});
        let answers = ALL.map(|power| decide(&member, power, &Powers::default()));
        assert_eq!(answers, [Ok(()), Ok(()), Err(Denial::Nobody)]);
    }

    #[test]
    fn the_named_the_members_of_a_group_and_those_in_a_channel_may_act_and_others_only_read() {
        let member = facts(|_, _| {});
        let on_call = facts(|facts, _| facts.groups = ["S1".to_owned()].into());
        for (facts, powers, may_act) in [
            (&member, powers(&[], &["U1"], &[]), true),
            (&on_call, powers(&["S1"], &[], &[]), true),
            (&member, powers(&[], &[], &["C1"]), true),
            (&member, powers(&["S1"], &["U2"], &["C2"]), false),
        ] {
            assert_eq!(decide(facts, Power::Read, &powers), Ok(()));
            let expected = if may_act { Ok(()) } else { Err(Denial::NotNamed) };
            assert_eq!(decide(facts, Power::Act, &powers), expected, "{powers:?}");
            assert_eq!(decide(facts, Power::Note, &powers), expected, "{powers:?}");
        }
    }

    #[test]
    fn programs_strangers_guests_and_closed_accounts_are_refused_everything() {
        let everything = powers(&[], &[], &["C1"]);
        let cases: [(UserFacts, Denial); 6] = [
            (facts(|_, user| user.is_bot = true), Denial::Bot),
            (facts(|_, user| user.is_stranger = true), Denial::Stranger),
            (facts(|_, user| user.team_id = Some("T2".into())), Denial::Stranger),
            (facts(|_, user| user.deleted = true), Denial::Gone),
            (facts(|_, user| user.is_restricted = true), Denial::Guest),
            (facts(|_, user| user.is_ultra_restricted = true), Denial::Guest),
        ];
        for (facts, expected) in cases {
            for power in ALL {
                assert_eq!(decide(&facts, power, &everything), Err(expected), "{power:?}");
            }
        }
        let who = SlackActor { user: "U1".into(), team: "T2".into(), is_bot: false };
        let answer =
            authorise(&who, &facts(|_, _| {}), &RequestPlace::default(), Power::Read, &powers(&[], &["U1"], &[]));
        assert_eq!(answer, Err(Denial::Stranger), "Slack says that it was done from another workspace");
    }

    #[test]
    fn a_guest_whom_the_configuration_names_may() {
        let guest = facts(|_, user| user.is_restricted = true);
        assert_eq!(decide(&guest, Power::Act, &powers(&[], &["U1"], &[])), Ok(()));
    }

    #[test]
    fn while_slack_does_not_answer_people_read_and_only_the_named_act() {
        let dark = UserFacts { own_team: Some("T1".into()), groups_unknown: true, ..UserFacts::default() };
        assert_eq!(decide(&dark, Power::Read, &powers(&["S1"], &[], &[])), Ok(()));
        assert_eq!(decide(&dark, Power::Act, &powers(&["S1"], &[], &["C1"])), Err(Denial::Unknown));
        assert_eq!(decide(&dark, Power::Act, &powers(&[], &["U1"], &[])), Ok(()));
        let half = facts(|facts, _| facts.groups_unknown = true);
        assert_eq!(decide(&half, Power::Act, &powers(&["S1"], &[], &[])), Err(Denial::Unknown));
    }
}
