// The commands and files of the README's "Its core", exactly: they make a page that lists and joins.
import assert from "node:assert/strict";
import { execFile, spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, before, test } from "node:test";
import { promisify } from "node:util";
import { openWindow, startChromium } from "./chromium.mjs";
import { readme, writeFiles } from "./readme.mjs";
import { eventually, fetchWithCookies, freePort, isServed, startService } from "./service.mjs";

const repository = join(import.meta.dirname, "../..");
let browser, service, folder, page;

before(async () => {
  browser = await startChromium();
  service = await startService({ BASE_URL: "" });
  folder = await mkdtemp(join(tmpdir(), "worldevents-quickstart-"));
  const { commands, files } = await readme("Its core");
  const script = commands.join("\n").replaceAll("../vendor/", `${repository}/bin/`);
  await promisify(execFile)("sh", ["-ec", script], { cwd: folder });
  page = join(folder, "my-page");
  for (const path of Object.keys(files)) files[path] = files[path].replaceAll("http://localhost:8080", service.address);
  await writeFiles(page, files);
});
after(async () => {
  await browser?.close();
  await service?.stop();
  if (folder) await rm(folder, { recursive: true, maxRetries: 5 });
});

test("it type-checks and builds", () => promisify(execFile)("npm", ["run", "build"], { cwd: page }));

for (const command of ["dev", "preview"]) {
  test(`npm run ${command}: it signs in, lists live, joins and signs out`, async (t) => {
    const port = await freePort();
    const vite = spawn("npm", ["run", command, "--", "--port", port, "--strictPort"], { cwd: page, stdio: "ignore", detached: true });
    t.after(async () => {
      process.kill(-vite.pid);
      await once(vite, "exit");
    });
    await eventually("Vite serves", () => {
      assert.equal(vite.exitCode, null, "Vite has ended");
      return isServed(`http://localhost:${port}/`);
    });
    const bob = fetchWithCookies(await service.issue("bob"));
    const name = `Rooftop concert in ${command}`;
    await service.create(bob, "plaza", { name });

    const context = await openWindow(browser);
    t.after(() => context.close());
    const tab = await context.newPage();
    const errors = [];
    tab.on("pageerror", (error) => errors.push(error.message));
    await tab.goto(`http://localhost:${port}/`);
    await tab.getByRole("link", { name: "Sign in" }).click();
    await tab.getByLabel("Username").fill("alice");
    await tab.getByRole("button", { name: "Sign in" }).click();
    await tab.getByText("Signed in as alice").waitFor();
    await tab.getByRole("button", { name: `${name}: 1`, exact: true }).click();
    await tab.getByRole("button", { name: `${name}: 2`, exact: true, disabled: true }).waitFor();
    await service.create(bob, "plaza", { name: `${name}, too` });
    await tab.getByRole("button", { name: `${name}, too: 1`, exact: true }).waitFor();
    await tab.getByRole("button", { name: "Sign out" }).click();
    await tab.getByRole("link", { name: "Sign in" }).waitFor();
    assert.deepEqual(errors, []);
  });
}
