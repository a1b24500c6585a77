//! What an answer is worth, and the table of all answers of a tool.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;

use super::Answer;

/// A tool's own name of a cause to the causes of the benchmark that it may mean; a name that is not listed stands for itself.
pub type Names = BTreeMap<String, Vec<String>>;

/// How many candidates count.
const CANDIDATES: usize = 3;

/// The grades of one answer.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Graded {
    /// The engine of the case.
    pub engine: String,
    /// True if nothing was wrong with the server.
    pub is_healthy: bool,
    /// The root is an accepted cause.
    pub is_root: bool,
    /// The root or a link of the chain is an accepted cause.
    pub is_in_chain: bool,
    /// An accepted cause is the root or among the first candidates, three in all.
    pub is_among_three: bool,
    /// The tool commits itself to nothing.
    pub is_abstained: bool,
    /// The tool commits itself to a root, and neither it nor a link of its chain is accepted; of a healthy server, to any root.
    pub is_wrong: bool,
    /// Of a healthy server: the tool answers, and names neither a root nor a link.
    pub is_quiet: bool,
    /// The tool gave no answer.
    pub is_failed: bool,
}

impl Graded {
    /// Grades an answer by the accepted causes, of which a healthy server has none. No answer counts as abstained.
    pub fn new(engine: &str, accepted: &[String], names: &Names, answer: Option<&Answer>) -> Self {
        let blank = Answer::default();
        let said = answer.unwrap_or(&blank);
        let meant = |name: &String| names.get(name).cloned().unwrap_or_else(|| vec![name.clone()]);
        let is_accepted = |name: &String| meant(name).iter().any(|cause| accepted.contains(cause));
        let (is_abstained, is_healthy) = (said.is_abstained(), accepted.is_empty());
        let is_root = !is_abstained && said.root.iter().any(is_accepted);
        let is_in_chain = is_root || (!is_abstained && said.chain.iter().any(is_accepted));
        let mut seen = BTreeSet::new();
        let named = said.root.iter().chain(&said.candidates).filter(|name| seen.insert(*name));
        Self {
            engine: engine.to_owned(),
            is_healthy,
            is_root,
            is_in_chain,
            is_among_three: named.take(CANDIDATES).any(is_accepted),
            is_abstained,
            is_wrong: !is_abstained && !is_in_chain,
            is_quiet: is_healthy && answer.is_some() && is_abstained && said.chain.is_empty(),
            is_failed: answer.is_none(),
        }
    }
}

