//! Planted secrets ─▶ none survives in text, JSON or labels; what people need to read stays; names become pseudonyms.

use std::borrow::Cow;
use std::io::{Cursor, Write};

use knowledge::playbook::{self, Lint, Redaction};
use message::Line;
use service::config::Config;

use redact::{Kind, Redactor};

use serde_json::{Value, json};
use slack::Slack;

use crate::harness::{INNOCENT, assert_clean, innocent, library, planted, redactor};
use crate::running::{CHANNEL, Running, SOON, group, whole};

#[test]
fn no_planted_secret_survives_in_a_text() {
    let redactor = redactor(false);
    let mut left = Vec::new();
    for one in planted() {
        assert!(one.text.contains(&one.secret), "{}", one.name);
        let clean = redactor.text("a", &one.text);
        if clean.contains(&one.secret) || clean.contains("LEAK") {
            left.push(format!("{}: {clean}", one.name));
        }
    }
    assert!(left.is_empty(), "{} of {} left:\n{}", left.len(), planted().len(), left.join("\n"));
}

#[test]
fn no_planted_secret_survives_in_json_or_a_label() {
    let redactor = redactor(false);
    let mut left = Vec::new();
    for one in planted() {
        let mut value = json!({"lines": [one.text], "deep": {"x": [[{"y": one.text}]]}, one.text.clone(): 1});
        redactor.json("a", &mut value);
        let label = redactor.label("a", "message", &one.text);
        // As the value that it is, where the dress is JSON.
        let mut parsed: Value = serde_json::from_str(&one.text).unwrap_or_default();
        redactor.json("a", &mut parsed);
        for shown in [value.to_string(), label.into_owned(), parsed.to_string()] {
            if shown.contains("LEAK") {
                left.push(format!("{}: {shown}", one.name));
            }
        }
    }
    assert!(left.is_empty(), "{} left:\n{}", left.len(), left.join("\n"));
}

#[test]
fn what_a_secret_field_holds_goes_from_other_texts_however_deep_it_stands() {
    let redactor = redactor(false);
    let alert = json!({"labels": {"password": {"old": ["correct-horse"], "new": {"x": [["battery-staple"]]}}}});
    redactor.learn_from(&alert);
    for innocent in ["correct-horse", "battery-staple"] {
        let clean = redactor.text("a", &format!("it logs in as {innocent} again")).into_owned();
        assert!(!clean.contains(innocent) && clean.starts_with("it logs in as "), "{clean}");
    }
}

#[test]
fn as_many_secrets_as_are_promised_are_known_by_their_fields() {
    let redactor = redactor(false);
    let all: Vec<Value> = (0..300).map(|n| json!({"password": format!("innocent-word-{n:03}")})).collect();
    redactor.learn_from(&all);
    let left = (0..300).filter(|n| redactor.text("a", &format!("the innocent-word-{n:03} here")).contains("innocent"));
    assert_eq!(left.collect::<Vec<_>>(), (256..300).collect::<Vec<_>>());
}

#[test]
fn what_people_must_read_stays_as_it_is() {
    let redactor = redactor(false);
    for text in INNOCENT {
        let clean = redactor.text("a", text);
        assert_eq!(clean, text);
        assert!(matches!(clean, Cow::Borrowed(_)), "{text} was copied");
    }
    for page in [
        "vllm/0.32-healthy-t0",
        "sglang/0.5.23-healthy-t0",
        "litellm/1.106-healthy-t1",
        "dynamo/1.6-frontend-healthy-t0",
    ] {
        // A user of the gateway is not among what people must read.
        let page = crate::harness::fixture(&format!("{page}.prom")).replace("user=\"alice\"", "user=\"\"");
        let clean = redactor.text("a", &page);
        let differs = page.lines().zip(clean.lines()).find(|(before, after)| before != after);
        assert_eq!(differs, None);
    }
    // What the judge reads in logs must still be readable.
    for example in library().logs.values().flat_map(|log| &log.findings).flat_map(|finding| &finding.examples) {
        assert_eq!(redactor.text("a", example), example.as_str());
    }
    assert_eq!(redactor.redactions(), []);
}

