//! The real binary `sprag` as tests use it: where it is, a server that ends with its guard, and plain HTTP to it.
//!
//! Never: a process ended that was not started here; a wait without a deadline.

use anyhow::{Context, Result, bail, ensure};
use std::{
    env,
    ffi::{OsStr, OsString},
    fs::{self, File},
    io::{BufRead, BufReader, Read, Write},
    net::{SocketAddr, TcpStream},
    path::{Path, PathBuf},
    process::{Child, Command, ExitStatus, Output, Stdio},
    sync::{Mutex, OnceLock, PoisonError, mpsc},
    thread,
    time::{Duration, Instant},
};
use tempfile::TempDir;

/// Names the binary when it is not beside the test.
pub const VARIABLE: &str = "SPRAG_BIN";
/// Longest wait for anything that a server should do soon; the machine may be busy with other tests.
pub const PATIENCE: Duration = Duration::from_secs(30);
/// How often a condition is looked at.
pub const POLL_EVERY: Duration = Duration::from_millis(10);
/// Longest wait for an orderly end before the process is killed: the store's own flush is done long before.
const END_MAX: Duration = Duration::from_secs(30);
/// What a process that listens says once it does.
const UP: &str = " is up: http://";

/// The binary under test, built if nobody has built it yet.
///
/// # Errors
/// When it is neither there nor can be built.
pub fn binary() -> Result<PathBuf> {
    static BINARY: OnceLock<Result<PathBuf, String>> = OnceLock::new();
    let found = BINARY.get_or_init(|| find_binary().map_err(|error| format!("{error:#}")));
    found.clone().map_err(anyhow::Error::msg)
}

fn find_binary() -> Result<PathBuf> {
    if let Some(named) = env::var_os(VARIABLE).filter(|named| !named.is_empty()) {
        return Ok(named.into());
    }
    // The test is `target/PROFILE/deps/NAME`.
    let test = env::current_exe()?;
    let profile = test.parent().and_then(Path::parent).context("the test's executable is not below a target")?;
    let binary = profile.join("sprag");
    if !binary.is_file() {
        let release = profile.ends_with("release").then_some("--release");
        let cargo = env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
        let mut build = Command::new(cargo);
        build.args(["build", "-p", "sprag-server", "--bin", "sprag"]).args(release);
        let built = build.current_dir(env!("CARGO_MANIFEST_DIR")).status().context("cargo build")?;
        ensure!(built.success() && binary.is_file(), "cargo did not build {}", binary.display());
    }
    Ok(binary)
}

/// The binary as a command, without settings from the surroundings.
///
/// # Errors
/// As of [`binary`].
pub fn sprag() -> Result<Command> {
    Ok(command_of(&binary()?))
}

fn command_of(binary: &Path) -> Command {
    let mut command = Command::new(binary);
    let ours = |name: &OsStr| name.to_string_lossy().starts_with("SPRAG_") || name == "CLICKHOUSE_URL";
    for (name, _) in env::vars_os().filter(|(name, _)| ours(name)) {
        command.env_remove(name);
    }
    command.stdin(Stdio::null());
    command
}

/// Runs a command of the binary to its end.
///
/// # Errors
/// When it cannot be started or does not end within [`PATIENCE`]; it is killed then.
pub fn output<A: AsRef<OsStr>>(arguments: impl IntoIterator<Item = A>) -> Result<Output> {
    let mut command = sprag()?;
    let mut child = command.args(arguments).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn()?;
    let (stdout, stderr) = (drain(child.stdout.take()), drain(child.stderr.take()));
    let mut guard = Guard(child);
    let status = guard.wait(PATIENCE)?.with_context(|| format!("{command:?} did not end"))?;
    let text = |reader: thread::JoinHandle<Vec<u8>>| reader.join().unwrap_or_default();
    Ok(Output { status, stdout: text(stdout), stderr: text(stderr) })
}

fn drain(pipe: Option<impl Read + Send + 'static>) -> thread::JoinHandle<Vec<u8>> {
    thread::spawn(move || {
        let mut bytes = Vec::new();
        let read = pipe.map(|mut pipe| pipe.read_to_end(&mut bytes));
        drop(read);
        bytes
    })
}

/// Ends its process when it is dropped, first by asking.
struct Guard(Child);

