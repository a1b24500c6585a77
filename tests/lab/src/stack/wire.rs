//! A wire to a PostgreSQL: it can fall silent without closing anything, and lead to another server.

use std::path::PathBuf;

use anyhow::Context;
use tokio::io::copy_bidirectional;
use tokio::net::{TcpListener, TcpStream, UnixStream};
use tokio::sync::watch;
use tokio::task::JoinHandle;

/// A TCP port that leads to a server's Unix socket.
#[derive(Debug)]
pub struct Wire {
    port: u16,
    leads_to: watch::Sender<Option<PathBuf>>,
    accepting: JoinHandle<()>,
}

impl Wire {
    /// Listens on a free port.
    pub async fn start(to: PathBuf) -> anyhow::Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0").await.context("no free port on 127.0.0.1")?;
        let port = listener.local_addr()?.port();
        let (leads_to, changes) = watch::channel(Some(to));
        let accepting = tokio::spawn(async move {
            let mut open = tokio::task::JoinSet::new();
            while let Ok((client, _)) = listener.accept().await {
                open.spawn(carry(client, changes.clone()));
            }
        });
        Ok(Self { port, leads_to, accepting })
    }

    /// The address of a PostgreSQL's only database behind it.
    pub fn url(&self) -> String {
        format!("postgres://postgres@127.0.0.1:{}/postgres", self.port)
    }

    /// From now on nothing passes, and nobody is told: as when a machine loses its power.
    pub fn silence(&self) {
        self.leads_to.send_replace(None);
    }

    /// New connections lead there; those that were open stay silent.
    pub fn lead_to(&self, to: PathBuf) {
        self.leads_to.send_replace(Some(to));
    }
}

impl Drop for Wire {
    fn drop(&mut self) {
        self.accepting.abort();
    }
}

/// Carries what both say until the wire changes; then holds the client's end and says nothing.
async fn carry(mut client: TcpStream, mut changes: watch::Receiver<Option<PathBuf>>) {
    let to = changes.borrow_and_update().clone();
    let Some(to) = to else { return std::future::pending().await };
    let Ok(mut server) = UnixStream::connect(to).await else { return };
    tokio::select! {
        _ = copy_bidirectional(&mut client, &mut server) => {}
        _ = changes.changed() => std::future::pending().await,
    }
}
