//! `sprag restore DIR`: a new data directory of a backup.
//!
//! It is made aside and renamed, so that it is there whole or not at all. What was shown after the backup was taken nobody
//! knows here, so every stream opens an epoch above all that the backup knows of.
//!
//! Never: a file of a data directory that is in use touched; a backup changed.

use super::{
    Failure, Settings,
    backup::{FORM, Manifest, TABLES, embedded_only, is_used, on_files},
    runtime, start_log,
};
use crate::{
    bumps,
    config::Config,
    epochs::{self, EpochJournal},
    exit::Exit,
    store::{Sharing, Store},
};
use clap::Args;
use connectors::clickhouse::backup::{restore_backup, schema_number};
use std::{
    fs,
    path::{Path, PathBuf},
};

#[derive(Debug, Args)]
pub(super) struct RestoreArgs {
    #[command(flatten)]
    settings: Settings,
    /// The backup's directory.
    directory: PathBuf,
    /// A journal of epochs newer than the backup's: epochs.jsonl of the data directory that the backup was taken of, where it
    /// is still there.
    #[arg(long, value_name = "FILE")]
    epochs: Option<PathBuf>,
}

pub(super) fn restore(args: &RestoreArgs) -> Result<(), Failure> {
    let config = args.settings.load(Vec::new())?;
    start_log(&config.log.quiet())?;
    embedded_only(&config, "restore")?;
    let usage = |text: String| Failure::new(Exit::Usage, anyhow::anyhow!(text));
    let shown = config.data_dir.display().to_string();
    if is_used(&config.data_dir).map_err(on_files(shown.clone()))? {
        return Err(usage(format!("{shown} is not empty: restore into a new data directory")));
    }
    let from = args.directory.canonicalize().map_err(on_files(args.directory.display().to_string()))?;
    let manifest = Manifest::read(&from);
    let manifest = manifest.map_err(on_files(format!("{} is no whole backup", args.directory.display())))?;
    if manifest.form != FORM || manifest.schema > schema_number() {
        let (form, schema, build) = (manifest.form, manifest.schema, &manifest.build);
        return Err(usage(format!(
            "a backup of form {form} and schema {schema}, made by {build}: this program is older"
        )));
    }
    if manifest.database != config.store.database {
        let (its, ours) = (&manifest.database, &config.store.database);
        return Err(usage(format!(
            "the backup is of database {its}, and store.database is {ours}: they must be the same"
        )));
    }
    let aside = aside(&config.data_dir);
    let made = make(&config, &manifest, &from, &aside, args.epochs.as_deref());
    let made = made.and_then(|rows| {
        fs::rename(&aside, &config.data_dir).map_err(on_files(shown.clone()))?;
        Ok(rows)
    });
    if made.is_err()
        && aside.exists()
        && let Err(error) = fs::remove_dir_all(&aside)
    {
        tracing::warn!(%error, directory = %aside.display(), "a part of a restored directory is left behind");
    }
    println!("{} rows restored to {shown}, as of {}", made?, manifest.begun_at);
    Ok(())
}

/// Where the directory is made; beside its place, so that it can be renamed.
fn aside(data_dir: &Path) -> PathBuf {
    let mut name = data_dir.as_os_str().to_owned();
    name.push(format!(".restoring-{}", std::process::id()));
    PathBuf::from(name)
}

fn make(config: &Config, manifest: &Manifest, from: &Path, aside: &Path, newer: Option<&Path>) -> Result<u64, Failure> {
    fs::create_dir_all(aside).map_err(on_files(aside.display().to_string()))?;
    let journal = newer.map_or_else(|| from.join(epochs::FILE), Path::to_path_buf);
    if newer.is_some() || journal.exists() {
        fs::copy(&journal, aside.join(epochs::FILE)).map_err(on_files(journal.display().to_string()))?;
    }
    let noted = EpochJournal::open(aside).and_then(|journal| journal.last_epoch());
    let noted = noted.map_err(|error| Failure::new(error.exit(), error))?;
    let own = Config { data_dir: aside.to_path_buf(), ..config.clone() };
    let reached = runtime()?.block_on(async {
        let store = Store::connect_with_backups(&own, Sharing::Own, Some(from)).await;
        let store = store.map_err(|error| Failure::new(error.exit(), error))?;
        let restored = restore_backup(store.address(), &from.join(TABLES), &manifest.groups).await;
        let reached = match restored {
            Ok(()) => store.epochs().await.map_err(|error| Failure::new(error.exit(), error)),
            Err(error) => Err(Failure::new(Exit::Store, error)),
        };
        store.close().await;
        reached
    });
    let (instruments, greatest) = reached?;
    let shown = noted.unwrap_or(0).max(greatest.saturating_add(1));
    bumps::write_anew(aside, instruments.into_keys(), shown).map_err(on_files(aside.display().to_string()))?;
    Ok(manifest.groups.iter().flat_map(|group| &group.tables).fold(0, |rows, table| rows.saturating_add(table.rows)))
}
