//! One service per state directory, and its store copied and put back.

use std::path::Path;
use std::process::Output;
use std::time::Duration;

use llm_diagnose_lab::slack::{FakeSlack, Options};
use llm_diagnose_lab::stack::Service;
use store::{STORE_FILE, Store, StoreAccess};

use crate::admission::CALM;
use crate::running::{BINARY, CHANNEL, SOON, command, ended, group, tls, whole};
use crate::stores::admit;

async fn run(arguments: &[&str]) -> (Option<i32>, String) {
    let Output { status, stdout, stderr } = ended(command(arguments)).await;
    (status.code(), format!("{}{}", String::from_utf8_lossy(&stdout), String::from_utf8_lossy(&stderr)))
}

async fn fails(arguments: &[&str], because: &str) {
    let (code, said) = run(arguments).await;
    assert!(code == Some(2) && said.contains(because), "{arguments:?}: {code:?} {said}");
}

async fn works(arguments: &[&str]) -> String {
    let (code, said) = run(arguments).await;
    assert_eq!(code, Some(0), "{arguments:?}: {said}");
    said
}

fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}

/// A service with its Slack, and with a state directory that outlives it.
async fn serve(slack: &FakeSlack, state: &Path) -> Service {
    let config = format!(
        "listen: 127.0.0.1:$PORT\nwebhook: {{ authentication: none }}\nstate_dir: {}\nprometheus: [{{ url: \"http://127.0.0.1:1\" }}]\n\
         slack: {{ api_url: \"{}\", channel: \"{CHANNEL}\" }}\n",
        state.display(),
        slack.base_url
    );
    let token = [("SLACK_BOT_TOKEN", slack.token.as_str())];
    Service::start(Path::new(BINARY), &["serve", "--config", "$CONFIG"], &token, &config).await.unwrap()
}

async fn send(service: &Service, name: &str, status: &str) {
    let url = format!("{}/webhook/alertmanager", service.url);
    let body = group(name, status, "warning", &["a"]);
    let answer = reqwest::Client::new().post(url).json(&body).send().await.unwrap();
    assert_eq!(answer.status().as_u16(), 200);
}

async fn shown(slack: &FakeSlack, what: &str) {
    let found = slack.wait_for(|s| s.messages(CHANNEL).any(|m| whole(m).contains(what)), SOON).await;
    found.unwrap_or_else(|error| panic!("{what}: {error}"));
}

#[tokio::test]
async fn a_second_service_on_one_state_directory_is_refused_and_whoever_reads_is_not() {
    tls();
    let slack = FakeSlack::start(Options::unlimited()).await.unwrap();
    let directory = tempfile::tempdir().unwrap();
    let state = directory.path().join("state");
    let mut service = serve(&slack, &state).await;
    let second = ["serve", "--state-dir", text(&state), "--listen", "127.0.0.1:0", "--webhook-authentication", "none"];
    fails(&second, &format!("another llm-diagnose uses the state directory {}", state.display())).await;
    fails(&second, &format!("(process {})", service.id().unwrap())).await;
    send(&service, "LLMHighTTFT", "firing").await;
    shown(&slack, "LLMHighTTFT").await;
    assert!(works(&["incidents", "--state-dir", text(&state)]).await.contains("open"));
    // A process that is killed leaves the file, and no lock.
    service.kill9().await.unwrap();
    assert!(state.join("llm-diagnose.lock").exists());
    let service = serve(&slack, &state).await;
    send(&service, "LLMHighTTFT", "resolved").await;
    shown(&slack, "RESOLVED").await;
    assert_eq!(slack.messages(CHANNEL).len(), 1);
}

