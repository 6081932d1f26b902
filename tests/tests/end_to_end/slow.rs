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
const STALLED: u64 = 100;
/// Cuts of 4 ms for which the market goes on after the stall. In that time each stalled terminal misses megabytes.
const CUTS: u64 = 1_500;
/// What the server may hold: the input's credit (16 MiB), a ring for each stalled terminal (25 MiB), and 40 MiB for the
/// allocator and for books that grow. Without bounds it would be what the reader took, times the stalled ones.
const GROWTH_KB_MAX: u64 = 81 << 10;
const INSTRUMENTS: u64 = 120;
const LOAD: [&str; 9] = [
    "--no-store",
    "--set",
    "sim.pairs=60",
    "--set",
    "sim.updates_per_second=30000",
    "--set",
    "server.ring_bytes=262144",
    "--set",
    "pipeline.in_flight_bytes=16777216",
];

const GAPS: &str = r#"sprag_fanout_events_total{event="gaps"}"#;
const BYTES: &str = r#"sprag_fanout_events_total{event="bytes"}"#;
const CUTS_TOTAL: &str = r#"sprag_tape_events_total{event="cuts"}"#;

struct Stalled {
    terminal: RawTerminal,
    session: Session,
    gaps: usize,
    resynced: BTreeSet<String>,
    /// Names of the book entries whose chain a gap broke.
    broken: BTreeSet<String>,
}

impl Stalled {
    /// Connects, subscribes to everything but some trades, and reads nothing more.
    fn connect(server: &Server, names: &[String], number: u64) -> Result<Self> {
        let mut terminal = RawTerminal::connect(server.address())?;
        let mut session = Session::new();
        let trades = |name: &String| SubscriptionItem { channel: Channel::Trades, pattern: name.as_str().into() };
        session.subscribe(&all_of(&[Channel::Book, Channel::Quote, Channel::Best]))?;
        session.subscribe(&names.iter().skip(usize::try_from(number)?).map(trades).collect::<Vec<_>>())?;
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

/// Goes on reading with one terminal until a metric is there.
async fn watch_until(watcher: &mut Watcher, server: &Server, metric: &str, least: u64) -> Result<()> {
    while server.metric(metric)? < least {
        let seen = |watcher: &Watcher| watcher.versions.values().map(Vec::len).sum::<usize>();
        let before = seen(watcher);
        watcher.until("more versions", |watcher| seen(watcher) > before + 200).await?;
    }
    Ok(())
}

#[tokio::test]
async fn a_pathologically_slow_terminal_costs_nobody_else_anything() -> Result<()> {
    let data = tempfile::tempdir()?;
    let server = Server::start(data.path(), &LOAD)?;
    server.await_metric(r#"sprag_instruments{state="LIVE"}"#, INSTRUMENTS)?;
    let mut watcher = Watcher::new(&server.stream_url(), &all_of(&[Channel::Book]))?;
    watcher.until("all books", |watcher| watcher.versions.len() == 120).await?;
    let names: Vec<String> = watcher.versions.keys().cloned().collect();
    let stalled = (0..STALLED).map(|number| Stalled::connect(&server, &names, number));
    let mut stalled = stalled.collect::<Result<Vec<_>>>()?;
    watch_until(&mut watcher, &server, GAPS, STALLED).await?;

    let (before, cuts, bytes) = (server.resident_kb()?, server.metric(CUTS_TOTAL)?, server.metric(BYTES)?);
    watch_until(&mut watcher, &server, CUTS_TOTAL, cuts + CUTS).await?;
    let (after, bytes_after) = (server.resident_kb()?, server.metric(BYTES)?);
    println!("{before} kB resident, then {after} kB; the reader took {} kB more", (bytes_after - bytes) >> 10);
    let missed_kb = STALLED * ((bytes_after - bytes) >> 10);
    ensure!(2 * missed_kb > 3 * GROWTH_KB_MAX, "the stalled ones missed {missed_kb} kB only");
    ensure!(after < before + GROWTH_KB_MAX, "{before} kB grew to {after} kB");
    // One whose socket still took bytes after its first gap began anew and has a second; the reader has none.
    assert!(server.metric(GAPS)? >= STALLED, "a stalled terminal has no gap");
    assert!(watcher.is_clean() && watcher.gaps == 0, "the reader was disturbed");

    let one = stalled.last_mut().unwrap();
    // What the socket holds from before comes first, then the gap, then a snapshot of each book.
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