#[test]
fn our_own_documents_pass_untouched() {
    let redactor = redactor(false);
    for name in ["diagnoses/bad-replica.high-itl.json", "diagnoses/longer-prompts.high-ttft.json"] {
        let before: Value = serde_json::from_str(&crate::harness::fixture(name)).unwrap();
        let mut after = before.clone();
        redactor.json(name, &mut after);
        assert_eq!(after, before, "{name}");
    }
    assert_eq!(redactor.redactions(), []);
}

#[test]
fn a_lost_field_tells_what_it_was_and_nothing_beside_it_is_lost() {
    let redactor = redactor(false);
    let mut value = json!({
        "tp_size": 8, "hf_token": 12345, "api_key": ["a", "b"], "admin_api_key": null, "require_token": true,
        "ssl_keyfile_password": {"x": 1}, "max_tokens": 256, "tokenizer": "llama", "prompt_tokens": 12,
        "args": ["--model", "m", "--api-key", "k1", "k2", "--port", "8000", "--hf-token", "x", "positional"],
        "env": [{"name": "HF_TOKEN", "value": "x"}, {"name": "A", "value": "b"}],
        "headers": [["authorization", "x"], ["host", "y"]],
        "messages": [{"role": "user", "content": "hello"}],
        "input_ids": [1, 2], "input": {"p50": 1204.0}, "HF_TOKEN_x": "$(HF_TOKEN)",
        "finding": {"text": "CUDA out of memory"}, "answer": {"text": "hello", "meta_info": {"prompt_tokens": 5}},
    });
    redactor.json("pods.json", &mut value);
    let gone = "[redacted: secret-field]";
    assert_eq!(
        value,
        json!({
            "tp_size": 8, "hf_token": gone, "api_key": [gone], "admin_api_key": null, "require_token": true,
            "ssl_keyfile_password": gone, "max_tokens": 256, "tokenizer": "llama", "prompt_tokens": 12,
            "args": ["--model", "m", "--api-key", "[redacted: argument]", "[redacted: argument]", "--port", "8000",
                     "--hf-token", "[redacted: argument]", "positional"],
            "env": [{"name": "HF_TOKEN", "value": gone}, {"name": "A", "value": "[redacted: variable]"}],
            "headers": [["authorization", "[redacted: authorization]"], ["host", "y"]],
            "messages": ["[redacted: prompt]"],
            "input_ids": ["[redacted: token-ids]"], "input": {"p50": 1204.0}, "HF_TOKEN_x": "$(HF_TOKEN)",
            "finding": {"text": "CUDA out of memory"},
            "answer": {"text": "[redacted: message]", "meta_info": {"prompt_tokens": 5}},
        })
    );
    let found = redactor.redactions();
    assert!(found.iter().all(|one| one.place == "pods.json"));
    let counts: Vec<_> = found.iter().map(|one| (one.rule.as_str(), one.count)).collect();
    assert_eq!(
        counts,
        [
            ("argument", 3),
            ("authorization", 1),
            ("message", 1),
            ("prompt", 1),
            ("secret-field", 4),
            ("token-ids", 1),
            ("variable", 1)
        ]
    );
}

#[test]
fn redacting_twice_changes_nothing_more() {
    for anonymize in [false, true] {
        let redactor = redactor(anonymize);
        redactor.learn(Kind::Pod, "llama-70b-7c9f8d6b5-x2x9k");
        for text in planted().iter().map(|one| one.text.as_str()).chain(INNOCENT) {
            let once = redactor.text("a", text).into_owned();
            assert_eq!(redactor.text("a", &once), once, "{text}");
        }
    }
}

/// The same on every machine.
struct Dice(u64);

impl Dice {
    fn below(&mut self, n: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        usize::try_from(self.0 % n as u64).unwrap()
    }
}

