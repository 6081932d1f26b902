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
use market::{FeedState, Level, Scale, Side, power, view::ViewNumber};
use receiver::{InstrumentView, Link, StandingView, Terminal};
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

/// Columns of prices and quantities; longer ones widen them for the whole ladder.
const PRICE_WIDTH: usize = 18;
const QUANTITY_WIDTH: usize = 24;

/// Significant digits of a price that is a power: neighbours differ in the fourth or fifth, and the tick index beside it
/// is exact.
const POWER_DIGITS: u32 = 9;

#[derive(Debug, Args)]
pub(super) struct WatchArgs {
    /// Instruments as VENUE/SYMBOL; globs are fine.
    #[arg(required_unless_present = "views")]
    instruments: Vec<String>,
    /// Standing views of pairs as VIEW/ASSET/ASSET; globs are fine, and more than one.
    #[arg(long = "view", value_name = "VIEW")]
    views: Vec<String>,
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
        .chain(
            args.views
                .iter()
                .map(|pattern| SubscriptionItem { channel: Channel::View, pattern: pattern.as_str().into() }),
        )
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
    let mut standing: Vec<_> = session.standing_views().collect();
    standing.sort_unstable_by(|one, two| one.name.cmp(&two.name));
    rows.extend(standing.into_iter().map(standing_row));
    let names: Vec<&str> = session.instruments().collect();
    let views = names.iter().filter_map(|name| session.view(name, now_ms)).filter(|view| view.book.is_some());
    for view in views {
        rows.push((None, String::new()));
        ladder(&view, args.levels, &mut rows);
    }
    rows
}

/// A standing view of a pair; grey where something is missing in it.
fn standing_row(view: &StandingView) -> Row {
    let Some(value) = view.value else { return (Some(Color::DarkGrey), format!("{}  no book", view.name)) };
    let number = match value.number {
        ViewNumber::Reserves { bids, asks } => format!("bids {} asks {}", bids.decimal(), asks.decimal()),
        ViewNumber::Imbalance(imbalance) => imbalance.to_string(),
        ViewNumber::Spread(spread) => spread.to_string(),
        ViewNumber::Nothing => "none".to_owned(),
        ViewNumber::Overflow => "too large".to_owned(),
    };
    let (mark, partial) = if value.partial { (Some(Color::DarkGrey), ", partial") } else { (None, "") };
    let books = if value.instruments == 1 { "book" } else { "books" };
    (mark, format!("{}  {number}  of {} {books}{partial}", view.name, value.instruments))
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
    let cells = |side| -> Vec<Cells> { book.levels(side).take(levels).map(|level| Cells::of(scale, level)).collect() };
    let (bids, asks) = (cells(Side::Bid), cells(Side::Ask));
    let widths = Widths::of(bids.iter().chain(&asks));
    rows.extend(asks.iter().rev().map(|cells| (mark.or(Some(Color::Red)), widths.row(cells))));
    let trade = view.last_trade.map(|shown| {
        let (scale, trade) = (shown.scale, &shown.trade);
        let side = if trade.taker == Side::Bid { "bought" } else { "sold" };
        let Cells { price, quantity } =
            Cells::of(scale, Level { tick_index: trade.tick_index, quantity: trade.quantity });
        format!("{side} {quantity} at {price}")
    });
    let middle = format!("{:>1$} {2}", "----", widths.price, trade.unwrap_or_default());
    rows.push((mark.or(Some(Color::DarkYellow)), middle));
    rows.extend(bids.iter().map(|cells| (mark.or(Some(Color::Green)), widths.row(cells))));
}

/// What a row of a ladder says.
struct Cells {
    price: String,
    quantity: String,
}

impl Cells {
    /// Every digit of decimal steps. Where prices are powers, a short text and the tick index, and quantities, whose steps
    /// have 27 places, without the zeros at their end.
    fn of(scale: Scale, level: Level) -> Self {
        let (tick_index, quantity) = (level.tick_index, scale.quantity_text(level.quantity));
        if !scale.is_powers() {
            return Self { price: scale.price_text(tick_index), quantity };
        }
        let price = format!("{} ({tick_index:+})", power::text(tick_index, POWER_DIGITS));
        let ending: &[char] = if quantity.contains('.') { &['0'] } else { &[] };
        let quantity = quantity.trim_end_matches(ending).trim_end_matches('.').to_owned();
        Self { price, quantity }
    }
}

/// The columns of a ladder.
struct Widths {
    price: usize,
    quantity: usize,
}

impl Widths {
    fn of<'a>(cells: impl Iterator<Item = &'a Cells>) -> Self {
        let least = Self { price: PRICE_WIDTH, quantity: QUANTITY_WIDTH };
        cells.fold(least, |widths, cells| Self {
            price: widths.price.max(cells.price.len()),
            quantity: widths.quantity.max(cells.quantity.len()),
        })
    }

    fn row(&self, cells: &Cells) -> String {
        format!("{:>2$} {:>3$}", cells.price, cells.quantity, self.price, self.quantity)
    }
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

#[cfg(test)]
mod tests {
    use super::*;
    use market::{U256, ViewRule, ViewValue, quote::Exact, scale::PRICE_POWERS};

    fn rows(scale: Scale, levels: &[(i64, &str)]) -> Vec<String> {
        let level = |(tick_index, quantity): &(i64, &str)| Level {
            tick_index: *tick_index,
            quantity: quantity.parse::<U256>().unwrap(),
        };
        let cells: Vec<_> = levels.iter().map(|row| Cells::of(scale, level(row))).collect();
        let widths = Widths::of(cells.iter());
        cells.iter().map(|cells| widths.row(cells)).collect()
    }

    #[test]
    fn a_standing_view_says_what_it_is_made_of() {
        let row = |number, partial, instruments| {
            let value = Some(ViewValue { number, partial, instruments });
            let rule = ViewRule::Spread;
            standing_row(&StandingView { name: "depth1/BTC/USDT".into(), rule, value })
        };
        let exact = |steps: u64, exponent| Exact::new(U256::from(steps), exponent);
        let reserves = ViewNumber::Reserves { bids: exact(125, -1), asks: exact(3, 0) };
        let shown = (Some(Color::DarkGrey), "depth1/BTC/USDT  bids 12.5 asks 3  of 2 books, partial".to_owned());
        assert_eq!(row(reserves, true, 2), shown);
        assert_eq!(row(ViewNumber::Nothing, false, 1), (None, "depth1/BTC/USDT  none  of 1 book".to_owned()));
    }

    #[test]
    fn a_ladder_of_decimal_steps_shows_every_digit() {
        let shown = rows(Scale { price: -2, quantity: -2 }, &[(6_173_760, "150"), (5, "1000")]);
        assert_eq!(
            shown,
            ["          61737.60                     1.50", "              0.05                    10.00"]
        );
    }

    #[test]
    fn a_ladder_of_powers_shows_tick_indices_and_fits_its_longest_row() {
        let scale = Scale { price: PRICE_POWERS, quantity: -27 };
        let whole = "1000000000000000000000000000000";
        let shown = rows(scale, &[(-20_912, whole), (0, "1"), (559_680, "1500000000000000000000000000")]);
        let right = [
            "               0.123551717 (-20912)                          1000",
            "                    1.00000000 (+0) 0.000000000000000000000000001",
            "2020125330000000000000000 (+559680)                           1.5",
        ];
        assert_eq!(shown, right);
        let tens = rows(Scale { price: PRICE_POWERS, quantity: 1 }, &[(0, "10")]);
        assert!(tens[0].ends_with(" 100"), "{tens:?}");
    }
}
