//! The shipped rules on the corpus in `tests/fixtures/redaction`, where exactly the marked parts go, and on whole values.

use std::borrow::Cow;
use std::path::Path;
use std::sync::LazyLock;
use std::time::{Duration, Instant};

use knowledge::playbook::{self, Redaction};
use serde_json::{Value, json};

use super::{Kind, Redactor};

/// The shipped rules, for one more text or bundle.
fn redactor(anonymize: bool) -> Redactor {
    static RULES: LazyLock<Redaction> = LazyLock::new(|| playbook::load(None).unwrap().redaction);
    static READY: LazyLock<Redactor> = LazyLock::new(|| Redactor::new(&RULES, false).unwrap());
    READY.another(&RULES, anonymize)
}

/// The texts of a corpus. `==` begins a heading, `⏎` stands for the end of a line.
fn texts(name: &str) -> Vec<String> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("../../tests/fixtures/redaction/{name}.txt"));
    let all = std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    let texts = all.lines().filter(|line| !line.starts_with("==") && !line.is_empty());
    texts.map(|line| line.replace('⏎', "\n")).collect()
}

/// A text without its marks, its secrets, and what must remain of it; `⟦⟧` stands for each placeholder.
fn read(text: &str) -> (String, Vec<String>, String) {
    let parts: Vec<&str> = text.split(['⟦', '⟧']).collect();
    let secrets = parts.iter().skip(1).step_by(2).map(|secret| (*secret).to_owned()).collect();
    let rest: Vec<&str> = parts.iter().step_by(2).copied().collect();
    (parts.concat(), secrets, rest.join("⟦⟧"))
}

fn without_ids(mut text: String) -> String {
    while let Some(start) = text.find("[redacted: ") {
        let end = text[start..].find(']').unwrap() + start;
        text.replace_range(start..=end, "⟦⟧");
    }
    text
}

/// All keys and texts of a value as they are: JSON escapes quotes and backslashes of a secret.
fn strings(value: &Value) -> String {
    match value {
        Value::String(text) => format!("{text}\n"),
        Value::Array(items) => items.iter().map(strings).collect(),
        Value::Object(fields) => fields.iter().map(|(key, value)| format!("{key}\n{}", strings(value))).collect(),
        Value::Null | Value::Bool(_) | Value::Number(_) => format!("{value}\n"),
    }
}

#[test]
fn exactly_the_marked_parts_of_the_corpus_go_from_texts() {
    let mut wrong = Vec::new();
    for text in texts("planted") {
        let (plain, secrets, wanted) = read(&text);
        assert!(!secrets.is_empty(), "{text}");
        let clean = without_ids(redactor(false).text("a", &plain).into_owned());
        if clean != wanted {
            wrong.push(format!("{text}\n    {clean}"));
        }
    }
    assert!(wrong.is_empty(), "{}:\n{}", wrong.len(), wrong.join("\n"));
}

#[test]
fn no_secret_of_the_corpus_survives_in_json_or_a_label() {
    let mut left = Vec::new();
    for text in texts("planted") {
        let (plain, secrets, _) = read(&text);
        let mut value = json!({ "lines": [plain], "deep": { "x": [[{ "y": plain }]] } });
        redactor(false).json("a", &mut value);
        // As the value that it is, where the text is JSON.
        let mut parsed: Value = serde_json::from_str(&plain).unwrap_or_default();
        redactor(false).json("a", &mut parsed);
        let label = redactor(false).label("a", "message", &plain).into_owned();
        for shown in [strings(&value), strings(&parsed), label] {
            if secrets.iter().any(|secret| shown.contains(secret.as_str())) {
                left.push(format!("{text}\n    {shown}"));
            }
        }
    }
    assert!(left.is_empty(), "{}:\n{}", left.len(), left.join("\n"));
}

#[test]
fn nothing_of_the_benign_corpus_is_lost() {
    let redactor = redactor(false);
    for text in texts("benign") {
        let clean = redactor.text("a", &text);
        assert_eq!(clean, text);
        assert!(matches!(clean, Cow::Borrowed(_)), "{text} was copied");
        assert_eq!(redactor.label("a", "message", &text), text);
        for value in [json!({ "lines": [text] }), serde_json::from_str(&text).unwrap_or_default()] {
            let mut after = value.clone();
            redactor.json("a", &mut after);
            assert_eq!(after, value);
        }
    }
    assert_eq!(redactor.redactions(), []);
}

