//! The engine in this process, on threads of its own: for tests and for one-off commands.
//!
//! Never: two at one time; the engine takes one directory per process.

use super::{
    analysts::{self, AnalystOptions},
    engine::{Engine, EngineError, ffi},
    http,
};
use std::{
    net::{IpAddr, Ipv4Addr},
    path::Path,
    thread::JoinHandle,
};
use tokio::{
    net::TcpListener,
    sync::{oneshot, watch},
};

/// A running engine; dropping it closes the engine and waits for that. It must be dropped before the process ends:
/// the library's exit handlers have been seen to crash while its threads run.
#[derive(Debug)]
pub struct InProcess {
    url: String,
    analysts_url: String,
    stop: watch::Sender<bool>,
    thread: Option<JoinHandle<()>>,
}

impl InProcess {
    /// Address of its HTTP interface.
    #[must_use]
    pub fn url(&self) -> &str {
        &self.url
    }

    /// Address of the analysts' listener.
    #[must_use]
    pub fn analysts_url(&self) -> &str {
        &self.analysts_url
    }
}

impl Drop for InProcess {
    fn drop(&mut self) {
        self.stop.send_replace(true);
        if self.thread.take().is_some_and(|thread| thread.join().is_err()) {
            tracing::error!("the thread of the embedded engine panicked");
        }
    }
}

/// Opens the engine on a directory and serves it, analysts too, on loopback ports of the system's choice.
///
/// Standard input of the process is replaced by nothing, because the engine would read it.
///
/// # Errors
/// [`EngineError`], among them that this process has one already.
pub async fn serve_in_process(library: &Path, directory: &Path) -> Result<InProcess, EngineError> {
    serve_in_process_with(library, directory, AnalystOptions::default()).await
}

/// The same with an analysts' listener as wanted. Backups may be written to and
/// read from `backups` within the directory.
///
/// # Errors
/// [`EngineError`], among them that this process has one already.
pub async fn serve_in_process_with(
    library: &Path,
    directory: &Path,
    analysts: AnalystOptions,
) -> Result<InProcess, EngineError> {
    let (stop, stopped) = watch::channel(false);
    let (tell, told) = oneshot::channel();
    let (library, directory) = (library.to_path_buf(), directory.to_path_buf());
    let thread = std::thread::Builder::new()
        .name("clickhouse".to_owned())
        .spawn(move || run(&library, &directory, analysts, stopped, tell))
        .map_err(EngineError::system("start the engine's thread"))?;
    let (url, analysts_url) = told.await.map_err(|_| EngineError::Ended)??;
    Ok(InProcess { url, analysts_url, stop, thread: Some(thread) })
}

/// The addresses of both listeners, or why there are none.
type Told = oneshot::Sender<Result<(String, String), EngineError>>;

fn run(library: &Path, directory: &Path, analysts: AnalystOptions, stopped: watch::Receiver<bool>, tell: Told) {
    let options = [backups_option(&directory.join("backups"))];
    let opened = ffi::take_stdin()
        .map_err(EngineError::system("detach standard input"))
        .and_then(|_original| Engine::open(library, directory, &options))
        .and_then(|engine| Ok((engine, runtime()?)));
    let (engine, runtime) = match opened {
        Ok(opened) => opened,
        Err(error) => return report(tell, Err(error)),
    };
    let readers = match serve_analysts(engine.clone(), analysts, stopped.clone()) {
        Ok(readers) => readers,
        Err(error) => return report(tell, Err(error)),
    };
    runtime.block_on(async {
        match listen(IpAddr::V4(Ipv4Addr::LOCALHOST), 0).await {
            Ok((listener, url)) => {
                report(tell, Ok((url, readers.url.clone())));
                http::serve(engine, listener, stopped).await;
            }
            Err(error) => report(tell, Err(error)),
        }
    });
    readers.end();
}

fn report(tell: Told, what: Result<(String, String), EngineError>) {
    if tell.send(what).is_err() {
        tracing::debug!("nobody waits for the embedded engine any more");
    }
}

/// The option that lets the engine write backups to a directory and read them from there.
pub(super) fn backups_option(directory: &Path) -> String {
    format!("--backups.allowed_path={}", directory.display())
}

/// The analysts' listener on a thread of its own.
pub(super) struct Readers {
    pub(super) url: String,
    thread: JoinHandle<()>,
}

impl Readers {
    /// Waits for its end, which the same stop as the engine's brings.
    pub(super) fn end(self) {
        if self.thread.join().is_err() {
            tracing::error!("the thread of the analysts' listener panicked");
        }
    }
}

/// Serves analysts on a thread and a runtime that nothing else is on, until `stopped`.
pub(super) fn serve_analysts(
    engine: Engine,
    options: AnalystOptions,
    stopped: watch::Receiver<bool>,
) -> Result<Readers, EngineError> {
    let mut builder = tokio::runtime::Builder::new_current_thread();
    builder.enable_all().max_blocking_threads(options.limits.statements.max(1));
    let runtime = builder.build().map_err(EngineError::system("start the analysts' runtime"))?;
    let (listener, url) = runtime.block_on(listen(options.host, options.port))?;
    let serve = move || runtime.block_on(analysts::serve(engine, options, listener, stopped));
    let thread = std::thread::Builder::new().name("analysts".to_owned()).spawn(serve);
    let thread = thread.map_err(EngineError::system("start the analysts' thread"))?;
    Ok(Readers { url, thread })
}

/// One thread for sockets; statements run on its blocking threads.
pub(super) fn runtime() -> Result<tokio::runtime::Runtime, EngineError> {
    let mut builder = tokio::runtime::Builder::new_current_thread();
    builder.enable_all().build().map_err(EngineError::system("start the engine's runtime"))
}

/// A listener and its URL.
pub(super) async fn listen(host: IpAddr, port: u16) -> Result<(TcpListener, String), EngineError> {
    let listener = TcpListener::bind((host, port)).await.map_err(EngineError::system("listen on loopback"))?;
    let address = listener.local_addr().map_err(EngineError::system("read the listener's address"))?;
    Ok((listener, format!("http://{address}")))
}