#[test]
fn whatever_comes_nothing_panics_and_passes_come_to_an_end() {
    let redactor = redactor(true);
    let parts: Vec<String> = planted().into_iter().map(|one| one.text).collect();
    let odd = [
        "ü",
        "🦀",
        "[redacted: ",
        "]",
        "\"",
        "'",
        "\\",
        "\n",
        "::",
        "://",
        "@",
        "--api-key",
        "=",
        "10.0.0.7",
        "\0",
        "⟦",
    ];
    let mut dice = Dice(0x5EED);
    for _ in 0..150 {
        let mut text = String::new();
        for _ in 0..1 + dice.below(6) {
            let part = &parts[dice.below(parts.len())];
            // Cut anywhere, also inside of a character.
            let cut = dice.below(part.len() + 1);
            text.push_str(&String::from_utf8_lossy(&part.as_bytes()[cut..]));
            text.push_str(odd[dice.below(odd.len())]);
            text.extend((0..dice.below(4)).map(|_| char::from_u32(dice.below(0x2FFF) as u32).unwrap_or('x')));
        }
        let once = redactor.text("a", &text).into_owned();
        let twice = redactor.text("a", &once).into_owned();
        assert_eq!(redactor.text("a", &twice), twice, "{text}");
        let mut value = json!({ text.clone(): [text.clone(), {"x": text.clone()}] });
        redactor.json("a", &mut value);
        redactor.label("a", &text, &text);
        redactor.path(&text);
        assert!(!once.contains("-----BEGIN PRIVATE KEY-----\nMII"), "{once}");
    }
}

#[test]
fn what_is_nested_without_end_or_has_secrets_for_keys_is_harmless() {
    let redactor = redactor(false);
    let mut value = json!("hf_Zq7LEAKx9000000000000");
    for _ in 0..5_000 {
        value = Value::Array(vec![value]);
    }
    redactor.json("a", &mut value);
    let shown = value.to_string();
    assert!(shown.contains("too deep") && !shown.contains("LEAK"));
    let mut value = json!({"hf_Zq7LEAKx9000000000001": 1, "hf_Zq7LEAKx9000000000002": 2});
    redactor.json("a", &mut value);
    assert_eq!(value, json!({"[redacted: hf-token]": 1, "[redacted: hf-token] (2)": 2}));
}

#[test]
fn the_search_for_what_is_left_looks_into_archives() {
    let mut zip = zip::ZipWriter::new(Cursor::new(Vec::new()));
    zip.start_file("logs/a.log", zip::write::SimpleFileOptions::default()).unwrap();
    zip.write_all(planted()[0].text.as_bytes()).unwrap();
    let bytes = zip.finish().unwrap().into_inner();
    assert!(!String::from_utf8_lossy(&bytes).contains("HUGGING"));
    std::panic::catch_unwind(|| assert_clean(&bytes, "bundle")).unwrap_err();
}

#[test]
fn names_become_the_same_pseudonyms_in_every_file() {
    let redactor = redactor(true);
    for pod in ["acme-llama-1", "acme-llama-10", "qwen-acme-7c9f8d6b5-x2x9k"] {
        redactor.learn(Kind::Pod, pod);
    }
    redactor.learn(Kind::Node, "gpu-07.eu.acme.example");
    redactor.learn(Kind::Namespace, "acme-prod");
    redactor.learn(Kind::Namespace, "llm");
    let text = redactor.text(
        "a.log",
        "acme-llama-10 acme-llama-1: acme-llama-100 on gpu-07.eu.acme.example (gpu-07), /var/log/pods/acme-prod_acme-llama-1_1/0.log \
         qwen-acme-7c9f8d6b5-x2x9k qwen-acme-7c9f8d6b5-zzzzz acme-llama-1.acme-llama.acme-prod.svc:8000 from 10.0.0.7:43210 and \
         10.0.0.7 and fe80::1%eth0 at 03:02:11, vllm==0.32.0.1, 127.0.0.1 llm",
    );
    assert_eq!(
        text,
        "pod-2 pod-1: workload-1-100 on node-1 (node-1), /var/log/pods/namespace-1_pod-1_1/0.log pod-3 workload-2-zzzzz \
         pod-1.workload-1.namespace-1.svc:8000 from host-1:43210 and host-1 and host-2%eth0 at 03:02:11, vllm==0.32.0.1, \
         127.0.0.1 llm"
    );
    assert_eq!(redactor.label("b.om", "exported_pod", "acme-llama-10"), "pod-2");
    assert_eq!(redactor.label("b.om", "pod", "acme-llama-11"), "pod-4");
    assert_eq!(redactor.label("b.om", "instance", "10.0.0.7:8000"), "host-1:8000");
    assert_eq!(redactor.label("b.om", "instance", "acme-llama-1:8000"), "pod-1:8000");
    assert_eq!(redactor.label("b.om", "namespace", "llm"), "namespace-2");
    assert_eq!(redactor.label("b.om", "cluster", "acme-eu"), "cluster-1");
    assert_eq!(redactor.label("b.om", "model_name", "acme-llama"), "acme-llama");
    assert_eq!(redactor.path("logs/acme-llama-10/vllm.log"), "logs/pod-2/vllm.log");
    let mut value = json!({
        "kind": "Pod", "metadata": {"name": "new-acme-0", "namespace": "acme-prod"},
        "spec": {"nodeName": "gpu-08"}, "message": "new-acme-0 moved to gpu-08", "about": "Pod/acme-llama-1",
    });
    redactor.json("c.json", &mut value);
    assert_eq!(
        value,
        json!({
            "kind": "Pod", "metadata": {"name": "pod-5", "namespace": "namespace-1"},
            "spec": {"nodeName": "node-2"}, "message": "pod-5 moved to node-2", "about": "Pod/pod-1",
        })
    );
    let found = redactor.redactions();
    assert!(found.iter().all(|one| one.rule == "anonymized"), "{found:?}");
    assert!(!format!("{redactor:?} {found:?}").contains("acme"));
}

