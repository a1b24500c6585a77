//! Conditions of playbooks: what is printed is read back, and what cannot be read is named.

use knowledge::playbook::{Comparison, Condition, Op, Reference};
use proptest::prelude::*;

use super::holds;
use super::mutation::mutated_text;

fn condition() -> impl Strategy<Value = Condition> {
    let number = || any::<f64>().prop_filter("finite", |number| number.is_finite());
    let op = proptest::sample::select(vec![Op::Above, Op::AtLeast, Op::Below, Op::AtMost]);
    let to = prop_oneof![
        number().prop_map(Reference::Number),
        number().prop_map(Reference::Baseline),
        number().prop_map(Reference::Peers),
    ];
    let comparison = (op, to).prop_map(|(op, to)| Comparison { op, to });
    prop_oneof![
        1 => Just(Condition::Absent),
        1 => Just(Condition::Present),
        1 => Just(Condition::NoData),
        9 => prop::collection::vec(comparison, 1..4).prop_map(Condition::All),
    ]
}

#[test]
fn a_condition_that_is_printed_is_read_back() {
    holds(condition(), |condition| {
        prop_assert_eq!(condition.to_string().parse::<Condition>(), Ok(condition));
        Ok(())
    });
}

#[test]
fn a_text_is_a_condition_that_prints_as_the_same_or_an_error_that_says_what_is_wrong() {
    let forms = ["> 0.9", "<= 5", "> 1.5x baseline", "> 2x peers and > 0.05", "absent", "no data"];
    let corpus = forms.map(|form| form.as_bytes().to_vec()).to_vec();
    let tokens = &[" and ", ">=", "<", "x", "baseline", "peers", "e308", "-", ".", "inf", "NaN", "\u{a0}", "0x1p4"];
    holds(mutated_text(corpus, tokens), |text| {
        match text.parse::<Condition>() {
            Ok(condition) => prop_assert_eq!(condition.to_string().parse(), Ok(condition)),
            Err(error) => prop_assert!(error.starts_with("condition `"), "{}", error),
        }
        Ok(())
    });
}
