//! Acts of people, as the next incident of the same cause names them.

use super::bench::Bench;
use super::{NOWHERE, ON_CALL};
use crate::running::group;

#[tokio::test]
async fn the_next_incident_of_the_cause_names_what_was_done_without_secrets() {
    let bench = Bench::start_at("http://pages.example", ON_CALL, &[], NOWHERE).await;
    let first = bench.incident("LLMHighTTFT", "firing", true).await;
    let step = bench.step(&first, 0).await;
    bench.press("U0ANN", "done:0", &step).await;
    let wrong = [("cause", "other"), ("comment", "mail ops@corp.example")];
    bench.submit("U0ANN", "wrong", &first, &wrong).await;
    assert_eq!(bench.audit().await, ["done U0ANN done", "wrong U0ANN done"], "{:?}", bench.said());
    let shown = async |id: &str| {
        let incident = bench.store.incident_with_related(id).await.unwrap().unwrap();
        let body = render::slack(&bench.desk.service.notifier.message(&incident).await);
        serde_json::to_string(&body).unwrap()
    };
    assert!(!shown(&first).await.contains("last time"));
    bench.admit(&group("LLMHighTTFT", "resolved", "warning", &["a", "b"])).await;
    let second = bench.incident("LLMSlow", "firing", true).await;
    let told = shown(&second).await;
    let link = format!("<http://pages.example/incidents/{first}|");
    for part in ["Same cause here last time", link.as_str(), "Done then: ", "judged *wrong*"] {
        assert!(told.contains(part), "{part}: {told}");
    }
    assert!(told.contains("mail ") && !told.contains("ops@corp.example"), "{told}");
    // Both are open from now on, in one pool.
    let third = bench.incident("LLMLate", "firing", true).await;
    for (one, other) in [(&second, &third), (&third, &second)] {
        let told = shown(one).await;
        assert!(told.contains(&format!("In this pool: <http://pages.example/incidents/{other}|")), "{told}");
    }
}