/// A row for each engine of a tool's answers, and one for all of them.
pub fn table(answers: &[(String, Vec<Graded>)]) -> String {
    let mut out = String::from(
        "| tool | engine | root | chain | among three | abstained | confidently wrong | healthy kept quiet | false alarms | no answer |\n\
         |---|---|---|---|---|---|---|---|---|---|\n",
    );
    for (tool, answers) in answers {
        let engines: BTreeSet<&str> = answers.iter().map(|answer| answer.engine.as_str()).collect();
        for engine in engines.into_iter().map(Some).chain([None]) {
            let mine = || answers.iter().filter(move |answer| engine.is_none_or(|engine| answer.engine == engine));
            let count = |is: fn(&Graded) -> bool, healthy: bool| {
                mine().filter(|answer| answer.is_healthy == healthy && is(answer)).count()
            };
            let (faults, healthy) = (count(|_| true, false), count(|_| true, true));
            let of_faults = |is: fn(&Graded) -> bool| format!("{} of {faults}", count(is, false));
            // Writing to a string never fails.
            let _ = writeln!(
                out,
                "| {tool} | {} | {} | {} | {} | {} | {} | {} of {healthy} | {} | {} |",
                engine.unwrap_or("**all**"),
                of_faults(|a| a.is_root),
                of_faults(|a| a.is_in_chain),
                of_faults(|a| a.is_among_three),
                count(|a| a.is_abstained, false),
                count(|a| a.is_wrong, false),
                count(|a| a.is_quiet, true),
                count(|a| a.is_wrong, true),
                mine().filter(|answer| answer.is_failed).count(),
            );
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answer(root: Option<&str>, chain: &[&str], candidates: &[&str]) -> Answer {
        let texts = |words: &[&str]| words.iter().map(|word| (*word).to_owned()).collect();
        Answer { root: root.map(str::to_owned), chain: texts(chain), candidates: texts(candidates), abstained: false }
    }

    fn graded(accepted: &[&str], answer: Option<&Answer>) -> Graded {
        let accepted: Vec<String> = accepted.iter().map(|cause| (*cause).to_owned()).collect();
        let names = Names::from([("Queue pressure".to_owned(), vec!["slot-limit".to_owned()])]);
        Graded::new("vllm", &accepted, &names, answer)
    }

    #[test]
    fn an_accepted_root_counts_by_the_tools_own_name_too() {
        for root in ["slot-limit", "Queue pressure"] {
            let grades = graded(&["slot-limit"], Some(&answer(Some(root), &[], &[])));
            assert!(grades.is_root && grades.is_in_chain && grades.is_among_three && !grades.is_wrong, "{grades:?}");
        }
    }

    #[test]
    fn a_right_link_above_a_wrong_root_is_a_right_chain_and_not_wrong() {
        let grades = graded(&["slot-limit"], Some(&answer(Some("surge"), &["queue", "slot-limit", "surge"], &[])));
        assert!(!grades.is_root && grades.is_in_chain && !grades.is_among_three && !grades.is_wrong, "{grades:?}");
    }

    #[test]
    fn only_three_candidates_count_with_the_root_as_the_first() {
        let among =
            |candidates: &[&str]| graded(&["slot-limit"], Some(&answer(Some("a"), &[], candidates))).is_among_three;
        assert!(among(&["a", "b", "slot-limit"]));
        assert!(!among(&["b", "c", "slot-limit"]));
    }

    #[test]
    fn an_answer_that_abstains_is_neither_right_nor_wrong() {
        let said = Answer { abstained: true, ..answer(Some("slot-limit"), &["slot-limit"], &[]) };
        for said in [said, answer(None, &["slot-limit"], &["slot-limit"])] {
            let grades = graded(&["slot-limit"], Some(&said));
            assert!(
                grades.is_abstained && !grades.is_in_chain && !grades.is_wrong && grades.is_among_three,
                "{grades:?}"
            );
        }
    }

    #[test]
    fn a_root_without_a_right_link_is_confidently_wrong() {
        assert!(graded(&["slot-limit"], Some(&answer(Some("surge"), &["queue"], &["slot-limit"]))).is_wrong);
    }

    #[test]
    fn a_healthy_server_is_kept_quiet_only_by_an_answer_that_names_nothing() {
        assert!(graded(&[], Some(&answer(None, &[], &[]))).is_quiet);
        assert!(!graded(&[], Some(&answer(None, &["queue"], &[]))).is_quiet);
        let alarm = graded(&[], Some(&answer(Some("slot-limit"), &[], &[])));
        assert!(!alarm.is_quiet && alarm.is_wrong, "{alarm:?}");
        let failed = graded(&[], None);
        assert!(!failed.is_quiet && failed.is_abstained && failed.is_failed, "{failed:?}");
    }

    #[test]
    fn the_table_has_a_row_for_each_engine_and_one_for_all() {
        let right = graded(&["slot-limit"], Some(&answer(Some("slot-limit"), &[], &[])));
        let other = Graded { engine: "ray".to_owned(), ..graded(&["slot-limit"], None) };
        let table = table(&[("mine".to_owned(), vec![right, other])]);
        let rows: Vec<&str> = table.lines().skip(2).collect();
        assert_eq!(rows.len(), 3, "{table}");
        assert!(rows[0].starts_with("| mine | ray | 0 of 1 | 0 of 1 | 0 of 1 | 1 | 0 |"), "{table}");
        assert!(
            rows[2].starts_with("| mine | **all** | 1 of 2 | 1 of 2 | 1 of 2 | 1 | 0 | 0 of 0 | 0 | 1 |"),
            "{table}"
        );
    }
}
