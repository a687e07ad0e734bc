// The guards that docs/typescript/servers.md links to, each in its framework as it is built and served: who sees the page, whose session is refreshed and how often,
// and what becomes of the cookies. tests/browser/ssr.test.mjs has the browser's part.
import assert from "node:assert/strict";
import { execFile, spawn } from "node:child_process";
import { once } from "node:events";
import { cp, mkdir, readFile, rm, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { after, before, describe, test } from "node:test";
import { promisify } from "node:util";
import { eventually, fetchWithCookies, freePort, startService } from "../browser/service.mjs";

const here = import.meta.dirname;
const bin = (name) => join(here, "node_modules/.bin", name);

const quiet = { NEXT_TELEMETRY_DISABLED: "1", NUXT_TELEMETRY_DISABLED: "1" };

/** Where each framework's files are, and how they are built and started. */
const frameworks = {
  "Next.js": { files: "next", build: [bin("next"), "build"], start: [bin("next"), "start"] },
  SvelteKit: { files: "sveltekit", build: [bin("vite"), "build", "--logLevel", "error"], start: [process.execPath, "build/index.js"] },
  Nuxt: { files: "nuxt", build: [bin("nuxt"), "build", "--logLevel", "silent"], start: [process.execPath, ".output/server/index.mjs"] },
};

before(async () => { // the package as npm installs it
  const installed = join(here, "node_modules/worldevents-client");
  const { version } = JSON.parse(await readFile(join(here, "../../gen/typescript/package.json")));
  await rm(installed, { recursive: true, force: true });
  await mkdir(installed);
  await promisify(execFile)("tar", ["xzf", join(here, `../../bin/worldevents-client-${version}.tgz`), "-C", installed, "--strip-components=1"]);
});

for (const [name, framework] of Object.entries(frameworks)) {
  describe(name, () => {
    const folder = join(here, `.${framework.files}`); // beside node_modules
    let site, service, server;
    before(async () => {
      await build(framework, folder);
      const port = await freePort();
      site = `http://localhost:${port}`;
      service = await startService({ BASE_URL: site, SESSIONS_PER_USER: "100" });
      await service.create(fetchWithCookies(await service.issue("bob")), "plaza");
      const [program, ...args] = framework.start;
      const env = { ...process.env, ...quiet, SERVICE: service.address, PORT: String(port), HOST: "localhost", ORIGIN: site };
      server = spawn(program, args, { cwd: folder, env, stdio: ["ignore", "ignore", "inherit"], detached: true });
      await eventually("it is served", () => {
        assert.equal(server.exitCode, null, "it has ended");
        return fetch(site, { redirect: "manual" }).then(() => true, () => false);
      });
    });
    after(async () => {
      if (server?.exitCode === null) {
        process.kill(-server.pid);
        await once(server, "exit");
      }
      await service?.stop();
      await rm(folder, { recursive: true, force: true, maxRetries: 5 });
    });

    const cookieOf = ({ token, refreshToken }) => `token=${token}; refreshToken=${refreshToken}`;
    const expired = async () => service.expired(await service.issue("alice"));
    /** What a request for the page gets. */
    async function get(cookie, { method, headers, path = "/?a=b&c=d" } = {}) {
      const response = await fetch(site + path, { method, redirect: "manual", headers: { Cookie: cookie, ...headers } });
      const text = (await response.text()).replaceAll("<!-- -->", "");
      const of = (name) => response.headers.get(name);
      return { status: response.status, location: of("Location"), refresh: of("Refresh"), cache: of("Cache-Control"), cookies: response.headers.getSetCookie(), text };
    }
    const ten = (make) => Promise.all(Array.from({ length: 10 }, make));
    const shown = ({ status, text, cache }) => {
      assert.equal(status, 200);
      assert.match(text, /Signed in as alice/);
      assert.match(text, /Rooftop concert/);
      assert.match(cache, /private/);
    };
    const asksAgain = ({ status, text, location, refresh, cookies }) => {
      assert.deepEqual([status, location, refresh, cookies], [503, null, "1", []]);
      assert.doesNotMatch(text, /Signed in|Rooftop/);
    };

    test("shows the page to who is signed in, and sends everybody else to sign in", async () => {
      const page = await get(cookieOf(await service.issue("alice")));
      shown(page);
      assert.deepEqual(page.cookies, []);
      for (const cookie of ["", "token=x", `token=${(await expired()).token}`]) {
        const { status, location, cookies, text } = await get(cookie);
        assert.ok([302, 303].includes(status), `${status}`);
        assert.deepEqual([location.replace(site, ""), cookies], ["/sign-in?return_to=%2F%3Fa%3Db%26c%3Dd", []]);
        assert.doesNotMatch(text, /Signed in|Rooftop/);
      }
    });

    test("refreshes once for ten requests, each of which has the page and both cookies as the service has set them", async () => {
      const session = await expired();
      const before = await service.refreshes("refreshed");
      const pages = await ten(() => get(cookieOf(session)));
      assert.equal(await service.refreshes("refreshed") - before, 1);
      for (const page of pages) {
        shown(page);
        assert.deepEqual(page.cookies, pages[0].cookies);
      }
      assert.deepEqual(pages[0].cookies.map((cookie) => cookie.replace(/=[^;]*/, "=VALUE")),
        ["token", "refreshToken"].map((name) => `${name}=VALUE; Path=/; Max-Age=2592000; HttpOnly; SameSite=Lax`));
      const page = await get(pages[0].cookies.map((cookie) => cookie.split(";")[0]).join("; "));
      shown(page);
      assert.deepEqual(page.cookies, []);
    });

    test("asks ten requests to come again whose refresh token another tab has just spent, and then whether to sign in", async () => {
      const session = await expired();
      const tab = fetchWithCookies(session);
      assert.equal((await tab(`${service.address}/api/auth/session`)).status, 200);
      const before = await service.refreshes("refused");
      for (const page of await ten(() => get(cookieOf(session)))) asksAgain(page);
      await eventually("it is certain", async () => (await get(cookieOf(session))).location);
      assert.equal(await service.refreshes("refused") - before, 1);
      assert.equal((await tab(`${service.address}/api/event/plaza`)).status, 200, "the tab's session goes on");
    });

    test("refreshes nothing for HEAD, nor for a prefetch", async () => {
      const session = await expired();
      const before = await service.refreshes("refreshed");
      for (const request of [{ method: "HEAD" }, { headers: { "Sec-Purpose": "prefetch" } }]) {
        asksAgain(await get(cookieOf(session), request));
        assert.equal((await get(cookieOf(await service.issue("alice")), request)).status, 200);
        assert.ok((await get("", request)).location);
      }
      assert.equal(await service.refreshes("refreshed") - before, 0);
    });

    test("signs nobody out while the service is away", async () => {
      const session = await service.issue("alice");
      await service.stop();
      service = undefined;
      for (const cookie of [cookieOf(session), ""]) asksAgain(await get(cookie));
    });
  });
}

/** Builds a copy of the files. */
async function build({ files, build: [command, ...args] }, folder) {
  await rm(folder, { recursive: true, force: true });
  await cp(join(here, files), folder, { recursive: true });
  await writeFile(join(folder, "package.json"), '{ "private": true, "type": "module" }');
  const env = { ...process.env, ...quiet };
  await promisify(execFile)(command, args, { cwd: folder, env }).catch((error) => assert.fail(error.stdout + error.stderr));
}
