//! Captures that are made from recorded ones: frames lost, delayed, carried twice.
//!
//! Never: a payload changed.

use connectors::{
    capture::CaptureReader,
    raw::{RawFrame, RawKind, RawPayload},
};
use serde_json::json;
use std::{io::Write, path::Path, sync::Arc};
use tempfile::NamedTempFile;

/// What the names of connections of the second leg begin with.
const SECOND: &str = "second/";

/// A fetched book is bridged this long after its reply.
const BRIDGED_NS: u64 = 500_000_000;

/// The frames of a capture.
pub(crate) fn of(path: &Path) -> Vec<RawFrame> {
    CaptureReader::open(path, 0).unwrap().map(|frame| frame.unwrap().frame).collect()
}

/// A capture of these frames, by their times; of one time, in the order given.
pub(crate) fn write(mut frames: Vec<RawFrame>) -> NamedTempFile {
    frames.sort_by_key(|frame| frame.ts_ns);
    let file = NamedTempFile::new().unwrap();
    let mut out = zstd::Encoder::new(file.as_file(), 1).unwrap();
    for frame in &frames {
        let kind = match frame.kind {
            RawKind::Open => "open",
            RawKind::Close => "close",
            RawKind::Alive => "alive",
            RawKind::Send => "send",
            RawKind::Ws => "ws",
            RawKind::Http => "http",
        };
        let RawPayload::Text(raw) = &frame.raw else { panic!("a capture of texts") };
        let (ts_ns, conn, url) = (frame.ts_ns, &*frame.conn, frame.url.as_deref());
        let line = json!({ "ts_ns": ts_ns, "kind": kind, "conn": conn, "url": url, "raw": raw });
        serde_json::to_writer(&mut out, &line).unwrap();
        out.write_all(b"\n").unwrap();
    }
    out.finish().unwrap();
    file
}

/// The same frames on a second leg that is a little behind; replies of REST are for both.
pub(crate) fn second_leg(frames: &[RawFrame], behind_ns: u64) -> Vec<RawFrame> {
    let sockets = frames.iter().filter(|frame| frame.kind != RawKind::Http);
    let behind = |frame: &RawFrame| RawFrame {
        ts_ns: frame.ts_ns + behind_ns,
        conn: format!("{SECOND}{}", frame.conn).into(),
        ..frame.clone()
    };
    sockets.map(behind).collect()
}

/// Without some messages: `lost` is asked for the place of each among those after the last reply of REST, since a book
/// that was not fetched again could not be bridged over a hole.
pub(crate) fn without(frames: &[RawFrame], lost: impl Fn(usize) -> bool) -> Vec<RawFrame> {
    let replies = frames.iter().filter(|frame| frame.kind == RawKind::Http);
    let from_ns = replies.map(|frame| frame.ts_ns + BRIDGED_NS).max().unwrap_or(0);
    let mut place = 0;
    let stays = |frame: &&RawFrame| {
        let may_be_lost = frame.kind == RawKind::Ws && frame.ts_ns >= from_ns;
        place += usize::from(may_be_lost);
        !may_be_lost || !lost(place)
    };
    frames.iter().filter(stays).cloned().collect()
}

/// What the sockets carried until a time, and their end then; replies of REST go on.
pub(crate) fn ended(frames: &[RawFrame], end_ns: u64) -> Vec<RawFrame> {
    let stays = |frame: &&RawFrame| frame.kind == RawKind::Http || frame.ts_ns < end_ns;
    let mut left: Vec<RawFrame> = frames.iter().filter(stays).cloned().collect();
    let mut conns: Vec<_> = left.iter().filter(|frame| frame.kind == RawKind::Ws).map(|frame| &frame.conn).collect();
    conns.sort();
    conns.dedup();
    let close = |conn: &Arc<str>| RawFrame {
        ts_ns: end_ns,
        kind: RawKind::Close,
        conn: conn.clone(),
        url: None,
        raw: RawPayload::Text(String::new()),
    };
    let closes: Vec<_> = conns.into_iter().map(close).collect();
    left.extend(closes);
    left
}
