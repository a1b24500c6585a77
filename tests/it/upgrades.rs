//! One version back must run: migrations only expand, and what a newer version added disturbs nobody. With the binary of
//! the previous release itself: `make upgrade-check`.

use std::path::Path;

use store::{Store, StoreAccess, StoreError};

use crate::admission::CALM;
use crate::stores::{Both, admit, at, deliver, take};

/// What a later version may do to a store.
const FUTURE: [&str; 4] = [
    "ALTER TABLE incidents ADD COLUMN future TEXT",
    "ALTER TABLE deliveries ADD COLUMN future BIGINT NOT NULL DEFAULT 7",
    "CREATE TABLE futures (id TEXT PRIMARY KEY)",
    "CREATE INDEX events_future ON events (what)",
];

#[tokio::test]
async fn a_store_that_a_newer_version_has_expanded_is_used_as_before() {
    let both = Both::start();
    let stores = both.stores("ahead").await;
    for (store, database) in stores.iter().zip(both.databases("ahead").await) {
        admit(store, "Before", "firing", &CALM, 0).await;
        for future in FUTURE {
            sqlx::query(future).execute(&database).await.unwrap();
        }
        let applied = "INSERT INTO _sqlx_migrations (version, description, success, checksum, execution_time)
                       VALUES (999, 'future', TRUE, $1, 0)";
        sqlx::query(applied).bind(vec![1_u8]).execute(&database).await.unwrap();
    }
    for store in both.again("ahead").await {
        let store = store.unwrap();
        let (id, _) = admit(&store, "After", "firing", &CALM, 1).await;
        let (messages, _, _) = take(&store, 2).await;
        assert_eq!(messages.len(), 4, "two incidents, each for Slack and for the console");
        for message in &messages {
            deliver(&store, message, "1.1", 3).await;
        }
        assert_eq!(store.depths(at(4)).await.unwrap().2, 0);
        assert!(store.incident(&id).await.unwrap().is_some());
    }
    let visit = Store::visit(&both.directory.path().join("ahead"), StoreAccess::ReadOnly).await.unwrap();
    assert_eq!(visit.recent(9).await.unwrap().len(), 2);
}

#[tokio::test]
async fn a_store_from_which_something_was_taken_that_this_version_uses_is_refused_with_the_way_out() {
    let both = Both::start();
    both.stores("contracted").await;
    for database in both.databases("contracted").await {
        sqlx::query("UPDATE compatibility SET needs = 999").execute(&database).await.unwrap();
    }
    for store in both.again("contracted").await {
        let refused = store.unwrap_err();
        assert!(matches!(refused, StoreError::Newer { found: 999, .. }), "{refused}");
        assert!(refused.to_string().contains("restore a backup"), "{refused}");
    }
}

/// A statement without comments, in capitals, with single spaces.
fn statements(sql: &str) -> Vec<String> {
    let code: Vec<&str> = sql.lines().map(|line| line.split("--").next().unwrap_or_default()).collect();
    let words = |statement: &str| statement.split_whitespace().collect::<Vec<_>>().join(" ").to_uppercase();
    code.join("\n").split(';').map(words).filter(|statement| !statement.is_empty()).collect()
}

/// Whether an older program still works after this statement; `all` are the file's.
fn expands(statement: &str, all: &[String]) -> bool {
    let words: Vec<&str> = statement.split([' ', '(']).filter(|word| !word.is_empty()).collect();
    let after = |word: &str| words.iter().skip_while(|w| **w != word).nth(1).copied().unwrap_or_default();
    let new = |table: &str| all.iter().any(|other| other.starts_with(&format!("CREATE TABLE {table} ")));
    match words.as_slice() {
        ["CREATE", "TABLE" | "INDEX", ..] | ["INSERT", ..] => true,
        ["UPDATE", ..] => !statement.starts_with("UPDATE COMPATIBILITY"),
        // On a table that older programs write to, it refuses what they write; but for a wider one in place of another.
        ["CREATE", "UNIQUE", ..] => new(after("ON")) || all.iter().any(|other| other.starts_with("DROP INDEX")),
        ["DROP", "INDEX", ..] => true,
        ["ALTER", "TABLE", _, "ADD", ..] => {
            let needed = statement.contains("NOT NULL") && !statement.contains("DEFAULT");
            !(needed || ["UNIQUE", "CHECK", "REFERENCES", "PRIMARY"].iter().any(|word| words.contains(word)))
        }
        _ => false,
    }
}

/// The migration that a program must know after this file, when it takes something away.
fn needs(all: &[String]) -> Option<i64> {
    all.iter().find_map(|statement| statement.strip_prefix("UPDATE COMPATIBILITY SET NEEDS = ")?.parse().ok())
}

#[test]
fn migrations_expand_or_say_whom_they_leave_behind() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/store/migrations");
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        let number: i64 = name.split('_').next().unwrap().parse().unwrap();
        let all = statements(&std::fs::read_to_string(&path).unwrap());
        let wrong: Vec<_> = all.iter().filter(|statement| !expands(statement, &all)).collect();
        let said = needs(&all).is_some_and(|needs| needs < number);
        assert!(wrong.is_empty() || said, "{name}: an older version cannot use the store after {wrong:?} (schema.rs)");
    }
}

#[test]
fn what_breaks_an_older_program_is_recognised() {
    for (sql, fine) in [
        ("CREATE TABLE a (b TEXT NOT NULL); CREATE UNIQUE INDEX c ON a (b);", true),
        ("ALTER TABLE incidents ADD COLUMN a TEXT; -- DROP TABLE x\nCREATE INDEX b ON incidents (a)", true),
        ("ALTER TABLE incidents ADD COLUMN a BIGINT NOT NULL DEFAULT 0", true),
        ("ALTER TABLE incidents ADD COLUMN a BIGINT NOT NULL", false),
        ("ALTER TABLE incidents RENAME COLUMN a TO b", false),
        ("ALTER TABLE incidents DROP COLUMN a", false),
        ("drop table events", false),
        ("DELETE FROM events", false),
        ("CREATE UNIQUE INDEX c ON events (what)", false),
    ] {
        let all = statements(sql);
        assert_eq!(all.iter().all(|statement| expands(statement, &all)), fine, "{sql}");
    }
    assert_eq!(needs(&statements("DROP TABLE x;\nUPDATE compatibility SET needs = 8;")), Some(8));
}