#[tokio::test]
async fn a_backup_of_a_running_service_is_restored_and_its_messages_are_edited_again() {
    tls();
    let slack = FakeSlack::start(Options::unlimited()).await.unwrap();
    let directory = tempfile::tempdir().unwrap();
    let (state, file) = (directory.path().join("state"), directory.path().join("it's a backup.db"));
    let mut service = serve(&slack, &state).await;
    send(&service, "LLMHighTTFT", "firing").await;
    shown(&slack, "LLMHighTTFT").await;
    // What is shown is known a moment later.
    let look = Store::visit(&state.join(STORE_FILE), StoreAccess::ReadOnly).await.unwrap();
    let id = look.recent(1).await.unwrap().remove(0);
    let known = async {
        while look.place_of(&id).await.unwrap().is_none() {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(SOON, known).await.unwrap();
    look.close().await;
    let backup = ["backup", text(&file), "--state-dir", text(&state)];
    works(&backup).await;
    let mode = std::os::unix::fs::PermissionsExt::mode(&std::fs::metadata(&file).unwrap().permissions());
    assert_eq!(mode & 0o777, 0o600, "alerts are nobody else's business");
    fails(&backup, "exists").await;
    let restore = ["restore", text(&file), "--state-dir", text(&state)];
    fails(&restore, "another llm-diagnose uses the state directory").await;
    service.terminate(Duration::from_secs(15)).await.unwrap();

    // After the backup another incident came, and then the disk was lost.
    std::fs::write(state.join(STORE_FILE), "not a database").unwrap();
    let said = works(&restore).await;
    assert!(said.contains("the store that it replaces is kept: ") && said.contains(".replaced-"), "{said}");
    let kept = said.trim().rsplit(' ').next().unwrap();
    assert_eq!(std::fs::read_to_string(kept).unwrap(), "not a database");
    let service = serve(&slack, &state).await;
    send(&service, "LLMHighTTFT", "resolved").await;
    shown(&slack, "RESOLVED").await;
    assert_eq!(slack.messages(CHANNEL).len(), 1, "the message that the backup knows was edited");
}

#[tokio::test]
async fn what_is_no_backup_is_refused_and_the_store_stays() {
    let directory = tempfile::tempdir().unwrap();
    let state = directory.path().join("state");
    let at = |name: &str| directory.path().join(name);
    fails(&["backup", text(&at("x")), "--state-dir", text(&state)], "there is no store at ").await;
    assert!(!at("x").exists() && !state.exists());
    std::fs::create_dir(&state).unwrap();
    let store = Store::open(&state.join(STORE_FILE)).await.unwrap();
    let (id, _) = admit(&store, "A", "firing", &CALM, 0).await;
    // Beside an open store what was written last stands in the file beside it; SQLite copies both.
    works(&["backup", text(&at("good")), "--state-dir", text(&state)]).await;
    store.close().await;
    let refused = async |name: &str, because: &str| {
        fails(&["restore", text(&at(name)), "--state-dir", text(&state)], because).await;
        assert!(!state.join(format!("{STORE_FILE}.restoring")).exists());
    };
    refused("missing", "No such file").await;
    std::fs::write(at("text"), "not a database").unwrap();
    refused("text", "no llm-diagnose has made its tables in it").await;
    let other = sqlx::AnyPool::connect(&format!("sqlite:{}?mode=rwc", at("other").display())).await.unwrap();
    sqlx::query("CREATE TABLE t (a TEXT)").execute(&other).await.unwrap();
    other.close().await;
    refused("other", "no llm-diagnose has made its tables in it").await;
    std::fs::copy(at("good"), at("newer")).unwrap();
    let newer = sqlx::AnyPool::connect(&format!("sqlite:{}", at("newer").display())).await.unwrap();
    sqlx::query("UPDATE compatibility SET needs = 999").execute(&newer).await.unwrap();
    newer.close().await;
    refused("newer", "a newer llm-diagnose keeps it").await;
    let good = std::fs::read(at("good")).unwrap();
    std::fs::write(at("cut"), &good[..good.len() / 2]).unwrap();
    refused("cut", "restore").await;
    std::fs::write(at("good-wal"), "x").unwrap();
    refused("good", "it lacks the changes in the file beside it").await;
    std::fs::remove_file(at("good-wal")).unwrap();

    let still = Store::visit(&state.join(STORE_FILE), StoreAccess::ReadOnly).await.unwrap();
    assert!(still.incident(&id).await.unwrap().is_some());
    still.close().await;
    // And into a directory in which there is nothing yet.
    let empty = at("empty");
    let said = works(&["restore", text(&at("good")), "--state-dir", text(&empty)]).await;
    assert!(!said.contains("replaces"), "{said}");
    let restored = Store::visit(&empty.join(STORE_FILE), StoreAccess::ReadOnly).await.unwrap();
    assert!(restored.incident(&id).await.unwrap().is_some());
}

#[tokio::test]
async fn with_postgresql_the_exact_command_is_said() {
    let directory = tempfile::tempdir().unwrap();
    let (config, url) = (directory.path().join("c.yaml"), directory.path().join("url"));
    std::fs::write(&config, format!("database: {{ url_file: {} }}\n", url.display())).unwrap();
    std::fs::write(&url, "postgres://u:s3cret@db/llm").unwrap();
    let with = ["--config", text(&config)];
    // Arguments stand in `ps`: the password is none of them.
    let dump = "pg_dump --format=custom --file=a.dump --dbname=postgres://u@db/llm\n";
    fails(&["backup", "a.dump", with[0], with[1]], dump).await;
    fails(&["restore", "a.dump", with[0], with[1]], "--dbname=postgres://u@db/llm a.dump\n").await;
}

#[tokio::test]
async fn a_store_in_a_file_is_its_owners_alone() {
    use std::os::unix::fs::PermissionsExt;
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("llm-diagnose.db");
    let modes = || {
        let files = ["", "-wal", "-shm"].map(|suffix| format!("{}{suffix}", path.display()));
        files.map(|file| std::fs::metadata(file).unwrap().permissions().mode() & 0o777)
    };
    let store = Store::open(&path).await.unwrap();
    assert_eq!(modes(), [0o600; 3]);
    store.close().await;
    std::fs::set_permissions(&path, PermissionsExt::from_mode(0o644)).unwrap();
    let store = Store::open(&path).await.unwrap();
    assert_eq!(modes(), [0o600; 3], "one that was there");
    store.close().await;
}
