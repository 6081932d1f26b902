//! The embedded engine: opened once per process on one directory, a fresh connection per request.
//!
//! Never: two statements on one connection where the second is a streamed insert; an unknown setting let through,
//! which the engine itself ignores in silence.

pub(crate) mod ffi;

use crate::clickhouse::fetch::FetchError;
use ffi::{Api, Connection};
use foldhash::HashSet;
use std::{
    ffi::CString,
    fs, io,
    path::{Path, PathBuf},
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering},
    },
};

/// Memory that the engine may take, bytes: a whole-table read with FINAL over 10 million unmerged rows took 1.7 GB. A
/// statement that wants more fails, instead of the machine.
pub const ENGINE_MEMORY_BYTES_MAX: u64 = 2_000_000_000;

/// What the engine's one user may do, through every listener.
const USERS_XML: &str = include_str!("engine/users.xml");

/// Why the embedded engine does not run, or what it answered.
#[derive(Debug, thiserror::Error)]
pub enum EngineError {
    /// There is no library.
    #[error(transparent)]
    Library(#[from] FetchError),
    /// The file is no loadable library.
    #[error("cannot load the engine library {}; remove it so that it is fetched again, or correct CHDB_LIB", path.display())]
    Load {
        /// The file.
        path: PathBuf,
        /// Why not.
        #[source]
        source: libloading::Error,
    },
    /// The library is another version.
    #[error("the engine library lacks {name}: it is not version {}", super::fetch::ENGINE_VERSION)]
    Symbol {
        /// The missing function.
        name: &'static str,
        /// The loader's answer.
        #[source]
        source: libloading::Error,
    },
    /// The engine takes one directory per process.
    #[error("this process has an open engine already; it can have only one")]
    AlreadyOpen,
    /// Another process uses the directory.
    #[error(
        "the data directory {} is in use by process {holder}; stop it, or choose another directory, or set CLICKHOUSE_URL to its address",
        directory.display()
    )]
    InUse {
        /// The directory.
        directory: PathBuf,
        /// Process number of the user as it wrote it down, or `unknown`.
        holder: Box<str>,
    },
    /// The directory cannot be used.
    #[error("cannot use the data directory {}", directory.display())]
    Directory {
        /// The directory.
        directory: PathBuf,
        /// Why not.
        #[source]
        source: io::Error,
    },
    /// The engine gave no reason, as is its way.
    #[error("the engine does not open {}: not writable, damaged, of a newer version, or in use", directory.display())]
    Refused {
        /// The directory.
        directory: PathBuf,
    },
    /// A text for the engine holds a NUL byte.
    #[error("a setting or path for the engine holds a NUL byte")]
    Nul(#[from] std::ffi::NulError),
    /// The engine's own error text.
    #[error("{text}")]
    Rejected {
        /// As the engine wrote it.
        text: Box<str>,
    },
    /// The library broke its promise.
    #[error("the engine returned no result")]
    NoResult,
    /// Threads, sockets, signals or standard streams failed.
    #[error("cannot {action}")]
    System {
        /// What was tried.
        action: &'static str,
        /// Why it failed.
        #[source]
        source: io::Error,
    },
    /// The child's arguments are not those that `start_child` gives.
    #[error("unusable engine argument {argument:?}")]
    Argument {
        /// The argument.
        argument: Box<str>,
    },
    /// The child did not say that it listens.
    #[error("the engine did not start within {seconds} s")]
    Silent {
        /// The bound.
        seconds: u64,
    },
    /// The child ended before it listened; it told why on standard error.
    #[error("the engine's process ended at its start; its standard error says why")]
    Ended,
}

impl EngineError {
    pub(crate) fn system(action: &'static str) -> impl FnOnce(io::Error) -> Self {
        move |source| Self::System { action, source }
    }

    pub(crate) fn directory(directory: &Path) -> impl FnOnce(io::Error) -> Self + '_ {
        move |source| Self::Directory { directory: directory.to_path_buf(), source }
    }
}

/// What a statement gave.
#[derive(Debug, Default)]
pub(crate) struct Output {
    pub(crate) data: Vec<u8>,
    pub(crate) result_rows: u64,
    pub(crate) read_rows: u64,
    pub(crate) read_bytes: u64,
    pub(crate) written_rows: u64,
    pub(crate) written_bytes: u64,
}

/// The one engine of this process; clones share it, and it closes with the last of them.
#[derive(Clone)]
pub struct Engine {
    inner: Arc<Inner>,
}

struct Inner {
    api: Api,
    arguments: Vec<CString>,
    settings: HashSet<Box<str>>,
    /// Keeps the engine up between requests.
    anchor: Mutex<Option<Connection>>,
}

static OPEN: AtomicBool = AtomicBool::new(false);

impl Drop for Inner {
    fn drop(&mut self) {
        drop(self.anchor.get_mut().unwrap_or_else(std::sync::PoisonError::into_inner).take());
        OPEN.store(false, Ordering::Release);
    }
}

