//! The store as the server uses it: opens ClickHouse, embedded or elsewhere, makes its schema ready, and runs the sink.
//!
//! Never: a write before the schema was checked.

use crate::{config::Config, exit::Exit};
use connectors::clickhouse::{
    BatchStreams, EpochBlocks, RestoreBatches, RestoreError, RestoredState, StoreAddress,
    batch_log::{BatchLog, BatchLogError},
    child::{self, ChildOptions, EngineChild},
    engine::EngineError,
    fetch::FetchError,
    heal,
    read::{self, ReadError},
    restore,
    schema::{self, SchemaError},
    sink::{SinkError, SinkInput, SinkOptions, SinkReport, SinkView, run_sink},
    writer::{StoreWriter, WriterOptions},
};
use foldhash::{HashMap, HashMapExt};
use market::{Directory, Venue};
use std::{
    ffi::OsString,
    path::{Path, PathBuf},
    sync::Arc,
};
use tokio::{sync::mpsc, task::JoinHandle};

/// The hidden subcommand that serves the embedded engine.
pub const ENGINE_COMMAND: &str = "engine";

/// The venue whose batches are taken.
pub const BATCH_VENUE: Venue = Venue::NeutronDex;

/// Events between the tape and the sink; each is at most one venue event. The sink takes them as they come, so that there
/// are many only while its task is not run; the tape keeps the rest then, bounded in bytes.
const SINK_QUEUE_MAX: usize = 4_096;

