//! `sprag backup DIR`: a copy of store and journals, beside a running server or without one.
//!
//! The journals are copied after the tables, so that they know every epoch that the tables hold. The manifest is written
//! last: a directory without it is no backup.
//!
//! Never: a file overwritten; a copy that looks whole and is not.

use super::{Failure, Settings, runtime, start_log};
use crate::{
    config::Config,
    epochs,
    exit::Exit,
    store::{Sharing, Store},
};
use clap::Args;
use connectors::clickhouse::{
    backup::{BackedUpGroup, back_up, schema_number},
    backups_directory,
};
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use std::{
    fs::{self, File},
    io::{self, Write},
    path::{Path, PathBuf},
};

/// Names what a backup holds.
const MANIFEST: &str = "manifest.json";
/// Where the engine writes, within a backup.
pub(super) const TABLES: &str = "tables";
/// The manifest's form.
pub(super) const FORM: u32 = 1;

#[derive(Debug, Args)]
pub(super) struct BackupArgs {
    #[command(flatten)]
    settings: Settings,
    /// Directory to make; it must not be there yet, or be empty.
    directory: PathBuf,
}

/// What a backup holds.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Manifest {
    /// [`FORM`].
    pub(super) form: u32,
    /// Who made it.
    pub(super) build: String,
    /// Number of the schema.
    pub(super) schema: u32,
    /// Database of the tables.
    pub(super) database: String,
    /// When the first table was copied.
    pub(super) begun_at: String,
    /// When the last one was.
    pub(super) ended_at: String,
    /// The tables, in the order in which they were copied and are restored.
    pub(super) groups: Vec<BackedUpGroup>,
}

impl Manifest {
    pub(super) fn read(directory: &Path) -> io::Result<Self> {
        Ok(serde_json::from_slice(&fs::read(directory.join(MANIFEST))?)?)
    }

    fn write(&self, directory: &Path) -> io::Result<()> {
        let mut file = File::create(directory.join(MANIFEST))?;
        serde_json::to_writer_pretty(&mut file, self)?;
        file.write_all(b"\n")?;
        file.sync_all()?;
        File::open(directory)?.sync_all()
    }
}

/// A store elsewhere has files of its own.
pub(super) fn embedded_only(config: &Config, what: &str) -> Result<(), Failure> {
    if config.store.is_embedded() {
        return Ok(());
    }
    let why = "the store is a ClickHouse server elsewhere: back it up and restore it there, as docs/ANALYSTS.md says, and copy \
               epochs.jsonl of the data directory after it";
    Err(Failure::new(Exit::Usage, anyhow::anyhow!("{what}: {why}")))
}

pub(super) fn on_files(what: String) -> impl FnOnce(io::Error) -> Failure {
    move |error| Failure::new(Exit::Input, anyhow::Error::new(error).context(what))
}

/// Whether a directory is there and holds something.
pub(super) fn is_used(directory: &Path) -> io::Result<bool> {
    match fs::read_dir(directory) {
        Ok(mut entries) => Ok(entries.next().is_some()),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
        Err(error) => Err(error),
    }
}

pub(super) fn backup(args: &BackupArgs) -> Result<(), Failure> {
    let config = args.settings.load(Vec::new())?;
    start_log(&config.log.quiet())?;
    embedded_only(&config, "backup")?;
    let shown = args.directory.display().to_string();
    if is_used(&args.directory).map_err(on_files(shown.clone()))? {
        return Err(Failure::new(Exit::Usage, anyhow::anyhow!("{shown} is not empty")));
    }
    let data = config.data_dir.canonicalize().map_err(on_files(config.data_dir.display().to_string()))?;
    // The engine may write within the data directory alone.
    let staging = backups_directory(&data).join(format!("backup-{}", std::process::id()));
    let made = copy(&config, &data, &staging).and_then(|manifest| {
        hand_over(&staging, &args.directory).map_err(on_files(shown))?;
        Ok(manifest)
    });
    if let Err(error) = fs::remove_dir_all(&staging)
        && error.kind() != io::ErrorKind::NotFound
    {
        tracing::warn!(%error, directory = %staging.display(), "a part of a backup is left behind");
    }
    let manifest = made?;
    let tables = manifest.groups.iter().flat_map(|group| &group.tables);
    let (count, rows) =
        tables.fold((0_u64, 0_u64), |(count, rows), table| (count + 1, rows.saturating_add(table.rows)));
    println!("{count} tables and views, {rows} rows: {}", args.directory.display());
    Ok(())
}

fn copy(config: &Config, data: &Path, staging: &Path) -> Result<Manifest, Failure> {
    fs::create_dir_all(staging).map_err(on_files(staging.display().to_string()))?;
    let begun_at = Timestamp::now().to_string();
    let groups = runtime()?.block_on(async {
        let store = Store::connect(config, Sharing::Join).await.map_err(|error| Failure::new(error.exit(), error))?;
        let made = back_up(store.address(), &staging.join(TABLES)).await;
        store.close().await;
        made.map_err(|error| Failure::new(Exit::Store, error))
    })?;
    let journal = data.join(epochs::FILE);
    if journal.exists() {
        fs::copy(&journal, staging.join(epochs::FILE)).map_err(on_files(journal.display().to_string()))?;
    }
    let manifest = Manifest {
        form: FORM,
        build: crate::BUILD.to_owned(),
        schema: schema_number(),
        database: config.store.database.clone(),
        begun_at,
        ended_at: Timestamp::now().to_string(),
        groups,
    };
    manifest.write(staging).map_err(on_files(staging.display().to_string()))?;
    Ok(manifest)
}

/// Brings the finished copy to its place; over a border of file systems by copying, the manifest last.
fn hand_over(staging: &Path, directory: &Path) -> io::Result<()> {
    if let Some(parent) = directory.parent().filter(|parent| !parent.as_os_str().is_empty()) {
        fs::create_dir_all(parent)?;
    }
    match fs::rename(staging, directory) {
        Err(error) if error.kind() == io::ErrorKind::CrossesDevices => {}
        renamed => return renamed,
    }
    copy_all(staging, directory)?;
    fs::copy(staging.join(MANIFEST), directory.join(MANIFEST))?;
    File::open(directory.join(MANIFEST))?.sync_all()
}

fn copy_all(from: &Path, to: &Path) -> io::Result<()> {
    fs::create_dir_all(to)?;
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        let target = to.join(entry.file_name());
        if entry.file_type()?.is_dir() {
            copy_all(&entry.path(), &target)?;
        } else if entry.file_name() != MANIFEST {
            fs::copy(entry.path(), &target)?;
            File::open(&target)?.sync_all()?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_copy_over_a_border_has_everything_but_the_manifest_first() {
        let (from, to) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        fs::create_dir_all(from.path().join("tables/a")).unwrap();
        fs::write(from.path().join("tables/a/x"), b"x").unwrap();
        fs::write(from.path().join(MANIFEST), b"{}").unwrap();
        let target = to.path().join("copy");
        copy_all(from.path(), &target).unwrap();
        assert_eq!(fs::read(target.join("tables/a/x")).unwrap(), b"x");
        assert!(!target.join(MANIFEST).exists() && is_used(&target).unwrap());
        assert!(!is_used(&to.path().join("none")).unwrap());
    }
}
