//! What others wrote and we ship: its licences, sources and known weaknesses, and the list that names it.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;
use std::process::Command;

use semver::{Version, VersionReq};
use serde::Deserialize;
use serde_json::Value;

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

fn read(name: &str) -> String {
    fs::read_to_string(root().join(name)).unwrap_or_else(|error| panic!("{name}: {error}"))
}

/// What `cargo deny check bans sources` would say, of every platform: the lock file names each package and its source.
#[test]
fn every_locked_package_is_allowed_by_deny_toml() {
    let banned = list(&read("deny.toml"), "\ndeny = [");
    assert!(banned.contains("openssl"), "deny.toml was not understood");
    let lock = read("Cargo.lock");
    let packages: Vec<&str> = lock.split("[[package]]").skip(1).collect();
    let mut wrong = Vec::new();
    for package in &packages {
        let name = field(package, "name").unwrap();
        if banned.contains(name) {
            wrong.push(format!("{name} is banned"));
        }
        match field(package, "source") {
            Some("registry+https://github.com/rust-lang/crates.io-index") => {}
            // A package without a source is a folder of this project.
            None => {}
            source => wrong.push(format!("{name} comes from {source:?}")),
        }
    }
    assert!(packages.len() > 100 && wrong.is_empty(), "{} packages; {}", packages.len(), wrong.join("; "));
}

/// What `cargo deny check licenses` would say of the packages that this platform builds. Those of other platforms are
/// not on a machine that has only built the project.
#[test]
fn every_dependency_has_a_licence_that_deny_toml_allows() {
    let allowed = list(&read("deny.toml"), "\nallow = [");
    assert!(allowed.contains("MIT"), "deny.toml was not understood");
    // Without the filter cargo wants to download what other platforms need.
    let host = cargo(&["-vV"]).lines().find_map(|line| line.strip_prefix("host: ").map(str::to_owned)).unwrap();
    let asked = ["metadata", "--format-version", "1", "--locked", "--offline", "--filter-platform", &host];
    let metadata: Value = serde_json::from_str(&cargo(&asked)).unwrap();
    let packages = metadata["packages"].as_array().unwrap();
    let wrong: Vec<String> = packages
        .iter()
        .filter(|package| !package["license"].as_str().is_some_and(|license| satisfied(license, &allowed)))
        .map(|package| format!("{} has the licence {}", package["name"], package["license"]))
        .collect();
    assert!(packages.len() > 100 && wrong.is_empty(), "{} packages; {}", packages.len(), wrong.join("; "));
}

/// What cargo prints.
fn cargo(arguments: &[&str]) -> String {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let answer = Command::new(cargo).args(arguments).current_dir(root()).output().unwrap();
    assert!(answer.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&answer.stderr));
    String::from_utf8(answer.stdout).unwrap()
}

/// The value of a key of a package in Cargo.lock.
fn field<'a>(package: &'a str, key: &str) -> Option<&'a str> {
    let line = package.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix(" = "));
    line.map(|value| value.trim_matches('"'))
}

/// The quoted words of a TOML list of strings or of `{ crate = "…" }` tables.
fn list(toml: &str, start: &str) -> BTreeSet<String> {
    let body = toml.split_once(start).and_then(|(_, rest)| rest.split_once("\n]")).map_or("", |(body, _)| body);
    let lines = body.lines().map(|line| line.split('#').next().unwrap_or_default());
    lines.filter_map(|line| line.split('"').nth(1)).map(str::to_owned).collect()
}

/// Whether an SPDX expression can be met with the allowed licences; `/` is the old way to write OR.
fn satisfied(license: &str, allowed: &BTreeSet<String>) -> bool {
    let spaced = license.replace('/', " OR ").replace('(', " ( ").replace(')', " ) ").replace(" WITH ", "_WITH_");
    let words: Vec<String> = spaced.split_whitespace().map(|word| word.replace("_WITH_", " WITH ")).collect();
    let mut at = 0;
    any_of(&words, &mut at, allowed) && at == words.len()
}

fn any_of(words: &[String], at: &mut usize, allowed: &BTreeSet<String>) -> bool {
    let mut met = all_of(words, at, allowed);
    while words.get(*at).is_some_and(|word| word == "OR") {
        *at += 1;
        met |= all_of(words, at, allowed);
    }
    met
}

fn all_of(words: &[String], at: &mut usize, allowed: &BTreeSet<String>) -> bool {
    let mut met = one(words, at, allowed);
    while words.get(*at).is_some_and(|word| word == "AND") {
        *at += 1;
        met &= one(words, at, allowed);
    }
    met
}

fn one(words: &[String], at: &mut usize, allowed: &BTreeSet<String>) -> bool {
    let Some(word) = words.get(*at) else { return false };
    *at += 1;
    if word != "(" {
        return allowed.contains(word);
    }
    let met = any_of(words, at, allowed);
    // Past the closing bracket.
    *at += 1;
    met
}

#[test]
fn licence_expressions_are_understood() {
    let allowed: BTreeSet<String> =
        ["MIT", "Apache-2.0", "Apache-2.0 WITH LLVM-exception", "Unicode-3.0"].map(str::to_owned).into();
    for (license, expected) in [
        ("MIT", true),
        ("GPL-3.0", false),
        ("MIT/Apache-2.0", true),
        ("Apache-2.0 / MIT", true),
        ("GPL-3.0 OR MIT", true),
        ("(MIT OR GPL-3.0) AND Unicode-3.0", true),
        ("(MIT OR Apache-2.0) AND GPL-3.0", false),
        ("Apache-2.0 WITH LLVM-exception", true),
        ("GPL-3.0 OR Apache-2.0 WITH LLVM-exception AND MIT", true),
        ("MIT AND", false),
        ("", false),
    ] {
        assert_eq!(satisfied(license, &allowed), expected, "{license}");
    }
}