#[test]
fn a_variable_that_is_not_worth_reading_keeps_its_name_only() {
    let gone = "[redacted: variable]";
    let mut value = json!({
        "env": [
            { "name": "ACME_FLAVOUR", "value": "vanilla" }, { "name": "NCCL_DEBUG", "value": "INFO" },
            { "name": "HF_TOKEN", "value": "x" }, { "name": "EMPTY", "value": "" }, { "name": "OTHER", "value": "$(HF_TOKEN)" },
        ],
        "Env": ["PATH=/usr/bin", "ACME_FLAVOUR=vanilla", "HF_TOKEN=x", "SGLANG_LOG_MS=1"],
        "runtime_env": { "env_vars": { "ACME_FLAVOUR": "vanilla", "VLLM_USE_V1": "1", "HF_TOKEN": "x" } },
        "facts": [{ "name": "gpu", "value": "H100" }], "ACME_FLAVOUR": "vanilla",
    });
    let redactor = redactor(false);
    redactor.learn_from(&value);
    redactor.json("pods.json", &mut value);
    assert_eq!(
        value,
        json!({
            "env": [
                { "name": "ACME_FLAVOUR", "value": gone }, { "name": "NCCL_DEBUG", "value": "INFO" },
                { "name": "HF_TOKEN", "value": "[redacted: secret-field]" }, { "name": "EMPTY", "value": "" },
                { "name": "OTHER", "value": "$(HF_TOKEN)" },
            ],
            "Env": ["PATH=/usr/bin", format!("ACME_FLAVOUR={gone}"), "HF_TOKEN=[redacted: secret-field]", "SGLANG_LOG_MS=1"],
            "runtime_env": { "env_vars": { "ACME_FLAVOUR": gone, "VLLM_USE_V1": "1", "HF_TOKEN": "[redacted: secret-field]" } },
            "facts": [{ "name": "gpu", "value": "H100" }], "ACME_FLAVOUR": "vanilla",
        })
    );
    // Such a value is often an everyday word.
    assert_eq!(redactor.text("a", "a flavour of vanilla"), "a flavour of vanilla");
}

#[test]
fn several_users_stay_apart_and_one_stays_one() {
    let redactor = redactor(false);
    assert_eq!(redactor.label("series.om", "end_user", "jane"), "[redacted: user-1]");
    assert_eq!(redactor.label("series.om", "user", "john"), "[redacted: user-2]");
    assert_eq!(redactor.text("a.log", "slow for user_id=jane now"), "slow for user_id=[redacted: user-1] now");
    assert_eq!(redactor.label("series.om", "client_ip", "203.0.113.9"), "[redacted: client-3]");
    assert_eq!(redactor.label("series.om", "client_ip", "127.0.0.1"), "127.0.0.1");
    let counts: Vec<_> = redactor.redactions().into_iter().map(|one| (one.place, one.rule, one.count)).collect();
    let count = |place: &str, rule: &str, count: u64| (place.to_owned(), rule.to_owned(), count);
    assert_eq!(counts, [count("a.log", "user", 1), count("series.om", "client", 1), count("series.om", "user", 2)]);
}

#[test]
fn names_that_logs_and_labels_tell_become_pseudonyms() {
    let redactor = redactor(true);
    let text = redactor.text(
        "a.log",
        "http://acme-0.acme-svc.acme-ns.svc.cluster.local:8000 refused; acme-0 of acme-ns is gone\n\
         ip-10-9-8-7.ec2.internal: ip-10-9-8-7 is late\n\
         acme-ring-3:123:456 [0] NCCL INFO Bootstrap\n\
         Nov 20 03:00:10 acme-gpu-07 kernel: NVRM: Xid (PCI:0000:3b:00): 79\n",
    );
    assert!(!text.contains("acme") && !text.contains("ip-10"), "{text}");
    assert!(
        text.contains("pod-1.workload-2.namespace-1.svc.cluster.local:8000 refused; pod-1 of namespace-1"),
        "{text}"
    );
    let labels = [
        ("team", "red-team", "team-1"),
        ("customer", "acme-bank", "customer-1"),
        ("zone", "eu-1a", "zone-1"),
        ("container", "acme-engine", "container-1"),
        ("helm_release", "acme-llm", "release-1"),
        ("uid", "0c1d2e3f-4a5b-4c6d-8e7f-0a1b2c3d4e5f", "uid-1"),
    ];
    for (label, value, pseudonym) in labels {
        assert_eq!(redactor.label("series.om", label, value), pseudonym, "{label}");
    }
    let text = redactor.text("b.log", "the acme-engine of acme-bank (red-team) in eu-1a");
    assert_eq!(text, "the container-1 of customer-1 (team-1) in zone-1");
}

#[test]
fn the_number_of_a_replica_stays_whatever_its_name_is() {
    let mut value =
        json!({ "replicas": [{ "name": "DGX01", "value": 0.4 }, { "name": "vault-secret-0", "value": 7 }] });
    let before = value.clone();
    redactor(false).json("a", &mut value);
    assert_eq!(value, before);
}

