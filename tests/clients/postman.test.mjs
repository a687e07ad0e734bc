// The Postman collection of a release, as newman runs it and Bruno imports it, and what Postman makes of the contract alone.
import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { after, before, test } from "node:test";
import { promisify } from "node:util";
import bruno from "@usebruno/converters";
import newman from "newman";
import postman from "openapi-to-postmanv2";
import { fetchWithCookies, startService } from "../browser/service.mjs";

const repository = join(import.meta.dirname, "../..");
let service, collection, off;

before(async () => {
  service = await startService();
  const { stdout } = await promisify(execFile)(process.execPath, [join(repository, "gen/postman.mjs")]);
  collection = JSON.parse(stdout);
  const page = await readFile(join(repository, "docs/clients.md"), "utf8");
  off = [...page.match(/^- Switch off (.*?):/ms)[1].matchAll(/`([\w-]+)`/g)].map(([, name]) => name);
});
after(() => service?.stop());

/** Runs a collection in a jar of its own, and returns the status of each request by its name. */
async function run(collection) {
  const envVar = [{ key: "baseUrl", value: service.address }];
  const { run } = await promisify(newman.run)({ collection, envVar, reporters: [] });
  assert.deepEqual(run.failures.map(({ source, error }) => `${source.name}: ${error.message}`), []);
  return Object.fromEntries(run.executions.map(({ item, response }) => [item.name, response?.code]));
}

test("newman runs the collection: everything succeeds, and one refresh", async () => {
  const refreshes = await service.refreshes("refreshed");
  const statuses = await run(structuredClone(collection));
  assert.deepEqual(Object.values(statuses), Array(7).fill(200));
  assert.equal(await service.refreshes("refreshed") - refreshes, 1);
  const { events } = await (await fetchWithCookies(await service.issue("bob"))(`${service.address}/api/event/plaza`)).json();
  assert.deepEqual(events.map(({ name, description, scheduledAt, RSVPs }) => ({ name, description, scheduledAt, RSVPs })), [{
    name: "Rooftop concert", description: "Doors open half an hour earlier.", scheduledAt: "2030-01-02T03:04:05.000Z",
    RSVPs: [{ user: { username: "alice" } }],
  }]);
});

test("Bruno imports the collection: no auth, no header, and what is switched off stays so", async () => {
  const { collection: { root, items } } = await bruno.postmanToBruno(structuredClone(collection));
  assert.deepEqual([root.request.auth.mode, root.request.headers], ["none", []]);
  assert.deepEqual(items.map(({ request }) => request.auth.mode), Array(7).fill("none"));
  const given = items.flatMap(({ request }) => [...request.headers, ...request.params]);
  const names = (enabled) => [...new Set(given.filter((each) => each.enabled === enabled).map(({ name }) => name))].sort();
  assert.deepEqual(names(false), off.sort());
  assert.deepEqual(names(true), ["from", "id", "limit", "to"]);
});

test("what Postman makes of the contract works as the page says", async () => {
  const data = await (await fetch(`${service.address}/openapi.json`)).text();
  const { output: [{ data: imported }] } = await promisify(postman.convertV2)({ type: "string", data }, { parametersResolution: "Example" });
  const requests = (function all({ item, request }) { return item?.flatMap(all) ?? [request]; })(imported);
  assert.equal(requests.length, 6);
  const event = await service.create(fetchWithCookies(await service.issue("bob")), "plaza");
  for (const request of requests) {
    request.auth = { type: "noauth" };
    for (const each of [...request.header, ...request.url.query]) each.disabled = off.includes(each.key);
    for (const id of request.url.variable) if (id.value !== "plaza") id.value = event;
  }
  imported.item.unshift(collection.item.find(({ name }) => name === "Sign in"));
  imported.variable.push({ key: "username", value: "carol" });
  assert.deepEqual(Object.values(await run(imported)), Array(7).fill(200));
});
