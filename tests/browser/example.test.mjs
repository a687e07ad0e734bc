// examples/react in a folder of its own, with the packages of a release and nothing of the repository: by the commands of its README it is
// installed, and it lints, passes its own test, builds, and does in Chromium all that it has, in front of the service that npm installed.
// SCREENSHOTS=folder keeps pictures of it.
import assert from "node:assert/strict";
import { execFile, spawn } from "node:child_process";
import { once } from "node:events";
import { appendFile, copyFile, cp, mkdir, mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { createRequire } from "node:module";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, before, test } from "node:test";
import { promisify } from "node:util";
import { openWindow, startChromium } from "./chromium.mjs";
import { eventually, fetchWithCookies, freePort, isServed, startOwner } from "./service.mjs";

const repository = join(import.meta.dirname, "../..");
const axe = await readFile(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8");
const exec = promisify(execFile);
const running = new Set();
let browser, release, page, service, front;

const run = (...args) => exec("npm", ["run", "--silent", ...args], { cwd: page, env: { ...process.env, NO_COLOR: "1" } })
  .catch(({ stdout, stderr }) => assert.fail(stdout + stderr));

/** Starts a script of the page, in a process group of its own, and waits until it serves. */
async function serve(script, port, ...args) {
  const child = spawn("npm", ["run", script, "--", "--port", port, ...args], { cwd: page, stdio: "ignore", detached: true });
  const ended = once(child, "exit");
  const stop = async () => {
    running.delete(stop);
    process.kill(-child.pid);
    await ended;
    await eventually(`${script} has ended`, async () => !await isServed(`http://localhost:${port}/`));
  };
  running.add(stop);
  await eventually(`${script} serves`, () => {
    assert.equal(child.exitCode, null, `${script} has ended`);
    return isServed(`http://localhost:${port}/${script === "api" ? "sign-in" : ""}`);
  });
  return { port, address: `http://localhost:${port}`, stop };
}

before(async () => {
  release = await mkdtemp(join(tmpdir(), "worldevents-release-"));
  const vendor = join(release, "vendor");
  await mkdir(vendor);
  const { version } = JSON.parse(await readFile(join(repository, "gen/typescript/package.json"), "utf8"));
  const client = join(vendor, `worldevents-client-${version}.tgz`);
  await copyFile(join(repository, `bin/worldevents-client-${version}.tgz`), client);
  await exec("tar", ["-xzf", client, "-C", release]);
  page = join(release, "my-app");
  await cp(join(release, "package/dist/examples/react"), page, { recursive: true });
  const cpu = process.arch === "x64" ? "amd64" : process.arch;
  const program = `${process.platform}/${cpu}=${join(repository, "bin/worldevents")}`;
  await exec("node", [join(repository, "gen/launcher/pack.mjs"), vendor, program]);

  const readme = await readFile(join(page, "README.md"), "utf8");
  const commands = readme.match(/^npm install .*$/gm);
  assert.equal(commands.length, 2);
  for (const command of commands) await exec("sh", ["-ec", command], { cwd: page });
  browser = await startChromium();
});
after(async () => {
  await browser?.close();
  for (const stop of running) await stop();
  if (release) await rm(release, { recursive: true, maxRetries: 5 });
});

test("it passes its lint without a warning, and its own test", async () => {
  assert.match((await run("lint")).stdout, /0 warnings and 0 errors/);
  assert.match((await run("test")).stdout, /Tests +\d+ passed/);
});

test("it has at most 300 lines, without what create-vite and npm have written", async () => {
  const theirs = ["README.md", "index.html", ".oxlintrc.json", "package.json", "package-lock.json"];
  const { stdout } = await exec("git", ["ls-files", "."], { cwd: join(repository, "examples/react") });
  const own = stdout.trim().split("\n").filter((name) => !theirs.includes(name));
  assert.ok(own.includes("src/App.tsx"));
  const texts = await Promise.all(own.map((name) => readFile(join(repository, "examples/react", name), "utf8")));
  assert.ok(texts.join("").split("\n").length - 1 <= 300);
});

test("it builds, and does all that it has", async (t) => {
  const config = join(page, "vite.config.ts");
  const ports = [await freePort(), await freePort()];
  await writeFile(config, (await readFile(config, "utf8")).replace("http://localhost:8080", `http://localhost:${ports[0]}`));
  await run("build");
  service = await serve("api", ports[0]);
  front = await serve("preview", ports[1], "--strictPort");

  const others = await Promise.all(["bob", "carol", "dave"].map(signIn));
  for (let i = 0; i < 21; i++) await create(others[i % 3], { name: `Walk ${i + 1}`, scheduledAt: `2024-01-${10 + i}T12:00:00Z` });

  const context = await openWindow(browser, { locale: "en-GB", timezoneId: "Asia/Tokyo", reducedMotion: "reduce" });
  t.after(() => context.close());
  const tab = await context.newPage();
  const errors = [];
  tab.on("pageerror", (error) => errors.push(error.message));
  const button = (name) => tab.getByRole("button", { name, exact: true });
  const card = (name) => tab.getByRole("article").filter({ has: tab.getByRole("heading", { name, exact: true }) });
  const signInAs = async (name) => {
    await tab.getByRole("link", { name: "Sign in" }).click();
    await tab.getByLabel("Username").fill(name);
    await button("Sign in").click();
    await tab.getByText("live since").waitFor();
  };

  await tab.goto(front.address);
  await tab.getByRole("link", { name: "Sign in" }).waitFor();
  await audit(tab, "nobody");
  await signInAs("alice");
  await tab.getByRole("banner").getByText("alice").waitFor();

  // Somebody else's event comes by itself, in the time of who looks.
  const id = await create(others[0], { name: "Boat trip", scheduledAt: "2099-01-02T20:04:00Z" });
  await card("Boat trip").getByText("1 going").waitFor();
  await card("Boat trip").getByText("Saturday, 3 January 2099 at 05:04").waitFor();
  await card("Boat trip").getByRole("button", { name: "Join" }).click();
  await card("Boat trip").getByText("2 going").waitFor();
  await card("Boat trip").getByText("bob, alice").waitFor();
  await eventually("the service knows", async () => /alice/.test(await rsvps(others[0], id)));
  await others[1](`${service.address}/api/event/join/${id}`, { method: "POST" });
  await card("Boat trip").getByText("bob, alice, carol").waitFor();
  await card("Boat trip").getByRole("button", { name: "Leave" }).click();
  await card("Boat trip").getByText("bob, carol").waitFor();
  await eventually("the service knows", async () => !/alice/.test(await rsvps(others[0], id)));

  await tab.getByText("New event").click();
  await tab.getByLabel("Name").fill(" ");
  await tab.getByLabel("When").fill("2099-01-04T09:30");
  await button("Create").click();
  await tab.getByRole("alert").filter({ hasText: "must be 1 to 200 characters" }).waitFor();
  assert.equal(await tab.getByLabel("Name").getAttribute("aria-invalid"), "true");
  assert.equal(await tab.getByLabel("When").inputValue(), "2099-01-04T09:30", "what was written stays");
  await audit(tab, "field");
  await tab.getByLabel("Name").fill("Tea");
  await button("Create").click();
  await tab.getByText("Created").waitFor();
  await card("Tea").getByText("Sunday, 4 January 2099 at 09:30").waitFor();
  assert.equal(await tab.getByLabel("Name").inputValue(), "");

  await tab.getByText("Past events").click();
  await card("Walk 20").waitFor();
  assert.equal(await card("Walk 21").count(), 0);
  assert.equal(await card("Walk 20").getByRole("button").count(), 0);
  await button("Load more").click();
  await card("Walk 21").waitFor();
  assert.equal(await button("Load more").count(), 0);
  await tab.getByText("Past events").click();

  // The service goes away and comes back, under a page that is open and under one that opens.
  await service.stop();
  await tab.getByText("offline since").waitFor();
  await card("Tea").waitFor();
  await card("Boat trip").getByRole("button", { name: "Join" }).click();
  await card("Boat trip").getByRole("alert").waitFor();
  await audit(tab, "away");
  await tab.reload();
  await tab.getByText("is not the service's").waitFor();
  let keptOut; // a user
  const owner = await startOwner((user) => user !== keptOut);
  t.after(owner.stop);
  await appendFile(join(page, ".worldevents/.env"), `WORLD_ACCESS_URL=${owner.url}\n`);
  service = await serve("api", ports[0]);
  await card("Tea").waitFor();
  await tab.getByText("live since").waitFor();

  const elsewhere = await signIn("alice");
  const everywhere = new URLSearchParams({ everywhere: "true" });
  await elsewhere(`${service.address}/sign-out`, { method: "POST", headers: { Origin: service.address }, body: everywhere });
  const ended = tab.getByRole("link", { name: "Sign in" });
  await Promise.any([card("Boat trip").getByRole("button", { name: "Join" }).click(), ended.waitFor()]); // the list may be faster
  await ended.waitFor();
  assert.equal(await tab.getByRole("article").count(), 0, "no event is left on the page");

  // The next user sees what is theirs.
  await signInAs("alice");
  await button("Sign out").click();
  await tab.getByRole("link", { name: "Sign in" }).waitFor();
  await signInAs("carol");
  await card("Boat trip").getByRole("button", { name: "Leave" }).waitFor();

  keptOut = "carol";
  await create(others[0], { name: "Secret", scheduledAt: "2099-01-02T20:04:00Z" });
  await tab.getByText("This world is private: ").waitFor();
  assert.equal(await tab.getByRole("article").count(), 0);
  await audit(tab, "private");
  assert.deepEqual(errors, []);
});

/** Signs a user in by the form, and returns a fetch with the cookies. */
async function signIn(username) {
  const call = fetchWithCookies();
  const response = await call(`${service.address}/sign-in`, {
    method: "POST", redirect: "manual", headers: { Origin: service.address }, body: new URLSearchParams({ username, return_to: "/docs" }),
  });
  assert.equal(response.status, 303);
  return call;
}

async function create(call, event) {
  const response = await call(`${service.address}/api/event/plaza`, {
    method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify({ description: "", ...event }),
  });
  assert.equal(response.status, 200, await response.text());
  return response.headers.get("Event-Id");
}

async function rsvps(call, id) {
  const { events } = await (await call(`${service.address}/api/event/plaza`)).json();
  return JSON.stringify(events.find((event) => event.id === id).RSVPs);
}

async function audit(tab, name) {
  await tab.evaluate(axe);
  for (const [colorScheme, width, height] of [["light", 1440, 900], ["dark", 1440, 900], ["dark", 390, 844], ["light", 390, 844]]) {
    await tab.emulateMedia({ colorScheme });
    await tab.setViewportSize({ width, height });
    const where = `example-${name}-${colorScheme}-${width}`;
    if (process.env.SCREENSHOTS) await tab.screenshot({ path: join(process.env.SCREENSHOTS, `${where}.png`) });
    const { violations } = await tab.evaluate(() => axe.run());
    assert.deepEqual(violations.map(({ id, nodes }) => [id, nodes.map(({ html }) => html)]), [], where);
    assert.ok(await tab.evaluate(() => document.documentElement.scrollWidth <= innerWidth), `${where} is wider than the window`);
  }
}