#[test]
fn models_keep_their_names_whatever_the_pods_are_called() {
    let redactor = redactor(true);
    redactor.learn(Kind::Pod, "mixtral-acme-0");
    let mut value = json!({"model_name": "mixtral-acme-instruct", "pod": "mixtral-acme-0"});
    redactor.json("a", &mut value);
    assert_eq!(value, json!({"model_name": "mixtral-acme-instruct", "pod": "pod-1"}));
    let text = redactor.text("a", "mixtral-acme-instruct at org/mixtral-acme, meta-mixtral-acme/x: mixtral-acme-0");
    assert_eq!(text, "mixtral-acme-instruct at org/workload-1, meta-mixtral-acme/x: pod-1");
}

#[test]
fn a_thousand_names_are_found_in_a_long_log() {
    let redactor = redactor(true);
    let pods: Vec<String> = (0..1_000).map(|n| format!("acme-llama-{n}")).collect();
    pods.iter().for_each(|pod| redactor.learn(Kind::Pod, pod));
    let log: String = pods.iter().map(|pod| format!("INFO 11-20 03:00:10 ready {pod} of acme-llama\n")).collect();
    let clean = redactor.text("a", &log);
    assert!(!clean.contains("acme"));
    assert!(clean.contains("ready pod-1 of workload-1\n") && clean.contains("ready pod-1000 of workload-1\n"));
}

#[test]
fn a_site_adds_and_replaces_rules_in_its_own_file() {
    let directory = tempfile::tempdir().unwrap();
    let own = "schema: 1\nrules:\n  - id: ticket\n    title: a ticket\n    text: ['ACME-[0-9]+']\n    examples: ['see ⟦ACME-12⟧']\n  \
               - id: e-mail\n    title: none\n    text: ['never-met']\n    examples: ['⟦never-met⟧']\n";
    std::fs::write(directory.path().join("redaction.yaml"), own).unwrap();
    let library = playbook::load(Some(directory.path())).unwrap();
    assert_eq!(authoring::check::lint(&library), []);
    let redactor = Redactor::new(&library.redaction, false).unwrap();
    let text = redactor.text("a", "ACME-12 by jane@example.com, key sk-1234");
    assert_eq!(text, "[redacted: ticket] by jane@example.com, key [redacted: openai-key]");
}

#[test]
fn a_site_cannot_change_a_word_of_which_shipped_rules_are_made() {
    let directory = tempfile::tempdir().unwrap();
    let load = |words: &str| {
        std::fs::write(directory.path().join("redaction.yaml"), format!("schema: 1\nwords:\n  {words}\n")).unwrap();
        playbook::load(Some(directory.path()))
    };
    let problems = load("named: mytoken").unwrap_err();
    assert_eq!(problems.iter().map(|p| (p.lint, p.line)).collect::<Vec<_>>(), [(Lint::RedactionWord, 3)]);
    assert!(load("acme_named: mytoken").is_ok());
}

