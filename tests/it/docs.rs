//! What users read is true: the example configuration, links, sources.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

use authoring::check;

use capacity::CapacityReport;
use findings::health::Health;
use findings::{Diagnosis, SCHEMA};
use knowledge::playbook;
use knowledge::playbook::{CauseEntry, Step};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use service::config::Config;

use crate::harness::library;

/// A map that is read in one sitting.
const ARCHITECTURE_LINES: usize = 176;
/// Read in five minutes.
const README_BYTES: usize = 12_000;
/// A page with two of them opens at once.
const PICTURE_BYTES: usize = 300_000;
/// Pages whose relative links must lead somewhere.
const PAGES: [&str; 28] = [
    "README.md",
    "ARCHITECTURE.md",
    "CONTRIBUTING.md",
    "CHANGELOG.md",
    "docs/api.md",
    "docs/backtest.md",
    "docs/bundle.md",
    "docs/command-line.md",
    "docs/commands.md",
    "docs/guarantees.md",
    "docs/install.md",
    "docs/json-output.md",
    "docs/lints.md",
    "docs/own/README.md",
    "docs/own/cause.md",
    "docs/own/change.md",
    "docs/own/playbook.md",
    "docs/own/signal.md",
    "docs/playbook-format.md",
    "docs/redaction.md",
    "docs/scale.md",
    "docs/security.md",
    "docs/seeds.md",
    "docs/slack.md",
    "docs/slo.md",
    "docs/store.md",
    "docs/upgrade.md",
    "docs/webhook.md",
];

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

fn read(name: &str) -> String {
    fs::read_to_string(root().join(name)).unwrap_or_else(|error| panic!("{name}: {error}"))
}

#[test]
fn the_example_configuration_holds_the_defaults() {
    let example = Config::load(&root().join("config/llm-diagnose.example.yaml")).unwrap();
    assert_eq!(example, Config::default());
}

#[test]
fn the_configuration_for_kubernetes_is_valid() {
    let single = Config::load(&root().join("config/kubernetes/llm-diagnose.yaml")).unwrap();
    let replicas = Config::load(&root().join("config/kubernetes-replicas/llm-diagnose.yaml")).unwrap();
    assert!(single.database.url_file.is_none() && replicas.database.url_file.is_some());
    assert_eq!(Config { database: single.database.clone(), ..replicas }, single);
}

#[test]
fn the_example_configuration_has_every_key() {
    let text = read("config/llm-diagnose.example.yaml");
    let example: Value = serde_saphyr::from_str(&text).unwrap();
    let schema = serde_json::to_value(schemars::schema_for!(Config)).unwrap();
    let mut missing = Vec::new();
    missing_keys(&schema, &schema, &example, &text, "", &mut missing);
    assert!(missing.is_empty(), "config/llm-diagnose.example.yaml lacks {}", missing.join(", "));
}

/// Keys of `part` that `value` lacks. Of an empty list's entries the keys must stand in a comment.
fn missing_keys(schema: &Value, part: &Value, value: &Value, text: &str, at: &str, missing: &mut Vec<String>) {
    let part = match part["$ref"].as_str() {
        Some(reference) => schema.pointer(reference.trim_start_matches('#')).unwrap(),
        None => part,
    };
    for (key, inner) in part["properties"].as_object().into_iter().flatten() {
        let path = format!("{at}{key}");
        match value.get(key) {
            Some(value) => missing_keys(schema, inner, value, text, &format!("{path}."), missing),
            None if value.is_null() && text.contains(&format!("{key}: ")) => {}
            None => missing.push(path),
        }
    }
    if part["items"].is_object() {
        missing_keys(schema, &part["items"], value.get(0).unwrap_or(&Value::Null), text, at, missing);
    }
}

#[test]
fn the_documented_json_is_what_the_program_writes() {
    assert_keys::<Diagnosis>(SCHEMA);
    assert_keys::<Health>(findings::health::SCHEMA);
}

/// The page's example of a schema, read as the program's type, has the keys that the program writes.
fn assert_keys<T: DeserializeOwned + Serialize>(schema: &str) {
    let example = documented(schema);
    let value: T = serde_json::from_value(example.clone()).unwrap();
    let [mut shown, mut written] = [BTreeSet::new(), BTreeSet::new()];
    key_paths(&example, "", &mut shown);
    key_paths(&serde_json::to_value(&value).unwrap(), "", &mut written);
    let differ: Vec<_> = shown.symmetric_difference(&written).collect();
    assert!(differ.is_empty(), "{schema}: added, renamed or removed: {differ:?}");
}

/// The example of docs/json-output.md that names this schema.
fn documented(schema: &str) -> Value {
    let page = read("docs/json-output.md");
    let examples = page.split("```json\n").skip(1).filter_map(|rest| rest.split("```").next());
    let examples = examples.map(|text| serde_json::from_str(text).unwrap_or_else(|error| panic!("{error}: {text}")));
    let found: Vec<Value> = examples.filter(|example: &Value| example["schema"] == schema).collect();
    assert_eq!(found.len(), 1, "examples of {schema}");
    found.into_iter().next().unwrap()
}

