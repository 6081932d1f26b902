//! Captures: recorded venue traffic as zstd-compressed JSON lines, read as a stream and merged by receive time.
//!
//! One line: `{"ts_ns":…,"kind":"open|close|alive|send|ws|http","conn":…,"url":…,"raw":…|"b64":…}`; `docs/REPLAY.md` has the
//! format.
//!
//! Never: a whole file in memory; a payload re-serialised.

use crate::raw::{RawFrame, RawKind, RawPayload};
use base64::{Engine, prelude::BASE64_STANDARD};
use serde::Deserialize;
use sha2::{Digest, Sha256};
use std::{
    borrow::Cow,
    fs::File,
    io::{self, BufRead, BufReader, Read},
    path::{Path, PathBuf},
    sync::Arc,
};

/// Longest line taken, in bytes: forty times the largest frame seen on any venue.
pub const LINE_BYTES_MAX: usize = 32 << 20;

/// A capture cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum CaptureError {
    /// The file cannot be opened or read, or is no zstd stream.
    #[error("capture {path}: cannot be read")]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// A line is not what the format says.
    #[error("capture {path}, line {line}: not a capture line")]
    Malformed {
        /// The file.
        path: PathBuf,
        /// Its line, from 1.
        line: u64,
        /// Why.
        #[source]
        source: serde_json::Error,
    },
    /// A line has neither payload, or one that is no base64.
    #[error("capture {path}, line {line}: no payload in `raw`, and none that can be read in `b64`")]
    Payload {
        /// The file.
        path: PathBuf,
        /// Its line, from 1.
        line: u64,
    },
    /// A line is longer than [`LINE_BYTES_MAX`].
    #[error("capture {path}, line {line}: longer than {LINE_BYTES_MAX} bytes")]
    LineTooLong {
        /// The file.
        path: PathBuf,
        /// Its line, from 1.
        line: u64,
    },
}

/// One frame of a capture, with where it stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CaptureFrame {
    /// Which of the merged files, from 0.
    pub file: u16,
    /// Line in the file, from 1.
    pub line: u64,
    /// Place among all frames of the merged files, from 1; of one file without empty lines, its line.
    pub position: u64,
    /// What was recorded.
    pub frame: RawFrame,
}

#[derive(Deserialize)]
struct Line<'a> {
    ts_ns: u64,
    kind: Kind,
    #[serde(borrow)]
    conn: Cow<'a, str>,
    #[serde(borrow, default)]
    url: Option<Cow<'a, str>>,
    #[serde(default)]
    raw: Option<String>,
    #[serde(borrow, default)]
    b64: Option<Cow<'a, str>>,
}

#[derive(Clone, Copy, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Kind {
    Open,
    Close,
    Alive,
    Send,
    Ws,
    Http,
}

/// Reads one capture file, line by line.
pub struct CaptureReader {
    path: PathBuf,
    file: u16,
    line: u64,
    input: BufReader<zstd::Decoder<'static, BufReader<File>>>,
    buffer: Vec<u8>,
    conns: Vec<Arc<str>>,
}

impl CaptureReader {
    /// Opens a capture; `file` is its place among those that are merged.
    ///
    /// # Errors
    /// [`CaptureError::Unreadable`].
    pub fn open(path: &Path, file: u16) -> Result<Self, CaptureError> {
        let unreadable = |source| CaptureError::Unreadable { path: path.to_owned(), source };
        let input = File::open(path).and_then(zstd::Decoder::new).map_err(unreadable)?;
        Ok(Self {
            path: path.to_owned(),
            file,
            line: 0,
            input: BufReader::with_capacity(1 << 18, input),
            buffer: Vec::new(),
            conns: Vec::new(),
        })
    }

