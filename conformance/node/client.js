// Works with a server through memcache-client, a JavaScript client, with assertions.
"use strict";

const assert = require("assert");
const { MemcacheClient } = require("memcache-client");

let checks = 0;

function check(got, wanted) {
  checks += 1;
  assert.deepStrictEqual(got, wanted);
}

async function refused(promise, words) {
  checks += 1;
  await assert.rejects(promise, (error) => String(error.message).includes(words));
}

async function storage(client) {
  await client.set("node:a", "one");
  check((await client.get("node:a")).value, "one");
  check(await client.get("node:none"), undefined);
  await refused(client.add("node:a", "two"), "NOT_STORED");
  await client.add("node:b", "mid");
  await refused(client.replace("node:none", "x"), "NOT_STORED");
  await client.append("node:b", "-end");
  await client.prepend("node:b", "first-");
  check((await client.get("node:b")).value, "first-mid-end");
  await client.set("node:json", { one: [1, 2] });
  check((await client.get("node:json")).value, { one: [1, 2] });
  await client.delete("node:b");
  await refused(client.delete("node:b"), "NOT_FOUND");
}

async function uniques(client) {
  await client.set("node:cas", "1");
  const unique = (await client.gets("node:cas")).casUniq;
  await client.cas("node:cas", "2", { casUniq: unique });
  await refused(client.cas("node:cas", "3", { casUniq: unique }), "EXISTS");
  check((await client.get("node:cas")).value, "2");
}

async function counting(client) {
  await client.set("node:n", "10");
  check(await client.incr("node:n", 5), "15");
  check(await client.decr("node:n", 100), "0");
  await refused(client.incr("node:none", 1), "NOT_FOUND");
}

async function many(client) {
  const keys = Array.from({ length: 500 }, (_, i) => `node:many:${i}`);
  await Promise.all(keys.map((key, i) => client.set(key, key.repeat(1 + (i % 20)))));
  const found = await client.get(keys.concat("node:none"));
  check(Object.keys(found).length, 500);
  keys.forEach((key, i) => check(found[key].value, key.repeat(1 + (i % 20))));
  const large = Buffer.alloc(900000, "\r\nEND\r\n");
  await client.set("node:large", large);
  check((await client.get("node:large")).value.equals(large), true);
}

async function main() {
  const client = new MemcacheClient({ server: process.argv[2], cmdTimeout: 10000 });
  for (const part of [storage, uniques, counting, many]) {
    await part(client);
  }
  await client.touch("node:a", 100);
  check(String(await client.version()).includes("1.6"), true);
  client.shutdown();
  console.log(`${checks} checks`);
}

main().catch((error) => {
  console.error(error);
  process.exit(1);
});
