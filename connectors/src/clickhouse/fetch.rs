//! Finds the library of the embedded engine, or fetches it once with the ordinary npm client.
//!
//! Never: a library whose checksum is not the pinned one; a half-written file under its final name.

use sha2::{Digest, Sha256};
use std::{
    ffi::OsStr,
    fs::{self, File, TryLockError},
    io::{self, Read},
    path::{Path, PathBuf},
    process::{Command, Stdio},
    time::{Duration, Instant},
};

/// Pinned version; the registry's `latest` lacks functions that the engine module needs.
pub const ENGINE_VERSION: &str = "26.7.3-stable.1";
const PACKAGE: &str = "@chdb/lib-linux-x64-gnu";
const PACKAGE_SHA256: &str = "c0d32b129e988f2b9a9a31c9141aecf5e1e2453f9a079efc4d36ab8e3f92b2ad";
const LIBRARY_SHA256: &str = "36ad4e999882821ef13cf2d0f52c93f48e6ee1b4498b35a201c23ce4b8d15bf5";
const LIBRARY_BYTES: u64 = 566_330_096;
const LIBRARY_NAME: &str = "libchdb.so";
/// Longest that one step (download, extraction) may take: 178 MB at a slow 300 kB/s.
const STEP_MAX: Duration = Duration::from_secs(600);
/// How often progress is told.
const PROGRESS_EVERY: Duration = Duration::from_secs(1);
/// How often a running step is looked at; short against the seconds that it takes.
const POLL_EVERY: Duration = Duration::from_millis(100);
/// Read buffer of the checksum, large enough that system calls do not matter.
const HASH_BUFFER_BYTES: usize = 1 << 20;

/// Why no engine library is at hand.
#[derive(Debug, thiserror::Error)]
pub enum FetchError {
    /// `CHDB_LIB` or the argument names no file.
    #[error("no engine library at {}; correct CHDB_LIB, or unset it to use the fetched one", path.display())]
    NotThere {
        /// The path as given.
        path: PathBuf,
    },
    /// There is a pinned library for linux-x86_64 only.
    #[error(
        "no embedded ClickHouse engine for this platform; set CLICKHOUSE_URL to a server, or CHDB_LIB to a library"
    )]
    Platform,
    /// Neither `XDG_CACHE_HOME` nor `HOME` is set.
    #[error("no cache directory: set HOME, XDG_CACHE_HOME or CHDB_LIB")]
    NoCacheDirectory,
    /// A file operation failed.
    #[error("cannot {action} {}", path.display())]
    File {
        /// What was tried.
        action: &'static str,
        /// On which path.
        path: PathBuf,
        /// Why it failed.
        #[source]
        source: io::Error,
    },
    /// A helper program could not be started.
    #[error(
        "cannot run {program}, which fetching the engine needs once; install it, or set CLICKHOUSE_URL or CHDB_LIB"
    )]
    Program {
        /// Its name.
        program: &'static str,
        /// Why it failed.
        #[source]
        source: io::Error,
    },
    /// A helper program failed.
    #[error("{program} failed ({status}): {text}")]
    Failed {
        /// Its name.
        program: &'static str,
        /// How it ended.
        status: std::process::ExitStatus,
        /// The end of what it said.
        text: Box<str>,
    },
    /// A step took longer than its bound.
    #[error("{program} did not end within {} s", STEP_MAX.as_secs())]
    TimedOut {
        /// The helper program.
        program: &'static str,
    },
    /// What came is not what was pinned.
    #[error("{} has sha256 {found}, not the pinned {expected}; it was not installed", path.display())]
    Checksum {
        /// The file.
        path: PathBuf,
        /// Its checksum.
        found: Box<str>,
        /// The pinned one.
        expected: &'static str,
    },
}

/// The engine library: `library` or else `CHDB_LIB`, then the cache, then the package registry, with progress on
/// standard error. Blocks for up to minutes on the first start and for milliseconds later.
///
/// # Errors
/// [`FetchError`]; its text names the fix.
pub fn locate(library: Option<&Path>) -> Result<PathBuf, FetchError> {
    match find(library)? {
        Some(found) => Ok(found),
        None => fetch(&cache_directory()?),
    }
}

/// As [`locate`], but without the network: `None` means that it would have to be fetched.
///
/// # Errors
/// [`FetchError`]; its text names the fix.
pub fn find(library: Option<&Path>) -> Result<Option<PathBuf>, FetchError> {
    let named = library.map(Path::to_path_buf).or_else(|| non_empty("CHDB_LIB"));
    if let Some(path) = named {
        return if path.is_file() { Ok(Some(path)) } else { Err(FetchError::NotThere { path }) };
    }
    if !cfg!(all(target_os = "linux", target_arch = "x86_64")) {
        return Err(FetchError::Platform);
    }
    Ok(installed(&cache_directory()?))
}

