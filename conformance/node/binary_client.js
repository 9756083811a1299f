// Works with a server through memjs, a JavaScript client of the binary protocol, with assertions.
// A second and a third argument are a name and a password for SASL's PLAIN.
"use strict";

const assert = require("assert");
const memjs = require("memjs");

let checks = 0;

function check(got, wanted) {
  checks += 1;
  assert.deepStrictEqual(got, wanted);
}

async function text(client, key) {
  const { value } = await client.get(key);
  return value && value.toString();
}

async function storage(client) {
  check(await client.set("node:a", "one", { expires: 100 }), true);
  check(await text(client, "node:a"), "one");
  check(await text(client, "node:none"), null);
  check(await client.add("node:a", "two", {}), false);
  check(await client.add("node:b", "mid", {}), true);
  check(await client.replace("node:none", "x", {}), false);
  check(await client.append("node:b", "-end"), true);
  await assert.rejects(client.append("node:none", "x"));
  check(await text(client, "node:b"), "mid-end");
  check(await client.touch("node:b", 100), true);
  check(await client.delete("node:b"), true);
  check(await client.delete("node:b"), false);
}

async function counting(client) {
  check((await client.increment("node:n", 1, { initial: 10 })).value, 10);
  check((await client.increment("node:n", 5, {})).value, 15);
  check((await client.decrement("node:n", 100, {})).value, 0);
}

async function many(client) {
  const keys = Array.from({ length: 500 }, (_, i) => `node:many:${i}`);
  const stored = await Promise.all(
    keys.map((key, i) => client.set(key, key.repeat(1 + (i % 20)), {}))
  );
  check(stored.every(Boolean), true);
  for (const [i, key] of keys.entries()) {
    check(await text(client, key), key.repeat(1 + (i % 20)));
  }
  const large = Buffer.alloc(900000, "\x80\x81value");
  check(await client.set("node:large", large, {}), true);
  check((await client.get("node:large")).value.equals(large), true);
}

async function main() {
  const [address, username, password] = process.argv.slice(2);
  const options = { username, password, timeout: 10, conntimeout: 10, retries: 0 };
  const client = memjs.Client.create(address, options);
  await storage(client);
  await counting(client);
  await many(client);
  const statistics = await new Promise((resolve, reject) =>
    client.stats((error, server, stats) => (error ? reject(error) : resolve(stats)))
  );
  check(Number(statistics.curr_items) > 0, true);
  check(Object.values(await client.flush()), [true]);
  check(await text(client, "node:a"), null);
  client.close();
  console.log(`${checks} checks`);
}

main().catch((error) => {
  console.error(error);
  process.exit(1);
});
