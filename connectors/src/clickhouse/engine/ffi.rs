//! Every C call of the store: libchdb's plain interface, bound at run time, and two calls of the C library.
//!
//! Never: a policy; what is called when, and with what, is decided by the callers.

#![expect(
    unsafe_code,
    reason = "the C interface of the embedded engine and of the process; each call says why it is sound"
)]

use super::{EngineError, Output};
use libloading::os::unix::{Library, RTLD_LOCAL, RTLD_NOW};
use std::{
    ffi::{CStr, CString, c_char, c_int, c_void},
    fs::File,
    io,
    os::fd::{AsFd, AsRawFd, OwnedFd},
    path::Path,
    ptr,
};

/// `chdb_connection`: an opaque pointer; the calls that open and close pass a pointer to it.
type RawConnection = *mut c_void;
type RawResult = *mut c_void;
type RawInsert = *mut c_void;

/// Bytes handed over per append; the engine parses while the next part is copied.
const APPEND_BYTES: usize = 1 << 20;

type Connect = unsafe extern "C" fn(c_int, *mut *mut c_char) -> *mut RawConnection;
type QueryParams = unsafe extern "C" fn(
    RawConnection,
    *const c_char,
    usize,
    *const c_char,
    usize,
    *const *const c_char,
    *const usize,
    *const *const c_char,
    *const usize,
    usize,
) -> RawResult;
type Begin = unsafe extern "C" fn(RawConnection, *const c_char, usize, *const c_char, usize) -> RawInsert;

/// The library's functions. The library is never unloaded: its threads and destructors outlive any handle of ours.
#[derive(Clone, Copy)]
pub(super) struct Api {
    connect: Connect,
    close: unsafe extern "C" fn(*mut RawConnection),
    query: QueryParams,
    buffer: unsafe extern "C" fn(RawResult) -> *const u8,
    length: unsafe extern "C" fn(RawResult) -> usize,
    error: unsafe extern "C" fn(RawResult) -> *const c_char,
    rows_read: unsafe extern "C" fn(RawResult) -> u64,
    storage_rows_read: unsafe extern "C" fn(RawResult) -> u64,
    storage_bytes_read: unsafe extern "C" fn(RawResult) -> u64,
    rows_written: unsafe extern "C" fn(RawResult) -> u64,
    bytes_written: unsafe extern "C" fn(RawResult) -> u64,
    destroy: unsafe extern "C" fn(RawResult),
    insert_begin: Begin,
    insert_append: unsafe extern "C" fn(RawInsert, *const c_void, usize) -> c_int,
    insert_done: unsafe extern "C" fn(RawInsert) -> RawResult,
    insert_error: unsafe extern "C" fn(RawInsert) -> *const c_char,
    insert_destroy: unsafe extern "C" fn(RawInsert),
}

impl Api {
    /// Loads the library and leaves SIGINT, SIGTERM and the rest to the host process.
    pub(super) fn load(path: &Path) -> Result<Self, EngineError> {
        // SAFETY: the library is the pinned one or named by the user; its initialisers need nothing from us.
        let library = unsafe { Library::open(Some(path), RTLD_NOW | RTLD_LOCAL) }
            .map_err(|source| EngineError::Load { path: path.to_path_buf(), source })?;
        let handlers: unsafe extern "C" fn(c_int) = symbol(&library, "chdb_set_signal_handlers_enabled")?;
        // SAFETY: takes a flag, may be called at any time before the first connection.
        unsafe { handlers(0) };
        let api = Self {
            connect: symbol(&library, "chdb_connect")?,
            close: symbol(&library, "chdb_close_conn")?,
            query: symbol(&library, "chdb_query_with_params_n")?,
            buffer: symbol(&library, "chdb_result_buffer")?,
            length: symbol(&library, "chdb_result_length")?,
            error: symbol(&library, "chdb_result_error")?,
            rows_read: symbol(&library, "chdb_result_rows_read")?,
            storage_rows_read: symbol(&library, "chdb_result_storage_rows_read")?,
            storage_bytes_read: symbol(&library, "chdb_result_storage_bytes_read")?,
            rows_written: symbol(&library, "chdb_result_rows_written")?,
            bytes_written: symbol(&library, "chdb_result_bytes_written")?,
            destroy: symbol(&library, "chdb_destroy_query_result")?,
            insert_begin: symbol(&library, "chdb_stream_insert_n")?,
            insert_append: symbol(&library, "chdb_stream_append")?,
            insert_done: symbol(&library, "chdb_stream_done")?,
            insert_error: symbol(&library, "chdb_stream_insert_error")?,
            insert_destroy: symbol(&library, "chdb_destroy_insert_stream")?,
        };
        std::mem::forget(library);
        Ok(api)
    }
}