    fn read_line(&mut self) -> Result<bool, CaptureError> {
        loop {
            self.buffer.clear();
            self.line += 1;
            let limit = u64::try_from(LINE_BYTES_MAX).unwrap_or(u64::MAX);
            let read = (&mut self.input).take(limit).read_until(b'\n', &mut self.buffer);
            match read {
                Err(source) => return Err(CaptureError::Unreadable { path: self.path.clone(), source }),
                Ok(0) => return Ok(false),
                Ok(LINE_BYTES_MAX) => {
                    return Err(CaptureError::LineTooLong { path: self.path.clone(), line: self.line });
                }
                Ok(_) if self.buffer.iter().all(u8::is_ascii_whitespace) => {}
                Ok(_) => return Ok(true),
            }
        }
    }

    fn parse(&mut self) -> Result<CaptureFrame, CaptureError> {
        let malformed = |source| CaptureError::Malformed { path: self.path.clone(), line: self.line, source };
        let line: Line<'_> = serde_json::from_slice(&self.buffer).map_err(malformed)?;
        let conn = match self.conns.iter().find(|known| ***known == *line.conn) {
            Some(known) => Arc::clone(known),
            None => {
                let conn: Arc<str> = line.conn.as_ref().into();
                self.conns.push(Arc::clone(&conn));
                conn
            }
        };
        let kind = match line.kind {
            Kind::Open => RawKind::Open,
            Kind::Close => RawKind::Close,
            Kind::Alive => RawKind::Alive,
            Kind::Send => RawKind::Send,
            Kind::Ws => RawKind::Ws,
            Kind::Http => RawKind::Http,
        };
        let binary = || line.b64.as_deref().and_then(|text| BASE64_STANDARD.decode(text).ok());
        let raw = match (line.raw, kind) {
            (Some(text), _) => RawPayload::Text(text),
            (None, RawKind::Open | RawKind::Close | RawKind::Alive) => RawPayload::Text(String::new()),
            (None, _) => match binary() {
                Some(bytes) => RawPayload::Binary(bytes),
                None => return Err(CaptureError::Payload { path: self.path.clone(), line: self.line }),
            },
        };
        let frame = RawFrame { ts_ns: line.ts_ns, kind, conn, url: line.url.map(|url| url.as_ref().into()), raw };
        Ok(CaptureFrame { file: self.file, line: self.line, position: self.line, frame })
    }
}

impl Iterator for CaptureReader {
    type Item = Result<CaptureFrame, CaptureError>;

    fn next(&mut self) -> Option<Self::Item> {
        match self.read_line() {
            Ok(false) => None,
            Ok(true) => Some(self.parse()),
            Err(error) => Some(Err(error)),
        }
    }
}

/// Several captures as one, ordered by (receive time, file, line).
pub struct MergedCaptures {
    heads: Vec<(Option<CaptureFrame>, CaptureReader)>,
    position: u64,
    identity: String,
}

impl MergedCaptures {
    /// Opens all files.
    ///
    /// # Errors
    /// The first [`CaptureError`] met.
    pub fn open(paths: &[PathBuf]) -> Result<Self, CaptureError> {
        let mut digest = Sha256::new();
        let mut heads = Vec::with_capacity(paths.len());
        for (file, path) in paths.iter().enumerate() {
            digest.update(file_digest(path)?);
            let mut reader = CaptureReader::open(path, u16::try_from(file).unwrap_or(u16::MAX))?;
            heads.push((reader.next().transpose()?, reader));
        }
        Ok(Self { heads, position: 0, identity: hex(&digest.finalize()) })
    }

    /// The stream's identity: a digest of the files' contents, in their order.
    #[must_use]
    pub fn identity(&self) -> &str {
        &self.identity
    }
}

impl Iterator for MergedCaptures {
    type Item = Result<CaptureFrame, CaptureError>;

    fn next(&mut self) -> Option<Self::Item> {
        let order = |head: &CaptureFrame| (head.frame.ts_ns, head.file, head.line);
        let (head, reader) = self
            .heads
            .iter_mut()
            .filter(|(head, _)| head.is_some())
            .min_by_key(|(head, _)| head.as_ref().map(order))?;
        let frame = head.take()?;
        match reader.next().transpose() {
            Ok(next) => *head = next,
            Err(error) => return Some(Err(error)),
        }
        self.position += 1;
        Some(Ok(CaptureFrame { position: self.position, ..frame }))
    }
}