#[test]
fn the_documented_capacity_is_what_the_program_writes() {
    let shown = documented(capacity::SCHEMA);
    let report: CapacityReport = serde_json::from_value(shown.clone()).unwrap();
    assert!(report.model.is_some() && report.fit.is_some() && report.live.is_some(), "a part is not shown");
    assert_eq!(shown, serde_json::to_value(&report).unwrap(), "added, renamed or removed");
}

fn key_paths(value: &Value, at: &str, paths: &mut BTreeSet<String>) {
    for (key, inner) in value.as_object().into_iter().flatten() {
        let path = format!("{at}{key}");
        key_paths(inner, &format!("{path}."), paths);
        paths.insert(path);
    }
    for inner in value.as_array().into_iter().flatten() {
        key_paths(inner, at, paths);
    }
}

#[test]
fn what_the_documents_tell_to_write_works() {
    let pages = ["README.md", "docs/install.md", "docs/own/playbook.md"].map(read);
    let after = pages.iter().flat_map(|page| page.split("```yaml\n").skip(1));
    let blocks: Vec<&str> = after.filter_map(|rest| rest.split("```").next()).collect();
    let directory = tempfile::tempdir().unwrap();
    let (mut configurations, mut playbooks) = (0, 0);
    for block in blocks {
        let file = match block.split([':', ' ']).next() {
            Some("playbook") if block.contains("cases:") => "playbooks/symptoms/chat-slow.test.yaml",
            Some("playbook") => "playbooks/symptoms/chat-slow.yaml",
            // For Alertmanager; `amtool check-config` has the generated file.
            Some("route") => continue,
            _ => "llm-diagnose.yaml",
        };
        let path = directory.path().join(file);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, block).unwrap();
        if file.starts_with("playbooks/") {
            playbooks += 1;
        } else {
            Config::load(&path).unwrap();
            configurations += 1;
        }
    }
    assert_eq!((configurations, playbooks), (8, 2), "the blocks were not understood");
    let library = playbook::load(Some(&directory.path().join("playbooks"))).unwrap();
    assert_eq!(check::lint(&library), []);
    let cases = check::run(&library).unwrap();
    let own: Vec<_> = cases.iter().filter(|case| case.playbook == "chat-slow").collect();
    assert_eq!(own.len(), 3);
    assert!(own.iter().all(|case| case.failures.is_empty()), "{own:?}");
}

#[test]
fn the_readme_is_short_and_begins_with_small_pictures() {
    let readme = read("README.md");
    assert!(readme.len() <= README_BYTES, "README.md has {} bytes", readme.len());
    let (first, _) = readme.split_once("\n## ").unwrap();
    let pictures: Vec<_> = links(first).into_iter().filter(|link| link.ends_with(".png")).collect();
    assert_eq!(pictures, ["docs/images/slack-message.png", "docs/images/incident.png"]);
    for picture in pictures {
        let bytes = fs::read(root().join(&picture)).unwrap();
        assert!(bytes.starts_with(b"\x89PNG") && bytes.len() < PICTURE_BYTES, "{picture}: {} bytes", bytes.len());
    }
}

#[test]
fn every_relative_link_leads_somewhere() {
    for page in PAGES {
        let directory = root().join(page).parent().map(Path::to_path_buf).unwrap();
        for link in links(&read(page)) {
            let target = directory.join(&link);
            assert!(target.exists(), "{page} links to {link}, which is not there");
        }
    }
}

/// The relative targets of Markdown links, without anchors.
fn links(text: &str) -> Vec<String> {
    text.split("](")
        .skip(1)
        .filter_map(|rest| rest.split([')', '#']).next())
        .filter(|link| !link.is_empty() && !link.contains("://"))
        .map(str::to_owned)
        .collect()
}

#[test]
fn the_architecture_is_read_in_one_sitting() {
    let lines = read("ARCHITECTURE.md").lines().count();
    assert!(lines <= ARCHITECTURE_LINES, "ARCHITECTURE.md has {lines} lines");
}

