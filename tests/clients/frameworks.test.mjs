// The client's options for TanStack Query in Vue and Svelte: type-checked, and rendered with what the service has said.
import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { readFile } from "node:fs/promises";
import { after, before, test } from "node:test";
import { promisify } from "node:util";
import { build } from "esbuild";
import { compile, compileModule } from "svelte/compiler";
import { fetchWithCookies, startService } from "../browser/service.mjs";

process.chdir(import.meta.dirname);

const client = `${import.meta.dirname}/../../gen/typescript/dist`;
let service;

before(async () => (service = await startService()));
after(() => service?.stop());

test("it type-checks", async () => {
  const { stdout } = await promisify(execFile)("node_modules/.bin/tsc", ["-p", "frameworks"]).catch((error) => error);
  assert.equal(stdout, "");
});

for (const [name, framework] of [["Vue", "vue"], ["Svelte", "svelte"]]) {
  test(`${name} renders the user, a list and its pages`, async () => {
    const { connect, createEvent, eventPagesOptions, eventsOptions, QueryClient, render, sessionOptions } = await load(framework);
    connect({ baseUrl: service.address, fetch: fetchWithCookies(await service.issue("alice")) });
    for (const [i, name] of ["One", "Two"].entries()) {
      await createEvent({ path: { id: framework }, body: { name, description: "", scheduledAt: `2030-01-0${i + 1}T03:04:05Z` } });
    }
    const queries = new QueryClient();
    await queries.prefetchQuery(sessionOptions());
    await queries.prefetchQuery(eventsOptions(framework));
    await queries.prefetchInfiniteQuery(eventPagesOptions(framework, { limit: 1 }));
    assert.match(await render(queries, framework), /alice: One,Two; One</);
    queries.clear();
  });
}

const server = {
  name: "svelte on a server",
  setup(build) {
    const code = (compiled) => ({ contents: compiled.js.code });
    build.onLoad({ filter: /\.svelte$/ }, async ({ path }) => code(compile(await readFile(path, "utf8"), { generate: "server", filename: path })));
    build.onLoad({ filter: /\.svelte\.js$/ }, async ({ path }) => code(compileModule(await readFile(path, "utf8"), { generate: "server", filename: path })));
  },
};

/** A framework's QueryClient and how it renders queries, with the client that its component uses. */
async function load(framework) {
  const outfile = `node_modules/.frameworks/${framework}.mjs`; // beside the packages that it imports
  await build({
    entryPoints: [`frameworks/${framework}-page.ts`], bundle: true, format: "esm", platform: "node", outfile, plugins: [server],
    external: ["svelte", "svelte/*", "vue", "vue/*", "@tanstack/vue-query"], conditions: ["svelte"], logLevel: "warning",
    alias: { "worldevents-client/query": `${client}/query.js`, "worldevents-client": `${client}/index.js` },
  });
  return import(`./${outfile}`);
}
