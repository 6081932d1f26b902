//! The parent's side of the engine's process: start, address, orderly stop.
//!
//! Never: a child whose output or end nobody looks after.

use super::{ChildArgs, LISTENING, PASSWORD_VARIABLE, lock};
use crate::clickhouse::{analysts::AnalystOptions, engine::EngineError, fetch};
use std::{
    ffi::OsString,
    fs::{self, File},
    io::{BufRead, BufReader},
    path::{Path, PathBuf},
    process::{Child, ChildStdout, Command, ExitStatus, Stdio},
    thread::{self, JoinHandle},
    time::{Duration, Instant},
};
use tokio::sync::oneshot;

/// Longest start: the first on a directory took 1 s, one with a million parts to load takes tens.
const START_MAX: Duration = Duration::from_secs(120);
/// Longest orderly stop before the child is killed; measured up to 2 s, and the drain of its requests takes 10 s.
const STOP_MAX: Duration = Duration::from_secs(20);
/// How often the child is looked at, which bounds how late its end is seen.
const POLL_EVERY: Duration = Duration::from_millis(20);

/// An engine whose parent was killed ends by itself, after the requests that it has; a restart waits that long for it.
const ORPHAN_MAX: Duration = STOP_MAX;

/// How the parent starts the engine.
#[derive(Clone, Debug, Default)]
pub struct ChildOptions {
    /// Loopback port; 0 lets the system choose.
    pub port: u16,
    /// The engine library; `None` finds or fetches it, which happens in the parent so that its progress is seen.
    pub library: Option<PathBuf>,
    /// Server options, `--name=value`.
    pub options: Vec<String>,
    /// Where backups may be written and read; `None` for [`super::backups_directory`].
    pub backups: Option<PathBuf>,
    /// The analysts' listener; `None` for no such listener.
    pub analysts: Option<AnalystOptions>,
}

/// A child that serves; dropping it stops it too, without waiting.
#[derive(Debug)]
pub struct EngineChild {
    url: String,
    pid: u32,
    stop: Option<oneshot::Sender<()>>,
    /// Tells its end once; nothing any more when that is known.
    ended: Option<oneshot::Receiver<ExitStatus>>,
    /// How it ended.
    status: Option<ExitStatus>,
    keeper: Option<JoinHandle<()>>,
}

impl EngineChild {
    /// Address of its HTTP interface.
    #[must_use]
    pub fn url(&self) -> &str {
        &self.url
    }

    /// Its process number.
    #[must_use]
    pub fn pid(&self) -> u32 {
        self.pid
    }

    /// Resolves when the child has ended, wanted or not, with how it ended; at once and alike whenever it is asked again.
    pub async fn ended(&mut self) -> Option<ExitStatus> {
        if let Some(ended) = &mut self.ended {
            self.status = ended.await.ok();
            self.ended = None;
        }
        self.status
    }

    /// Stops it in order, and by force if that takes too long; returns when it has ended, with how it ended.
    pub async fn stop(mut self) -> Option<ExitStatus> {
        drop(self.stop.take());
        let status = self.ended().await;
        let keeper = self.keeper.take()?;
        match tokio::task::spawn_blocking(move || keeper.join()).await {
            Ok(Ok(())) => status,
            _ => None,
        }
    }
}

/// Starts `program` with `args_prefix` (the hidden subcommand's name) and the arguments of [`ChildArgs::to_args`].
///
/// # Errors
/// [`EngineError`]: no library, not started, or not listening in time; the child's own words are on standard error.
pub async fn start_child(
    program: &Path,
    args_prefix: &[OsString],
    data_dir: &Path,
    options: ChildOptions,
) -> Result<EngineChild, EngineError> {
    let (program, prefix, data_dir) = (program.to_path_buf(), args_prefix.to_vec(), data_dir.to_path_buf());
    let (stop, stopped) = oneshot::channel();
    let (tell, told) = oneshot::channel();
    let (tell_end, ended) = oneshot::channel();
    // The kernel ties a child's life to the THREAD that started it, so it is started from one that lives as long.
    let keep = move || {
        let started = spawn(&program, &prefix, &data_dir, options);
        let (child, stdout) = match started {
            Ok(started) => started,
            Err(error) => {
                return if tell.send(Err(error)).is_err() {
                    tracing::debug!("start given up")
                };
            }
        };
        let wanted = tell.send(Ok((child.id(), stdout))).is_ok();
        let ended = if wanted { keep_until(child, stopped) } else { None };
        if ended.is_some_and(|status| tell_end.send(status).is_err()) {
            tracing::debug!("nobody waits for the engine's end any more");
        }
    };
    let keeper = std::thread::Builder::new().name("engine-keeper".to_owned()).spawn(keep);
    let keeper = keeper.map_err(EngineError::system("start the engine's keeper"))?;
    let (pid, stdout) = told.await.map_err(|_| EngineError::Ended)??;
    let child = EngineChild {
        url: String::new(),
        pid,
        stop: Some(stop),
        ended: Some(ended),
        status: None,
        keeper: Some(keeper),
    };
    let url = read_url(stdout)?;
    match tokio::time::timeout(START_MAX, url).await {
        Ok(Ok(url)) => {
            let mut child = child;
            child.url = url;
            Ok(child)
        }
        Ok(_) => Err(EngineError::Ended),
        Err(_) => Err(EngineError::Silent { seconds: START_MAX.as_secs() }),
    }
}

