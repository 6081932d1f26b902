//! The engine as a child process of the same program: what the child does, and how other commands find it. How its
//! parent starts and stops it is in `parent`.
//!
//! Never: a child that outlives its parent; two engines on one directory.

mod parent;

pub use parent::{ChildOptions, EngineChild, start_child};

use super::{
    analysts::AnalystOptions,
    engine::{Engine, EngineError, ffi},
    fetch, http,
    in_process::{backups_option, listen, runtime, serve_analysts},
};
use std::{
    ffi::{OsStr, OsString},
    fs::{self, File, TryLockError},
    io::{Read, Write},
    net::{IpAddr, Ipv4Addr, SocketAddr, TcpStream},
    os::fd::OwnedFd,
    path::{Path, PathBuf},
    time::Duration,
};
use tokio::{
    signal::unix::{Signal, SignalKind, signal},
    sync::watch,
};

/// How long a signalled child goes on for its parent. Ctrl-C and service managers signal both at once, and the parent
/// needs the store to flush what it holds; below the 90 s after which service managers kill.
pub const PARENT_FLUSH_MAX: Duration = Duration::from_secs(60);
/// How long a running engine may take to answer a ping.
const PING_MAX: Duration = Duration::from_secs(1);
/// Names its address and process for other commands.
const URL_FILE: &str = "clickhouse.url";
/// The same of the analysts' listener.
const ANALYSTS_URL_FILE: &str = "analysts.url";
/// Where the engine writes backups unless told otherwise, within the data directory.
const BACKUPS_DIRECTORY: &str = "backups";
/// The analysts' password comes to the child by this variable, as a command line is for all to see.
const PASSWORD_VARIABLE: &str = "SPRAG_ENGINE_ANALYSTS_PASSWORD";
const LOCK_FILE: &str = "clickhouse.lock";
/// The engine's own files, within the data directory.
const ENGINE_DIRECTORY: &str = "clickhouse";
const LISTENING: &str = "listening ";

/// What the hidden subcommand gets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChildArgs {
    /// Directory of the store's data.
    pub data_dir: PathBuf,
    /// Loopback port; 0 lets the system choose.
    pub port: u16,
    /// The engine library; `None` finds or fetches it.
    pub library: Option<PathBuf>,
    /// Process to die with.
    pub parent: Option<u32>,
    /// Server options, `--name=value`.
    pub options: Vec<String>,
    /// Where backups may be written and read; `None` for a place within the data directory.
    pub backups: Option<PathBuf>,
    /// The analysts' listener, its password not included; `None` for no such listener.
    pub analysts: Option<AnalystOptions>,
}

impl ChildArgs {
    /// Arguments in the form that [`ChildArgs::parse`] reads.
    #[must_use]
    pub fn to_args(&self) -> Vec<OsString> {
        let mut args: Vec<OsString> = vec!["--data-dir".into(), self.data_dir.clone().into_os_string()];
        args.extend(["--port".into(), self.port.to_string().into()]);
        if let Some(library) = &self.library {
            args.extend(["--library".into(), library.clone().into_os_string()]);
        }
        if let Some(parent) = self.parent {
            args.extend(["--parent".into(), parent.to_string().into()]);
        }
        for option in &self.options {
            args.extend(["--option".into(), option.into()]);
        }
        if let Some(backups) = &self.backups {
            args.extend(["--backups".into(), backups.clone().into_os_string()]);
        }
        let analysts = self.analysts.as_ref().and_then(|analysts| serde_json::to_string(analysts).ok());
        if let Some(analysts) = analysts {
            args.extend(["--analysts".into(), analysts.into()]);
        }
        args
    }

    /// Reads what follows the subcommand's name.
    ///
    /// # Errors
    /// [`EngineError::Argument`] naming the first argument that does not fit.
    pub fn parse(args: impl IntoIterator<Item = OsString>) -> Result<Self, EngineError> {
        let mut parsed = Self {
            data_dir: PathBuf::new(),
            port: 0,
            library: None,
            parent: None,
            options: Vec::new(),
            backups: None,
            analysts: None,
        };
        let mut args = args.into_iter();
        let wrong = |argument: &OsStr| EngineError::Argument { argument: argument.to_string_lossy().into() };
        while let Some(name) = args.next() {
            let value = args.next().ok_or_else(|| wrong(&name))?;
            match name.to_str() {
                Some("--data-dir") => parsed.data_dir = value.into(),
                Some("--library") => parsed.library = Some(value.into()),
                Some("--port") => parsed.port = number(&value).ok_or_else(|| wrong(&value))?,
                Some("--parent") => parsed.parent = Some(number(&value).ok_or_else(|| wrong(&value))?),
                Some("--option") => parsed.options.push(value.to_str().ok_or_else(|| wrong(&value))?.to_owned()),
                Some("--backups") => parsed.backups = Some(value.into()),
                Some("--analysts") => {
                    let options = value.to_str().and_then(|options| serde_json::from_str(options).ok());
                    parsed.analysts = Some(options.ok_or_else(|| wrong(&value))?);
                }
                _ => return Err(wrong(&name)),
            }
        }
        if parsed.data_dir.as_os_str().is_empty() {
            return Err(wrong(OsStr::new("--data-dir")));
        }
        Ok(parsed)
    }
}

