//! The emulator's own thread: it makes the runtime that serves, ends it as a crash would, and makes another at the same
//! address. What is shared outlives each of them.
//!
//! Never: a call of the protocol.

use crate::{
    EmulatorError,
    control::Control,
    generated::{publisher_server::PublisherServer, subscriber_server::SubscriberServer},
    grpc::Services,
    rest,
    state::Shared,
};
use std::{
    io,
    net::{SocketAddr, TcpListener},
    sync::{
        Arc,
        mpsc::{Receiver, RecvTimeoutError, SyncSender},
    },
    thread,
    time::{Duration, Instant},
};
use tokio::runtime::{Builder, Runtime};
use tonic::{
    service::Routes,
    transport::{Server, server::TcpIncoming},
};

pub(crate) type Commands = SyncSender<Command>;

/// Commands that wait; each sender but the one of outages waits for its answer.
pub(crate) const COMMANDS_MAX: usize = 16;
/// Threads of a runtime: what it serves is on the same machine and wants the other cores.
const WORKERS: usize = 2;
/// A request that is longer is cut off by tonic with OUT_OF_RANGE; below it gets the service's own answer.
const REQUEST_BYTES_MAX: usize = 64 << 20;
/// An answer has 10,000,000 B of messages and what is around them.
const ANSWER_BYTES_MAX: usize = 64 << 20;
/// A whole message without waiting for the reader's leave.
const STREAM_WINDOW_BYTES: u32 = 16 << 20;
const CONNECTION_WINDOW_BYTES: u32 = 32 << 20;
const FRAME_BYTES_MAX: u32 = 1 << 20;
/// Calls of one connection that are answered at a time; more wait.
const CALLS_MAX: usize = 256;
/// How long tasks may take to let go of their sockets.
const SHUTDOWN: Duration = Duration::from_secs(5);
/// How often, and how long at most, a port is tried that the connections before still seem to hold.
const BIND_PAUSE: Duration = Duration::from_millis(20);
const BIND_TRIES: u32 = 100;

pub(crate) enum Command {
    /// Serve, anew if it serves already; the address is told.
    Restart(SyncSender<Result<SocketAddr, EmulatorError>>),
    /// Cut everything and leave the address.
    Kill(SyncSender<()>),
    /// Kill, and restart after this time.
    Outage(Duration),
    Stop,
}

pub(crate) struct Supervisor {
    pub(crate) shared: Arc<Shared>,
    pub(crate) address: SocketAddr,
    pub(crate) commands: Commands,
    pub(crate) serving: Option<Runtime>,
    /// Whether it has served before, so that the start is no restart.
    pub(crate) served: bool,
}

impl Supervisor {
    pub(crate) fn run(mut self, commands: &Receiver<Command>) {
        let mut back_at: Option<Instant> = None;
        loop {
            let command = match back_at {
                Some(at) => commands.recv_timeout(at.saturating_duration_since(Instant::now())),
                None => commands.recv().map_err(RecvTimeoutError::from),
            };
            match command {
                Ok(Command::Restart(answer)) => {
                    back_at = None;
                    // Whoever asked may have given up.
                    answer.send(self.restart()).ok();
                }
                Ok(Command::Kill(answer)) => {
                    back_at = None;
                    self.kill();
                    answer.send(()).ok();
                }
                Ok(Command::Outage(length)) => {
                    self.kill();
                    back_at = Some(Instant::now() + length);
                }
                Err(RecvTimeoutError::Timeout) => {
                    back_at = None;
                    if let Err(error) = self.restart() {
                        tracing::error!(%error, "the outage goes on");
                        back_at = Some(Instant::now() + Duration::from_secs(1));
                    }
                }
                Ok(Command::Stop) | Err(RecvTimeoutError::Disconnected) => {
                    self.end();
                    return;
                }
            }
        }
    }

    fn kill(&mut self) {
        if self.end() {
            self.shared.lock().faults.counts.kills += 1;
        }
    }

    /// Whether it served.
    fn end(&mut self) -> bool {
        let Some(runtime) = self.serving.take() else { return false };
        runtime.shutdown_timeout(SHUTDOWN);
        true
    }

    fn restart(&mut self) -> Result<SocketAddr, EmulatorError> {
        self.kill();
        let runtime = Builder::new_multi_thread()
            .worker_threads(WORKERS)
            .enable_all()
            .thread_name("pubsub-emulator")
            .build()
            .map_err(EmulatorError::Threads)?;
        let listen = |source| EmulatorError::Listen { address: self.address, source };
        let listener = self.bind().map_err(listen)?;
        let address = listener.local_addr().map_err(listen)?;
        let incoming = {
            let _inside = runtime.enter();
            tokio::net::TcpListener::from_std(listener).map_err(listen)?
        };
        let incoming = TcpIncoming::from(incoming).with_nodelay(Some(true));
        runtime.spawn(serve(Arc::clone(&self.shared), self.commands.clone(), incoming));
        runtime.spawn(tick(Arc::clone(&self.shared)));
        self.serving = Some(runtime);
        self.shared.lock().faults.counts.restarts += u64::from(self.served);
        self.served = true;
        self.address = address;
        Ok(address)
    }

    fn bind(&self) -> io::Result<TcpListener> {
        let mut tries = 0;
        loop {
            match TcpListener::bind(self.address) {
                Ok(listener) => {
                    listener.set_nonblocking(true)?;
                    return Ok(listener);
                }
                Err(error) if error.kind() == io::ErrorKind::AddrInUse && tries < BIND_TRIES => {
                    tries += 1;
                    thread::sleep(BIND_PAUSE);
                }
                Err(error) => return Err(error),
            }
        }
    }
}

async fn serve(shared: Arc<Shared>, commands: Commands, incoming: TcpIncoming) {
    let services = Services(Arc::clone(&shared));
    let publisher = PublisherServer::new(services.clone()).max_decoding_message_size(REQUEST_BYTES_MAX);
    let subscriber = SubscriberServer::new(services.clone()).max_encoding_message_size(ANSWER_BYTES_MAX);
    let routes = Routes::from(rest::router(services, Control { shared, commands }));
    let server = Server::builder()
        .accept_http1(true)
        .concurrency_limit_per_connection(CALLS_MAX)
        .initial_stream_window_size(STREAM_WINDOW_BYTES)
        .initial_connection_window_size(CONNECTION_WINDOW_BYTES)
        .max_frame_size(FRAME_BYTES_MAX)
        .add_routes(routes.add_service(publisher).add_service(subscriber));
    if let Err(error) = server.serve_with_incoming(incoming).await {
        tracing::error!(%error, "the emulator serves no more");
    }
}

/// Ends leases and pauses when their time has come, whether or not a stream is open.
async fn tick(shared: Arc<Shared>) {
    loop {
        let due = shared.advance();
        tokio::select! {
            () = crate::stream::look_again(due) => {}
            () = shared.timer.notified() => {}
        }
    }
}
