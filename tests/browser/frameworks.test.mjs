// worldevents-client/vue and worldevents-client/svelte in Chromium: an app with a component, against the real service.
import assert from "node:assert/strict";
import { cp, mkdtemp, readFile, rm, symlink } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, afterEach, before, describe, test } from "node:test";
import { build } from "esbuild";
import { compile, compileModule } from "svelte/compiler";
import { compileScript, parse } from "vue/compiler-sfc";
import { becomes, openProfile, startEngine } from "./engines.mjs";
import { startFront } from "./front.mjs";
import { eventually, fetchWithCookies, startOwner, startService } from "./service.mjs";

const here = import.meta.dirname;
let folder;

const vue = {
  name: "vue",
  setup: (build) => build.onLoad({ filter: /\.vue$/ }, async ({ path }) => ({
    contents: compileScript(parse(await readFile(path, "utf8"), { filename: path }).descriptor, { id: path, inlineTemplate: true }).content, loader: "ts",
  })),
};

const svelte = {
  name: "svelte",
  setup(build) {
    const load = (filter, compile) => build.onLoad({ filter }, async ({ path }) => (
      { contents: compile(await readFile(path, "utf8"), { generate: "client", dev: true, filename: path }).js.code }));
    load(/\.svelte$/, compile);
    load(/\.svelte\.js$/, compileModule);
  },
};

const frameworks = { vue, svelte };

before(async () => {
  folder = await mkdtemp(join(tmpdir(), "worldevents-frameworks-"));
  await symlink(join(here, "node_modules"), join(folder, "node_modules")); // one framework for the client and the app, as in an installed package
  await cp(join(here, "../../gen/typescript/dist"), join(folder, "client"), { recursive: true });
  await Promise.all(Object.entries(frameworks).map(async ([name, plugin]) => {
    await cp(join(here, name), join(folder, name), { recursive: true });
    await build({
      entryPoints: [join(folder, name, "app.js")], outfile: join(folder, "out", `${name}.js`), bundle: true, format: "esm", logLevel: "warning", plugins: [plugin],
      conditions: ["svelte", "development"],
      alias: { [`worldevents-client/${name}`]: join(folder, "client", `${name}.js`), "worldevents-client": join(folder, "client/index.js") },
      define: {
        "process.env.NODE_ENV": '"development"', __VUE_OPTIONS_API__: "true", __VUE_PROD_DEVTOOLS__: "false", __VUE_PROD_HYDRATION_MISMATCH_DETAILS__: "false",
      },
    });
  }));
});
after(() => folder && rm(folder, { recursive: true }));

/** Waits until an element of the page has this text, which may go on where it ends in "…"; with `gone` until none has. */
const shows = (tab, text, gone = false) => becomes(tab, (text, gone) => {
  const texts = [...document.querySelectorAll("#app *")].map(({ textContent }) => textContent.replace(/\s+/g, " ").trim());
  return texts.some((found) => text.endsWith("…") ? found.startsWith(text.slice(0, -1)) : found === text) !== gone;
}, text, gone);

const press = (tab, text) => tab.evaluate((text) => {
  [...document.querySelectorAll("a, button")].find(({ textContent }) => textContent.trim().startsWith(text)).click();
}, text);

const fill = (tab, label, value) => tab.evaluate((label, value) => {
  const input = document.querySelector(`[aria-label="${label}"]`);
  input.value = value;
  input.dispatchEvent(new Event("input", { bubbles: true }));
}, label, value);