impl Guard {
    /// The status once the process has ended; `None` if it still runs after that long.
    fn wait(&mut self, patience: Duration) -> Result<Option<ExitStatus>> {
        let until = Instant::now() + patience;
        loop {
            let ended = self.0.try_wait()?;
            if ended.is_some() || Instant::now() >= until {
                return Ok(ended);
            }
            thread::sleep(POLL_EVERY);
        }
    }

    /// SIGTERM, by the ordinary program, since there is no safe call for it.
    fn ask(&self) -> Result<()> {
        let asked = Command::new("kill").args(["-TERM", &self.0.id().to_string()]).status()?;
        ensure!(asked.success(), "kill: {asked}");
        Ok(())
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        if matches!(self.0.try_wait(), Ok(Some(_))) {
            return;
        }
        let ended = self.ask().and_then(|()| self.wait(END_MAX));
        if !matches!(ended, Ok(Some(_))) {
            // It may just have ended, which is all that is wanted.
            drop(self.0.kill().and_then(|()| self.0.wait().map(drop)));
        }
    }
}

/// How a process of the binary is started.
#[derive(Clone, Debug, Default)]
pub struct Launch {
    /// `None` for [`binary`].
    binary: Option<PathBuf>,
    arguments: Vec<OsString>,
    environment: Vec<(String, String)>,
}

impl Launch {
    /// `sprag run` with that data directory, on that port; 0 for any.
    #[must_use]
    pub fn run(data_dir: &Path, port: u16) -> Self {
        let launch = Self::default().with(&["run", "--port", &port.to_string(), "--data-dir"]);
        launch.with_path(data_dir)
    }

    /// Another binary than [`binary`].
    #[must_use]
    pub fn with_binary(mut self, binary: &Path) -> Self {
        self.binary = Some(binary.into());
        self
    }

    /// More arguments.
    #[must_use]
    pub fn with(mut self, arguments: &[&str]) -> Self {
        self.arguments.extend(arguments.iter().map(OsString::from));
        self
    }

    /// One more argument, a path.
    #[must_use]
    pub fn with_path(mut self, path: &Path) -> Self {
        self.arguments.push(path.into());
        self
    }

    /// A variable of its environment.
    #[must_use]
    pub fn with_variable(mut self, name: &str, value: &str) -> Self {
        self.environment.push((name.to_owned(), value.to_owned()));
        self
    }

    /// Starts the process, without waiting for anything.
    ///
    /// # Errors
    /// When it cannot be started.
    pub fn spawn(&self) -> Result<Started> {
        let log_directory = tempfile::tempdir()?;
        let log = log_directory.path().join("stderr");
        let mut command = self.binary.as_deref().map_or_else(sprag, |binary| Ok(command_of(binary)))?;
        command.args(&self.arguments).envs(self.environment.iter().cloned());
        let mut child = command.stdout(Stdio::piped()).stderr(File::create(&log)?).spawn()?;
        let stdout = child.stdout.take().context("no standard output")?;
        let guard = Guard(child);
        let (tell, told) = mpsc::channel();
        thread::spawn(move || {
            // All of it is read, so that the process never waits for us.
            let lines = BufReader::new(stdout).lines().map_while(Result::ok);
            for line in lines {
                let address = line.split_once(UP).map(|(_, rest)| rest.trim().trim_end_matches('/').to_owned());
                drop(address.map(|address| tell.send(address)));
            }
        });
        Ok(Started { guard, told: Mutex::new(told), log, _log_directory: log_directory })
    }
}

/// A process that was started; it may not be up yet.
pub struct Started {
    guard: Guard,
    told: Mutex<mpsc::Receiver<String>>,
    log: PathBuf,
    /// Kept until the process has ended.
    _log_directory: TempDir,
}

impl Started {
    /// Waits until it says where it listens.
    ///
    /// # Errors
    /// When it ends first, or is not up within [`PATIENCE`]; its log is in the error.
    pub fn up(self) -> Result<Server> {
        let told = self.told.lock().unwrap_or_else(PoisonError::into_inner).recv_timeout(PATIENCE);
        match told {
            Ok(address) => Ok(Server { address: address.parse()?, started: self }),
            Err(_) => bail!("it did not come up: {}", self.log()),
        }
    }

    /// What it wrote to standard error so far.
    #[must_use]
    pub fn log(&self) -> String {
        fs::read_to_string(&self.log).unwrap_or_default()
    }

    /// Its process number.
    #[must_use]
    pub fn pid(&self) -> u32 {
        self.guard.0.id()
    }

