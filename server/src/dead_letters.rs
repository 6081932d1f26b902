//! Dead letters: frames that could not be decoded, kept with their reason so that nothing is lost silently.
//!
//! Never: unbounded; past its bound the file stops growing and the loss is counted.

use connectors::{
    raw::{RawFrame, RawPayload},
    venue_feed::Undecodable,
};
use serde::Serialize;
use std::{
    fs::{File, OpenOptions},
    io::{self, Write},
    path::Path,
};

/// Bytes that one run writes at most: enough for a bad day of one venue, little for a disk.
const BYTES_MAX: u64 = 64 << 20;

/// Letters that are logged in full before only their number is; the file has all.
const LOGGED_MAX: u64 = 8;

/// The dead letters of a run.
#[derive(Debug, Default)]
pub struct DeadLetters {
    file: Option<File>,
    bytes: u64,
    count: u64,
    unkept: u64,
}

#[derive(Serialize)]
struct Letter<'a> {
    ts_ns: String,
    conn: &'a str,
    reason: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    raw: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    hex: Option<String>,
}

impl DeadLetters {
    /// Dead letters that are appended to a file.
    ///
    /// # Errors
    /// The file cannot be opened.
    pub fn append_to(path: &Path) -> io::Result<Self> {
        let file = OpenOptions::new().create(true).append(true).open(path)?;
        let bytes = file.metadata()?.len();
        Ok(Self { file: Some(file), bytes, ..Self::default() })
    }

    /// Letters so far.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.count
    }

    /// Letters that were counted but not kept, since the file is full or cannot be written.
    #[must_use]
    pub fn unkept(&self) -> u64 {
        self.unkept
    }

    /// Keeps a frame with its reason.
    pub fn keep(&mut self, frame: &RawFrame, reason: &Undecodable) {
        self.count += 1;
        if self.count <= LOGGED_MAX {
            let source = std::error::Error::source(reason).map(ToString::to_string).unwrap_or_default();
            tracing::warn!(conn = &*frame.conn, %reason, source, "dead letter");
        }
        let Some(file) = &mut self.file else { return };
        let (raw, hex) = match &frame.raw {
            RawPayload::Text(text) => (Some(text.as_str()), None),
            RawPayload::Binary(bytes) => (None, Some(bytes.iter().map(|byte| format!("{byte:02x}")).collect())),
        };
        let letter = Letter { ts_ns: frame.ts_ns.to_string(), conn: &frame.conn, reason: reason.to_string(), raw, hex };
        let kept = serde_json::to_vec(&letter).map_err(io::Error::from).and_then(|mut line| {
            line.push(b'\n');
            let bytes = u64::try_from(line.len()).unwrap_or(u64::MAX);
            if self.bytes.saturating_add(bytes) > BYTES_MAX {
                return Err(io::ErrorKind::StorageFull.into());
            }
            self.bytes += bytes;
            file.write_all(&line)
        });
        self.unkept += u64::from(kept.is_err());
    }
}
