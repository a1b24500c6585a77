//! What systemd hears of the service, over a socket like its own.

use std::path::Path;
use std::time::Duration;

use llm_diagnose_lab::stack::Service;
use tokio::net::UnixDatagram;

use crate::running::{BINARY, SOON, tls};

async fn heard(socket: &UnixDatagram) -> String {
    let mut buffer = [0; 256];
    let n = tokio::time::timeout(SOON, socket.recv(&mut buffer)).await.expect("systemd hears of it").unwrap();
    String::from_utf8(buffer[..n].to_vec()).unwrap()
}

#[tokio::test]
async fn systemd_hears_of_the_start_the_life_and_the_stop() {
    tls();
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("notify");
    let socket = UnixDatagram::bind(&path).unwrap();
    let config = "listen: 127.0.0.1:$PORT\nwebhook: { authentication: none }\nstate_dir: $DIR/state\nprometheus: [{ url: \"http://127.0.0.1:1\" }]\n";
    let env = [("NOTIFY_SOCKET", path.to_str().unwrap()), ("WATCHDOG_USEC", "200000")];
    let mut service = Service::start(Path::new(BINARY), &["serve", "--config", "$CONFIG"], &env, config).await.unwrap();
    assert_eq!(heard(&socket).await, "READY=1");
    for _ in 0..3 {
        assert_eq!(heard(&socket).await, "WATCHDOG=1");
    }
    let stop = tokio::spawn(async move { service.terminate(Duration::from_secs(15)).await.unwrap() });
    while heard(&socket).await != "STOPPING=1" {}
    assert!(stop.await.unwrap().success());
}

#[test]
fn the_unit_asks_for_what_the_service_tells() {
    let unit =
        std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("config/systemd/llm-diagnose.service"));
    let unit = unit.unwrap();
    for line in ["Type=notify", "NotifyAccess=main", "WatchdogSec=60", "LimitNOFILE=65536", "Restart=on-failure"] {
        assert!(unit.lines().any(|own| own == line), "{line}");
    }
    // Without credentials for the webhook it does not start: the recipe at the top names one that is loaded.
    let named =
        unit.lines().find_map(|line| line.split_once("bearer_token_file: /run/credentials/llm-diagnose.service/"));
    let loaded = unit.lines().find_map(|line| line.strip_prefix("LoadCredential=")?.split_once(':'));
    let (name, path) = loaded.unwrap();
    assert_eq!(named.unwrap().1, name);
    assert!(unit.contains(&format!("openssl rand -hex 32 | install -m 0600 /dev/stdin {path}\n")), "{path}");
}