/// `tests/fixtures/advisories.json`, which `make advisories` writes.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Database {
    #[serde(rename = "database")]
    _address: String,
    #[serde(rename = "commit")]
    _commit: String,
    date: String,
    advisories: Vec<Advisory>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Advisory {
    id: String,
    package: String,
    kind: String,
    patched: Vec<String>,
    unaffected: Vec<String>,
}

impl Advisory {
    /// Whether this version has the weakness: no fix and no exception names it.
    fn affects(&self, name: &str, version: &Version) -> bool {
        let mut safe = self.patched.iter().chain(&self.unaffected);
        self.package == name && !safe.any(|range| range.parse::<VersionReq>().unwrap().matches(version))
    }
}

fn database() -> Database {
    serde_json::from_str(&read("tests/fixtures/advisories.json")).unwrap()
}

/// The name and version of each package in Cargo.lock that comes from elsewhere, with its checksum.
fn locked() -> BTreeMap<(String, Version), String> {
    let lock = read("Cargo.lock");
    let entry = |package: &str| {
        let (name, version) = (field(package, "name")?, field(package, "version")?);
        Some(((name.to_owned(), version.parse().unwrap()), field(package, "checksum")?.to_owned()))
    };
    lock.split("[[package]]").skip(1).filter_map(entry).collect()
}

/// What `cargo deny check advisories` would say by the copy of the database. To refresh it: `make advisories`.
#[test]
fn no_locked_package_has_a_known_weakness_that_deny_toml_does_not_explain() {
    let deny = read("deny.toml");
    let explained = list(&deny, "\nignore = [");
    let reasons = deny.lines().filter(|line| line.contains("id = \"RUSTSEC-") && line.contains("reason = \""));
    assert_eq!(reasons.count(), explained.len(), "an entry of `ignore` has its reason beside it");
    let (database, locked) = (database(), locked());
    assert!(database.advisories.len() > 20 && locked.len() > 100, "{} advisories", database.advisories.len());
    assert!(database.date.parse::<jiff::civil::Date>().is_ok(), "{}", database.date);
    let known = database.advisories.iter().filter(|advisory| !explained.contains(&advisory.id));
    let wrong: Vec<String> = known
        .flat_map(|advisory| locked.keys().map(move |package| (advisory, package)))
        .filter(|(advisory, (name, version))| advisory.affects(name, version))
        .map(|(advisory, (name, version))| format!("{name} {version}: {} ({})", advisory.id, advisory.kind))
        .collect();
    assert!(wrong.is_empty(), "update, replace, or explain in deny.toml: {}", wrong.join("; "));
}

#[test]
fn an_advisory_affects_what_is_neither_patched_nor_excepted() {
    let advisory: Advisory = serde_json::from_value(serde_json::json!({
        "id": "RUSTSEC-0000-0000", "package": "a", "kind": "vulnerability",
        "patched": [">= 1.2.4, < 1.3.0", ">= 1.4.1"], "unaffected": ["< 1.1.0"],
    }))
    .unwrap();
    let affected = |name: &str, version: &str| advisory.affects(name, &version.parse().unwrap());
    for (version, expected) in
        [("1.0.9", false), ("1.1.0", true), ("1.2.4", false), ("1.3.0", true), ("1.4.0", true), ("2.0.0", false)]
    {
        assert_eq!(affected("a", version), expected, "{version}");
    }
    assert!(!affected("b", "1.1.0"));
    let unmaintained = Advisory { patched: Vec::new(), unaffected: Vec::new(), ..advisory };
    assert!(unmaintained.affects("a", &"9.0.0".parse().unwrap()), "without a patched version every one is affected");
}

#[test]
fn the_bill_of_materials_names_each_package_of_the_program_once() {
    let mut script = Command::new("python3");
    script.args(["-B", "tests/lab/scripts/sbom.py"]).env("CARGO_NET_OFFLINE", "true").current_dir(root());
    let made = script.output().unwrap();
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    let document: Value = serde_json::from_slice(&made.stdout).unwrap();
    assert_eq!((document["bomFormat"].as_str(), document["specVersion"].as_str()), (Some("CycloneDX"), Some("1.5")));
    assert_eq!(document["metadata"]["component"]["name"], "llm-diagnose");
    let locked = locked();
    let mut references = BTreeSet::from(["llm-diagnose:llm-diagnose"]);
    for component in document["components"].as_array().unwrap() {
        let text = |key: &str| component[key].as_str().unwrap_or_default();
        assert!(references.insert(text("bom-ref")), "{component} stands twice");
        assert!(component["licenses"][0]["expression"].is_string(), "{component} has no licence");
        // A crate of this project is in no registry.
        if component.get("purl").is_some() {
            let key = (text("name").to_owned(), text("version").parse().unwrap());
            assert_eq!(text("purl"), format!("pkg:cargo/{}@{}", key.0, key.1));
            assert_eq!(component["hashes"][0]["content"].as_str(), locked.get(&key).map(String::as_str), "{component}");
        } else {
            assert!(root().join("src").join(text("name")).exists(), "{component} is not of this project");
        }
    }
    let has = |name: &str| references.iter().any(|reference| reference.starts_with(&format!("pkg:cargo/{name}@")));
    assert_eq!((has("axum"), has("insta")), (true, false), "only tests use insta");
    let graph = document["dependencies"].as_array().unwrap();
    let used = graph.iter().flat_map(|node| node["dependsOn"].as_array().unwrap());
    let named: BTreeSet<&str> =
        graph.iter().map(|node| &node["ref"]).chain(used).map(|r| r.as_str().unwrap()).collect();
    assert_eq!(named, references, "left: the graph, right: the components");
}