    /// Waits until its log has that text.
    ///
    /// # Errors
    /// When it ends first, or has not within [`PATIENCE`].
    pub fn await_log(&mut self, text: &str) -> Result<()> {
        until(&format!("{text:?} in the log"), || {
            let found = self.log().contains(text);
            let ended = self.guard.0.try_wait()?;
            ensure!(found || ended.is_none(), "it ended before {text:?}: {}", self.log());
            Ok(found.then_some(()))
        })
    }

    /// Kills it with SIGKILL, as a power cut would, and waits until it is gone.
    ///
    /// # Errors
    /// When it cannot be killed, or had ended by itself.
    pub fn kill(mut self) -> Result<()> {
        if let Some(status) = self.guard.0.try_wait()? {
            bail!("it had ended by itself with {status}: {}", self.log());
        }
        self.guard.0.kill()?;
        self.guard.0.wait()?;
        Ok(())
    }

    /// Whether it has ended.
    ///
    /// # Errors
    /// When the system does not tell.
    pub fn has_ended(&mut self) -> Result<bool> {
        Ok(self.guard.0.try_wait()?.is_some())
    }

    /// Its status, once it has ended; `None` if it still runs after that long.
    ///
    /// # Errors
    /// When the system does not tell.
    pub fn ended_within(&mut self, patience: Duration) -> Result<Option<ExitStatus>> {
        self.guard.wait(patience)
    }

    /// Waits for its end.
    ///
    /// # Errors
    /// When it does not end within that time.
    pub fn ended(mut self, patience: Duration) -> Result<ExitStatus> {
        let ended = self.guard.wait(patience)?;
        ended.with_context(|| format!("no end within {patience:?}: {}", self.log()))
    }
}

/// A running `sprag run`, or another command that listens.
pub struct Server {
    address: SocketAddr,
    started: Started,
}

impl Server {
    /// Starts a server with that data directory, on a port of the system's choice, and waits until terminals may connect.
    ///
    /// # Errors
    /// When it ends first, or is not up within [`PATIENCE`]; its log is in the error.
    pub fn start(data_dir: &Path, arguments: &[&str]) -> Result<Self> {
        Launch::run(data_dir, 0).with(arguments).spawn()?.up()
    }

    /// The process itself.
    pub fn process(&mut self) -> &mut Started {
        &mut self.started
    }

    /// Kills it with SIGKILL.
    ///
    /// # Errors
    /// As of [`Started::kill`].
    pub fn kill(self) -> Result<()> {
        self.started.kill()
    }

    /// Where it listens.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// The stream's URL.
    #[must_use]
    pub fn stream_url(&self) -> String {
        format!("ws://{}/v1/stream", self.address)
    }

    /// What it wrote to standard error so far.
    #[must_use]
    pub fn log(&self) -> String {
        self.started.log()
    }

    /// Its process number.
    #[must_use]
    pub fn pid(&self) -> u32 {
        self.started.pid()
    }

    /// Its resident memory, kilobytes.
    ///
    /// # Errors
    /// When the process is gone.
    pub fn resident_kb(&self) -> Result<u64> {
        let status = fs::read_to_string(format!("/proc/{}/status", self.pid()))?;
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).context("no VmRSS")?;
        Ok(line.trim().trim_end_matches(" kB").parse()?)
    }

    /// Asks over HTTP.
    ///
    /// # Errors
    /// As of [`get`].
    pub fn get(&self, path: &str) -> Result<Answer> {
        get(self.address, path, &[])
    }

    /// Posts over HTTP.
    ///
    /// # Errors
    /// When the answer is no success, or there is none within [`PATIENCE`].
    pub fn post(&self, path: &str, body: &str) -> Result<Answer> {
        let answer = ask(self.address, "POST", path, &[("Content-Length", &body.len().to_string())], body)?;
        ensure!((200..300).contains(&answer.status), "{path}: {answer:?}");
        Ok(answer)
    }

    /// Deletes over HTTP.
    ///
    /// # Errors
    /// When the answer is no success, or there is none within [`PATIENCE`].
    pub fn delete(&self, path: &str) -> Result<Answer> {
        let answer = ask(self.address, "DELETE", path, &[], "")?;
        ensure!((200..300).contains(&answer.status), "{path}: {answer:?}");
        Ok(answer)
    }

    /// A value of the metrics page, named as `name{label="value"}`.
    ///
    /// # Errors
    /// When it is not there.
    pub fn metric(&self, name: &str) -> Result<u64> {
        let page = self.get("/metrics")?.body;
        let value = page.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
        Ok(value.with_context(|| format!("no {name} in\n{page}"))?.parse()?)
    }

    /// Waits until a metric has at least that value.
    ///
    /// # Errors
    /// When it has not within [`PATIENCE`].
    pub fn await_metric(&self, name: &str, least: u64) -> Result<u64> {
        until(&format!("{name} at {least}"), || Ok(Some(self.metric(name)?).filter(|value| *value >= least)))
    }

    /// Asks it to end, and waits for that.
    ///
    /// # Errors
    /// When it does not end in time; it is killed then. Its log is in the error.
    pub fn terminate(mut self) -> Result<ExitStatus> {
        self.started.guard.ask()?;
        let ended = self.started.guard.wait(END_MAX)?;
        ended.with_context(|| format!("no end within {END_MAX:?} of SIGTERM: {}", self.log()))
    }
}

