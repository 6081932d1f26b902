//! The hidden commands around the embedded engine.
//!
//! Never: started by a person.

use super::Failure;
use crate::exit::Exit;
use connectors::clickhouse::{ChildArgs, EngineError, fetch, serve_child};
use std::ffi::OsString;

pub(super) fn serve(args: Vec<OsString>) -> Result<(), Failure> {
    let exit = |error: &EngineError| match error {
        EngineError::InUse { .. } => Exit::DataDirectory,
        _ => Exit::Store,
    };
    let failed = |error: EngineError| Failure::new(exit(&error), error);
    let args = ChildArgs::parse(args).map_err(failed)?;
    serve_child(&args).map_err(failed)
}

pub(super) fn fetch() -> Result<(), Failure> {
    let library = std::env::var_os("CHDB_LIB").map(std::path::PathBuf::from);
    let path = fetch::locate(library.as_deref()).map_err(|error| Failure::new(Exit::Store, error))?;
    println!("{}", path.display());
    Ok(())
}
