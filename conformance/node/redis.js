// Works with a server through ioredis, a JavaScript client of Redis' protocol, with assertions.
"use strict";

const assert = require("assert");
const Redis = require("ioredis");

let checks = 0;

function check(got, wanted) {
  checks += 1;
  assert.deepStrictEqual(got, wanted);
}

async function refused(promise, words) {
  checks += 1;
  await assert.rejects(promise, (error) => String(error.message).includes(words));
}

async function strings(client) {
  check(await client.get("node:none"), null);
  check(await client.set("node:a", "one"), "OK");
  check(await client.set("node:a", "two", "EX", 100, "NX"), null);
  check(await client.set("node:a", "two", "EX", 100, "GET"), "one");
  check(await client.get("node:a"), "two");
  check((await client.ttl("node:a")) > 98, true);
  check(await client.mset({ "node:x": "1", "node:y": "2" }), "OK");
  check(await client.mget("node:x", "node:none", "node:y"), ["1", null, "2"]);
  check(await client.append("node:a", "!"), 4);
  check(await client.getrange("node:a", 0, 1), "tw");
  check(await client.getdel("node:a"), "two!");
  check(await client.exists("node:a"), 0);
  check(await client.del("node:x", "node:y", "node:none"), 2);
  const large = Buffer.alloc(900000, "\r\n$1\r\n");
  check(await client.set("node:large", large), "OK");
  check((await client.getBuffer("node:large")).equals(large), true);
}

async function counting(client) {
  check(await client.incr("node:n"), 1);
  check(await client.decrby("node:n", 11), -10);
  check(await client.incrbyfloat("node:f", 0.5), "0.5");
  await client.set("node:text", "x");
  await refused(client.incr("node:text"), "not an integer");
  await refused(client.lpush("node:list", "x"), "unknown command");
}

async function many(client) {
  const pipeline = client.pipeline();
  for (let i = 0; i < 1000; i += 1) {
    pipeline.set(`node:many:${i}`, String(i));
    pipeline.get(`node:many:${i}`);
  }
  const replies = await pipeline.exec();
  check(replies.length, 2000);
  replies.forEach(([error, reply], i) => {
    check(error, null);
    check(reply, i % 2 === 0 ? "OK" : String((i - 1) / 2));
  });
  const seen = new Set();
  for await (const keys of client.scanStream({ match: "node:many:*", count: 100 })) {
    keys.forEach((key) => seen.add(key));
  }
  check(seen.size, 1000);
}

async function main() {
  const [host, port] = process.argv[2].split(":");
  const client = new Redis({ host, port: Number(port), commandTimeout: 10000 });
  await client.flushall();
  for (const part of [strings, counting, many]) {
    await part(client);
  }
  check(await client.ping(), "PONG");
  await client.quit();
  console.log(`${checks} checks`);
}

main().catch((error) => {
  console.error(error);
  process.exit(1);
});
