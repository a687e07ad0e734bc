// The session.ts of docs/clients.md, exactly, in Chromium and Firefox: a client that another tool has generated keeps the session.
import assert from "node:assert/strict";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, afterEach, before, describe, test } from "node:test";
import { build } from "esbuild";
import { engines, openProfile, startEngine } from "./engines.mjs";
import { startFront } from "./front.mjs";
import { readme } from "./readme.mjs";
import { eventually, startService } from "./service.mjs";

let service, front, url, folder, profile, asked, answered;
let hold = () => {};

before(async () => {
  service = await startService();
  folder = await mkdtemp(join(tmpdir(), "worldevents-generated-"));
  front = await startFront(service.address, {
    pages: { "/app/": folder },
    arrive: ({ url }) => void (url === "/api/auth/session" && asked++),
    hold: ({ url }) => (url === "/api/auth/session" ? hold() : void answered++),
  });
  url = `http://localhost:${front.port}`;
  const { files: { "session.ts": contents } } = await readme("Keep the session", "docs/clients.md");
  const stdin = { contents: contents.replace("http://localhost:8080", url), loader: "ts", resolveDir: import.meta.dirname };
  await build({ stdin, bundle: true, format: "esm", outfile: join(folder, "session.js"), logLevel: "warning" });
  await writeFile(join(folder, "index.html"), "<!doctype html><title>App</title>");
});
after(async () => {
  await front?.stop();
  await service?.stop();
  if (folder) await rm(folder, { recursive: true });
});

/** Calls three times at once in a tab, and tells how that ended. */
const callThrice = (tab) => tab.evaluate(async () => {
  const { api } = await import(`${location.origin}/app/session.js`);
  const params = { path: { id: "plaza" } };
  const body = { name: "Rooftop concert", description: "", scheduledAt: "2030-01-02T03:04:05Z" };
  const calls = [api.GET("/api/event/{id}", { params }), api.GET("/api/event/{id}", { params }), api.POST("/api/event/{id}", { params, body })];
  return (await Promise.all(calls)).map(({ data, error }) => (data ? Object.keys(data)[0] : error.code)).join();
});
const done = "events,events,success";

for (const { name, skip } of engines) {
  describe(name, { skip }, () => {
    let browser;
    before(async () => {
      browser = await startEngine(name);
      profile = await openProfile(browser, undefined, url);
    });
    after(() => browser?.close());
    afterEach(async () => {
      hold = () => {};
      await profile.clear();
    });

    test("tabs with one expired JWT: all calls succeed, one refresh is spent, and calls of a tab ask together", async () => {
      await profile.keep(service.expired(await service.issue("alice")));
      const tabs = await profile.openTabs(Array(4).fill("/app/"));
      const refreshes = async () => [await service.refreshes("refreshed"), await service.refreshes("refused")];
      const [refreshed, refused] = await refreshes();
      asked = answered = 0;
      hold = () => eventually("the other calls are answered", () => answered >= 12);
      assert.deepEqual(await Promise.all(tabs.map(callThrice)), Array(4).fill(done));
      assert.deepEqual(await refreshes(), [refreshed + 1, refused]);
      assert.ok(asked < 12, `asked ${asked} times`);
    });

    test("another was faster, whom no lock holds: it asks again, and the calls succeed", async () => {
      const [old, current] = [await service.issue("alice"), await service.issue("alice")]; // which spends the old one's refresh token
      await profile.keep(service.expired(old));
      const [tab] = await profile.openTabs(["/app/"]);
      hold = () => asked === 1 && profile.keep(service.expired(current));
      asked = 0;
      assert.equal(await callThrice(tab), done);
    });

    test("a refresh without an answer is an error of the calls that wait, and the next call asks anew", async () => {
      await profile.keep(service.expired(await service.issue("alice")));
      const [tab] = await profile.openTabs(["/app/"]);
      await tab.evaluate(() => {
        const { timeout } = AbortSignal;
        AbortSignal.timeout = (time) => timeout.call(AbortSignal, time / 20);
      });
      hold = () => new Promise(() => {});
      await assert.rejects(callThrice(tab), /Timeout/i);
      hold = () => {};
      await profile.keep(service.expired(await service.issue("alice")));
      assert.equal(await callThrice(tab), done);
    });

    test("who has to sign in is told so, and nothing is asked for", async () => {
      const [tab] = await profile.openTabs(["/app/"]);
      asked = 0;
      assert.equal(await callThrice(tab), "no_token,no_token,no_token");
      assert.equal(asked, 0);
    });
  });
}
