//! `sprag config print|check`.
//!
//! Never: a secret in the output.

use super::{Failure, Settings};
use crate::{config::Config, exit::Exit};
use clap::{Args, Subcommand};

#[derive(Debug, Args)]
pub(super) struct ConfigArgs {
    #[command(subcommand)]
    what: What,
}

#[derive(Debug, Subcommand)]
enum What {
    /// Print the configuration that is in force.
    Print {
        #[command(flatten)]
        settings: Settings,
        /// Print the defaults with every field, unit and limit explained.
        #[arg(long)]
        documented: bool,
    },
    /// Check the configuration and say what is wrong.
    Check {
        #[command(flatten)]
        settings: Settings,
    },
}

pub(super) fn config(args: ConfigArgs) -> Result<(), Failure> {
    match args.what {
        What::Print { documented: true, .. } => print!("{}", Config::documented()),
        What::Print { settings, .. } => {
            let text = settings.load(Vec::new())?.print().map_err(|error| Failure::new(Exit::Usage, error))?;
            print!("{text}");
        }
        What::Check { settings } => {
            settings.load(Vec::new())?;
            println!("the configuration is good");
        }
    }
    Ok(())
}
