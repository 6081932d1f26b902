"""Kraken spot, both protocols: a snapshot replaces; updates apply in order; then both sides are truncated to the
subscribed depth, and the checksum over the ten best levels is compared, from the text of the numbers.

Never: a number that was parsed.
"""

import zlib

from .book import Books, exact

# What Kraken v2 subscribes to when no depth is asked for.
DEPTH_DEFAULT = 10
CHECKSUM_LEVELS = 10


def checksum(book):
    """Best ten asks upwards, then best ten bids downwards; texts without point and leading zeros; CRC-32."""
    strip = lambda text: text.replace(".", "").lstrip("0")
    levels = book.best_asks(CHECKSUM_LEVELS) + book.best_bids(CHECKSUM_LEVELS)
    return zlib.crc32("".join(strip(text) for level in levels for text in level).encode("ascii"))


def v1(frames):
    """Array frames: channel id, one map or two, the channel's name with its depth, the pair."""
    books = Books()
    for frame in frames:
        message = exact(frame["raw"]) if frame["kind"] == "ws" else None
        if not isinstance(message, list) or not message[-2].startswith("book-"):
            continue
        maps, depth, pair = message[1:-2], int(message[-2].removeprefix("book-")), message[-1]
        if "as" in maps[0]:
            books.snapshot(pair).put(maps[0]["bs"], maps[0]["as"])
            continue
        books.stats["depth_events"] += 1
        book = books.update(pair)
        if book is None:
            continue
        for one in maps:
            book.put(one.get("b", ()), one.get("a", ()))
        book.truncate(depth)
        books.updated(pair)
        if "c" in maps[-1]:
            books.stats["checksums"] += 1
            books.stats["checksum_matches"] += checksum(book) == int(maps[-1]["c"])
    return books.result()


def v2(frames):
    books = Books()
    depths = {}
    for frame in frames:
        if frame["kind"] != "ws":
            continue
        message = exact(frame["raw"])
        if message.get("method") == "subscribe" and message.get("success"):
            result = message["result"]
            if result.get("channel") == "book":
                depths[result["symbol"]] = int(result.get("depth", DEPTH_DEFAULT))
        if message.get("channel") != "book":
            continue
        for data in message["data"]:
            books.stats["depth_events"] += 1
            symbol = data["symbol"]
            if message["type"] == "snapshot":
                book = books.snapshot(symbol)
            else:
                book = books.update(symbol)
            if book is None:
                continue
            book.put(*([(level["price"], level["qty"]) for level in data[name]] for name in ("bids", "asks")))
            book.truncate(depths.get(symbol, DEPTH_DEFAULT))
            books.updated(symbol)
            books.stats["checksums"] += 1
            books.stats["checksum_matches"] += checksum(book) == int(data["checksum"])
    return books.result()
