"""Venues whose whole books are fetched beside the stream: Bitstamp v2 and KuCoin.

Bitstamp: differences whose microtimestamp is not after the book's are dropped; nothing shows a gap.
KuCoin: `sequenceEnd <= sequence` is dropped, the first applied has `sequenceStart <= sequence + 1`, then every message
starts one above the end of the last. A row at the price 0 only counts on.

Never: a message used before the book that it belongs to.
"""

from urllib.parse import parse_qs, urlsplit

from .book import Books, exact


class Fetched:
    """Messages wait for their book; `use` says what becomes of one that has a book."""

    def __init__(self, use):
        self.books = Books()
        self.waiting = {}
        self.use = use

    def snapshot(self, symbol, at, data, first=lambda message: 0):
        waiting = self.waiting.get(symbol)
        live = self.books.live.get(symbol)
        if (live is not None and at <= live.last_update_id) or (waiting and at + 1 < first(waiting[0])):
            self.books.stats["snapshots_refused"] += 1
            return False
        self.books.snapshot(symbol, at).put(data["bids"], data["asks"])
        return True

    def drain(self, symbol):
        for message in self.waiting.pop(symbol, []):
            self.take(symbol, message)

    def take(self, symbol, message):
        if symbol not in self.books.live:
            self.waiting.setdefault(symbol, []).append(message)
        else:
            self.use(symbol, message)

    def result(self):
        self.books.stats["unanchored"] += sum(len(waiting) for waiting in self.waiting.values())
        return self.books.result()


def bitstamp(frames):
    def use(pair, data):
        at = int(data["microtimestamp"])
        book = fetched.books.live[pair]
        if at <= book.last_update_id:
            fetched.books.stats["dropped_before_snapshot"] += 1
            return
        book.put(data["bids"], data["asks"])
        fetched.books.updated(pair, at)

    fetched = Fetched(use)
    for frame in frames:
        if frame["kind"] == "http":
            path = urlsplit(frame["url"]).path.rstrip("/")
            if "/order_book/" in path:
                data = exact(frame["raw"])
                pair = path.rpartition("/")[2]
                if fetched.snapshot(pair, int(data["microtimestamp"]), data):
                    fetched.drain(pair)
        elif frame["kind"] == "ws":
            message = exact(frame["raw"])
            channel = message.get("channel") or ""
            if message["event"] == "data" and channel.startswith("diff_order_book_"):
                fetched.books.stats["depth_events"] += 1
                fetched.take(channel.removeprefix("diff_order_book_"), message["data"])
    return fetched.result()


def kucoin(frames):
    bridged = set()

    def use(symbol, data):
        start, end = int(data["sequenceStart"]), int(data["sequenceEnd"])
        book = fetched.books.live[symbol]
        following = book.last_update_id + 1
        if end < following:
            fetched.books.stats["dropped_before_snapshot"] += 1
            return
        if start != following if symbol in bridged else start > following:
            fetched.books.gap(symbol)
            fetched.take(symbol, data)
            return
        bridged.add(symbol)
        book.put(*([row for row in data["changes"][name] if row[0] != "0"] for name in ("bids", "asks")))
        fetched.books.updated(symbol, end)

    fetched = Fetched(use)
    for frame in frames:
        if frame["kind"] == "http":
            url = urlsplit(frame["url"])
            if url.path.endswith("/orderbook/level2"):
                data = exact(frame["raw"])["data"]
                symbol = parse_qs(url.query)["symbol"][0]
                if fetched.snapshot(symbol, int(data["sequence"]), data, lambda one: int(one["sequenceStart"])):
                    bridged.discard(symbol)
                    fetched.drain(symbol)
        elif frame["kind"] == "ws":
            message = exact(frame["raw"])
            if message.get("subject") == "trade.l2update":
                fetched.books.stats["depth_events"] += 1
                fetched.take(message["data"]["symbol"], message["data"])
    return fetched.result()