fn symbol<T: Copy>(library: &Library, name: &'static str) -> Result<T, EngineError> {
    // SAFETY: `T` is the C signature of that function in the pinned version's header.
    let found = unsafe { library.get::<T>(name.as_bytes()) };
    found.map(|symbol| *symbol).map_err(|source| EngineError::Symbol { name, source })
}

/// One session. One statement at a time, hence `&mut`.
pub(super) struct Connection {
    api: Api,
    raw: ptr::NonNull<RawConnection>,
}

// SAFETY: the library ties a connection to no thread; exclusive use is kept by `&mut`.
unsafe impl Send for Connection {}

impl Drop for Connection {
    fn drop(&mut self) {
        // SAFETY: `raw` came from `connect`, is open, and is not used again.
        unsafe { (self.api.close)(self.raw.as_ptr()) };
    }
}

impl Connection {
    /// A session with command-line arguments; `None` if the engine refuses, of which it tells no reason.
    pub(super) fn open(api: Api, arguments: &[CString]) -> Option<Self> {
        let count = c_int::try_from(arguments.len()).ok()?;
        let mut argv: Vec<*mut c_char> = arguments.iter().map(|argument| argument.as_ptr().cast_mut()).collect();
        // SAFETY: `argv` holds `count` NUL-terminated strings that outlive the call, which only reads them.
        let raw = ptr::NonNull::new(unsafe { (api.connect)(count, argv.as_mut_ptr()) })?;
        // SAFETY: a pointer that is not null points to the connection, itself null if opening failed.
        if unsafe { raw.as_ref() }.is_null() {
            return None;
        }
        Some(Self { api, raw })
    }

    fn handle(&self) -> RawConnection {
        // SAFETY: checked in `open`, valid until `drop`.
        unsafe { *self.raw.as_ptr() }
    }

    /// Runs statements, with the values of `{name:Type}` parameters; the last result in the given format.
    pub(super) fn query(
        &mut self,
        sql: &[u8],
        format: &str,
        parameters: &[(String, String)],
    ) -> Result<Output, EngineError> {
        let names: Vec<*const c_char> = parameters.iter().map(|(name, _)| name.as_ptr().cast()).collect();
        let name_lengths: Vec<usize> = parameters.iter().map(|(name, _)| name.len()).collect();
        let values: Vec<*const c_char> = parameters.iter().map(|(_, value)| value.as_ptr().cast()).collect();
        let value_lengths: Vec<usize> = parameters.iter().map(|(_, value)| value.len()).collect();
        // SAFETY: every pointer is passed with its length and outlives the call; the four arrays are equally long.
        let result = unsafe {
            (self.api.query)(
                self.handle(),
                sql.as_ptr().cast(),
                sql.len(),
                format.as_ptr().cast(),
                format.len(),
                names.as_ptr(),
                name_lengths.as_ptr(),
                values.as_ptr(),
                value_lengths.as_ptr(),
                parameters.len(),
            )
        };
        self.take(result)
    }

