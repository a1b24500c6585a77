//! Notifications to systemd: ready, alive, stopping. Source: sd_notify(3),
//! <https://www.freedesktop.org/software/systemd/man/latest/sd_notify.html>.

use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::time::Duration;

use tokio_util::sync::CancellationToken;
use tracing::{error, warn};

/// The socket on which systemd listens to this service.
#[derive(Debug)]
pub struct Systemd {
    socket: UnixDatagram,
    address: SocketAddr,
    /// The time within which systemd expects a watchdog signal; `None` if it expects none.
    watchdog: Option<Duration>,
}

impl Systemd {
    /// Connects to the systemd that started this process; `None` if systemd did not start it.
    pub fn from_env() -> Option<Self> {
        let name = std::env::var_os("NOTIFY_SOCKET").filter(|name| !name.is_empty())?;
        let address = match name.as_bytes() {
            #[cfg(target_os = "linux")]
            [b'@', name @ ..] => <SocketAddr as std::os::linux::net::SocketAddrExt>::from_abstract_name(name),
            path => SocketAddr::from_pathname(std::ffi::OsStr::from_bytes(path)),
        };
        let number = |name: &str| std::env::var(name).ok()?.parse::<u64>().ok();
        let is_own_process = number("WATCHDOG_PID").is_none_or(|id| id == u64::from(std::process::id()));
        let watchdog = number("WATCHDOG_USEC").filter(|usec| is_own_process && *usec > 0).map(Duration::from_micros);
        let socket = UnixDatagram::unbound().and_then(|socket| {
            // A systemd that does not read must not block this process.
            socket.set_nonblocking(true)?;
            Ok(socket)
        });
        match (socket, address) {
            (Ok(socket), Ok(address)) => Some(Self { socket, address, watchdog }),
            (Err(error), _) | (_, Err(error)) => {
                warn!(%error, "cannot notify systemd (NOTIFY_SOCKET)");
                None
            }
        }
    }

    /// Sends one state, such as `READY=1`.
    pub fn tell(&self, state: &str) {
        if let Err(error) = self.socket.send_to_addr(state.as_bytes(), &self.address) {
            warn!(%error, state, "cannot notify systemd");
        }
    }

    /// Sends the watchdog signal twice within the time that systemd expects, as long as `trouble` returns `None`;
    /// without the signal systemd restarts the service. Returns at once if systemd expects no signal.
    pub async fn watchdog(&self, trouble: impl Fn() -> Option<String>, stop: CancellationToken) {
        let Some(within) = self.watchdog else { return };
        let mut tick = tokio::time::interval(within / 2);
        loop {
            tokio::select! {
                _ = tick.tick() => {}
                () = stop.cancelled() => return,
            }
            match trouble() {
                None => self.tell("WATCHDOG=1"),
                Some(error) => error!(
                    error,
                    "the liveness check fails: sending no watchdog signal, so systemd restarts the service"
                ),
            }
        }
    }
}