fn non_empty(name: &str) -> Option<PathBuf> {
    std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from)
}

fn cache_directory() -> Result<PathBuf, FetchError> {
    let base = non_empty("XDG_CACHE_HOME").or_else(|| non_empty("HOME").map(|home| home.join(".cache")));
    let base = base.ok_or(FetchError::NoCacheDirectory)?;
    Ok(base.join("sprag").join("libchdb").join(ENGINE_VERSION))
}

/// The marker is written after the checksum was right, so that a later start need not read half a gigabyte.
fn marker(directory: &Path) -> PathBuf {
    directory.join(format!(".ok-{LIBRARY_SHA256}"))
}

fn installed(directory: &Path) -> Option<PathBuf> {
    let library = directory.join(LIBRARY_NAME);
    let whole = fs::metadata(&library).is_ok_and(|found| found.is_file() && found.len() == LIBRARY_BYTES);
    (whole && marker(directory).is_file()).then_some(library)
}

/// Downloads, checks, extracts, checks, renames. One fetcher works at a time; the others wait and find its result.
fn fetch(directory: &Path) -> Result<PathBuf, FetchError> {
    fs::create_dir_all(directory).map_err(in_file("create", directory))?;
    let _lock = lock(&directory.join(".lock"))?;
    if let Some(found) = installed(directory) {
        return Ok(found);
    }
    remove_leftovers(directory)?;
    let work = WorkDirectory::create(directory)?;
    let package = download(&work.path)?;
    check(&package, PACKAGE_SHA256)?;
    let extracted = extract(&package, &work.path)?;
    check(&extracted, LIBRARY_SHA256)?;
    let library = directory.join(LIBRARY_NAME);
    fs::rename(&extracted, &library).map_err(in_file("rename", &extracted))?;
    let marker = marker(directory);
    File::create(&marker).map_err(in_file("create", &marker))?;
    Ok(library)
}

fn in_file<'a>(action: &'static str, path: &'a Path) -> impl FnOnce(io::Error) -> FetchError + 'a {
    move |source| FetchError::File { action, path: path.to_path_buf(), source }
}

fn lock(path: &Path) -> Result<File, FetchError> {
    let file = File::create(path).map_err(in_file("create", path))?;
    match file.try_lock() {
        Ok(()) => return Ok(file),
        Err(TryLockError::WouldBlock) => tell("waiting for another process that fetches it"),
        Err(TryLockError::Error(source)) => return Err(in_file("lock", path)(source)),
    }
    file.lock().map_err(in_file("lock", path))?;
    Ok(file)
}

/// Work directories of fetchers that died; the lock is held, so none of them is in use.
fn remove_leftovers(directory: &Path) -> Result<(), FetchError> {
    for entry in fs::read_dir(directory).map_err(in_file("list", directory))?.flatten() {
        if entry.file_name().to_string_lossy().starts_with(WorkDirectory::PREFIX) {
            fs::remove_dir_all(entry.path()).map_err(in_file("remove", &entry.path()))?;
        }
    }
    Ok(())
}

struct WorkDirectory {
    path: PathBuf,
}

impl WorkDirectory {
    const PREFIX: &'static str = ".fetch-";

    fn create(directory: &Path) -> Result<Self, FetchError> {
        let path = directory.join(format!("{}{}", Self::PREFIX, std::process::id()));
        fs::create_dir(&path).map_err(in_file("create", &path))?;
        Ok(Self { path })
    }
}

impl Drop for WorkDirectory {
    fn drop(&mut self) {
        if let Err(error) = fs::remove_dir_all(&self.path) {
            tracing::warn!(path = %self.path.display(), %error, "a work directory stays behind");
        }
    }
}

fn download(work: &Path) -> Result<PathBuf, FetchError> {
    let mut command = Command::new("npm");
    command.args(["pack", "--silent", "--cache"]).arg(work.join("npm")).arg(format!("{PACKAGE}@{ENGINE_VERSION}"));
    run("npm", command.current_dir(work), work, "downloading")?;
    let entries = fs::read_dir(work).map_err(in_file("list", work))?;
    let package = entries.flatten().map(|entry| entry.path()).find(|path| path.extension() == Some(OsStr::new("tgz")));
    package.ok_or_else(|| in_file("find the package in", work)(io::ErrorKind::NotFound.into()))
}

fn extract(package: &Path, work: &Path) -> Result<PathBuf, FetchError> {
    let target = work.join("library");
    fs::create_dir(&target).map_err(in_file("create", &target))?;
    let mut command = Command::new("tar");
    command.args(["--strip-components=1", "-xzf"]).arg(package).arg("-C").arg(&target);
    command.arg(format!("package/{LIBRARY_NAME}"));
    run("tar", &mut command, &target, "extracting")?;
    Ok(target.join(LIBRARY_NAME))
}

