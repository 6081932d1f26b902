// Runs queries with the official JavaScript client, as an analyst would.
//
// Never: a result made to fit; every value comes as ClickHouse's own text.

import assert from "node:assert/strict";
import { createRequire } from "node:module";
import { join } from "node:path";
import { text } from "node:stream/consumers";

const require = createRequire(join(process.env.SPRAG_ANALYST_NODE, "package.json"));
const { ClickHouseLogLevel, createClient } = require("@clickhouse/client");

const asked = JSON.parse(await text(process.stdin));
const client = createClient({ url: asked.url, database: asked.database, log: { level: ClickHouseLogLevel.OFF } });
assert.equal((await client.ping()).success, true);

const results = [];
for (const query of asked.queries) {
  const answer = await client.query({ query, format: "JSONCompactStringsEachRowWithNames" });
  const rows = await answer.json();
  results.push(rows.map((row) => row.map((cell) => (cell === null || cell === "ᴺᵁᴸᴸ" ? "\\N" : cell))));
}

// Rows as a stream, parameters, a session, and compressed answers.
const other = createClient({ url: asked.url, session_id: "of-its-own", compression: { response: true } });
const answer = await other.query({
  query: "SELECT number FROM numbers({count:UInt64})",
  query_params: { count: 100000 },
  format: "JSONEachRow",
});
let count = 0;
for await (const rows of answer.stream()) count += rows.length;
assert.equal(count, 100000);
const executed = await client.exec({ query: "SELECT 1 FORMAT CSV" });
assert.equal(await text(executed.stream), "1\n");

// What is refused says why.
for (const [query, code] of [["SELECT file('/etc/passwd')", "497"], ["DROP TABLE tick_state", "164"], ["SELECT * FROM nowhere", "60"]]) {
  await assert.rejects(client.query({ query }), (error) => error.code === code, query);
}
await client.close();
await other.close();
process.stdout.write(JSON.stringify(results));
