//! The phase of one connection and its start, to distinguish a silent connection from a working one.

use std::io;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use axum::Router;
use axum::body::Body;
use axum::extract::ConnectInfo;
use axum::http::{Request, Response};
use hyper::body::{Body as HttpBody, Bytes, Frame, Incoming, SizeHint};
use hyper::server::conn::http1;
use hyper::service::{Service, service_fn};
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio_util::sync::CancellationToken;
use tracing::debug;

use service::config::ServerLimits;

/// Maximum number of bytes that are read ahead of a request; its head must fit.
const HEAD_BYTES: usize = 32 << 10;

/// The phase of a connection. At the limit, connections are closed in this order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Phase {
    /// Between two requests.
    Idle,
    /// Receiving the head of a request.
    Header,
    /// Receiving the body of a request.
    Body,
    /// The client does not read its response.
    Stalled,
    /// Processing the request or sending the response; never closed.
    Answer,
}

/// A connection, as the server tracks it.
#[derive(Debug)]
pub(super) struct HttpConnection {
    state: Mutex<(Phase, Instant)>,
    /// Closes the connection at once.
    pub(super) cut: CancellationToken,
}

impl HttpConnection {
    /// Creates the state of an accepted connection, which waits for its first request.
    pub(super) fn new() -> Self {
        Self { state: Mutex::new((Phase::Header, Instant::now())), cut: CancellationToken::new() }
    }

    /// Returns the phase and its start.
    pub(super) fn state(&self) -> (Phase, Instant) {
        *self.lock()
    }

    /// Returns the exceeded timeout; `None` if there is none.
    pub(super) fn overdue(&self, limits: &ServerLimits) -> Option<&'static str> {
        let (phase, since) = self.state();
        let (why, most): (_, Duration) = match phase {
            Phase::Idle => ("idle", limits.idle_timeout),
            Phase::Header => ("header_late", limits.header_timeout),
            Phase::Body => ("body_late", limits.body_timeout),
            Phase::Stalled => ("stalled", limits.body_timeout),
            Phase::Answer => return None,
        };
        (since.elapsed() > most).then_some(why)
    }

    fn go_on(&self, from: &[Phase], to: Phase) {
        let mut state = self.lock();
        if from.contains(&state.0) {
            *state = (to, Instant::now());
        }
    }

    fn lock(&self) -> MutexGuard<'_, (Phase, Instant)> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Serves a connection until it ends or is closed, or until its current request is finished after the stop.
pub(super) async fn drive(
    stream: TcpStream,
    from: std::net::SocketAddr,
    app: Router,
    connection: Arc<HttpConnection>,
    stop: CancellationToken,
) {
    let app = TowerToHyperService::new(app);
    let service = service_fn(|request: Request<Incoming>| {
        let answer = app.call(taken(request, from, &connection));
        let connection = Arc::clone(&connection);
        async move { answer.await.map(|response| answered(response, connection)) }
    });
    let io = TokioIo::new(Watched { stream, connection: Arc::clone(&connection) });
    let mut server = http1::Builder::new();
    // The listener applies the timeouts.
    server.timer(TokioTimer::new()).header_read_timeout(None).max_buf_size(HEAD_BYTES);
    let mut http = std::pin::pin!(server.serve_connection(io, service));
    let end = tokio::select! {
        end = http.as_mut() => end,
        () = connection.cut.cancelled() => return,
        () = stop.cancelled() => {
            http.as_mut().graceful_shutdown();
            tokio::select! {
                end = http => end,
                () = connection.cut.cancelled() => return,
            }
        }
    };
    if let Err(error) = end {
        debug!(%error, %from, "a connection ended early");
    }
}

/// Tracks the body of a request whose head has arrived.
fn taken(request: Request<Incoming>, from: std::net::SocketAddr, connection: &Arc<HttpConnection>) -> Request<Body> {
    connection.go_on(&[Phase::Idle, Phase::Header], Phase::Body);
    // Dropped at the end of the body, or when the handler does not want it; then the answer is being prepared.
    let end = PhaseGuard { connection: Arc::clone(connection), from: &[Phase::Body], to: Phase::Answer };
    let mut request = request.map(|body| Body::new(Followed { body, _end: end }));
    if request.body().is_end_stream() {
        connection.go_on(&[Phase::Body], Phase::Answer);
    }
    request.extensions_mut().insert(ConnectInfo(from));
    request
}

/// Tracks the body of a response.
fn answered(response: Response<Body>, connection: Arc<HttpConnection>) -> Response<Body> {
    const SENDING: &[Phase] = &[Phase::Body, Phase::Answer, Phase::Stalled];
    let end = PhaseGuard { connection, from: SENDING, to: Phase::Idle };
    response.map(|body| Body::new(Followed { body, _end: end }))
}

/// Moves a connection to the next phase on drop.
struct PhaseGuard {
    connection: Arc<HttpConnection>,
    from: &'static [Phase],
    to: Phase,
}

impl Drop for PhaseGuard {
    fn drop(&mut self) {
        self.connection.go_on(self.from, self.to);
    }
}

/// A body whose end changes the phase.
struct Followed<B> {
    body: B,
    _end: PhaseGuard,
}

impl<B: HttpBody<Data = Bytes> + Unpin> HttpBody for Followed<B> {
    type Data = Bytes;
    type Error = B::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Self::Error>>> {
        Pin::new(&mut self.body).poll_frame(context)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

/// A stream that reports stalled writes and new requests.
struct Watched {
    stream: TcpStream,
    connection: Arc<HttpConnection>,
}

impl Watched {
    fn wrote<T>(&self, wrote: Poll<T>) -> Poll<T> {
        match &wrote {
            Poll::Pending => self.connection.go_on(&[Phase::Answer], Phase::Stalled),
            Poll::Ready(_) => self.connection.go_on(&[Phase::Stalled], Phase::Answer),
        }
        wrote
    }
}

impl AsyncRead for Watched {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        let read = Pin::new(&mut self.stream).poll_read(context, buffer);
        if buffer.filled().len() > before {
            self.connection.go_on(&[Phase::Idle], Phase::Header);
        }
        read
    }
}

impl AsyncWrite for Watched {
    fn poll_write(mut self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let wrote = Pin::new(&mut self.stream).poll_write(context, bytes);
        self.wrote(wrote)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let wrote = Pin::new(&mut self.stream).poll_write_vectored(context, slices);
        self.wrote(wrote)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}