/// Runs a helper program to its end, telling about once a second how many bytes lie under `watched`.
fn run(program: &'static str, command: &mut Command, watched: &Path, what: &str) -> Result<(), FetchError> {
    let log = watched.join(format!("{program}.log"));
    let output = File::create(&log).map_err(in_file("create", &log))?;
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(output);
    let started = Instant::now();
    let mut child = command.spawn().map_err(|source| FetchError::Program { program, source })?;
    let mut told = started;
    let status = loop {
        if let Some(status) = child.try_wait().map_err(|source| FetchError::Program { program, source })? {
            break status;
        }
        if started.elapsed() > STEP_MAX {
            child.kill().and_then(|()| child.wait()).map_err(|source| FetchError::Program { program, source })?;
            return Err(FetchError::TimedOut { program });
        }
        if told.elapsed() >= PROGRESS_EVERY {
            told = Instant::now();
            tell(&format!("{what}, {} MB, {} s", bytes_under(watched) / 1_000_000, started.elapsed().as_secs()));
        }
        std::thread::sleep(POLL_EVERY);
    };
    if status.success() {
        return Ok(());
    }
    let text = fs::read_to_string(&log).unwrap_or_default();
    let tail: Vec<&str> = text.lines().rev().take(6).collect();
    let text = tail.into_iter().rev().collect::<Vec<_>>().join("; ").into();
    Err(FetchError::Failed { program, status, text })
}

/// Standard error, not the log: the first start must show life before logging is configured.
fn tell(what: &str) {
    eprintln!("clickhouse engine {ENGINE_VERSION}: {what}");
}

fn bytes_under(directory: &Path) -> u64 {
    let entries = fs::read_dir(directory).into_iter().flatten().flatten();
    entries
        .filter_map(|entry| {
            let meta = entry.metadata().ok()?;
            Some(if meta.is_dir() { bytes_under(&entry.path()) } else { meta.len() })
        })
        .sum()
}

fn check(path: &Path, expected: &'static str) -> Result<(), FetchError> {
    let found = sha256_of(path).map_err(in_file("read", path))?;
    if found == expected {
        return Ok(());
    }
    Err(FetchError::Checksum { path: path.to_path_buf(), found: found.into(), expected })
}

fn sha256_of(path: &Path) -> io::Result<String> {
    let mut file = File::open(path)?;
    let mut hash = Sha256::new();
    let mut buffer = vec![0; HASH_BUFFER_BYTES];
    loop {
        match file.read(&mut buffer)? {
            0 => return Ok(hex(&hash.finalize())),
            read => hash.update(buffer.get(..read).unwrap_or_default()),
        }
    }
}

/// Lower-case hexadecimal text.
pub(crate) fn hex(bytes: &[u8]) -> String {
    const DIGITS: [char; 16] = ['0', '1', '2', '3', '4', '5', '6', '7', '8', '9', 'a', 'b', 'c', 'd', 'e', 'f'];
    let digit = |nibble: u8| DIGITS.get(usize::from(nibble)).copied().unwrap_or('?');
    bytes.iter().flat_map(|byte| [digit(byte >> 4), digit(byte & 15)]).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_named_library_must_exist() {
        let missing = Path::new("no/such/libchdb.so");
        assert!(matches!(locate(Some(missing)), Err(FetchError::NotThere { path }) if path == missing));
    }

    #[test]
    fn a_wrong_checksum_is_refused_and_named() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("file");
        fs::write(&path, b"abc").unwrap();
        let abc = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
        assert!(check(&path, abc).is_ok());
        assert!(matches!(check(&path, LIBRARY_SHA256), Err(FetchError::Checksum { found, .. }) if &*found == abc));
    }

    #[test]
    fn a_library_without_its_marker_or_of_another_size_is_not_installed() {
        let directory = tempfile::tempdir().unwrap();
        let library = File::create(directory.path().join(LIBRARY_NAME)).unwrap();
        library.set_len(LIBRARY_BYTES).unwrap();
        assert_eq!(installed(directory.path()), None);
        File::create(marker(directory.path())).unwrap();
        assert!(installed(directory.path()).is_some());
        library.set_len(LIBRARY_BYTES - 1).unwrap();
        assert_eq!(installed(directory.path()), None);
    }

    #[test]
    fn a_failing_helper_tells_its_last_words_and_a_missing_one_its_name() {
        let directory = tempfile::tempdir().unwrap();
        let mut failing = Command::new("sh");
        failing.args(["-c", "echo wrong >&2; exit 3"]);
        let error = run("sh", &mut failing, directory.path(), "testing").unwrap_err();
        assert!(matches!(error, FetchError::Failed { text, .. } if &*text == "wrong"));
        let mut missing = Command::new("no-such-program-here");
        let error = run("no-such-program-here", &mut missing, directory.path(), "testing").unwrap_err();
        assert!(matches!(error, FetchError::Program { .. }));
    }
}