describe("in Chromium", () => {
  let owner, service, front, browser, profile, page;
  let keptOut; // a user
  let hold = () => {};
  const asked = []; // for lists: of which world, and whether the call waits and from which list on
  const open = new Set(); // the calls for lists that are under way
  const errors = [];

  before(async () => {
    owner = await startOwner((user) => user !== keptOut);
    service = await startService({ SESSIONS_PER_USER: "10", WORLD_ACCESS_URL: owner.url });
    front = await startFront(service.address, {
      pages: { "/out/": join(folder, "out") }, render: () => page, hold: (...call) => hold(...call),
      arrive({ method, url, headers }, response) {
        const world = method === "GET" && url.match(/^\/api\/event\/(\w+)/)?.[1];
        if (!world) return;
        asked.push(`${world} ${url.includes("wait=") ? `waits from ${headers["if-none-match"]}` : "reads"}`);
        open.add(response.on("close", () => open.delete(response)));
      },
    });
    browser = await startEngine("chrome");
    profile = await openProfile(browser, undefined, `http://localhost:${front.port}`);
  });
  after(async () => {
    await browser?.close();
    await front?.stop();
    await service?.stop();
    owner?.stop();
  });
  afterEach(() => {
    keptOut = undefined;
    hold = () => {};
    assert.deepEqual(errors.splice(0), []);
  });

  async function openTab(path = "/") {
    const [tab] = await profile.openTabs([path]);
    if (tab.listenerCount("pageerror") > 0) return tab; // it has been one of the framework before
    tab.on("pageerror", (error) => errors.push(error.message));
    tab.on("console", (message) => /Vue warn|svelte/i.test(message.text()) && errors.push(message.text()));
    return tab;
  }

  for (const framework of Object.keys(frameworks)) describe(framework, () => {
    const [world, otherWorld] = [`${framework}Plaza`, `${framework}Harbour`];
    let bob, id, tab;

    before(async () => {
      page = `<!doctype html><html lang="en"><title>Events</title><link rel="icon" href="data:,">
        <div id="app"></div><script type="module" src="/out/${framework}.js"></script>`;
      await profile.clear();
      asked.splice(0);
      bob = fetchWithCookies(await service.issue("bob"));
      id = await service.create(bob, world, { name: "Rooftop concert" });
      await service.create(bob, otherWorld, { name: "Regatta" });
      tab = await openTab();
    });

    test("a list is read once, and then waits for what changes, also of another world", async () => {
      let etag;
      hold = ({ method, url }, { headers }) => {
        if (method === "GET" && url.startsWith(`/api/event/${world}`)) etag ??= headers.etag;
      };
      await shows(tab, "Sign in");
      await Promise.all([tab.waitForNavigation(), press(tab, "Sign in")]);
      await tab.type("input[name=username]", "alice");
      await Promise.all([tab.waitForNavigation(), tab.keyboard.press("Enter")]);
      await shows(tab, "Rooftop concert: bob");
      await eventually("it waits", () => asked.length > 1);
      assert.deepEqual(asked.splice(0), [`${world} reads`, `${world} waits from ${etag}`]);
      await shows(tab, "connecting since …", true);
      await bob(`${service.address}/api/event/${id}`, { method: "DELETE" });
      await shows(tab, "Rooftop concert:");
      await bob(`${service.address}/api/event/join/${id}`, { method: "POST" });
      await shows(tab, "Rooftop concert: bob");
      await press(tab, "Move");
      await shows(tab, "Regatta: bob");
      await eventually("it waits for the other world alone", () => open.size === 1 && asked.at(-1).startsWith(`${otherWorld} waits`));
      await press(tab, "Move");
      await shows(tab, "Rooftop concert: bob");
    });

    test("a component that has gone asks for nothing, and shows the latest when it comes back", async () => {
      await eventually("it waits", () => open.size === 1 && asked.at(-1).startsWith(`${world} waits`));
      await press(tab, "Hide");
      await eventually("nothing waits", () => open.size === 0);
      const before = asked.length;
      await service.create(bob, world, { name: "Boat trip" });
      await tab.evaluate(() => fetch("/api/auth/session")); // whatever that has set off has arrived
      assert.equal(asked.length, before);
      await press(tab, "Show");
      await shows(tab, "Boat trip: bob");
    });

    test("it says that it is offline, and no longer once it is live", async () => {
      hold = (request, answer) => {
        if (request.url.startsWith("/api/event/")) answer.statusCode = 502;
      };
      await service.create(bob, world, { name: "Picnic" }); // ends the call that waits
      await shows(tab, "offline since …");
      hold = () => {};
      await shows(tab, "Picnic: bob");
      await shows(tab, "offline since …", true);
    });

    test("a page that is opened while the service is away says so, and shows the list once it is back", async () => {
      let sessions = 0;
      hold = ({ url }, answer) => {
        sessions += url === "/api/auth/session";
        answer.statusCode = 502;
      };
      await tab.reload();
      await shows(tab, "A response with the status 502 is not the service's");
      await eventually("it asks on", () => sessions > 3);
      hold = () => {};
      await shows(tab, "Picnic: bob");
    });

    test("creating has messages for fields, and a join shows at once, and no longer when it fails", async () => {
      await press(tab, "Create");
      await shows(tab, "must be 1 to 200 characters…");
      await fill(tab, "Name", "Karaoke");
      await press(tab, "Create");
      await shows(tab, "Created");
      await shows(tab, "Karaoke: alice");
      let answers = 0;
      hold = ({ method, url }, answer) => {
        if (method === "POST" && url === `/api/event/${world}` && !answers++) answer.statusCode = 502; // the event is there
      };
      for (const says of ["A response with the status 502 is not the service's", "Created"]) {
        await fill(tab, "Name", "Quiz");
        await press(tab, "Create");
        await shows(tab, says);
      }
      const { events } = await (await bob(`${service.address}/api/event/${world}`)).json();
      assert.equal(events.filter(({ name }) => name === "Quiz").length, 1);
      let release;
      const released = new Promise((resolve) => (release = resolve));
      hold = async (request, answer) => {
        const joins = request.url.startsWith("/api/event/join/");
        if (joins) await released;
        answer.statusCode = joins ? 500 : 502; // so that no list says how it is
      };
      await press(tab, "Rooftop concert");
      await shows(tab, "Rooftop concert: bob, alice");
      await fetchWithCookies(await service.issue("alice"))(`${service.address}/api/event/${id}`, { method: "DELETE" });
      release();
      await shows(tab, "Rooftop concert: bob");
    });

    test("whoever is put out of a world sees why, and no list, and asks once for each page", async () => {
      await shows(tab, "Rooftop concert: bob");
      await eventually("it waits", () => open.size === 1 && asked.at(-1).startsWith(`${world} waits`));
      keptOut = "alice";
      await service.create(bob, world, { name: "Secret" });
      const why = "The owner of this world does not let you do this";
      await shows(tab, why);
      await shows(tab, "Rooftop concert…", true);
      asked.splice(0);
      await new Promise((next) => setTimeout(next, 2_000));
      assert.deepEqual([asked.splice(0), open.size], [[], 0]);
      await tab.reload();
      await shows(tab, why);
      await new Promise((next) => setTimeout(next, 2_000));
      assert.deepEqual(asked.splice(0), [`${world} reads`]);
      keptOut = undefined;
      await tab.reload();
      await shows(tab, "Secret: bob");
    });

    test("two tabs are live, and signing out in one forgets the list of both", async () => {
      const tabs = [tab, await openTab("/?another-page")];
      for (const each of tabs) await shows(each, "Rooftop concert: bob");
      await press(tab, "Rooftop concert");
      for (const each of tabs) await shows(each, "Rooftop concert: bob, alice");
      await fill(tab, "Id", id);
      await press(tab, "Leave");
      for (const each of tabs) await shows(each, "Rooftop concert: bob");
      let release;
      const released = new Promise((resolve) => (release = resolve));
      hold = ({ url }) => url.startsWith("/api/event/") && released; // the tabs tell each other, before the service does
      await press(tabs[1], "Sign out");
      for (const each of tabs) {
        await shows(each, "Sign in");
        await shows(each, "Rooftop concert…", true);
      }
      release();
      await eventually("nothing waits", () => open.size === 0);
    });
  });
});
