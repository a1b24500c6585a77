//! A whole bundle: of all sources, of what is left when one of them fails, and of what somebody planted in them.

mod site;

use std::time::Duration;

use llm_diagnose::report::{HappenedKind, Stage};

use crate::harness::{self, shared};
use site::{Bundle, Site, alert, nothing, options, subject};

/// Long enough for a busy machine.
const LONG: Duration = Duration::from_secs(60);

/// Runs a future beside the shared Prometheus, which has to be started from outside of any.
fn run<T>(future: impl Future<Output = T>) -> T {
    shared();
    harness::run(future)
}

#[test]
fn all_sources_answer_the_seven_questions_and_every_file_is_there() {
    let bundle = run(async {
        let site = Site::new().await;
        Bundle::of(&site.sources().await, &subject(vec![alert()]), &options(LONG)).await
    });
    if let Ok(dir) = std::env::var("KEEP_BUNDLE") {
        std::fs::write(dir, &bundle.bytes).unwrap();
    }
    bundle.assert_whole_but(&[]);
}
