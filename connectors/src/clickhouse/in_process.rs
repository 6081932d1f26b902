//! The engine in this process, on threads of its own: for tests and for one-off commands.
//!
//! Never: two at one time; the engine takes one directory per process.

use super::{
    engine::{Engine, EngineError, ffi},
    http,
};
use std::{path::Path, thread::JoinHandle};
use tokio::{
    net::TcpListener,
    sync::{oneshot, watch},
};

/// A running engine; dropping it closes the engine and waits for that. It must be dropped before the process ends:
/// the library's exit handlers have been seen to crash while its threads run.
#[derive(Debug)]
pub struct InProcess {
    url: String,
    stop: watch::Sender<bool>,
    thread: Option<JoinHandle<()>>,
}

impl InProcess {
    /// Address of its HTTP interface.
    #[must_use]
    pub fn url(&self) -> &str {
        &self.url
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

/// Opens the engine on a directory and serves it on a loopback port of the system's choice.
///
/// Standard input of the process is replaced by nothing, because the engine would read it.
///
/// # Errors
/// [`EngineError`], among them that this process has one already.
pub async fn serve_in_process(library: &Path, directory: &Path) -> Result<InProcess, EngineError> {
    let (stop, stopped) = watch::channel(false);
    let (tell, told) = oneshot::channel();
    let (library, directory) = (library.to_path_buf(), directory.to_path_buf());
    let thread = std::thread::Builder::new()
        .name("clickhouse".to_owned())
        .spawn(move || run(&library, &directory, stopped, tell))
        .map_err(EngineError::system("start the engine's thread"))?;
    let url = told.await.map_err(|_| EngineError::Ended)??;
    Ok(InProcess { url, stop, thread: Some(thread) })
}

fn run(
    library: &Path,
    directory: &Path,
    stopped: watch::Receiver<bool>,
    tell: oneshot::Sender<Result<String, EngineError>>,
) {
    let opened = ffi::take_stdin()
        .map_err(EngineError::system("detach standard input"))
        .and_then(|_original| Engine::open(library, directory, &[]))
        .and_then(|engine| Ok((engine, runtime()?)));
    let (engine, runtime) = match opened {
        Ok(opened) => opened,
        Err(error) => return report(tell, Err(error)),
    };
    runtime.block_on(async {
        match listen(0).await {
            Ok((listener, url)) => {
                report(tell, Ok(url));
                http::serve(engine, listener, stopped).await;
            }
            Err(error) => report(tell, Err(error)),
        }
    });
}

fn report(tell: oneshot::Sender<Result<String, EngineError>>, what: Result<String, EngineError>) {
    if tell.send(what).is_err() {
        tracing::debug!("nobody waits for the embedded engine any more");
    }
}

/// One thread for sockets; statements run on its blocking threads.
pub(super) fn runtime() -> Result<tokio::runtime::Runtime, EngineError> {
    let mut builder = tokio::runtime::Builder::new_current_thread();
    builder.enable_all().build().map_err(EngineError::system("start the engine's runtime"))
}

/// A loopback listener and its URL.
pub(super) async fn listen(port: u16) -> Result<(TcpListener, String), EngineError> {
    let listener = TcpListener::bind(("127.0.0.1", port)).await.map_err(EngineError::system("listen on loopback"))?;
    let address = listener.local_addr().map_err(EngineError::system("read the listener's address"))?;
    Ok((listener, format!("http://{address}")))
}
