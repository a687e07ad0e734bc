// The client's hooks and options in Vue and Svelte: type-checked, and rendered on a server with what the service has said.
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
  test(`${name} renders the user, a list and its pages where they are known, and asks for none`, async () => {
    const { connect, createEvent, eventPagesOptions, eventsOptions, QueryClient, render, sessionOptions } = await load(framework);
    let calls = 0;
    const send = fetchWithCookies(await service.issue("alice"));
    connect({ baseUrl: service.address, fetch: (...call) => (calls++, send(...call)) });
    for (const [i, name] of ["One", "Two"].entries()) {
      await createEvent({ path: { id: framework }, body: { name, description: "", scheduledAt: `2030-01-0${i + 1}T03:04:05Z` } });
    }
    const queries = new QueryClient({ defaultOptions: { queries: { staleTime: Infinity } } });
    await queries.prefetchQuery(sessionOptions());
    await queries.prefetchQuery(eventsOptions(framework));
    await queries.prefetchInfiniteQuery(eventPagesOptions(framework, { limit: 1 }));
    calls = 0;
    assert.match(await render(queries, framework), /alice: One,Two; One; connecting</);
    queries.removeQueries({ queryKey: eventsOptions(framework).queryKey });
    assert.match(await render(queries, framework), /alice: undefined; One; connecting|alice: ; One; connecting/);
    queries.removeQueries({ queryKey: sessionOptions().queryKey });
    await render(queries, framework);
    assert.equal(calls, 0);
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
    alias: {
      [`worldevents-client/${framework}`]: `${client}/${framework}.js`, "worldevents-client/query": `${client}/query.js`, "worldevents-client": `${client}/index.js`,
      "@tanstack/svelte-query": `${import.meta.dirname}/node_modules/@tanstack/svelte-query/dist/index.js`, // one for the client and the page
    },
  });
  return import(`./${outfile}`);
}
