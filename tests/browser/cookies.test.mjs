// What a change of the configuration leaves in a browser, and how a sign-in and a sign-out mend it.
import assert from "node:assert/strict";
import { after, afterEach, before, test } from "node:test";
import { cookiesOf, openWindow, startChromium } from "./chromium.mjs";
import { startFront } from "./front.mjs";
import { freePort, startService } from "./service.mjs";
import { makeCertificate } from "./tls.mjs";

const host = "api.one.test";

let tls, browser;
before(async () => {
  tls = await makeCertificate(host);
  browser = await startChromium("--host-resolver-rules=MAP *.test 127.0.0.1", `--ignore-certificate-errors-spki-list=${tls.pin}`);
});
after(() => browser?.close());

let running = [];
afterEach(async () => {
  for (const part of running.reverse()) await (part.stop ?? part.close).call(part);
  running = [];
});

async function start(part) {
  running.push(await part);
  return running.at(-1);
}

/** A service at https://api.one.test:PORT/PATH. Cookies do not know ports. */
async function serviceAt(path, env) {
  const port = await freePort();
  const base = `https://${host}:${port}${path}`;
  const service = await start(startService({ BASE_URL: base, ...env }));
  await start(startFront(service.address, { tls, path, port }));
  return { ...service, base };
}

/** A tab of a new window. */
async function openTab() {
  const context = await start(openWindow(browser));
  return { context, tab: await context.newPage() };
}

/** What a script of the tab's page gets from the service. */
const call = (tab, url, method = "GET") =>
  tab.evaluate(async ([url, method]) => {
    const response = await fetch(url, { method });
    return response.status === 204 ? 204 : response.json();
  }, [url, method]);

async function signIn(tab, service) {
  await tab.goto(`${service.base}/sign-in`);
  await tab.getByRole("textbox").fill("alice");
  await tab.getByRole("button", { name: "Sign in" }).click();
  await tab.waitForURL(`${service.base}/docs`);
  return call(tab, `${service.base}/api/auth/session`);
}

test("one sign-in heals after the path and the domain have changed", async () => {
  const first = await serviceAt("", { COOKIE_DOMAIN: "one.test" });
  const second = await serviceAt("/app", {});
  const { context, tab } = await openTab();
  assert.deepEqual(await signIn(tab, first), { authenticated: true });
  // The browser has the old cookies alone, which do not contradict each other. Now it gets new ones beside them.
  assert.deepEqual(await signIn(tab, second), { authenticated: false, error: "Invalid token" });
  assert.equal((await context.cookies(`${second.base}/`)).length, 4);
  assert.deepEqual(await signIn(tab, second), { authenticated: true });
  const cookies = await context.cookies(`${second.base}/`);
  assert.deepEqual(cookies.map(({ name, domain, path }) => [name, domain, path]).sort(), [["refreshToken", host, "/app"], ["token", host, "/app"]]);
  // And back again.
  assert.deepEqual(await signIn(tab, first), { authenticated: true });
});

test("one sign-out heals after the domain has changed and Partitioned has gone", async () => {
  const first = await serviceAt("", { APP_ENV: "production", COOKIE_DOMAIN: "one.test", COOKIE_PARTITIONED: "true" });
  const second = await serviceAt("", { APP_ENV: "production" });
  const { context, tab } = await openTab();
  const holds = async (service) => {
    await service.addUser("alice");
    const cookies = cookiesOf(await service.issue("alice"), `${service.base}/`);
    await context.addCookies(cookies.map((cookie) => ({ ...cookie, secure: true, sameSite: "None" })));
    await tab.goto(`${service.base}/docs`);
  };
  await holds(first);
  assert.deepEqual(await call(tab, `${first.base}/api/auth/refresh`), { success: true });
  await holds(second);
  assert.deepEqual(await call(tab, `${second.base}/api/auth/session`), { authenticated: false, error: "Invalid token" });
  assert.equal(await call(tab, `${second.base}/sign-out`, "POST"), 204);
  assert.deepEqual(await call(tab, `${second.base}/api/auth/session`), { authenticated: false, error: "No token" });
  assert.deepEqual(await context.cookies(), []);
});
