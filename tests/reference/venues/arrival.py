"""Venues whose books have no ids: Coinbase Exchange `level2`, Gemini v2, and dYdX v3 with its offsets by level.

Coinbase: a snapshot replaces, updates apply as they arrive.
Gemini: the first message of a symbol after its subscription is the whole book, the only one with trades.
dYdX: messages come out of order; every level keeps the offset that it was set at, and only a greater one changes it.

Never: a gap found; these venues send nothing that would show one.
"""

from decimal import Decimal

from .book import Books, exact


def coinbase(frames):
    books = Books()
    for frame in frames:
        message = exact(frame["raw"]) if frame["kind"] == "ws" else {}
        if message.get("type") == "snapshot":
            books.snapshot(message["product_id"]).put(message["bids"], message["asks"])
        elif message.get("type") == "l2update":
            books.stats["depth_events"] += 1
            changes(books, message["product_id"], message["changes"])
    return books.result()


def gemini(frames):
    books = Books()
    for frame in frames:
        message = exact(frame["raw"]) if frame["kind"] == "ws" else {}
        if message.get("type") != "l2_updates":
            continue
        if "trades" in message:
            book = books.snapshot(message["symbol"])
            for word, price, quantity in message["changes"]:
                book.side(word).put(price, quantity)
            continue
        books.stats["depth_events"] += 1
        changes(books, message["symbol"], message["changes"])
    return books.result()


def changes(books, symbol, rows):
    book = books.update(symbol)
    if book is not None:
        for word, price, quantity in rows:
            book.side(word).put(price, quantity)
        books.updated(symbol)


def dydx_v3(frames):
    books = Books()
    offsets, greatest = {}, {}
    for frame in frames:
        message = exact(frame["raw"]) if frame["kind"] == "ws" else {}
        if message.get("channel") != "v3_orderbook":
            continue
        market, contents = message["id"], message.get("contents")
        if message["type"] == "subscribed":
            book = books.snapshot(market)
            known = offsets[market] = {}
            for name, side in (("bids", book.bids), ("asks", book.asks)):
                for level in contents[name]:
                    side.put(level["price"], level["size"])
                    known[name, Decimal(level["price"])] = int(level["offset"])
        elif message["type"] == "channel_data":
            books.stats["depth_events"] += 1
            offset = int(contents["offset"])
            books.stats["out_of_order"] += offset < greatest.get(market, offset)
            greatest[market] = max(offset, greatest.get(market, offset))
            book = books.update(market)
            if book is None:
                continue
            known = offsets[market]
            for name, side in (("bids", book.bids), ("asks", book.asks)):
                for price, size in contents[name]:
                    key = (name, Decimal(price))
                    if offset <= known.get(key, -1):
                        books.stats["suppressed"] += 1
                        continue
                    known[key] = offset
                    side.put(price, size)
            books.updated(market)
    return books.result()
