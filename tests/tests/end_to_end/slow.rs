//! Case G1: terminals that stop reading among terminals that read. The server's memory stays bounded, the others see
//! every frame, and who reads again is told of the gap and gets snapshots on the same socket.
//!
//! Never: a byte read from a stalled socket before the end.

use crate::{
    raw::{RawTerminal, Received},
    watcher::{Watcher, all_of},
};
use anyhow::{Result, bail, ensure};
use receiver::{Notice, Session};
use sprag_tests::process::Server;
use std::collections::BTreeSet;
use wire::{Channel, SubscriptionItem, ToTerminal};

/// Terminals that stop reading; each has a subscription set of its own, so that no frame of theirs is shared.
const STALLED: u8 = 12;
/// Bytes that the fan-out offers all terminals together after the stall: many times the bound below.
const PUMPED_BYTES: u64 = 192 << 20;
/// What the stalled terminals may hold in the server: a ring each, and room for the allocator and for new books.
const GROWTH_KB_MAX: u64 = 64 << 10;
const LOAD: [&str; 11] = [
    "--no-store",
    "--set",
    "sim.pairs=60",
    "--set",
    "sim.updates_per_second=20000",
    "--set",
    "server.ring_frames=32",
    "--set",
    "server.ring_bytes=1048576",
    "--set",
    "pipeline.frame_ms=20",
];

struct Stalled {
    terminal: RawTerminal,
    session: Session,
    gaps: usize,
    resynced: BTreeSet<String>,
    /// Names of the book entries whose chain a gap broke.
    broken: BTreeSet<String>,
}

impl Stalled {
    /// Connects, subscribes to all books, and reads nothing more.
    fn connect(server: &Server, number: u8) -> Result<Self> {
        let mut terminal = RawTerminal::connect(server.address())?;
        let mut session = Session::new();
        let own = SubscriptionItem { channel: Channel::Quote, pattern: format!("*{number}*").into() };
        let items = [all_of(&[Channel::Book]), vec![own]].concat();
        session.subscribe(&items)?;
        session.connected(0);
        while session.hello().is_none() {
            let Received::Binary(bytes) = terminal.next()? else { bail!("no hello") };
            session.receive(ToTerminal::decode(&bytes)?, 0)?;
        }
        while let Some(request) = session.next_outgoing() {
            terminal.send_binary(&request.encode()?)?;
        }
        Ok(Self { terminal, session, gaps: 0, resynced: BTreeSet::new(), broken: BTreeSet::new() })
    }

    /// Reads one message.
    fn read(&mut self) -> Result<()> {
        let Received::Binary(bytes) = self.terminal.next()? else { bail!("the connection ended") };
        for notice in self.session.receive(ToTerminal::decode(&bytes)?, 0)? {
            match notice {
                Notice::Gap { channel: Channel::Book, name } => {
                    self.gaps += 1;
                    self.broken.insert(name.to_string());
                    self.resynced.remove(&*name);
                }
                Notice::BookChanged { instrument, .. } if self.broken.contains(&*instrument) => {
                    self.resynced.insert(instrument.to_string());
                }
                Notice::RegressionRefused { .. } | Notice::NeedsResync { .. } | Notice::Refused { .. } => {
                    bail!("{notice:?}")
                }
                _ => {}
            }
        }
        Ok(())
    }
}

fn fanout(server: &Server, event: &str) -> Result<u64> {
    server.metric(&format!("sprag_fanout_events_total{{event=\"{event}\"}}"))
}

/// Follows what is shown until the fan-out's counter is there.
async fn watch_until(watcher: &mut Watcher, server: &Server, event: &str, least: u64) -> Result<()> {
    let mut versions = 0;
    while fanout(server, event)? < least {
        let seen = |watcher: &Watcher| watcher.versions.values().map(Vec::len).sum::<usize>();
        watcher.until("more versions", |watcher| seen(watcher) > versions + 200).await?;
        versions = seen(watcher);
    }
    Ok(())
}

#[tokio::test]
async fn a_pathologically_slow_terminal_costs_nobody_else_anything() -> Result<()> {
    let data = tempfile::tempdir()?;
    let server = Server::start(data.path(), &LOAD)?;
    server.await_metric(r#"sprag_instruments{state="LIVE"}"#, 120)?;
    let mut watcher = Watcher::new(&server.stream_url(), &all_of(&[Channel::Book]))?;
    watcher.until("all books", |watcher| watcher.versions.len() == 120).await?;
    let mut stalled = (0..STALLED).map(|number| Stalled::connect(&server, number)).collect::<Result<Vec<_>>>()?;
    watch_until(&mut watcher, &server, "bytes", fanout(&server, "bytes")? + (8 << 20)).await?;

    let (before, gaps) = (server.resident_kb()?, fanout(&server, "gaps")?);
    watch_until(&mut watcher, &server, "bytes", fanout(&server, "bytes")? + PUMPED_BYTES).await?;
    let (after, gaps_after) = (server.resident_kb()?, fanout(&server, "gaps")?);
    println!("resident {before} kB, {after} kB after {} MiB offered; gaps {gaps}, {gaps_after}", PUMPED_BYTES >> 20);
    ensure!(after < before + GROWTH_KB_MAX, "{before} kB grew to {after} kB");
    assert!(gaps_after >= u64::from(STALLED), "{gaps_after} gaps");
    assert!(watcher.is_clean() && watcher.gaps == 0, "the reader was disturbed");

    let one = stalled.last_mut().unwrap();
    while one.gaps == 0 || one.resynced.len() < one.broken.len() {
        one.read()?;
    }
    assert_eq!(one.broken.len(), 120);
    // Caught up: what the reader is shown by now, the other one is shown soon.
    let name = "binance_spot/BTCUSDT";
    let goal = watcher.shown(name);
    while one.session.book(name).map(receiver::Book::version) < goal {
        one.read()?;
    }
    let counters = one.session.counters();
    assert_eq!((counters.deltas_refused, counters.regressions_refused), (0, 0));
    Ok(())
}
