//! The manifest asks Slack for what the program uses: no scope too few, none too many.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use serde_json::Value;
use slack::scopes::{EVENTS, METHODS, scopes};

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

fn manifest() -> Value {
    let text = fs::read_to_string(root().join("config/slack/manifest.yaml")).unwrap();
    serde_saphyr::from_str(&text).unwrap()
}

fn texts(value: &Value) -> Vec<&str> {
    value.as_array().unwrap().iter().map(|v| v.as_str().unwrap()).collect()
}

#[test]
fn the_manifest_asks_for_the_scopes_and_events_of_the_table() {
    let manifest = manifest();
    assert_eq!(texts(&manifest["oauth_config"]["scopes"]["bot"]), scopes());
    let settings = &manifest["settings"];
    let mut events = texts(&settings["event_subscriptions"]["bot_events"]);
    let command = &manifest["features"]["slash_commands"][0];
    events.push(command["command"].as_str().unwrap());
    assert_eq!(events, EVENTS.iter().map(|(event, _)| *event).collect::<Vec<_>>());
    assert_eq!(settings["socket_mode_enabled"], true);
    assert_eq!(settings["interactivity"]["is_enabled"], true);
    assert_eq!(manifest["features"]["app_home"]["messages_tab_read_only_enabled"], false);
}

/// Slack's limits: <https://docs.slack.dev/reference/app-manifest>.
#[test]
fn the_manifest_keeps_slacks_lengths() {
    let manifest = manifest();
    let length = |value: &Value| value.as_str().unwrap().chars().count();
    assert!(length(&manifest["display_information"]["name"]) <= 35);
    assert!(length(&manifest["display_information"]["description"]) <= 140);
    assert!(length(&manifest["features"]["bot_user"]["display_name"]) <= 80);
    let command = &manifest["features"]["slash_commands"][0];
    assert!(length(&command["command"]) <= 32 && length(&command["description"]) <= 2_000);
    assert!(length(&command["usage_hint"]) <= 1_000);
}

#[test]
fn every_method_that_the_program_calls_stands_in_the_table_of_scopes() {
    let called: BTreeSet<String> = files(&root().join("src"))
        .iter()
        .filter(|path| !path.ends_with("slack/scopes.rs"))
        .flat_map(|path| methods(&fs::read_to_string(path).unwrap()))
        // The app-level token is for it, not the bot's.
        .filter(|method| method != "apps.connections.open")
        .collect();
    let known: BTreeSet<String> = METHODS.iter().map(|(method, _)| (*method).to_owned()).collect();
    assert_eq!(called, known, "left: what is called, right: src/slack/scopes.rs");
}

/// String literals that are names of Slack's methods.
fn methods(source: &str) -> Vec<String> {
    const FAMILIES: [&str; 12] = [
        "api.",
        "apps.",
        "auth.",
        "chat.",
        "conversations.",
        "files.",
        "pins.",
        "reactions.",
        "usergroups.",
        "users.",
        "views.",
        "bookmarks.",
    ];
    // A quote that is escaped or stands in a comment shifts what is inside and outside, so both are looked at.
    let is_name = |text: &&str| {
        let (family, method) = text.split_at(text.find('.').map_or(0, |dot| dot + 1));
        FAMILIES.contains(&family) && !method.is_empty() && method.chars().all(|c| c.is_ascii_alphabetic() || c == '.')
    };
    source.split('"').filter(is_name).map(str::to_owned).collect()
}

fn files(directory: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().path());
    entries.flat_map(|path| if path.is_dir() { files(&path) } else { vec![path] }).collect()
}