/// Reads the child's standard output: the line that tells its address, and the rest to its end, so that the child
/// can always print.
fn read_url(stdout: ChildStdout) -> Result<oneshot::Receiver<String>, EngineError> {
    let (tell, told) = oneshot::channel();
    let read = move || {
        let mut tell = Some(tell);
        for line in BufReader::new(stdout).lines().map_while(Result::ok) {
            let Some(url) = line.strip_prefix(LISTENING) else { continue };
            if tell.take().is_some_and(|tell| tell.send(url.to_owned()).is_err()) {
                tracing::debug!("nobody waits for the engine's address any more");
            }
        }
    };
    let thread = std::thread::Builder::new().name("engine-output".to_owned()).spawn(read);
    thread.map(|_| told).map_err(EngineError::system("read the engine's output"))
}

/// Takes the directory's lock, from a dying engine too.
fn lock_in_time(data_dir: &Path) -> Result<File, EngineError> {
    let until = Instant::now() + ORPHAN_MAX;
    loop {
        match lock(data_dir) {
            Err(EngineError::InUse { .. }) if Instant::now() < until => thread::sleep(POLL_EVERY),
            locked => return locked,
        }
    }
}

fn spawn(
    program: &Path,
    prefix: &[OsString],
    data_dir: &Path,
    options: ChildOptions,
) -> Result<(Child, ChildStdout), EngineError> {
    let library = fetch::locate(options.library.as_deref())?;
    fs::create_dir_all(data_dir).map_err(EngineError::directory(data_dir))?;
    let data_dir = fs::canonicalize(data_dir).map_err(EngineError::directory(data_dir))?;
    // Told here as well as by the child, because only here it is typed.
    drop(lock_in_time(&data_dir)?);
    let mut command = Command::new(program);
    if let Some(analysts) = &options.analysts {
        command.env(PASSWORD_VARIABLE, analysts.password.reveal());
    }
    let args = ChildArgs {
        data_dir,
        port: options.port,
        library: Some(library),
        parent: Some(std::process::id()),
        options: options.options,
        backups: options.backups,
        analysts: options.analysts,
    };
    command.args(prefix).args(args.to_args()).stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut child = command.spawn().map_err(EngineError::system("start the engine's process"))?;
    match child.stdout.take() {
        Some(stdout) => Ok((child, stdout)),
        None => Err(EngineError::Ended),
    }
}

/// Waits for the child's end or the wish to stop, then sees to it that it ends. Its standard input stays open in
/// `child` for as long.
fn keep_until(mut child: Child, mut stopped: oneshot::Receiver<()>) -> Option<ExitStatus> {
    let mut asked: Option<Instant> = None;
    loop {
        match child.try_wait() {
            Ok(Some(status)) => {
                if asked.is_none() {
                    tracing::error!(%status, "the engine's process ended by itself");
                }
                return Some(status);
            }
            Ok(None) => {}
            Err(error) => {
                tracing::error!(%error, "cannot wait for the engine's process");
                return None;
            }
        }
        let wish = !matches!(stopped.try_recv(), Err(oneshot::error::TryRecvError::Empty));
        match asked {
            None if wish => {
                asked = Some(Instant::now());
                drop(child.stdin.take());
            }
            Some(since) if since.elapsed() > STOP_MAX => {
                tracing::warn!("the engine did not stop in time and is killed");
                if let Err(error) = child.kill() {
                    tracing::error!(%error, "cannot kill the engine's process");
                }
                asked = Some(Instant::now());
            }
            _ => {}
        }
        std::thread::sleep(POLL_EVERY);
    }
}
