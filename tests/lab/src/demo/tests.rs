use std::path::Path;
use std::time::{Duration, Instant};

use super::Options;
use super::narrator::Folding;
use super::scenario::Scenario;
use crate::sim::Fault;

fn read(arguments: &[&str], fault: Option<&str>) -> anyhow::Result<Options> {
    let variable = |name: &str| match name {
        "FAULT" => fault.map(ToOwned::to_owned),
        "LLM_DIAGNOSE" => Some("/bin/llm-diagnose".to_owned()),
        _ => None,
    };
    Options::read(arguments.iter().map(ToString::to_string), variable)
}

#[test]
fn without_a_wish_the_prompts_become_longer() {
    // `make demo` passes an empty variable.
    for options in [read(&[], None), read(&[], Some(""))] {
        let options = options.unwrap();
        assert_eq!(options.scenario.faults, [Fault::LongerPrompts { factor: 3.0 }]);
        assert!(!options.keep);
    }
}

#[test]
fn an_argument_wins_over_the_variable_and_an_unknown_fault_gets_the_list() {
    let options = read(&["slot-limit:limit=4", "--keep"], Some("bad-replica")).unwrap();
    assert_eq!((options.scenario.faults, options.keep), (vec![Fault::SlotLimit { limit: 4 }], true));
    let error = format!("{:#}", read(&[], Some("longer-prompt")).unwrap_err());
    assert!(Fault::ALL.iter().all(|fault| error.contains(fault.name())), "{error}");
    assert!(read(&["--replicas", "2"], None).is_err() && read(&["--fast"], None).is_err());
    assert!(read(&["--pictures"], None).is_err());
    let options = read(&["slot-limit", "--pictures", "docs/images"], None).unwrap();
    assert_eq!(options.pictures.as_deref(), Some(Path::new("docs/images")));
}

#[test]
fn a_tour_is_asked_for_by_argument_or_mode_and_has_a_number_of_stops() {
    assert_eq!(read(&[], None).unwrap().tour, None);
    assert_eq!(read(&["--tour"], None).unwrap().tour, Some(8));
    assert_eq!(read(&["--tour", "--stops", "2"], None).unwrap().tour, Some(2));
    let mode = |mode: &'static str| {
        Options::read(std::iter::empty(), move |name| match name {
            "MODE" => Some(mode.to_owned()),
            "LLM_DIAGNOSE" => Some("/bin/llm-diagnose".to_owned()),
            _ => None,
        })
    };
    assert_eq!((mode("tour").unwrap().tour, mode("").unwrap().tour), (Some(8), None));
    for other in [&["--tour", "slot-limit"][..], &["--tour", "--replicas", "8"], &["--tour", "--pictures", "x"]] {
        assert!(read(other, None).is_err(), "{other:?}");
    }
    assert!(read(&["--tour"], Some("slot-limit")).is_err());
    assert!(mode("tor").is_err() && read(&["--stops", "9"], None).is_err() && read(&["--stops", "0"], None).is_err());
}

#[test]
fn two_thirds_of_the_replicas_are_lost_unless_one_is_named() {
    assert_eq!(Scenario::read("lost-replica", 6).unwrap().faults.len(), 4);
    assert_eq!(Scenario::read("lost-replica:replica=5", 6).unwrap().faults, [Fault::LostReplica { replica: 5 }]);
}

#[test]
fn a_chain_is_right_by_its_root_and_the_mechanism_on_the_way() {
    let expected = Scenario::read("prefill-bound", 6).unwrap().expected;
    let chain = |ids: &[&str]| ids.iter().map(ToString::to_string).collect::<Vec<_>>();
    assert!(expected.is_met(&chain(&["high-ttft", "prefill-bound", "longer-prompts"])));
    assert!(!expected.is_met(&chain(&["high-ttft", "kv-cache-full", "longer-prompts"])));
    assert!(!expected.is_met(&chain(&["high-ttft", "prefill-bound"])));
    assert!(!expected.is_met(&[]) && !expected.is_near(&[]));
    assert!(expected.is_near(&chain(&["high-ttft", "prefill-bound"])) && !expected.is_near(&chain(&["high-ttft"])));
    assert!(!expected.is_near(&chain(&["kv-cache-pressure", "longer-prompts"])));
    let any_root = Scenario::read("bad-replica", 6).unwrap().expected;
    assert!(any_root.is_met(&chain(&["high-ttft", "bad-replica"])) && !any_root.is_met(&[]));
}

#[test]
fn a_message_is_shown_in_full_once_and_then_down_to_its_chain() {
    let message = |state: &str, why: &str| {
        format!("▌ {state} · slow · {why}\n\nConfirmed\n\nWhy\n  ← {why}\n\nDo now\n  1. x\n\n")
    };
    let mut folding = Folding::default();
    let start = Instant::now();
    let mut shown = |seconds: u64, text: String| {
        text.lines().filter(|line| folding.shows(line, start + Duration::from_secs(seconds))).count()
    };
    assert_eq!(shown(0, message("WARNING", "surge")), 10);
    assert_eq!(shown(10, message("WARNING", "surge")), 0);
    assert_eq!(shown(11, message("CRITICAL", "surge")), 7);
    assert_eq!(shown(40, message("CRITICAL", "surge")), 7);
    assert_eq!(shown(41, message("CRITICAL", "crash")), 10);
    assert_eq!(shown(42, message("RESOLVED after 9 s", "crash")), 7);
}
