//! `sprag watch`: ladders of instruments over the real WebSocket, in the text terminal.
//!
//! Never: a price without the state of its feed beside it.

use super::{Failure, runtime};
use crate::exit::Exit;
use clap::Args;
use crossterm::{
    cursor, queue,
    style::{Color, Print, ResetColor, SetForegroundColor},
    terminal::{self, Clear, ClearType},
};
use market::{FeedState, Level, Scale, Side};
use receiver::{InstrumentView, Link, Terminal};
use std::{
    io::{self, IsTerminal, Write},
    time::Duration,
};
use tokio::time::{Instant, MissedTickBehavior, interval};
use wire::{Channel, SubscriptionItem};

/// How often the picture is drawn; a person reads no faster.
const DRAW_EVERY: Duration = Duration::from_millis(100);

/// Levels a side of a ladder.
const LEVELS_DEFAULT: usize = 8;

#[derive(Debug, Args)]
pub(super) struct WatchArgs {
    /// Instruments as VENUE/SYMBOL; globs are fine.
    #[arg(required = true)]
    instruments: Vec<String>,
    /// The streams of one or more servers, separated by commas; the next one is tried when one fails.
    #[arg(long = "url", value_name = "URL", value_delimiter = ',', default_value = "ws://127.0.0.1:8410/v1/stream")]
    urls: Vec<String>,
    /// Levels a side.
    #[arg(long, default_value_t = LEVELS_DEFAULT)]
    levels: usize,
    /// End after this many seconds.
    #[arg(long, value_name = "SECONDS")]
    seconds: Option<u64>,
}

pub(super) fn watch(args: &WatchArgs) -> Result<(), Failure> {
    let items: Vec<SubscriptionItem> = args
        .instruments
        .iter()
        .flat_map(|pattern| {
            [Channel::Book, Channel::Trades]
                .map(|channel| SubscriptionItem { channel, pattern: pattern.as_str().into() })
        })
        .collect();
    runtime()?.block_on(async {
        let terminal = Terminal::of_servers(&args.urls, &items).map_err(|error| Failure::new(Exit::Usage, error))?;
        follow(terminal, args).await.map_err(|error| Failure::new(Exit::Internal, error))
    })
}

async fn follow(mut terminal: Terminal, args: &WatchArgs) -> io::Result<()> {
    let end = args.seconds.map(|seconds| Instant::now() + Duration::from_secs(seconds));
    let mut draw = interval(DRAW_EVERY);
    draw.set_missed_tick_behavior(MissedTickBehavior::Skip);
    let mut screen = Screen::new();
    let mut trouble = String::new();
    let ended = loop {
        tokio::select! {
            notices = terminal.next() => match notices {
                Ok(_) => trouble.clear(),
                Err(error) => trouble = error.to_string(),
            },
            _ = draw.tick() => {
                if let Err(error) = screen.draw(&picture(&terminal, args, &trouble)) {
                    break Err(error);
                }
                if end.is_some_and(|end| Instant::now() >= end) {
                    break Ok(());
                }
            }
            _ = tokio::signal::ctrl_c() => break Ok(()),
        }
    };
    terminal.close().await;
    screen.leave()?;
    ended
}

/// A line and its colour.
type Row = (Option<Color>, String);

fn picture(terminal: &Terminal, args: &WatchArgs, trouble: &str) -> Vec<Row> {
    let (session, now_ms) = (terminal.session(), terminal.now_ms());
    let link = match session.link(now_ms) {
        Link::Up => "connected",
        Link::Opening => "connecting",
        Link::Silent => "silent",
        Link::Down => "disconnected",
    };
    let simulated =
        if session.hello().is_some_and(|hello| hello.simulated) { ", simulated or replayed data" } else { "" };
    let mut rows = vec![(None, format!("{}: {link}{simulated}  {trouble}", terminal.server()))];
    let names: Vec<&str> = session.instruments().collect();
    let views = names.iter().filter_map(|name| session.view(name, now_ms)).filter(|view| view.book.is_some());
    for view in views {
        rows.push((None, String::new()));
        ladder(&view, args.levels, &mut rows);
    }
    rows
}

fn ladder(view: &InstrumentView<'_>, levels: usize, rows: &mut Vec<Row>) {
    let Some(book) = view.book else { return };
    let scale = book.scale();
    let age = view.age_ms.map(|age_ms| format!("{:>5}.{} s", age_ms / 1_000, age_ms % 1_000 / 100)).unwrap_or_default();
    let (state, flags) = (view.feed.state, view.feed.flags.names());
    let live = state == FeedState::Live && !view.catching_up;
    let mark = if live { None } else { Some(Color::DarkGrey) };
    let head = format!("{}  {state} {} age{age}  version {}", view.name, flags.join(" "), book.version());
    rows.push((mark, head));
    let asks: Vec<Level> = book.levels(Side::Ask).take(levels).collect();
    rows.extend(asks.iter().rev().map(|level| (mark.or(Some(Color::Red)), row(scale, *level))));
    let trade = view.last_trade.map(|shown| {
        let (scale, trade) = (shown.scale, &shown.trade);
        let side = if trade.taker == Side::Bid { "bought" } else { "sold" };
        format!("{side} {} at {}", scale.quantity_text(trade.quantity), scale.price_text(trade.tick_index))
    });
    rows.push((mark.or(Some(Color::DarkYellow)), format!("{:>18} {}", "----", trade.unwrap_or_default())));
    rows.extend(book.levels(Side::Bid).take(levels).map(|level| (mark.or(Some(Color::Green)), row(scale, level))));
}

fn row(scale: Scale, level: Level) -> String {
    format!("{:>18} {:>24}", scale.price_text(level.tick_index), scale.quantity_text(level.quantity))
}

/// The text terminal, or plain lines where there is none.
struct Screen {
    out: io::Stdout,
    interactive: bool,
    last: Vec<Row>,
}

impl Screen {
    fn new() -> Self {
        let out = io::stdout();
        let interactive = out.is_terminal();
        Self { out, interactive, last: Vec::new() }
    }

    fn draw(&mut self, rows: &[Row]) -> io::Result<()> {
        if !self.interactive {
            return self.print(rows);
        }
        let (_, height) = terminal::size()?;
        queue!(self.out, cursor::Hide, cursor::MoveTo(0, 0))?;
        for (color, text) in rows.iter().take(usize::from(height).saturating_sub(1)) {
            if let Some(color) = color {
                queue!(self.out, SetForegroundColor(*color))?;
            }
            queue!(self.out, Print(text), ResetColor, Clear(ClearType::UntilNewLine), Print("\r\n"))?;
        }
        queue!(self.out, Clear(ClearType::FromCursorDown))?;
        self.out.flush()
    }

    /// Without a text terminal only pictures that differ are printed.
    fn print(&mut self, rows: &[Row]) -> io::Result<()> {
        if self.last != rows {
            for (_, text) in rows {
                writeln!(self.out, "{text}")?;
            }
            writeln!(self.out)?;
            self.last = rows.to_vec();
        }
        self.out.flush()
    }

    fn leave(&mut self) -> io::Result<()> {
        if self.interactive {
            queue!(self.out, cursor::Show, Print("\r\n"))?;
        }
        self.out.flush()
    }
}