fn number<T: std::str::FromStr>(text: &OsStr) -> Option<T> {
    text.to_str()?.parse().ok()
}

/// The hidden subcommand: opens the engine, prints `listening <url>` and serves. Without a parent it stops at SIGTERM
/// or SIGINT; with one, when the parent closes the pipe on standard input, dies, or [`PARENT_FLUSH_MAX`] after a signal.
///
/// # Errors
/// [`EngineError`]; [`EngineError::InUse`] if another process uses the directory.
pub fn serve_child(args: &ChildArgs) -> Result<(), EngineError> {
    if let Some(parent) = args.parent {
        ffi::die_with_parent().map_err(EngineError::system("bind the engine to its parent"))?;
        // The parent may have died before the line above took hold.
        if std::os::unix::process::parent_id() != parent {
            return Ok(());
        }
    }
    let stdin = ffi::take_stdin().map_err(EngineError::system("detach standard input"))?;
    let library = fetch::locate(args.library.as_deref())?;
    let _lock = lock(&args.data_dir)?;
    let backups = args.backups.clone().unwrap_or_else(|| args.data_dir.join(BACKUPS_DIRECTORY));
    let options = [args.options.as_slice(), &[backups_option(&backups)]].concat();
    let engine = Engine::open(&library, &args.data_dir.join(ENGINE_DIRECTORY), &options)?;
    let (stop, stopped) = watch::channel(false);
    if args.parent.is_some() {
        watch_stdin(stdin, stop.clone())?;
    }
    let mut readers = None;
    if let Some(analysts) = args.analysts.clone() {
        let password = std::env::var(PASSWORD_VARIABLE).unwrap_or_default().as_str().into();
        let serving = serve_analysts(engine.clone(), AnalystOptions { password, ..analysts }, stopped.clone())?;
        readers = Some((UrlFile::write(&args.data_dir, ANALYSTS_URL_FILE, &serving.url)?, serving));
    }
    let served = runtime()?.block_on(async move {
        let terminate = signal(SignalKind::terminate()).map_err(EngineError::system("handle SIGTERM"))?;
        let interrupt = signal(SignalKind::interrupt()).map_err(EngineError::system("handle SIGINT"))?;
        let (listener, url) = listen(IpAddr::V4(Ipv4Addr::LOCALHOST), args.port).await?;
        let url_file = UrlFile::write(&args.data_dir, URL_FILE, &url)?;
        writeln!(std::io::stdout(), "{LISTENING}{url}").map_err(EngineError::system("write to standard output"))?;
        tokio::spawn(watch_signals(terminate, interrupt, args.parent.is_some(), stop));
        http::serve(engine, listener, stopped).await;
        drop(url_file);
        Ok(())
    });
    if let Some((url_file, serving)) = readers {
        drop(url_file);
        // Where the start failed nothing tells it to stop, and the process ends.
        if served.is_ok() {
            serving.end();
        }
    }
    served
}

async fn watch_signals(mut terminate: Signal, mut interrupt: Signal, parent: bool, stop: watch::Sender<bool>) {
    tokio::select! {
        _ = terminate.recv() => {}
        _ = interrupt.recv() => {}
    }
    if parent {
        tracing::info!("the engine was signalled; it waits for its parent to be done with it");
        tokio::time::sleep(PARENT_FLUSH_MAX).await;
    }
    stop.send_replace(true);
}

/// The parent holds the other end and never writes: the end of the stream means that it is gone or wants a stop.
fn watch_stdin(stdin: OwnedFd, stop: watch::Sender<bool>) -> Result<(), EngineError> {
    let watch = move || {
        let mut rest = Vec::new();
        let ended = File::from(stdin).read_to_end(&mut rest);
        tracing::info!(ended = ended.is_ok(), "the parent closed the pipe; the engine stops");
        stop.send_replace(true);
    };
    let thread = std::thread::Builder::new().name("parent".to_owned()).spawn(watch);
    thread.map(drop).map_err(EngineError::system("watch the parent"))
}

