#!/usr/bin/env python3
"""Books rebuilt from a capture by the venues' published rules alone: the reference that everything else must equal.

Never: code, formats or numbers taken from Sprag itself. Python's standard library and the `zstd` tool only.

    reconstruct.py --venue binance_spot|kraken_v2 FILE [--json]

FILE is zstd-compressed JSON lines: {"ts_ns", "kind": "open|send|ws|http", "conn", "url"?, "raw"}.
With --json the whole result is printed: {"books": {instrument: {"bids", "asks", "last_update_id", "applied"}},
"stats": {...}}, levels best first, decimals exact and canonical. Without it, the counts.
"""

import argparse
import json
import subprocess
import sys
import zlib
from decimal import Decimal
from urllib.parse import parse_qs, urlsplit

# What Kraken subscribes to when no depth is asked for.
KRAKEN_DEPTH_DEFAULT = 10
CHECKSUM_LEVELS = 10

STATS = (
    "depth_events", "applied", "dropped_before_snapshot", "unanchored", "gaps", "snapshots", "snapshots_refused",
    "checksums", "checksum_matches", "ticker_comparisons", "ticker_mismatches", "crossed",
)


def frames(path):
    """The capture's lines, in order."""
    with subprocess.Popen(["zstd", "-dc", "--", path], stdout=subprocess.PIPE) as process:
        for line in process.stdout:
            yield json.loads(line)
    if process.returncode != 0:
        raise SystemExit(f"zstd failed on {path}: {process.returncode}")


def exact(text):
    """A JSON document whose numbers stay the text that they were."""
    return json.loads(text, parse_float=str, parse_int=str)


def canonical(text):
    """One spelling per value: no exponent, no zeros at the end."""
    plain = format(Decimal(text), "f")
    if "." in plain:
        plain = plain.rstrip("0").rstrip(".")
    return "0" if plain in ("-0", "") else plain


class Book:
    """Each side maps a price to the texts (price, quantity) as last sent."""

    def __init__(self):
        self.bids = {}
        self.asks = {}
        self.last_update_id = None
        self.applied = 0

    @staticmethod
    def put(side, price, quantity):
        key = Decimal(price)
        if Decimal(quantity) == 0:
            side.pop(key, None)
        else:
            side[key] = (price, quantity)

    def best(self):
        """(bid price, bid quantity, ask price, ask quantity) as numbers, None where a side is empty."""
        bid = max(self.bids, default=None)
        ask = min(self.asks, default=None)
        of = lambda side, key: None if key is None else Decimal(side[key][1])
        return (bid, of(self.bids, bid), ask, of(self.asks, ask))

    def crossed(self):
        bid, _, ask, _ = self.best()
        return bid is not None and ask is not None and bid >= ask

    def truncate(self, depth):
        for key in sorted(self.bids, reverse=True)[depth:]:
            del self.bids[key]
        for key in sorted(self.asks)[depth:]:
            del self.asks[key]

    def report(self):
        spell = lambda side, keys: [[canonical(text) for text in side[key]] for key in keys]
        return {
            "bids": spell(self.bids, sorted(self.bids, reverse=True)),
            "asks": spell(self.asks, sorted(self.asks)),
            "last_update_id": None if self.last_update_id is None else str(self.last_update_id),
            "applied": self.applied,
        }


class BinanceInstrument:
    """Rules: buffer events until a snapshot; drop u <= lastUpdateId; the first applied has U <= lastUpdateId+1 <= u;
    then U == previous u + 1, else the book is in doubt until another snapshot."""

    def __init__(self, stats):
        self.stats = stats
        self.book = None
        self.bridged = False
        self.buffer = []
        self.tickers = {}
        self.best_at = {}

    def snapshot(self, reply):
        anchor = int(reply["lastUpdateId"])
        too_old_for_buffer = bool(self.buffer) and anchor + 1 < int(self.buffer[0]["U"])
        older_than_book = self.book is not None and anchor <= self.book.last_update_id
        if too_old_for_buffer or older_than_book:
            self.stats["snapshots_refused"] += 1
            return
        self.stats["snapshots"] += 1
        applied = 0 if self.book is None else self.book.applied
        self.book = Book()
        self.book.applied = applied
        self.book.last_update_id = anchor
        self.bridged = False
        for name, side in (("bids", self.book.bids), ("asks", self.book.asks)):
            for level in reply[name]:
                Book.put(side, level[0], level[1])
        waiting, self.buffer = self.buffer, []
        for event in waiting:
            self.depth(event)

    def depth(self, event):
        if self.book is None:
            self.buffer.append(event)
            return
        first, last = int(event["U"]), int(event["u"])
        known = self.book.last_update_id
        if last <= known:
            self.stats["dropped_before_snapshot"] += 1
            return
        chained = first == known + 1 if self.bridged else first <= known + 1
        if not chained:
            self.stats["gaps"] += 1
            self.book = None
            self.buffer = [event]
            return
        self.bridged = True
        for name, side in (("b", self.book.bids), ("a", self.book.asks)):
            for level in event[name]:
                Book.put(side, level[0], level[1])
        self.book.last_update_id = last
        self.book.applied += 1
        self.stats["applied"] += 1
        self.stats["crossed"] += self.book.crossed()
        self.best_at[last] = self.book.best()

    def ticker(self, ticker):
        told = tuple(Decimal(ticker[name]) for name in ("b", "B", "a", "A"))
        self.tickers.setdefault(int(ticker["u"]), []).append(told)

    def compare(self):
        for update_id, told in self.tickers.items():
            best = self.best_at.get(update_id)
            if best is not None:
                self.stats["ticker_comparisons"] += len(told)
                self.stats["ticker_mismatches"] += sum(one != best for one in told)
        self.stats["unanchored"] += len(self.buffer)


