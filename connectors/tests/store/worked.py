"""Runs queries with clickhouse-connect, as an analyst would: the client as it is made by default, in a session of its own.

Never: a result made to fit; values are only written as ClickHouse's own text formats write them.
"""

import datetime
import decimal
import json
import sys
from urllib.parse import urlsplit

import clickhouse_connect
from clickhouse_connect import common
from clickhouse_connect.driver.exceptions import DatabaseError


def text(value, column_type):
    if value is None:
        return "\\N"
    if isinstance(value, decimal.Decimal):
        # A zero has the exponent of its column.
        return format(value.normalize() + 0, "f")
    if isinstance(value, datetime.datetime):
        # Python's times end at microseconds.
        return value.strftime("%Y-%m-%d %H:%M:%S.%f000" if "DateTime64(9" in column_type else "%Y-%m-%d %H:%M:%S")
    return str(value)


def table(result):
    types = [column_type.name for column_type in result.column_types]
    rows = [[text(value, column_type) for value, column_type in zip(row, types)] for row in result.result_rows]
    return [list(result.column_names)] + rows


asked = json.load(sys.stdin)
address = urlsplit(asked["url"])
place = {"host": address.hostname, "port": address.port, "database": asked["database"]}
client = clickhouse_connect.get_client(**place)
results = [table(client.query(query)) for query in asked["queries"]]

# Parameters, bound by the server and by the client.
assert client.query("SELECT {x:UInt64} + 1", parameters={"x": 5}).result_rows == [(6,)]
assert client.query("SELECT %(x)s", parameters={"x": "it's"}).result_rows == [("it's",)]
assert client.command("SELECT 1") == 1
assert client.ping()

# Long answers, in each of the ways to compress them and in none, whole and as a stream of blocks.
for compress in ["zstd", "gzip", "lz4", True, False]:
    other = clickhouse_connect.get_client(**place, compress=compress, session_id="of-its-own")
    answer = other.query("SELECT number, toString(number) FROM numbers(100000)")
    assert answer.row_count == 100000 and answer.result_rows[-1] == (99999, "99999"), compress
    other.close()
with client.query_row_block_stream("SELECT number FROM numbers(200000)") as stream:
    assert sum(len(block) for block in stream) == 200000

# What is refused says why, and the session goes on.
for query, code in [("SELECT file('/etc/passwd')", 497), ("DROP TABLE tick_state", 164), ("SELECT * FROM nowhere", 60)]:
    try:
        client.query(query)
    except DatabaseError as error:
        assert f"{code}" in str(error), (query, error)
    else:
        raise AssertionError(query)
# The client takes every setting for one that cannot be changed, as the account only reads; limits can be lowered all the same.
common.set_setting("invalid_setting_action", "send")
limited = client.query("SELECT getSetting('max_threads')", settings={"max_threads": 1})
assert limited.result_rows == [(1,)]

json.dump(results, sys.stdout)