#[test]
fn many_keys_with_the_same_placeholder_take_seconds_and_all_stay() {
    let keys = (0..100_000).map(|n| (format!("a{n}@b.co"), json!("")));
    // Each name asks for its neighbours.
    let named = (0..100_000).map(|n| (format!("a{n}.content"), json!("")));
    let mut value = Value::Object(keys.chain(named).collect());
    let started = Instant::now();
    redactor(false).json("a", &mut value);
    assert!(started.elapsed() < Duration::from_secs(60), "{:?}", started.elapsed());
    assert_eq!(value.as_object().unwrap().len(), 200_000);
    assert!(value.get("[redacted: e-mail] (100000)").is_some());
}

#[test]
fn the_name_of_a_kubernetes_secret_stays_and_is_no_secret() {
    let mut value = json!({ "spec": {
        "volumes": [
            { "name": "hf", "secret": { "secretName": "hf-credentials", "defaultMode": 420 } },
            { "name": "all", "projected": { "sources": [
                { "secret": { "name": "tls-certificate", "items": [{ "key": "password", "path": "password" }] } },
                { "serviceAccountToken": { "path": "vault-token", "audience": "vault-audience" } },
            ] } },
        ],
        "envFromSecret": "hf-token-secret",
        "redisPassword": { "valueFrom": { "secretKeyRef": { "name": "redis-secret", "key": "password" } } },
        "imagePullSecrets": [{ "name": "registry-credentials" }],
    } });
    let (before, redactor) = (value.clone(), redactor(false));
    redactor.learn_from(&value);
    redactor.json("a", &mut value);
    assert_eq!(value, before);
    for text in [
        "MountVolume.SetUp failed for volume \"hf\" : secret \"hf-credentials\" not found",
        "couldn't find key password in Secret llm/redis-secret",
        r#"{"volumes":[{"name":"hf","secret":{"secretName":"hf-credentials"}}]}"#,
    ] {
        assert_eq!(redactor.text("a", text), text);
    }
    // A secret beside such a name is one.
    let mut value = json!({ "secret": { "secretName": "hf-credentials", "token": "quietharbour1" }, "password": { "x": "quietharbour2" } });
    redactor.json("a", &mut value);
    assert!(!value.to_string().contains("quietharbour"), "{value}");
}

#[test]
fn words_of_programs_are_no_names() {
    for text in [
        "2026-11-20T03:00:10.123456789Z CUDA error: out of memory",
        "2026-11-20T03:00:10.123456789Z ERROR text_generation_launcher: Shard 0 failed",
        "2026-11-20T03:00:10.123456789Z ERROR shard[1]: failed",
        "2026-11-20T03:00:10.123456789Z NCCL error: unhandled cuda error",
        "2026-11-20T03:00:10.123456789Z Watchdog timeout: rank 3",
        "2026-11-20T03:00:10.123456789Z Warning FailedScheduling: 0/3 nodes are available",
        "NUMA node: 0-31, node=1.5",
        "File google.protobuf.internal.python_message in google",
    ] {
        assert_eq!(redactor(true).text("a", text), text);
    }
    let log = "2026-11-20T03:00:10+00:00 acme-gpu-07 kubelet[811]: gone\nnode=3com.acme-x.y then acme-gpu-07 of ip-10-9-8-7.ec2.internal.";
    let clean = redactor(true).text("a", log).into_owned();
    assert!(!clean.contains("acme") && !clean.contains("ip-10"), "{clean}");
}

#[test]
fn the_secret_of_a_header_goes_from_texts_without_its_scheme_too() {
    let redactor = redactor(false);
    redactor.learn_from(&json!({ "headers": { "Authorization": "Bearer quiet-harbour" } }));
    assert_eq!(redactor.text("a", "sent quiet-harbour there"), "sent [redacted: authorization] there");
}

#[test]
fn a_common_word_is_neither_a_name_nor_a_secret_in_a_text() {
    let redactor = redactor(true);
    redactor.learn(Kind::Namespace, "monitoring");
    redactor.learn_label("token", "observability");
    redactor.learn_label("namespace_token", "quietharbour1");
    let mut value = json!({ "monitoring": 1, "x": "observability", "namespace": "monitoring", "y": "quietharbour1" });
    redactor.json("a", &mut value);
    let gone = "[redacted: secret-field]";
    assert_eq!(value, json!({ "monitoring": 1, "x": "observability", "namespace": "namespace-1", "y": gone }));
}