#[test]
fn the_table_of_crates_tells_what_each_uses() {
    let told: BTreeMap<String, BTreeSet<String>> = read("ARCHITECTURE.md").lines().filter_map(crate_of_row).collect();
    let folders = fs::read_dir(root().join("src")).unwrap().map(|entry| entry.unwrap().path());
    let manifests = folders.filter(|folder| folder.join("Cargo.toml").exists());
    let names: BTreeSet<String> =
        manifests.map(|folder| folder.file_name().unwrap().to_string_lossy().into_owned()).collect();
    assert!(names.len() > 5, "{names:?}");
    let uses = |name: &String| -> BTreeSet<String> {
        let manifest = read(&format!("src/{name}/Cargo.toml"));
        let used = manifest.lines().filter_map(|line| line.strip_suffix(".workspace = true"));
        used.filter(|used| names.contains(*used)).map(str::to_owned).collect()
    };
    let made: BTreeMap<String, BTreeSet<String>> = names.iter().map(|name| (name.clone(), uses(name))).collect();
    assert_eq!(told, made, "left: the table in ARCHITECTURE.md, right: src/*/Cargo.toml");
    let knows = |name: &str, package: &str| {
        let manifest = read(&format!("src/{name}/Cargo.toml"));
        let product = manifest.split("[dev-dependencies]").next().unwrap();
        product.lines().any(|line| line == format!("{package}.workspace = true"))
    };
    let know =
        |package: &str| -> Vec<&str> { names.iter().map(String::as_str).filter(|name| knows(name, package)).collect() };
    assert_eq!([know("axum"), know("clap")], [vec!["web"], vec!["capacity", "chat", "service"]]);
    let engine = ["prom", "sources", "detect", "diagnose"];
    let apart = |name: &&str| engine.iter().all(|engine| !made[*name].contains(*engine));
    assert!(
        ["findings", "report", "render", "slack", "store"].iter().all(apart),
        "values know no client and no engine"
    );
    assert!(!["tokio", "reqwest"].iter().any(|package| knows("knowledge", package)), "knowledge has no network");
}

/// The crate of a row such as ``| `store` | what is kept | `knowledge` `render` |``, and those that it uses.
fn crate_of_row(row: &str) -> Option<(String, BTreeSet<String>)> {
    let cells: Vec<&str> = row.strip_prefix("| `")?.split('|').collect();
    let [name, _, uses, _] = cells.as_slice() else { return None };
    let name = name.trim().trim_end_matches('`').to_owned();
    let words = |cell: &str| cell.split('`').skip(1).step_by(2).map(str::to_owned).collect();
    (name != "llm-diagnose").then(|| (name, words(uses)))
}

#[test]
fn every_source_of_the_playbooks_is_an_https_address() {
    let library = library();
    let mut sources: Vec<(&str, &str)> = Vec::new();
    for playbook in library.playbooks.values() {
        let id = playbook.playbook.as_str();
        sources.extend(playbook.references.iter().map(|url| (id, url.as_str())));
        sources.extend(cited(id, &playbook.now));
        sources.extend(cited(id, &playbook.lasting));
        for CauseEntry { now, lasting, .. } in &playbook.causes {
            sources.extend(cited(id, now));
            sources.extend(cited(id, lasting));
        }
    }
    for cause in library.causes.values() {
        let id = cause.cause.as_str();
        sources.extend(cause.references.iter().map(|url| (id, url.as_str())));
        sources.extend(cited(id, &cause.now));
        sources.extend(cited(id, &cause.lasting));
    }
    for engine in library.engines.values() {
        sources.extend(engine.source.iter().map(|url| (engine.engine.as_str(), url.as_str())));
    }
    assert!(sources.len() > 100, "{} sources were found", sources.len());
    let odd: Vec<_> = sources.into_iter().filter(|(_, url)| !is_https(url)).collect();
    assert!(odd.is_empty(), "no https address: {odd:?}");
}

fn cited<'a>(id: &'a str, steps: &'a [Step]) -> impl Iterator<Item = (&'a str, &'a str)> {
    steps.iter().filter_map(move |step| Some((id, step.source.as_deref()?)))
}

fn is_https(text: &str) -> bool {
    url::Url::parse(text).is_ok_and(|url| url.scheme() == "https" && url.host().is_some())
}

#[test]
fn every_guarantee_names_tests_that_exist() {
    let pages = ["docs/guarantees.md", "docs/security.md"].map(read).join("\n");
    let names: BTreeSet<&str> = pages.split('`').skip(1).step_by(2).filter(|code| code.contains("::")).collect();
    assert!(names.len() > 30, "{names:?}");
    let exists = |name: &&str| {
        let (module, function) = name.rsplit_once("::").unwrap();
        let file = root().join("tests/it").join(module.replace("::", "/")).with_extension("rs");
        let source = fs::read_to_string(file).unwrap_or_default();
        let lines: Vec<&str> = source.lines().collect();
        let Some(at) = lines.iter().position(|line| line.contains(&format!("fn {function}("))) else { return false };
        lines[at.saturating_sub(3)..at]
            .iter()
            .any(|line| line.starts_with("#[test]") || line.starts_with("#[tokio::test"))
    };
    assert_eq!(names.iter().filter(|name| !exists(name)).collect::<Vec<_>>(), [&""; 0]);
}

#[test]
fn no_example_has_a_secret_among_the_arguments_of_a_process() {
    const SIGNS: [&str; 6] = ["--from-literal", "xoxb-", "xapp-", "Authorization:", "--user ", " -u "];
    let texts: Vec<(&str, String)> = PAGES.iter().map(|page| (*page, read(page))).collect();
    let blocks =
        texts.iter().flat_map(|(page, text)| text.split("```").skip(1).step_by(2).map(move |block| (page, block)));
    let lines = blocks.flat_map(|(page, block)| block.lines().map(move |line| (page, line)));
    let wrong: Vec<_> = lines.filter(|(_, line)| SIGNS.iter().any(|sign| line.contains(sign))).collect();
    assert!(wrong.is_empty(), "{wrong:?}");
}