/// Looks again and again until there is something.
///
/// # Errors
/// The condition's own, or that there was nothing within [`PATIENCE`].
pub fn until<T>(what: &str, look: impl FnMut() -> Result<Option<T>>) -> Result<T> {
    until_within(what, PATIENCE, look)
}

/// The same with another patience, for what takes its time by its nature.
///
/// # Errors
/// When it is not there within that time, or looking for it fails.
pub fn until_within<T>(what: &str, patience: Duration, mut look: impl FnMut() -> Result<Option<T>>) -> Result<T> {
    let deadline = Instant::now() + patience;
    loop {
        if let Some(found) = look()? {
            return Ok(found);
        }
        ensure!(Instant::now() < deadline, "not within {patience:?}: {what}");
        thread::sleep(POLL_EVERY);
    }
}

/// An HTTP answer.
#[derive(Clone, Debug)]
pub struct Answer {
    /// Its status.
    pub status: u16,
    /// Its headers, names in lower case.
    pub headers: Vec<(String, String)>,
    /// Its body.
    pub body: String,
}

impl Answer {
    /// A header's value.
    #[must_use]
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(held, _)| held == name).map(|(_, value)| value.as_str())
    }

    /// The body as JSON.
    ///
    /// # Errors
    /// When it is none, or not declared as such.
    pub fn json(&self) -> Result<serde_json::Value> {
        let kind = self.header("content-type").unwrap_or_default();
        ensure!(kind.split(';').next() == Some("application/json"), "{self:?}");
        Ok(serde_json::from_str(&self.body)?)
    }
}

/// Asks over HTTP/1.1 with additional headers, on a connection of its own. For any status but 101.
///
/// # Errors
/// When there is no answer within [`PATIENCE`], or it is not HTTP.
pub fn get(address: SocketAddr, path: &str, headers: &[(&str, &str)]) -> Result<Answer> {
    ask(address, "GET", path, headers, "")
}

fn ask(address: SocketAddr, method: &str, path: &str, headers: &[(&str, &str)], body: &str) -> Result<Answer> {
    let mut stream = TcpStream::connect(address)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    let connection = if headers.iter().any(|(name, _)| *name == "Connection") { "" } else { "Connection: close\r\n" };
    let own: String = headers.iter().map(|(name, value)| format!("{name}: {value}\r\n")).collect();
    stream
        .write_all(format!("{method} {path} HTTP/1.1\r\nHost: {address}\r\n{connection}{own}\r\n{body}").as_bytes())?;
    read_answer(&mut BufReader::new(stream))
}

/// Reads one HTTP answer: its head, and as much body as it declares.
///
/// # Errors
/// When it is not HTTP or breaks off.
pub fn read_answer(reader: &mut impl BufRead) -> Result<Answer> {
    let mut line = || -> Result<String> {
        let mut line = String::new();
        ensure!(reader.read_line(&mut line)? > 0, "the answer breaks off");
        Ok(line.trim_end().to_owned())
    };
    let first = line()?;
    let status = first.split(' ').nth(1).with_context(|| format!("no HTTP: {first:?}"))?.parse()?;
    let mut headers = Vec::new();
    loop {
        let text = line()?;
        let Some((name, value)) = text.split_once(':') else { break };
        headers.push((name.to_ascii_lowercase(), value.trim().to_owned()));
    }
    let mut answer = Answer { status, headers, body: String::new() };
    let length = answer.header("content-length").map_or(Ok(0), str::parse)?;
    let mut body = vec![0; length];
    reader.read_exact(&mut body)?;
    answer.body = String::from_utf8(body)?;
    Ok(answer)
}