#[test]
fn a_line_of_json_stays_json_whatever_goes_from_it() {
    let redactor = redactor(false);
    let random = "aX9fQ2LmZ7pRt4VbN8sKcD3wYh6JgE1u";
    for (line, wanted) in [
        (
            json!({ "m": format!("a\n{random}\tb\\{random}") }).to_string(),
            r#"{"m":"a\n[redacted: random]\tb\\[redacted: random]"}"#,
        ),
        (r#"{"m": "api_key=abc\"", "n": 1}"#.to_owned(), r#"{"m": "api_key=[redacted: secret-field]\"", "n": 1}"#),
        (r#"{"a": 4111111111111111, "n": 1}"#.to_owned(), r#"{"a": "[redacted: card]", "n": 1}"#),
        (r#"{"master_key": 12345}"#.to_owned(), r#"{"master_key": "[redacted: secret-field]"}"#),
        (r#"{"input_ids": [1, [2, 3]], "n": 1}"#.to_owned(), r#"{"input_ids": ["[redacted: token-ids]"], "n": 1}"#),
        (r#"{"m":"x","texts":["a","b, c"]}"#.to_owned(), r#"{"m":"x","texts":["[redacted: prompt]"]}"#),
        (
            r#"{"inputs":[["a","b"],["c"]],"n":1}"#.to_owned(),
            r#"{"inputs":[["[redacted: prompt]","[redacted: prompt]"],["[redacted: prompt]"]],"n":1}"#,
        ),
        (
            r#"{"m":"Authorization: Digest a=b, c=d","level":"INFO"}"#.to_owned(),
            r#"{"m":"Authorization: [redacted: authorization]","level":"INFO"}"#,
        ),
        (
            r#"["-----BEGIN PRIVATE KEY-----","MIIEvQIBADANBgkqhk","-----END PRIVATE KEY-----"]"#.to_owned(),
            r#"["[redacted: private-key]","[redacted: private-key]","[redacted: private-key]"]"#,
        ),
    ] {
        let text = format!("before\n{line}\nbehind");
        for json in [&line, wanted] {
            assert!(serde_json::from_str::<Value>(json).is_ok(), "{json}");
        }
        assert_eq!(redactor.text("a", &text), format!("before\n{wanted}\nbehind"));
    }
}

#[test]
fn an_escape_is_no_part_of_the_word_behind_it() {
    let redactor = redactor(false);
    for (before, behind) in [
        ("a\\n", "\\n"),
        ("\\ud83d\\ude00", "\\\\n"),
        ("a\\\\\\n", "."),
        ("a=%22", "%22&b=%C3%A9"),
        ("%2522", ""),
        ("\u{1b}[1;31m", "\u{1b}[0m"),
        ("\\u001b[31m", "\\u001b[0m"),
        ("\\x1b[38;5;9m", ""),
        ("\\033[31m", "\\033[0m"),
        ("#033[31m", "#033[0m"),
        ("^[[31m", "^[[0m"),
        ("[31m", "[0m"),
        ("%1B%5B31m", "%1B%5B0m"),
        ("\u{1b}]8;;http://x\u{7}", "\u{1b}]8;;\u{7}"),
        ("&quot;", "&amp;quot;"),
        ("&amp;#34;", ""),
        ("\\u{22}", "\\'"),
    ] {
        for secret in ["nvapi-NotARealKey_NotARealKey-00", "AKIANOTAREALKEY00000", "4111 1111 1111 1111"] {
            let clean = redactor.text("a", &format!("{before}{secret}{behind}")).into_owned();
            let middle = clean.strip_prefix(before).and_then(|rest| rest.strip_suffix(behind));
            assert!(middle.is_some_and(|mark| mark.starts_with("[redacted: ")), "{clean}");
        }
    }
    for whole in
        ["sk%2Dproj%2DNotARealKeyNotARealKey", "sk-proj-NotA\u{1b}[0mRealKeyNotARealKey", "jane%40example%2Ecom"]
    {
        let clean = redactor.text("a", &format!("x={whole} y")).into_owned();
        assert!(clean.starts_with("x=[redacted: ") && clean.ends_with("] y"), "{clean}");
    }
}

#[test]
fn long_runs_of_escapes_take_time_in_proportion() {
    let redactor = redactor(false);
    for part in ["\\", "%25", "&amp;", "\u{1b}[", "\u{1b}]", "\\u001b[0", "\\n\n\n\n\n\n", "{\"a\":\"sk-12345\"}\n"] {
        let text = part.repeat((256 << 10) / part.len());
        let started = Instant::now();
        redactor.text("a", &text);
        assert!(started.elapsed() < Duration::from_secs(20), "{part:?}: {:?}", started.elapsed());
    }
}