def binance_spot(path):
    stats = dict.fromkeys(STATS, 0)
    instruments = {}
    replies = []

    def instrument(symbol):
        return instruments.setdefault(symbol, BinanceInstrument(stats))

    for frame in frames(path):
        if frame["kind"] == "http":
            reply = exact(frame["raw"])
            if "lastUpdateId" not in reply:
                continue
            symbol = parse_qs(urlsplit(frame.get("url") or "").query).get("symbol")
            if symbol:
                instrument(symbol[0]).snapshot(reply)
            elif len(instruments) == 1:
                next(iter(instruments.values())).snapshot(reply)
            else:
                raise SystemExit("a snapshot without url needs exactly one instrument before it")
        elif frame["kind"] == "ws":
            message = exact(frame["raw"])
            stream = message.get("stream", "")
            if "@depth" in stream:
                stats["depth_events"] += 1
                instrument(message["data"]["s"]).depth(message["data"])
            elif stream.endswith("@bookTicker"):
                instrument(message["data"]["s"]).ticker(message["data"])
    for one in instruments.values():
        one.compare()
    books = {symbol: one.book.report() for symbol, one in instruments.items() if one.book is not None}
    return {"books": books, "stats": stats}


def kraken_checksum(book):
    """Best ten asks upwards, then best ten bids downwards; texts without point and leading zeros; CRC-32."""
    strip = lambda text: text.replace(".", "").lstrip("0")
    text = ""
    for side, keys in ((book.asks, sorted(book.asks)), (book.bids, sorted(book.bids, reverse=True))):
        for key in keys[:CHECKSUM_LEVELS]:
            price, quantity = side[key]
            text += strip(price) + strip(quantity)
    return zlib.crc32(text.encode("ascii"))


def kraken_v2(path):
    stats = dict.fromkeys(STATS, 0)
    books = {}
    depths = {}
    for frame in frames(path):
        if frame["kind"] != "ws":
            continue
        message = exact(frame["raw"])
        if message.get("method") == "subscribe" and message.get("success"):
            result = message["result"]
            if result.get("channel") == "book":
                depths[result["symbol"]] = int(result.get("depth", KRAKEN_DEPTH_DEFAULT))
        if message.get("channel") != "book":
            continue
        for data in message["data"]:
            stats["depth_events"] += 1
            symbol = data["symbol"]
            book = books.get(symbol)
            if message["type"] == "snapshot":
                stats["snapshots"] += 1
                fresh = Book()
                fresh.applied = 0 if book is None else book.applied
                book = books[symbol] = fresh
            elif book is None:
                stats["dropped_before_snapshot"] += 1
                continue
            for name, side in (("bids", book.bids), ("asks", book.asks)):
                for level in data[name]:
                    Book.put(side, level["price"], level["qty"])
            book.truncate(depths.get(symbol, KRAKEN_DEPTH_DEFAULT))
            book.applied += 1
            stats["applied"] += 1
            stats["crossed"] += book.crossed()
            stats["checksums"] += 1
            stats["checksum_matches"] += kraken_checksum(book) == int(data["checksum"])
    return {"books": {symbol: book.report() for symbol, book in books.items()}, "stats": stats}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--venue", required=True, choices=("binance_spot", "kraken_v2"))
    parser.add_argument("file")
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    rebuild = {"binance_spot": binance_spot, "kraken_v2": kraken_v2}[arguments.venue]
    result = rebuild(arguments.file)
    if arguments.json:
        json.dump(result, sys.stdout, sort_keys=True)
        print()
        return
    for symbol, book in sorted(result["books"].items()):
        print(f"{symbol}: {len(book['bids'])} bids, {len(book['asks'])} asks, {book['applied']} applied")
    for name, count in result["stats"].items():
        print(f"{name}: {count}")


if __name__ == "__main__":
    main()
