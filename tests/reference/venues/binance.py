"""Binance spot and USD-M futures: events are buffered until a snapshot, bridge it, and then follow one another.

Spot: drop u <= lastUpdateId; the first applied has U <= lastUpdateId+1 <= u; then U == previous u + 1.
USD-M: drop u < lastUpdateId; the first applied has U <= lastUpdateId <= u; then pu == previous u.

Never: an event over a hole.
"""

from decimal import Decimal
from urllib.parse import parse_qs, urlsplit

from .book import Book, exact, fresh_stats


class Instrument:
    def __init__(self, stats, futures):
        self.stats = stats
        # The ids up to the snapshot's own are in it; a futures event must have that one, a spot event the next.
        self.next = 0 if futures else 1
        self.futures = futures
        self.book = None
        self.bridged = False
        self.buffer = []
        self.tickers = {}
        self.best_at = {}

    def snapshot(self, reply):
        anchor = int(reply["lastUpdateId"])
        too_old_for_buffer = bool(self.buffer) and anchor + self.next < int(self.buffer[0]["U"])
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
        self.book.put(reply["bids"], reply["asks"])
        waiting, self.buffer = self.buffer, []
        for event in waiting:
            self.depth(event)

    def depth(self, event):
        if self.book is None:
            self.buffer.append(event)
            return
        first, last = int(event["U"]), int(event["u"])
        known = self.book.last_update_id
        if last < known + (1 if self.bridged else self.next):
            self.stats["dropped_before_snapshot"] += 1
            return
        if not self.bridged:
            chained = first <= known + self.next
        elif self.futures:
            chained = int(event["pu"]) == known
        else:
            chained = first == known + 1
        if not chained:
            self.stats["gaps"] += 1
            self.book = None
            self.buffer = [event]
            return
        self.bridged = True
        self.book.put(event["b"], event["a"])
        self.stats["told_again"] += last == known
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


def spot(frames):
    return rebuild(frames, futures=False)


def usdm(frames):
    return rebuild(frames, futures=True)


def rebuild(frames, futures):
    stats = fresh_stats()
    instruments = {}

    def instrument(symbol):
        return instruments.setdefault(symbol, Instrument(stats, futures))

    for frame in frames:
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
