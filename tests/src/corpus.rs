//! Where the recorded market data is: `SPRAG_CORPUS`, or `shared/corpus` beside the workspace.
//!
//! Never: a copy of the corpus in the project, or a test that fails because it is absent.

use std::{
    ffi::OsStr,
    path::{Path, PathBuf},
};

/// Names the corpus' directory when it is not beside the workspace.
pub const VARIABLE: &str = "SPRAG_CORPUS";

/// How the name of a capture ends.
const CAPTURE_ENDING: &str = ".frames.jsonl.zst";

/// The corpus' directory, if it is there.
#[must_use]
pub fn directory() -> Option<PathBuf> {
    let named = std::env::var_os(VARIABLE).map(PathBuf::from);
    let directory = named.unwrap_or_else(|| Path::new(env!("CARGO_MANIFEST_DIR")).join("../../shared/corpus"));
    directory.is_dir().then_some(directory)
}

/// A file of the corpus by its path inside it, if it is there.
#[must_use]
pub fn file(rel: &str) -> Option<PathBuf> {
    let path = directory()?.join(rel);
    path.is_file().then_some(path)
}

/// Every capture of a venue, by name; none when the corpus is absent.
#[must_use]
pub fn of(venue: market::Venue) -> Vec<PathBuf> {
    match venue {
        market::Venue::KrakenSpot => ["kraken_v1", "kraken_v2"].into_iter().flat_map(captures).collect(),
        other => captures(other.name()),
    }
}

/// Every capture of a format, which is a folder of the corpus, by name; none when the corpus is absent.
#[must_use]
pub fn captures(format: &str) -> Vec<PathBuf> {
    let Some(directory) = directory() else { return Vec::new() };
    let Ok(entries) = std::fs::read_dir(directory.join(format)) else { return Vec::new() };
    let mut found: Vec<PathBuf> = entries
        .filter_map(|entry| entry.ok().map(|entry| entry.path()))
        .filter(|path| path.to_string_lossy().ends_with(CAPTURE_ENDING))
        .collect();
    found.sort();
    found
}

/// The format of a capture: the folder that it is in.
#[must_use]
pub fn format_of(capture: &Path) -> &str {
    capture.parent().and_then(Path::file_name).and_then(OsStr::to_str).unwrap_or_default()
}

/// The name of a capture, for a word about it.
#[must_use]
pub fn name_of(capture: &Path) -> &str {
    let name = capture.file_name().and_then(OsStr::to_str).unwrap_or_default();
    name.trim_end_matches(CAPTURE_ENDING)
}
