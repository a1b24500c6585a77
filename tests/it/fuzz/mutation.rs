//! Mutations: of bytes, of JSON values.

use proptest::prelude::*;
use proptest::sample::Index;
use serde_json::{Value, json};

/// One change of a text.
#[derive(Debug, Clone)]
enum Change {
    Flip(Index, u8),
    Cut(Index),
    Remove(Index, usize),
    Double(Index, usize),
    Insert(Index, Vec<u8>),
    /// A part of another text of the corpus.
    Splice(Index, Index, Index, usize),
}

fn change(tokens: &'static [&'static str]) -> impl Strategy<Value = Change> {
    let at = || any::<Index>();
    prop_oneof![
        (at(), 1..=255_u8).prop_map(|(at, bits)| Change::Flip(at, bits)),
        at().prop_map(Change::Cut),
        (at(), 1..40_usize).prop_map(|(at, length)| Change::Remove(at, length)),
        (at(), 1..200_usize).prop_map(|(at, length)| Change::Double(at, length)),
        (at(), proptest::sample::select(tokens)).prop_map(|(at, token)| Change::Insert(at, token.as_bytes().to_vec())),
        (at(), at(), at(), 1..400_usize).prop_map(|(at, of, from, length)| Change::Splice(at, of, from, length)),
    ]
}

fn apply(text: &mut Vec<u8>, change: &Change, corpus: &[Vec<u8>]) {
    // One place behind the last byte is a place too.
    let place = |at: &Index, text: &[u8]| at.index(text.len() + 1);
    match change {
        Change::Flip(at, bits) => {
            let at = place(at, text);
            text.iter_mut().skip(at).take(1).for_each(|byte| *byte ^= bits);
        }
        Change::Cut(at) => text.truncate(place(at, text)),
        Change::Remove(at, length) => {
            let at = place(at, text);
            text.drain(at..text.len().min(at + length));
        }
        Change::Double(at, length) => {
            let at = place(at, text);
            let part = text[at..text.len().min(at + length)].to_vec();
            text.splice(at..at, part);
        }
        Change::Insert(at, token) => {
            let at = place(at, text);
            text.splice(at..at, token.iter().copied());
        }
        Change::Splice(at, of, from, length) => {
            let (at, other) = (place(at, text), of.get(corpus));
            let from = place(from, other);
            text.splice(at..at, other[from..other.len().min(from + length)].iter().copied());
        }
    }
}

/// A text of the corpus after up to six changes; `tokens` are what the format gives a meaning.
pub(super) fn mutated(corpus: Vec<Vec<u8>>, tokens: &'static [&'static str]) -> impl Strategy<Value = Vec<u8>> {
    (any::<Index>(), prop::collection::vec(change(tokens), 0..7)).prop_map(move |(which, changes)| {
        let mut text = which.get(&corpus).clone();
        changes.iter().for_each(|change| apply(&mut text, change, &corpus));
        text
    })
}

/// As [`mutated`], as text.
pub(super) fn mutated_text(corpus: Vec<Vec<u8>>, tokens: &'static [&'static str]) -> impl Strategy<Value = String> {
    mutated(corpus, tokens).prop_map(|bytes| String::from_utf8_lossy(&bytes).into_owned())
}

/// A value of any type; numbers are integers, because JSON has no other ones exactly.
pub(super) fn scalar() -> impl Strategy<Value = Value> {
    prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<String>().prop_map(Value::from),
        Just(json!([])),
        Just(json!({})),
        Just(json!("x".repeat(5_000))),
    ]
}

/// A JSON value of the corpus in which up to three values, anywhere, were replaced or left out.
pub(super) fn mutated_json(corpus: Vec<Vec<u8>>) -> impl Strategy<Value = Value> {
    let values: Vec<Value> = corpus.iter().map(|text| serde_json::from_slice(text).unwrap()).collect();
    let changes = prop::collection::vec((any::<Index>(), prop::option::of(scalar())), 0..4);
    (proptest::sample::select(values), changes).prop_map(|(mut value, changes)| {
        for (at, new) in changes {
            let mut left = at.index(places(&value).max(1));
            change_value(&mut value, &mut left, &new);
        }
        value
    })
}

/// How many values stand inside a value.
fn places(value: &Value) -> usize {
    match value {
        Value::Array(all) => all.iter().map(|one| 1 + places(one)).sum(),
        Value::Object(fields) => fields.values().map(|one| 1 + places(one)).sum(),
        _ => 0,
    }
}

/// Replaces, or removes, the value that is `left` places away; true once it is done.
fn change_value(value: &mut Value, left: &mut usize, new: &Option<Value>) -> bool {
    let mut goes = None;
    match value {
        Value::Array(all) => {
            for (at, one) in all.iter_mut().enumerate() {
                if *left == 0 {
                    goes = Some(at);
                    break;
                }
                *left -= 1;
                if change_value(one, left, new) {
                    return true;
                }
            }
            match (goes, new) {
                (Some(at), Some(new)) => all[at] = new.clone(),
                (Some(at), None) => drop(all.remove(at)),
                (None, _) => return false,
            }
            true
        }
        Value::Object(fields) => {
            let names: Vec<String> = fields.keys().cloned().collect();
            for name in names {
                if *left == 0 {
                    match new {
                        Some(new) => fields.insert(name, new.clone()),
                        None => fields.remove(&name),
                    };
                    return true;
                }
                *left -= 1;
                if change_value(&mut fields[&name], left, new) {
                    return true;
                }
            }
            false
        }
        _ => false,
    }
}