/// The store cannot be opened.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// The embedded engine did not start.
    #[error("the embedded ClickHouse engine cannot be started")]
    Engine(#[from] EngineError),
    /// The schema is not there and cannot be made, or is another one.
    #[error("the store's schema is not usable")]
    Schema(#[from] SchemaError),
    /// Its content cannot be read.
    #[error("the store cannot be read")]
    Read(#[from] ReadError),
    /// The log of a batch stream cannot be used.
    #[error("the log of the batch stream cannot be used")]
    Log(#[from] BatchLogError),
    /// Its content cannot be restored.
    #[error("the store's state cannot be restored")]
    Restore(#[from] RestoreError),
    /// This program's own path is not known.
    #[error("this program cannot find itself to start the engine")]
    Program(#[source] std::io::Error),
}

impl StoreError {
    /// What the process ends with.
    #[must_use]
    pub fn exit(&self) -> Exit {
        match self {
            Self::Engine(EngineError::InUse { .. }) => Exit::DataDirectory,
            Self::Engine(EngineError::Library(FetchError::Platform)) => Exit::Usage,
            _ => Exit::Store,
        }
    }
}

/// Whether an engine that already runs on the data directory may be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sharing {
    /// Yes: it belongs to a `sprag run` beside us.
    Join,
    /// No: the data directory must be ours.
    Own,
}

/// An open store.
#[derive(Debug)]
pub struct Store {
    address: StoreAddress,
    child: Option<EngineChild>,
}

impl Store {
    /// Opens the configured store and makes its schema ready.
    ///
    /// # Errors
    /// [`StoreError`].
    pub async fn open(config: &Config, sharing: Sharing) -> Result<Self, StoreError> {
        let store = Self::connect(config, sharing).await?;
        schema::apply(&store.address).await?;
        Ok(store)
    }

    /// Opens the configured store without touching its schema.
    ///
    /// # Errors
    /// [`StoreError`].
    pub async fn connect(config: &Config, sharing: Sharing) -> Result<Self, StoreError> {
        Self::connect_with_backups(config, sharing, None).await
    }

    /// The same, with an embedded engine that may read backups at a place outside of its data directory.
    ///
    /// # Errors
    /// [`StoreError`].
    pub async fn connect_with_backups(
        config: &Config,
        sharing: Sharing,
        backups: Option<&Path>,
    ) -> Result<Self, StoreError> {
        let settings = &config.store;
        let text = |text: &str| (!text.is_empty()).then(|| text.to_owned());
        let mut address = StoreAddress {
            url: settings.url.clone(),
            database: settings.database.clone(),
            user: text(&settings.user),
            password: text(settings.password.reveal()),
        };
        if !settings.is_embedded() {
            return Ok(Self { address, child: None });
        }
        if let (Sharing::Join, Some(url)) = (sharing, child::running_url(&config.data_dir)) {
            address.url = url;
            return Ok(Self { address, child: None });
        }
        let program = std::env::current_exe().map_err(StoreError::Program)?;
        let library = &settings.engine_library;
        let options = ChildOptions {
            port: 0,
            library: (!library.as_os_str().is_empty()).then(|| PathBuf::from(library)),
            options: vec![format!("--max_server_memory_usage={}", settings.engine_memory_bytes)],
            backups: backups.map(Path::to_path_buf),
            analysts: config.analysts.options(settings),
        };
        let prefix = [OsString::from(ENGINE_COMMAND)];
        let child = child::start_child(&program, &prefix, &config.data_dir, options).await?;
        child.url().clone_into(&mut address.url);
        Ok(Self { address, child: Some(child) })
    }

    /// Where it is.
    #[must_use]
    pub fn address(&self) -> &StoreAddress {
        &self.address
    }

    /// Every instrument's kept book, after what a crash left out was filled in. To be called before the sink starts.
    ///
    /// # Errors
    /// [`StoreError::Restore`].
    pub async fn restore(&self, batches: &RestoreBatches) -> Result<RestoredState, StoreError> {
        let state = restore::restore(&self.address.client(), batches).await?;
        let ticks: usize = state.instruments.iter().flat_map(|found| &found.restored.ticks).map(Vec::len).sum();
        let healed = state.healed;
        tracing::info!(
            instruments = state.instruments.len(),
            ticks,
            ?healed,
            buried = state.buried,
            cursors = ?state.cursors,
            "the store's state"
        );
        Ok(state)
    }

    /// Fills in what a crash left out of the filled tables.
    ///
    /// # Errors
    /// [`StoreError::Restore`].
    pub async fn heal(&self) -> Result<(), StoreError> {
        let healed = heal(&self.address.client()).await.map_err(RestoreError::from)?;
        tracing::info!(?healed, "the store's state");
        Ok(())
    }

    /// The blocks of epochs that all hosts with this store share.
    #[must_use]
    pub fn epoch_blocks(&self) -> EpochBlocks {
        EpochBlocks::new(self.address.client())
    }

    /// The epochs that instruments reached, by `venue/symbol`, and the greatest of them. After [`Store::restore`] nothing
    /// that a crash left out is missing in them.
    ///
    /// # Errors
    /// [`StoreError::Read`].
    pub async fn epochs(&self) -> Result<(HashMap<Box<str>, u64>, u64), StoreError> {
        let mut epochs = HashMap::new();
        let mut greatest = 0;
        for stored in read::instrument_versions(&self.address.client()).await? {
            let epoch = stored.version().epoch;
            greatest = greatest.max(epoch);
            epochs.insert(format!("{}/{}", stored.venue, stored.symbol).into_boxed_str(), epoch);
        }
        Ok((epochs, greatest))
    }

    /// The log of a batch stream.
    #[must_use]
    pub fn batch_log(&self, stream: &str) -> BatchLog {
        BatchLog::new(self.address.client(), BATCH_VENUE, stream)
    }

    /// Starts the sink. Its tokens are deterministic within the stream's identity, those of blocks everywhere.
    #[must_use]
    pub fn start_sink(
        &self,
        identity: &str,
        options: WriterOptions,
        directory: Arc<Directory>,
        batches: BatchStreams,
    ) -> (mpsc::Sender<SinkInput>, Arc<SinkView>, JoinHandle<Result<SinkReport, SinkError>>) {
        let (sender, receiver) = mpsc::channel(SINK_QUEUE_MAX);
        let view = Arc::new(SinkView::default());
        let writer = StoreWriter::new(identity, options).with_batches(batches);
        let client = self.address.client();
        let sink = run_sink(client, writer, receiver, directory, Arc::clone(&view), SinkOptions::default());
        (sender, view, tokio::spawn(sink))
    }

    /// Resolves when an engine of our own has ended by itself; never for a server.
    pub async fn lost(&mut self) {
        match &mut self.child {
            Some(child) => {
                let status = child.ended().await;
                tracing::error!(?status, "the embedded engine ended by itself");
            }
            None => std::future::pending().await,
        }
    }

    /// Stops an engine of our own and waits for it.
    pub async fn close(self) {
        if let Some(child) = self.child {
            child.stop().await;
        }
    }
}

/// The writer's bounds as configured.
#[must_use]
pub fn writer_options(config: &Config) -> WriterOptions {
    let settings = &config.store;
    let bytes = |bytes: usize| u64::try_from(bytes).unwrap_or(u64::MAX);
    WriterOptions {
        batch_rows: settings.batch_rows,
        batch_bytes: bytes(settings.batch_bytes),
        batch_age_ns: Some(settings.batch_age_ms.saturating_mul(1_000_000)),
        pending_bytes_max: bytes(settings.pending_bytes),
        frames: config.frame_history(),
        replay: false,
    }
}
