//! The admin port: a page for people, metrics for Prometheus, health, and JSON for both the page
//! and `larder top`.
//!
//! ```text
//! connection -> http -> desk -> collect -> metrics, json   what is asked for
//!                    \-> assets                             the page itself
//!                    \-> health                             whether the server is well
//! ```
//!
//! All of HTTP runs on one thread, whose runtime does nothing else, and which takes no lock that
//! workers have: it tells that the server is well, or is not, whatever holds these up. A second
//! one, the admin thread, collects at its `desk`: it shares no locks with the workers except those
//! under which statistics are read, and holds none of them, and no session of the cache, while it
//! waits. HTTP is hyper's; the limits are set here. A connection serves one request and has
//! [`CONNECTION_PATIENCE`] for all of it, so a client that sends or reads slowly is cut off, and at
//! [`CONNECTIONS_MAX`] the next ones wait in the kernel.
//!
//! With `-Z` all of it goes through TLS, unless the address says `notls:`.
//!
//! Nothing here changes anything: only GET and HEAD are answered.

mod collect;
mod desk;
mod history;
mod http;
mod json;
mod keys;
mod latency;
mod metrics;

use std::convert::Infallible;
use std::future::poll_fn;
use std::io;
use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;
use std::sync::mpsc::{SyncSender, sync_channel};
use std::task::Poll;
use std::thread;
use std::time::Duration;

use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::sync::Notify;
use tokio_rustls::TlsAcceptor;

use self::desk::Asked;
use self::http::Site;
use crate::listen;
use crate::options::Options;
use crate::server::Server;

/// Connections at one time. A browser has six, and Prometheus one.
const CONNECTIONS_MAX: usize = 32;

/// The longest time of a connection, for its one request and the answer: enough to read half a MiB
/// over a bad line.
const CONNECTION_PATIENCE: Duration = Duration::from_secs(10);

/// The longest time until the header of a request has come, from when its connection came or, over
/// TLS, from the end of the handshake, which may take as long. Silent clients keep others from
/// asking whether the server is well; and a lost TCP segment comes again in that time.
const HEADER_PATIENCE: Duration = Duration::from_secs(2);

/// The longest header of a request; the least that hyper takes.
const HEADER_BYTES_MAX: usize = 8 << 10;

/// Delay after which accepting is tried again when it failed.
const ACCEPT_RETRY: Duration = Duration::from_millis(100);

/// Descriptors of the admin port: connections, listeners, and the runtime's own.
pub const FILES_MAX: u64 = CONNECTIONS_MAX as u64 + 16;

/// Takes the addresses of the admin port; none if there is no such port.
pub fn bind(options: &Options) -> Result<Vec<TcpListener>, String> {
    let Some(port) = options.admin_port else { return Ok(Vec::new()) };
    let (name, _) = listen::plain(&options.admin_listen);
    let failed =
        |error: io::Error| format!("cannot listen on {name} for --admin-port {port}: {error}");
    let found = listen::resolve(name, port).map_err(failed)?;
    let listeners = listen::bind_each(&found, |address| {
        let listener = TcpListener::bind(address)?;
        listener.set_nonblocking(true)?;
        Ok(Some(listener))
    });
    listeners.map_err(|(_, error)| failed(error))
}

/// The threads, which end when this is dropped.
pub struct AdminThread<'s> {
    server: &'s Server,
    addresses: Vec<SocketAddr>,
    /// Held until it runs.
    listeners: Vec<TcpListener>,
    end: Arc<Notify>,
}

impl<'s> AdminThread<'s> {
    /// Threads that will answer on `listeners`.
    pub fn new(listeners: Vec<TcpListener>, server: &'s Server) -> Self {
        let addresses = listeners.iter().filter_map(|one| one.local_addr().ok()).collect();
        Self { server, addresses, listeners, end: Arc::default() }
    }

    /// The addresses that it answers at.
    pub fn addresses(&self) -> &[SocketAddr] {
        &self.addresses
    }