/// Holds the directory for this process; the lock goes with it, however it ends.
fn lock(data_dir: &Path) -> Result<File, EngineError> {
    fs::create_dir_all(data_dir).map_err(EngineError::directory(data_dir))?;
    let path = data_dir.join(LOCK_FILE);
    let open = File::options().create(true).truncate(false).read(true).write(true).open(&path);
    let mut file = open.map_err(EngineError::directory(data_dir))?;
    match file.try_lock() {
        Ok(()) => {}
        Err(TryLockError::WouldBlock) => {
            let mut holder = String::new();
            let read = file.read_to_string(&mut holder).is_ok() && !holder.trim().is_empty();
            let holder = if read { holder.trim() } else { "unknown" }.into();
            return Err(EngineError::InUse { directory: data_dir.to_path_buf(), holder });
        }
        Err(TryLockError::Error(source)) => return Err(EngineError::directory(data_dir)(source)),
    }
    file.set_len(0)
        .and_then(|()| writeln!(file, "{}", std::process::id()))
        .map_err(EngineError::directory(data_dir))?;
    Ok(file)
}

struct UrlFile {
    path: PathBuf,
}

impl UrlFile {
    fn write(data_dir: &Path, name: &str, url: &str) -> Result<Self, EngineError> {
        let path = data_dir.join(name);
        let aside = data_dir.join(format!("{name}.new"));
        fs::write(&aside, format!("{url}\n{}\n", std::process::id()))
            .and_then(|()| fs::rename(&aside, &path))
            .map_err(EngineError::directory(data_dir))?;
        Ok(Self { path })
    }
}

impl Drop for UrlFile {
    fn drop(&mut self) {
        if let Err(error) = fs::remove_file(&self.path) {
            tracing::debug!(%error, "the address file was gone already");
        }
    }
}

/// Address of the engine that runs on a data directory: its process lives and it answers. Blocks for at most a
/// second.
#[must_use]
pub fn running_url(data_dir: &Path) -> Option<String> {
    running(data_dir, URL_FILE)
}

/// Address of the analysts' listener of the engine that runs on a data directory. Blocks for at most a second.
#[must_use]
pub fn running_analysts_url(data_dir: &Path) -> Option<String> {
    running(data_dir, ANALYSTS_URL_FILE)
}

/// Where the engine of a data directory may write backups.
#[must_use]
pub fn backups_directory(data_dir: &Path) -> PathBuf {
    data_dir.join(BACKUPS_DIRECTORY)
}

fn running(data_dir: &Path, file: &str) -> Option<String> {
    let text = fs::read_to_string(data_dir.join(file)).ok()?;
    let (url, pid) = text.trim().split_once('\n')?;
    let alive = Path::new("/proc").join(pid.trim()).exists();
    (alive && ping(url)).then(|| url.to_owned())
}

fn ping(url: &str) -> bool {
    let Some(address) = url.strip_prefix("http://").and_then(|address| address.parse::<SocketAddr>().ok()) else {
        return false;
    };
    let answer = || -> std::io::Result<[u8; 12]> {
        let mut socket = TcpStream::connect_timeout(&address, PING_MAX)?;
        socket.set_read_timeout(Some(PING_MAX))?;
        socket.write_all(b"GET /ping HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")?;
        let mut status = [0; 12];
        socket.read_exact(&mut status)?;
        Ok(status)
    };
    answer().is_ok_and(|status| &status == b"HTTP/1.1 200")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arguments_survive_the_command_line() {
        let args = ChildArgs {
            data_dir: "d".into(),
            port: 8123,
            library: Some("l".into()),
            parent: Some(7),
            options: vec!["--mark_cache_size=1".to_owned()],
            backups: Some("b".into()),
            analysts: Some(AnalystOptions { password: "secret".into(), ..AnalystOptions::default() }),
        };
        let line = args.to_args();
        assert!(!line.iter().any(|arg| arg.to_string_lossy().contains("secret")));
        let args = ChildArgs { analysts: Some(AnalystOptions::default()), ..args };
        assert_eq!(ChildArgs::parse(line).unwrap(), args);
        for wrong in [
            vec![],
            vec!["--port"],
            vec!["--port", "x", "--data-dir", "d"],
            vec!["--what", "d"],
            vec!["--data-dir", "d", "--analysts", "{}"],
        ] {
            let wrong = wrong.into_iter().map(OsString::from);
            assert!(matches!(ChildArgs::parse(wrong), Err(EngineError::Argument { .. })));
        }
    }

    #[test]
    fn a_locked_directory_names_its_holder() {
        let directory = tempfile::tempdir().unwrap();
        let held = lock(directory.path()).unwrap();
        let error = lock(directory.path()).unwrap_err();
        let holder = std::process::id().to_string();
        assert!(matches!(error, EngineError::InUse { holder: found, .. } if *found == holder));
        drop(held);
        assert!(lock(directory.path()).is_ok());
    }

    #[test]
    fn a_dead_process_has_no_running_address() {
        let directory = tempfile::tempdir().unwrap();
        assert_eq!(running_url(directory.path()), None);
        fs::write(directory.path().join(URL_FILE), "http://127.0.0.1:1\n999999999\n").unwrap();
        assert_eq!(running_url(directory.path()), None);
    }
}