/// Takes the process's one place for an engine, and gives it back if opening fails.
struct Place;

impl Place {
    fn take() -> Result<Self, EngineError> {
        if OPEN.swap(true, Ordering::AcqRel) { Err(EngineError::AlreadyOpen) } else { Ok(Self) }
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        OPEN.store(false, Ordering::Release);
    }
}

impl Engine {
    /// Opens the engine on a directory, created if missing. `options` are server options such as
    /// `--mark_cache_size=…`. Replaces standard input, which the engine would otherwise read; see
    /// [`ffi::take_stdin`].
    ///
    /// # Errors
    /// [`EngineError`]; one engine per process, one process per directory.
    pub(crate) fn open(library: &Path, directory: &Path, options: &[String]) -> Result<Self, EngineError> {
        let place = Place::take()?;
        fs::create_dir_all(directory).map_err(EngineError::directory(directory))?;
        // An empty configuration of our own: the engine would take one from the working or home directory.
        let config = directory.join("config.xml");
        fs::write(&config, "<clickhouse/>\n").map_err(EngineError::directory(directory))?;
        let users = directory.join("users.xml");
        fs::write(&users, USERS_XML).map_err(EngineError::directory(directory))?;
        let mut arguments = vec![
            CString::new("clickhouse")?,
            CString::new(format!("--path={}", directory.display()))?,
            CString::new(format!("--config-file={}", config.display()))?,
            CString::new(format!("--users_config={}", users.display()))?,
            // Servers do not take a bare expression, or a misspelt keyword, for a SELECT.
            CString::new("--implicit_select=0")?,
        ];
        if !options.iter().any(|option| option.starts_with("--max_server_memory_usage=")) {
            arguments.push(CString::new(format!("--max_server_memory_usage={ENGINE_MEMORY_BYTES_MAX}"))?);
        }
        for option in options {
            arguments.push(CString::new(option.as_str())?);
        }
        let api = Api::load(library)?;
        let refused = || EngineError::Refused { directory: directory.to_path_buf() };
        let mut anchor = Connection::open(api, &arguments).ok_or_else(refused)?;
        let names = anchor.query(b"SELECT name FROM system.settings", "TSVRaw", &[])?;
        let settings = String::from_utf8_lossy(&names.data).lines().map(Into::into).collect();
        std::mem::forget(place);
        Ok(Self { inner: Arc::new(Inner { api, arguments, settings, anchor: Mutex::new(Some(anchor)) }) })
    }

    /// Runs statements on a connection of their own, in a database, under settings.
    pub(crate) fn query(&self, session: &Session, sql: &[u8], format: &str) -> Result<Output, EngineError> {
        let mut connection = self.connect(&session.settings)?;
        if let Some(database) = &session.database {
            connection.query(format!("USE {database}").as_bytes(), "Null", &[])?;
        }
        connection.query(sql, format, &session.parameters)
    }

    /// Inserts data on a connection of its own; the table in `head` must be qualified.
    pub(crate) fn insert(
        &self,
        settings: &[(String, String)],
        head: &str,
        format: &str,
        data: &[u8],
    ) -> Result<Output, EngineError> {
        self.connect(settings)?.insert(head, format, data)
    }

    fn connect(&self, settings: &[(String, String)]) -> Result<Connection, EngineError> {
        if let Some((name, _)) = settings.iter().find(|(name, _)| !self.inner.settings.contains(name.as_str())) {
            let text = format!("Code: 115. DB::Exception: Unknown setting '{name}'. (UNKNOWN_SETTING)");
            return Err(EngineError::Rejected { text: text.into() });
        }
        let mut arguments = self.inner.arguments.clone();
        for (name, value) in settings {
            arguments.push(CString::new(format!("--{name}={value}"))?);
        }
        Connection::open(self.inner.api, &arguments).map_or_else(|| Err(self.refusal(settings)), Ok)
    }

    /// Finds out why a connection with settings was refused: SET on a plain one names the bad value.
    fn refusal(&self, settings: &[(String, String)]) -> EngineError {
        let Some(mut plain) = Connection::open(self.inner.api, &self.inner.arguments) else {
            return EngineError::NoResult;
        };
        let quoted = |value: &str| value.replace('\\', "\\\\").replace('\'', "\\'");
        let list: Vec<String> = settings.iter().map(|(name, value)| format!("{name} = '{}'", quoted(value))).collect();
        match plain.query(format!("SET {}", list.join(", ")).as_bytes(), "Null", &[]) {
            Ok(_) => EngineError::NoResult,
            Err(error) => error,
        }
    }
}

/// What a request brings beside its statement.
#[derive(Debug, Default)]
pub(crate) struct Session {
    /// Quoted, ready for SQL.
    pub(crate) database: Option<String>,
    pub(crate) settings: Vec<(String, String)>,
    pub(crate) parameters: Vec<(String, String)>,
}