    /// An insert of data in a format; `head` is the statement without its FORMAT clause. It must be the first
    /// statement of its connection, or inserts through some materialized views are cancelled half-way.
    pub(super) fn insert(mut self, head: &str, format: &str, data: &[u8]) -> Result<Output, EngineError> {
        // SAFETY: strings are passed with their lengths and outlive the call.
        let insert = unsafe {
            (self.api.insert_begin)(
                self.handle(),
                head.as_ptr().cast(),
                head.len(),
                format.as_ptr().cast(),
                format.len(),
            )
        };
        if insert.is_null() {
            return Err(EngineError::NoResult);
        }
        // SAFETY: `insert` is live until `insert_destroy`; the text is copied before.
        let begun = match text(unsafe { (self.api.insert_error)(insert) }) {
            Some(text) => Err(EngineError::Rejected { text }),
            None => Ok(()),
        };
        let done = begun.and_then(|()| {
            for part in data.chunks(APPEND_BYTES) {
                // SAFETY: the part is passed with its length; the engine copies it. The reason of a refusal comes
                // with the result below.
                if unsafe { (self.api.insert_append)(insert, part.as_ptr().cast(), part.len()) } != 0 {
                    break;
                }
            }
            // SAFETY: called once on a live insert.
            let result = unsafe { (self.api.insert_done)(insert) };
            self.take(result)
        });
        // SAFETY: not used again.
        unsafe { (self.api.insert_destroy)(insert) };
        done
    }

    /// Copies a result out and destroys it.
    fn take(&mut self, result: RawResult) -> Result<Output, EngineError> {
        if result.is_null() {
            return Err(EngineError::NoResult);
        }
        let api = self.api;
        // SAFETY: `result` is live until `destroy`; the buffer holds `length` bytes; all is copied before.
        unsafe {
            let taken = match text((api.error)(result)) {
                Some(text) => Err(EngineError::Rejected { text }),
                None => {
                    let (buffer, length) = ((api.buffer)(result), (api.length)(result));
                    let empty = buffer.is_null() || length == 0;
                    let data = if empty { Vec::new() } else { std::slice::from_raw_parts(buffer, length).to_vec() };
                    Ok(Output {
                        data,
                        result_rows: (api.rows_read)(result),
                        read_rows: (api.storage_rows_read)(result),
                        read_bytes: (api.storage_bytes_read)(result),
                        written_rows: (api.rows_written)(result),
                        written_bytes: (api.bytes_written)(result),
                    })
                }
            };
            (api.destroy)(result);
            taken
        }
    }
}

fn text(raw: *const c_char) -> Option<Box<str>> {
    if raw.is_null() {
        return None;
    }
    // SAFETY: the library's error texts are NUL-terminated and live as long as their owner, which the caller holds.
    let text = unsafe { CStr::from_ptr(raw) }.to_string_lossy();
    (!text.is_empty()).then(|| text.into())
}

/// Puts `/dev/null` in the place of standard input, which the engine would read as INSERT data, and gives the
/// original back.
pub(crate) fn take_stdin() -> io::Result<OwnedFd> {
    let original = io::stdin().as_fd().try_clone_to_owned()?;
    let nothing = File::open("/dev/null")?;
    // SAFETY: both descriptors are open; replacing 0 is the purpose.
    if unsafe { libc::dup2(nothing.as_raw_fd(), libc::STDIN_FILENO) } < 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(original)
}

/// Asks the kernel to kill this process when the thread that started it ends.
#[cfg(target_os = "linux")]
pub(crate) fn die_with_parent() -> io::Result<()> {
    // SAFETY: sets a flag of this process; no pointers.
    if unsafe { libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL) } != 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(())
}

/// Elsewhere only the end of standard input tells that the parent is gone.
#[cfg(not(target_os = "linux"))]
pub(crate) fn die_with_parent() -> io::Result<()> {
    Ok(())
}
