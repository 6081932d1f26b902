//! Standing views of the simulated market: what HTTP and a terminal tell is what their own books make.
//!
//! Never: a formula taken over from what is tested; a book of another version than the view's.

use crate::{
    books::{Book, of_json, of_receiver, over_http, version},
    watcher::Watcher,
};
use anyhow::{Context, Result, ensure};
use market::{Decimal, U256, quote::Exact, view::ViewNumber};
use serde_json::{Value, json};
use sprag_tests::process::{self, Launch, Server, until};
use std::{fs, path::Path};
use wire::{Channel, SubscriptionItem};

const VIEWS: &str = "
[[view]]
name = 'depth'
kind = 'reserves_within'
percent = '0.05'
pairs = ['BTC/*']

[[view]]
name = 'tilt'
kind = 'imbalance_within'
percent = '0.05'
pairs = ['*']

[[view]]
name = 'spread'
kind = 'spread'
pairs = ['*']
";

/// One pair at two venues.
const INSTRUMENTS: [&str; 2] = ["binance_spot/BTCUSDT", "kraken_spot/BTC/USDT"];
const PAIR: &str = "BTC/USDT";

/// Numbers here are whole ones of 10^-PLACES.
const PLACES: i8 = 12;

fn start(data: &Path) -> Result<Server> {
    let file = data.join("views.toml");
    fs::write(&file, VIEWS)?;
    let set = ["--no-store", "--set", "sim.pairs=2", "--set", "sim.updates_per_second=40"];
    let server = Launch::run(data, 0).with(&set).with(&["--config"]).with_path(&file).spawn()?.up()?;
    server.await_metric(r#"sprag_instruments{state="LIVE"}"#, 4)?;
    Ok(server)
}

fn number(text: &str) -> Result<i128> {
    let value = Decimal::parse(text)?;
    let power = u32::try_from(value.exponent() + i32::from(PLACES))?;
    Ok(i128::try_from(u128::try_from(value.digits())?)? * 10_i128.pow(power))
}

fn text(value: i128) -> Result<String> {
    let digits = Exact::new(U256::from(u128::try_from(value.abs())?), -PLACES).decimal();
    Ok(format!("{}{digits}", if value < 0 { "-" } else { "" }))
}

/// What the books of the pair are by the words of the definitions: bids, asks, imbalance, spread.
fn computed(books: &[Book]) -> Result<[String; 4]> {
    let (mut sums, mut best) = ([0, 0], [i128::MIN, i128::MAX]);
    for book in books {
        let mut sides = [Vec::new(), Vec::new()];
        for (side, rows) in sides.iter_mut().zip(book) {
            for (price, quantity) in rows {
                side.push((number(price)?, number(quantity)?));
            }
        }
        let [bid, ask] = [0, 1].map(|side: usize| sides[side].first().map(|(price, _)| *price));
        let (bid, ask) = bid.zip(ask).context("a side without levels")?;
        best = [best[0].max(bid), best[1].min(ask)];
        // 0.05 percent of the mid is 500 parts per million; both sides twice.
        let inside = |price: i128| (2 * price - bid - ask).abs() * 1_000_000 <= 500 * (bid + ask);
        for (sum, side) in sums.iter_mut().zip(&sides) {
            *sum += side.iter().filter(|(price, _)| inside(*price)).map(|(_, quantity)| quantity).sum::<i128>();
        }
    }
    let [bids, asks] = sums;
    ensure!(bids > 0 && asks > 0, "a band without anything in it shows little");
    let size = (2_000_000 * (bids - asks).abs() + bids + asks) / (2 * (bids + asks));
    let tilt =
        format!("{}{}.{:06}", if bids < asks && size > 0 { "-" } else { "" }, size / 1_000_000, size % 1_000_000);
    Ok([text(bids)?, text(asks)?, tilt, text(best[1] - best[0])?])
}

#[test]
fn http_tells_what_the_books_of_the_same_version_make() -> Result<()> {
    let data = tempfile::tempdir()?;
    let server = start(data.path())?;
    let declared = server.get("/v1/views")?.json()?;
    let names: Vec<_> = declared.as_array().context("no list")?.iter().map(|view| view["view"].clone()).collect();
    assert_eq!(names, ["depth", "tilt", "spread"]);
    let view = |name: &str| server.get(&format!("/v1/views/{name}/{PAIR}"))?.json();
    let books = || INSTRUMENTS.iter().map(|name| over_http(&server, name)).collect::<Result<Vec<Value>>>();
    let versions = |books: &[Value]| books.iter().map(version).collect::<Result<Vec<_>>>();
    let mut seen = Vec::new();
    while seen.len() < 3 {
        // The books stood still around the views, so that these are of them.
        let (found, depth, tilt, spread) = until("books that stand still for a moment", || {
            let before = books()?;
            let (depth, tilt, spread) = (view("depth")?, view("tilt")?, view("spread")?);
            let same = versions(&before)? == versions(&books()?)?;
            Ok((same && !seen.contains(&versions(&before)?)).then_some((before, depth, tilt, spread)))
        })?;
        seen.push(versions(&found)?);
        for book in &found {
            assert_eq!((&book["state"], &book["horizon"]), (&json!("LIVE"), &json!([null, null])));
        }
        let right = computed(&found.iter().map(of_json).collect::<Result<Vec<_>>>()?)?;
        let told = [&depth["bids"], &depth["asks"], &tilt["imbalance"], &spread["spread"]];
        assert_eq!(told.map(|value| value.as_str().unwrap_or_default().to_owned()), right, "{found:?}");
        for value in [&depth, &tilt, &spread] {
            assert_eq!(
                (&value["instruments"], &value["partial"], &value["overflow"]),
                (&json!(2), &json!(false), &json!(false))
            );
            assert!(value["at_ms"].as_u64() <= value["now_ms"].as_u64() && value["cut"].is_u64(), "{value}");
        }
    }
    assert_eq!(server.get("/v1/views/depth")?.json()?.as_array().map(Vec::len), Some(1), "of BTC alone");
    assert_eq!(server.get("/v1/views/tilt")?.json()?.as_array().map(Vec::len), Some(2));
    Ok(())
}

#[tokio::test]
async fn a_terminal_shows_with_every_frame_what_its_own_books_make() -> Result<()> {
    let data = tempfile::tempdir()?;
    let server = start(data.path())?;
    let item = |channel, pattern: &str| SubscriptionItem { channel, pattern: pattern.into() };
    let items = [item(Channel::Book, "*"), item(Channel::View, &format!("*/{PAIR}"))];
    let mut watcher = Watcher::new(&server.stream_url(), &items)?;
    for _ in 0..20 {
        let before = INSTRUMENTS.map(|name| watcher.shown(name));
        let moved = |watcher: &Watcher| {
            let now = INSTRUMENTS.map(|name| watcher.shown(name));
            let views = watcher.session().standing_views().filter(|view| view.value.is_some()).count();
            now != before && now.iter().all(Option::is_some) && views == 3
        };
        watcher.until("a frame that moves a book", moved).await?;
        let session = watcher.session();
        let books = INSTRUMENTS.map(|name| session.book(name).map(of_receiver).unwrap_or_default());
        let [bids, asks, tilt, spread] = computed(&books)?;
        let shown = |name: &str| session.standing_view(&format!("{name}/{PAIR}")).and_then(|view| view.value);
        let told = ["depth", "tilt", "spread"].map(|name| match shown(name).map(|value| value.number) {
            Some(ViewNumber::Reserves { bids, asks }) => format!("{} {}", bids.decimal(), asks.decimal()),
            Some(ViewNumber::Imbalance(imbalance)) => imbalance.to_string(),
            Some(ViewNumber::Spread(spread)) => spread.to_string(),
            other => format!("{other:?}"),
        });
        assert_eq!(told, [format!("{bids} {asks}"), tilt, spread]);
    }
    assert!(watcher.is_clean(), "{:?}", watcher.session().counters());
    let watch = ["watch", "--view", "spread/*", "--url", &server.stream_url(), "--seconds", "2"];
    let output = process::output(watch)?;
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let text = String::from_utf8(output.stdout)?;
    assert!(text.contains("spread/BTC/USDT  ") && text.contains(" of 2 books"), "{text}");
    Ok(())
}