#[test]
fn a_rule_that_cannot_be_used_is_told_with_its_line() {
    let directory = tempfile::tempdir().unwrap();
    let own = "schema: 1\nrules:\n  - id: bad\n    title: bad\n    text: ['(?=x)']\n    examples: ['⟦x⟧']\n";
    std::fs::write(directory.path().join("redaction.yaml"), own).unwrap();
    let library = playbook::load(Some(directory.path())).unwrap();
    let problems = authoring::check::lint(&library);
    assert!(problems.iter().any(|p| p.lint == Lint::RedactionPattern && p.line == 3), "{problems:?}");
    Redactor::new(&library.redaction, false).unwrap_err();
    for part in ["keys: ['(?=x)']", "unless_name: '(?=x)'", "unless_value: '(?=x)'"] {
        let own = format!("schema: 1\nrules: [{{ id: bad, title: bad, {part}, examples: [] }}]\n");
        std::fs::write(directory.path().join("redaction.yaml"), own).unwrap();
        assert!(Redactor::new(&playbook::load(Some(directory.path())).unwrap().redaction, false).is_err(), "{part}");
    }
    let endless = Redaction {
        words: [("a".to_owned(), "{b}{b}".to_owned()), ("b".to_owned(), "{a}{a}".to_owned())].into(),
        rules: vec![playbook::RedactionRule { id: "x".into(), text: vec!["{a}".into()], ..Default::default() }],
        ..Redaction::default()
    };
    assert!(Redactor::new(&endless, false).unwrap_err().to_string().contains("without an end"));
}

#[test]
fn our_own_errors_and_debug_output_show_no_password_of_the_configuration() {
    crate::harness::tls();
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("c.yaml");
    let secret = "Zq7LEAKx9";
    let url = format!("http://user:{secret}@host:9090/x?token={secret}");
    let text = format!(
        "prometheus: [{{url: '{url}', headers: {{Authorization: 'Basic {secret}'}}}}]\n\
         loki: [{{url: '{url}', headers: {{x-key: '{secret}'}}}}]\n\
         alertmanagers: [{{url: '{url}'}}]\n\
         pagers: [{{name: p, kind: webhook, url: '{url}', key_file: /x}}]\n\
         exporters: {{targets: [{{engine: vllm, url: '{url}'}}]}}\n"
    );
    std::fs::write(&path, &text).unwrap();
    let config = Config::load(&path).unwrap();
    assert_clean(format!("{config:?}").as_bytes(), "the configuration");
    assert!(format!("{config:?}").contains("http://host:9090/x"));
    let targets: Vec<_> = config.exporters.given().collect();
    assert_clean(format!("{targets:?}").as_bytes(), "targets");
    assert_eq!(config.prometheus[0].shown_url(), "http://host:9090/x");
    for wrong in [format!("htp//user:{secret}@host"), format!("ftp://user:{secret}@host/?token={secret}")] {
        std::fs::write(&path, format!("exporters: {{targets: [{{engine: vllm, url: '{wrong}'}}]}}\n")).unwrap();
        let error = Config::load(&path).unwrap_err();
        assert!(format!("{error:#}").contains("host"), "{error:#}");
        assert_clean(format!("{error:#}").as_bytes(), "an error");
        let broken = prom::Config { url: wrong, ..prom::Config::default() };
        assert_clean(broken.shown_url().as_bytes(), "a link");
        if let Err(error) = prom::Prometheus::new(&broken) {
            assert_clean(error.to_string().as_bytes(), "an error");
        }
    }
}

#[tokio::test]
async fn who_cannot_be_reached_is_named_without_what_may_be_secret() {
    crate::harness::tls();
    let secret = "Zq7LEAKx9";
    let place = "(http://127.0.0.1:1)";
    let address = format!("http://user:{secret}@127.0.0.1:1/services/{secret}?token={secret}");
    let slack = Slack::new(&format!("http://127.0.0.1:1/{secret}"), "xoxb-lab").unwrap();
    let unsent = slack.identity().await.unwrap_err().to_string();
    let message = render::slack_line(&Line::of("done"));
    let answer = slack.respond(&address, &message, false).await.unwrap_err().to_string();
    for error in [&unsent, &answer] {
        assert!(error.starts_with("Slack cannot be reached: ") && error.ends_with(place), "{error}");
        assert_clean(error.as_bytes(), "an error of Slack");
    }
    // A pager's address is often its only secret.
    let key = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(key.path(), "whsec_c2VjcmV0IG9mIHRoZSB0ZXN0cw==").unwrap();
    let run = Running::start(&format!(
        "prometheus: [{{ url: \"http://127.0.0.1:1\" }}]\n\
         pagers: [{{ name: tools, kind: webhook, url: \"{address}\", key_file: {} }}]",
        key.path().display()
    ))
    .await;
    run.send(&group("LLMQueueBuildup", "firing", "warning", &["a"])).await;
    let line = run.service.complains("the pager cannot be reached", SOON).await.unwrap();
    let log = run.service.stderr();
    assert!(line.contains(place), "{line}");
    assert_clean(log.as_bytes(), "the log");
}