    /// Starts them, unless they run or have nothing to listen on.
    pub fn start<'scope>(&mut self, scope: &'scope thread::Scope<'scope, '_>) -> Result<(), String>
    where
        's: 'scope,
    {
        if self.listeners.is_empty() {
            return Ok(());
        }
        let failed = |error| format!("cannot start what answers on --admin-port: {error}");
        let (server, end) = (self.server, Arc::clone(&self.end));
        let listeners = std::mem::take(&mut self.listeners);
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let runtime = runtime.map_err(failed)?;
        let (desk, questions) = sync_channel(CONNECTIONS_MAX);
        let body = move || {
            runtime.block_on(async {
                tokio::select! {
                    () = serve(server, listeners, desk) => {}
                    () = end.notified() => {}
                }
            });
        };
        let named = |name: &str| thread::Builder::new().name(name.to_owned());
        // It ends with the other, which has the only way to ask.
        let collect = move || desk::serve(server, &questions);
        named("admin").spawn_scoped(scope, collect).map_err(failed)?;
        named("admin-http").spawn_scoped(scope, body).map(drop).map_err(failed)
    }
}

impl Drop for AdminThread<'_> {
    fn drop(&mut self) {
        self.end.notify_one();
    }
}

/// Answers.
async fn serve(server: &Server, listeners: Vec<TcpListener>, desk: SyncSender<Asked>) {
    let listeners: Vec<_> = listeners
        .into_iter()
        .map(tokio::net::TcpListener::from_std)
        .collect::<Result<_, _>>()
        .expect("a queue takes a listener that does not block");
    let is_local =
        listeners.iter().all(|one| one.local_addr().is_ok_and(|at| at.ip().is_loopback()));
    let site = Site { server, desk, is_local };
    let mut connections = FuturesUnordered::new();
    loop {
        let may_accept = connections.len() < CONNECTIONS_MAX;
        tokio::select! {
            Some(()) = connections.next() => {}
            accepted = accept(&listeners), if may_accept => match accepted {
                Ok(stream) => connections.push(converse(stream, &site)),
                // Descriptors may have run out: everything here waits until some have been closed.
                Err(_) => tokio::time::sleep(ACCEPT_RETRY).await,
            },
        }
    }
}

/// The next connection, from any listener.
async fn accept(listeners: &[tokio::net::TcpListener]) -> io::Result<TcpStream> {
    poll_fn(|context| {
        for listener in listeners {
            if let Poll::Ready(accepted) = listener.poll_accept(context) {
                return Poll::Ready(accepted.map(|(stream, _)| stream));
            }
        }
        Poll::Pending
    })
    .await
}

/// Serves one connection: one request and its answer, in time.
async fn converse(stream: TcpStream, site: &Site<'_>) {
    let conversation = async {
        match site.server.admin_tls() {
            None => answer(stream, site).await,
            Some(tls) => {
                let client = stream.peer_addr();
                let acceptor = TlsAcceptor::from(tls.config().rustls());
                let handshake = tokio::time::timeout(HEADER_PATIENCE, acceptor.accept(stream));
                // A client that does not complete the handshake gets no answer.
                let text = match handshake.await {
                    Ok(Ok(stream)) => return answer(stream, site).await,
                    Ok(Err(error)) => error.to_string(),
                    Err(_) => "the handshake takes too long".to_owned(),
                };
                let client = client.map_or("a client that is gone".into(), |it| it.to_string());
                site.server.log(1, &format!("TLS with {client} at the admin port failed: {text}"));
            }
        }
    };
    let _ = tokio::time::timeout(CONNECTION_PATIENCE, conversation).await;
}

/// Reads the request and sends its answer.
async fn answer(stream: impl AsyncRead + AsyncWrite + Unpin, site: &Site<'_>) {
    let service = service_fn(async |request| Ok::<_, Infallible>(site.answer(&request).await));
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEADER_PATIENCE)
        .max_buf_size(HEADER_BYTES_MAX)
        .keep_alive(false)
        .serve_connection(TokioIo::new(stream), service);
    // A client that breaks off or is too slow gets no answer.
    let _ = connection.await;
}