/// SHA-256 of a file.
///
/// # Errors
/// [`CaptureError::Unreadable`].
pub fn file_digest(path: &Path) -> Result<[u8; 32], CaptureError> {
    let unreadable = |source| CaptureError::Unreadable { path: path.to_owned(), source };
    let mut file = File::open(path).map_err(unreadable)?;
    let mut digest = Sha256::new();
    let mut buffer = vec![0_u8; 1 << 16];
    loop {
        match file.read(&mut buffer).map_err(unreadable)? {
            0 => return Ok(digest.finalize().into()),
            read => digest.update(buffer.get(..read).unwrap_or_default()),
        }
    }
}

fn hex(bytes: &[u8]) -> String {
    use std::fmt::Write;
    bytes.iter().fold(String::with_capacity(bytes.len() * 2), |mut text, byte| {
        // Writing to a String cannot fail.
        let _infallible = write!(text, "{byte:02x}");
        text
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    fn capture(dir: &Path, name: &str, lines: &[&str]) -> PathBuf {
        let path = dir.join(name);
        let mut out = zstd::Encoder::new(File::create(&path).unwrap(), 1).unwrap();
        out.write_all(lines.join("\n").as_bytes()).unwrap();
        out.finish().unwrap();
        path
    }

    #[test]
    fn files_merge_by_time_then_file_then_line() {
        let dir = tempfile::tempdir().unwrap();
        let line = |ts: u64, raw: &str| format!(r#"{{"ts_ns":{ts},"kind":"ws","conn":"0","raw":"{raw}"}}"#);
        let a = capture(dir.path(), "a", &[&line(1, "a1"), &line(5, "a2"), &line(5, "a3")]);
        let b = capture(dir.path(), "b", &[&line(1, "b1"), &line(4, "b2"), &line(6, "b3")]);
        let merged = MergedCaptures::open(&[a.clone(), b.clone()]).unwrap();
        let order: Vec<_> = merged
            .map(|frame| match frame.unwrap().frame.raw {
                RawPayload::Text(text) => text,
                RawPayload::Binary(_) => String::new(),
            })
            .collect();
        assert_eq!(order, ["a1", "b1", "b2", "a2", "a3", "b3"]);
        let one_way = MergedCaptures::open(&[a.clone(), b.clone()]).unwrap();
        let other_way = MergedCaptures::open(&[b, a]).unwrap();
        assert_ne!(one_way.identity(), other_way.identity());
    }

    #[test]
    fn payloads_keep_their_bytes_and_faults_name_their_line() {
        let dir = tempfile::tempdir().unwrap();
        let good = capture(
            dir.path(),
            "good",
            &[
                r#"{"ts_ns":1,"kind":"open","conn":"0","url":"wss://venue/x"}"#,
                r#"{"ts_ns":9007199254740993,"kind":"ws","conn":"0","b64":"AAEC/w=="}"#,
                r#"{"ts_ns":9007199254740994,"kind":"alive","conn":"0"}"#,
                r#"{"ts_ns":9007199254740995,"kind":"close","conn":"0"}"#,
            ],
        );
        let frames: Vec<_> = CaptureReader::open(&good, 0).unwrap().map(Result::unwrap).collect();
        assert_eq!(frames[0].frame.url.as_deref(), Some("wss://venue/x"));
        assert_eq!(frames[1].frame.raw, RawPayload::Binary(vec![0, 1, 2, 255]));
        assert_eq!(frames[1].frame.ts_ns, 9_007_199_254_740_993);
        assert_eq!((frames[2].frame.kind, frames[3].frame.kind), (RawKind::Alive, RawKind::Close));
        let bad = capture(dir.path(), "bad", &[r#"{"ts_ns":1,"kind":"ws","conn":"0","raw":"x"}"#, "{"]);
        let last = CaptureReader::open(&bad, 0).unwrap().last().unwrap();
        assert!(matches!(last, Err(CaptureError::Malformed { line: 2, .. })), "{last:?}");
        let missing = CaptureReader::open(&dir.path().join("none"), 0).err();
        assert!(matches!(missing, Some(CaptureError::Unreadable { .. })));
    }
}
