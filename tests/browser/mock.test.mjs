// worldevents-client/mock in Chromium and Firefox: the example page, with no service at all.
import assert from "node:assert/strict";
import { copyFile, mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, before, test } from "node:test";
import { build } from "esbuild";
import { becomes, engines, openProfile, startEngine } from "./engines.mjs";
import { startFront } from "./front.mjs";

const here = import.meta.dirname;
let folder, front, passed = [];

before(async () => {
  folder = await mkdtemp(join(tmpdir(), "worldevents-mock-"));
  await build({
    entryPoints: [join(here, "mock/app.js")], outfile: join(folder, "app.js"), bundle: true, format: "esm", logLevel: "warning",
    external: ["../page/page.js"], alias: { "worldevents-client/mock": join(here, "../../gen/typescript/dist/mock.js"), msw: join(here, "node_modules/msw") },
  });
  await copyFile(join(here, "node_modules/msw/lib/mockServiceWorker.js"), join(folder, "worker.js"));
  const page = await readFile(join(here, "page/index.html"), "utf8");
  await writeFile(join(folder, "index.html"), page.replace('src="page.js"', 'src="app.js"').replace('href="page.css"', 'href="/page/page.css"'));
  front = await startFront("http://127.0.0.1:9", { pages: { "/mock/": folder }, arrive: (request) => passed.push(request.url) });
});
after(async () => {
  await front?.stop();
  if (folder) await rm(folder, { recursive: true });
});

for (const { name, skip } of engines) {
  test(`${name}: the page lists live, joins, refreshes, signs out and in`, { skip }, async (t) => {
    const browser = await startEngine(name);
    t.after(() => browser.close());
    const { openTabs, cookies } = await openProfile(browser, undefined, `http://localhost:${front.port}`);
    const [tab] = await openTabs(["/mock/?world=plaza"]);
    const shows = (selector, text) => becomes(
      tab, (selector, text) => [...document.querySelectorAll(selector)].map((found) => found.textContent).join() === text, selector, text);
    const act = (text) => tab.evaluate(text);

    await shows("#who", "Signed in as alice");
    await shows(".names li", "bob");
    await tab.click(".join");
    await shows(".names li", "bob,alice");
    await act("service.leave('concert', 'bob'), service.join('concert', 'carol')");
    await shows(".names li", "alice,carol");
    await act("service.expireTokens()");
    await tab.click(".leave");
    await shows(".names li", "carol");
    await act("service.fail('joinEvent', { status: 500 })");
    await tab.click(".join");
    await shows("#fault", "Internal error");
    assert.equal(await act("document.cookie"), "");
    assert.deepEqual(await cookies(), [], "the browser has none to send to a real service");
    await tab.click("#sign-out");
    await shows("#who", "Not signed in");
    await act("service.signIn('dave'), import('/client/index.js').then(({ getSession }) => getSession())");
    await shows("#who", "Signed in as dave");
    await shows(".names li", "carol");
    assert.deepEqual(passed, [], "no call has left the page");
  });
}
