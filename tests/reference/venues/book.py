"""Books, exact numbers and counts: what all venues share.

Never: a rule of one venue; a float.
"""

import json
from bisect import bisect_left, insort
from decimal import Decimal

STATS = (
    "depth_events", "applied", "dropped_before_snapshot", "told_again", "unanchored", "gaps", "snapshots",
    "snapshots_refused", "checksums", "checksum_matches", "ticker_comparisons", "ticker_mismatches", "crossed", "unknown", "suppressed",
    "out_of_order", "leg_comparisons", "leg_mismatches",
)


def fresh_stats():
    return dict.fromkeys(STATS, 0)


def exact(text):
    """A JSON document whose numbers stay the text that they were."""
    return json.loads(text, parse_float=str, parse_int=str)


def canonical(text):
    """One spelling per value: no exponent, no zeros at the end."""
    plain = format(Decimal(text), "f")
    if "." in plain:
        plain = plain.rstrip("0").rstrip(".")
    return "0" if plain in ("-0", "") else plain


class Side:
    """Maps a price to the texts (price, quantity) as last sent; the prices sorted."""

    def __init__(self):
        self.levels = {}
        self.prices = []

    def put(self, price, quantity):
        if Decimal(quantity) == 0:
            self.remove(price)
            return
        key = Decimal(price)
        if key not in self.levels:
            insort(self.prices, key)
        self.levels[key] = (price, quantity)

    def remove(self, price):
        """Whether it was there."""
        key = Decimal(price)
        if self.levels.pop(key, None) is None:
            return False
        del self.prices[bisect_left(self.prices, key)]
        return True

    def keep(self, prices):
        """Forgets all other prices, which are at one end."""
        self.prices = prices
        known = set(prices)
        self.levels = {key: level for key, level in self.levels.items() if key in known}


class Book:
    def __init__(self):
        self.bids = Side()
        self.asks = Side()
        self.last_update_id = None
        self.applied = 0

    def put(self, bids, asks):
        """Rows that begin with price and quantity."""
        for side, rows in ((self.bids, bids), (self.asks, asks)):
            for row in rows:
                side.put(row[0], row[1])

    def side(self, word):
        return {"buy": self.bids, "sell": self.asks}[word.lower()]

    def best_bids(self, count):
        return [self.bids.levels[key] for key in self.bids.prices[:-count - 1:-1]]

    def best_asks(self, count):
        return [self.asks.levels[key] for key in self.asks.prices[:count]]

    def best(self):
        """(bid price, bid quantity, ask price, ask quantity) as numbers, None where a side is empty."""
        told = []
        for levels in (self.best_bids(1), self.best_asks(1)):
            told += [Decimal(text) for text in levels[0]] if levels else [None, None]
        return tuple(told)

    def crossed(self):
        return bool(self.bids.prices and self.asks.prices) and self.bids.prices[-1] >= self.asks.prices[0]

    def truncate(self, depth):
        if len(self.bids.prices) > depth:
            self.bids.keep(self.bids.prices[-depth:])
        if len(self.asks.prices) > depth:
            self.asks.keep(self.asks.prices[:depth])

    def report(self):
        spell = lambda levels: [[canonical(text) for text in level] for level in levels]
        return {
            "bids": spell(self.best_bids(len(self.bids.prices))),
            "asks": spell(self.best_asks(len(self.asks.prices))),
            "last_update_id": None if self.last_update_id is None else str(self.last_update_id),
            "applied": self.applied,
        }


class Books:
    """The books of a capture, each from its snapshot on."""

    def __init__(self):
        self.stats = fresh_stats()
        self.live = {}
        self.applied = {}

    def snapshot(self, symbol, last=None):
        """An empty book in the place of whatever was there, to be filled."""
        self.stats["snapshots"] += 1
        book = self.live[symbol] = Book()
        book.applied = self.applied.get(symbol, 0)
        book.last_update_id = last
        return book

    def update(self, symbol):
        """The book that an update is for, None before its snapshot."""
        book = self.live.get(symbol)
        if book is None:
            self.stats["dropped_before_snapshot"] += 1
        return book

    def updated(self, symbol, last=None):
        book = self.live[symbol]
        book.last_update_id = last
        book.applied += 1
        self.applied[symbol] = book.applied
        self.stats["applied"] += 1
        self.stats["crossed"] += book.crossed()

    def gap(self, symbol):
        self.stats["gaps"] += 1
        self.live.pop(symbol, None)

    def result(self):
        return {"books": {symbol: book.report() for symbol, book in self.live.items()}, "stats": self.stats}
