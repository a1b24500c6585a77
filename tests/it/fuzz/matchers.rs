//! Alert labels ─▶ PromQL: any text becomes one matcher of exactly that text.

use std::io::Write;
use std::process::Command;

use knowledge::promql::parse;
use knowledge::signal::{Fill, Matcher, any_of, fill, matchers};
use promql_parser::label::MatchOp;
use promql_parser::parser::Expr;
use proptest::prelude::*;

use super::holds;

/// Any text, and often characters that mean something in PromQL or in regular expressions.
fn value() -> impl Strategy<Value = String> {
    let meaning = "[\"'`\\\\{}(),=~!|.*+?^$\\[\\]\n\r\t #a-c0/-]{0,12}";
    prop_oneof![any::<String>(), meaning, Just(String::new())]
}

fn name() -> impl Strategy<Value = String> {
    prop_oneof!["[a-zA-Z_][a-zA-Z0-9_]{0,8}", value()]
}

/// The matchers of a selector, by the parser.
fn parsed(selector: &str) -> Result<Vec<promql_parser::label::Matcher>, TestCaseError> {
    match parse(&format!("up{{{selector}}}")) {
        Ok(Expr::VectorSelector(found)) if found.matchers.or_matchers.is_empty() => Ok(found.matchers.matchers),
        other => Err(TestCaseError::fail(format!("{selector}: {other:?}"))),
    }
}

fn is_identifier(name: &str) -> bool {
    name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
        && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
}

#[test]
fn labels_of_any_text_become_matchers_of_exactly_that_text() {
    let one = (name(), prop::collection::vec(value(), 1..4), any::<bool>());
    holds((prop::collection::vec(one, 0..4), value()), |(all, other)| {
        let list: Vec<Matcher> =
            all.into_iter().map(|(label, values, or_absent)| Matcher { label, values, or_absent }).collect();
        let found = parsed(&matchers(&list))?;
        let wanted: Vec<&Matcher> = list.iter().filter(|matcher| is_identifier(&matcher.label)).collect();
        prop_assert_eq!(found.len(), wanted.len());
        for (found, wanted) in found.iter().zip(wanted) {
            prop_assert_eq!(&found.name, &wanted.label);
            prop_assert!(matches!(found.op, MatchOp::Equal | MatchOp::Re(_)), "{:?}", found);
            for value in wanted.values.iter().chain([&other]) {
                prop_assert_eq!(found.is_match(value), wanted.accepts(Some(value)), "{:?} {:?}", found, value);
            }
            prop_assert_eq!(found.is_match(""), wanted.accepts(None));
        }
        Ok(())
    });
}

#[test]
fn a_query_holds_the_matchers_as_they_are() {
    holds((prop::collection::vec(value(), 1..4), any::<bool>()), |(values, has_by)| {
        let scope = matchers(&[Matcher { label: "model".to_owned(), values, or_absent: false }]);
        let by = ["pod".to_owned()];
        let with = Fill { scope: &scope, by: if has_by { &by } else { &[] }, ..Fill::default() };
        let query = fill("sum by (le, $by) (rate(vllm:x_bucket{code=\"500\", $scope}[$window]))", &with);
        prop_assert!(query.contains(&format!("{{code=\"500\", {scope}}}[")), "{} in {}", scope, query);
        prop_assert!(parse(&query).is_ok(), "{}", query);
        Ok(())
    });
}

/// A YAML string of ASCII only: any text can be written so.
fn yaml(text: &str) -> String {
    let plain = |c: char| c.is_ascii_graphic() && !"\"\\".contains(c) || c == ' ';
    let one = |c: char| if plain(c) { c.to_string() } else { format!("\\U{:08X}", u32::from(c)) };
    format!("\"{}\"", text.chars().map(one).collect::<String>())
}

#[test]
fn prometheus_itself_reads_matchers_of_any_text() {
    // Many at once, because every run is a process.
    let all = prop::collection::vec((prop::collection::vec(value(), 1..3), any::<bool>()), 1..200);
    super::of_costly(20, all, |all| {
        let rule = |(n, (values, or_absent)): (usize, (Vec<String>, bool))| {
            let matcher = Matcher { label: "model".to_owned(), values, or_absent };
            format!("  - {{ record: \"a:b{n}\", expr: {} }}\n", yaml(&format!("up{{{}}}", matchers(&[matcher]))))
        };
        let rules: String = all.into_iter().enumerate().map(rule).collect();
        let mut file = tempfile::NamedTempFile::new().unwrap();
        write!(file, "groups:\n- name: a\n  rules:\n{rules}").unwrap();
        let output = Command::new("promtool").args(["check", "rules"]).arg(file.path()).output().unwrap();
        prop_assert!(output.status.success(), "{}\n{}", String::from_utf8_lossy(&output.stderr), rules);
        Ok(())
    });
}

#[test]
fn any_of_several_values_matches_them_and_nothing_else() {
    holds((name(), prop::collection::vec(value(), 0..4), value()), |(label, values, other)| {
        let Some(selector) = any_of(&label, &values) else {
            prop_assert!(values.is_empty() || !is_identifier(&label));
            return Ok(());
        };
        let found = parsed(&selector)?;
        prop_assert_eq!(found.len(), 1);
        for value in values.iter().chain([&other]) {
            prop_assert_eq!(found[0].is_match(value), values.contains(value), "{:?} {:?}", found, value);
        }
        Ok(())
    });
}