#[tokio::test]
async fn messages_show_no_secret_of_an_alert() {
    let run = Running::start("prometheus: [{ url: \"http://127.0.0.1:1\" }]").await;
    let mut sent = group("LLMQueueBuildup", "firing", "warning", &["a", "b"]);
    for alert in sent["alerts"].as_array_mut().unwrap() {
        alert["labels"]["hf_token"] = json!(innocent(1));
        alert["labels"]["note"] = json!(planted()[0].secret);
        alert["annotations"]["summary"] = json!(format!("late with {} of {}", innocent(1), planted()[0].secret));
    }
    run.send(&sent).await;
    run.wait_for(CHANNEL, |text| text.contains("hf_token=[redacted: secret-field]")).await;
    for message in run.slack.messages(CHANNEL) {
        assert_clean(whole(&message).as_bytes(), "a message");
    }
    for path in ["/incidents", "/api/v1/incidents"] {
        assert_clean(run.get(path).await.1.as_bytes(), path);
    }
}

/// Sends an alert with hidden labels and an innocent one; returns its incident.
async fn with_hidden_labels(run: &Running, hidden: &[(&str, &str)]) -> String {
    let mut sent = group("LLMQueueBuildup", "firing", "warning", &["a"]);
    for (label, value) in hidden.iter().chain(&[("cluster", "north")]) {
        sent["alerts"][0]["labels"][*label] = json!(value);
    }
    run.send(&sent).await["incident"].as_str().unwrap().to_owned()
}

const HIDDEN: [(&str, &str); 4] = [
    ("note", "ghp_NotARealTokenNotARealTokenNotARea"),
    ("contact", "jane.doe@example.com"),
    ("payment", "4111 1111 1111 1111"),
    ("api_key", "quiet harbour"),
];

#[tokio::test]
async fn links_of_a_page_are_built_from_cleaned_labels() {
    let run = Running::start("prometheus: [{ url: \"http://127.0.0.1:1\" }]").await;
    let id = with_hidden_labels(&run, &[]).await;
    assert!(run.get(&format!("/incidents/{id}")).await.1.contains("/#/silences/new?filter="));
    let run = Running::start("prometheus: [{ url: \"http://127.0.0.1:1\" }]").await;
    let id = with_hidden_labels(&run, &HIDDEN).await;
    let (status, page) = run.get(&format!("/incidents/{id}")).await;
    assert_eq!(status, 200, "{page}");
    for (_, value) in HIDDEN {
        let encoded: String = url::form_urlencoded::byte_serialize(value.as_bytes()).collect();
        for shape in [value, &encoded, &encoded.replace('+', "%20")] {
            assert!(!page.contains(shape), "{shape}: {page}");
        }
    }
    // A form with a placeholder would silence nothing, and one without that label more than is meant.
    assert!(!page.contains("/#/silences/new"), "{page}");
}

#[tokio::test]
async fn a_search_sees_of_an_incident_what_its_readers_see() {
    let run = Running::start("prometheus: [{ url: \"http://127.0.0.1:1\" }]").await;
    let id = with_hidden_labels(&run, &HIDDEN).await;
    for open in ["q=north", "q=LLMQueue", "label=cluster%3Dnorth", "label=note", "q=north&label=namespace%3Dllm"] {
        assert!(run.get(&format!("/incidents?{open}")).await.1.contains(&id), "{open}");
    }
    assert!(run.get("/api/v1/incidents?q=north").await.1.contains(&id));
    let parts = ["ghp_", "ghp_NotARealTokenNotARealTokenNotARea", "jane", "4111", "4111 1111 1111 1111", "quiet"];
    for part in parts.map(|part| part.replace(' ', "%20")) {
        for path in ["/api/v1/incidents?q=", "/incidents?q=", "/incidents?label=note%3D", "/incidents?label=payment%3D"]
        {
            let (status, text) = run.get(&format!("{path}{part}")).await;
            assert!(status == 200 && !text.contains(&id), "{path}{part}: {text}");
        }
    }
}
