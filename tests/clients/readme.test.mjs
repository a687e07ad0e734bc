// The code of the client's README and pages type-checks, with what they link to: each module in its place, and each fragment in a function
// that has what the page leaves out.
import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { glob, readFile } from "node:fs/promises";
import { extname, join } from "node:path";
import { test } from "node:test";
import { promisify } from "node:util";
import ts from "typescript";
import * as client from "../../gen/typescript/dist/index.js";

process.chdir(import.meta.dirname);

const repository = join(import.meta.dirname, "../..");
const folder = join(import.meta.dirname, "readme"); // of files that are nowhere else

/** What fragments are about. */
const context = `
import type { LiveStatus, NewEvent, WorldEvent } from "worldevents-client";
declare const body: NewEvent, signal: AbortSignal, request: Request;
declare const render: (events: WorldEvent[]) => void, report: (error: Error) => void, show: (status: LiveStatus["status"], since: Date) => void, shell: () => void;
import { ${Object.keys(client)} } from "worldevents-client";
`;

/** What comes from frameworks that are not installed here: tests/guards and tests/browser build with them. */
const ambient = `
declare module "@sveltejs/kit" {
  type Handle = (input: { event: any; resolve: (event: unknown) => Promise<Response> }) => Promise<Response>;
  const redirect: (status: number, to: string) => never;
}
declare module "@vitejs/plugin-react";
declare module "h3";
declare module "next/headers";
declare module "next/server" {
  type NextRequest = Request & { nextUrl: URL };
  const NextResponse: any;
}
declare module "vite";
declare module "vitest";
declare const process: { env: Record<string, string | undefined> };
declare const defineNuxtRouteMiddleware: (middleware: (to: { fullPath: string }) => unknown) => unknown;
declare const useState: <T>(key: string) => { value: T }, useRequestEvent: () => any, useNuxtApp: () => { isHydrating: boolean };
declare const createError: (error: { status: number; statusText: string }) => Error, navigateTo: (to: string, options: { external: boolean }) => unknown;
interface ImportMeta { client: boolean }
`;

test("every snippet of the pages type-checks, and every file that they link to", async () => {
  const files = new Map([["ambient.d.ts", ambient]]);
  files.set("schema.ts", (await promisify(execFile)("node_modules/.bin/openapi-typescript", ["../../openapi.yaml"])).stdout);
  const linked = new Set();
  for await (const page of glob(["gen/typescript/README.md", "docs/typescript/*.md"], { cwd: repository })) {
    const text = await readFile(join(repository, page), "utf8");
    for (const [, language, code] of text.matchAll(/^```(tsx?)\n(.*?)^```/gms)) {
      files.set(...module(code.match(/^\/\/ ([\w./+-]+)/)?.[1] ?? `snippet-${files.size}.${language}`, code));
    }
    for (const [, path] of text.matchAll(/\]\(..\/..\/(tests\/[^)]*)\)/g)) linked.add(extname(path) ? path : `${path}/**/*.tsx`);
  }
  assert.ok(files.size > 8);
  for await (const path of glob([...linked], { cwd: repository })) {
    const code = await readFile(join(repository, path), "utf8");
    if (/\.tsx?$/.test(path) || /^<script .*lang="ts"/.test(code)) files.set(...module(path, code));
  }
  assert.ok(files.size > 17);

  const { options: { paths, pathsBasePath } } = ts.getParsedCommandLineOfConfigFile("frameworks/tsconfig.json", {}, ts.sys);
  const options = {
    paths, pathsBasePath, strict: true, noEmit: true, skipLibCheck: true, types: [], jsx: ts.JsxEmit.ReactJSX,
    target: ts.ScriptTarget.ES2022, module: ts.ModuleKind.ESNext, moduleResolution: ts.ModuleResolutionKind.Bundler,
  };
  const host = ts.createCompilerHost(options);
  const { readFile: read, fileExists: exists } = host;
  const written = new Map([...files].map(([name, code]) => [join(folder, name), code]));
  Object.assign(host, {
    readFile: (path) => written.get(path) ?? read(path), fileExists: (path) => written.has(path) || exists(path), directoryExists: undefined,
  });
  const program = ts.createProgram([...written.keys()], options, host);
  assert.equal(ts.formatDiagnostics(ts.getPreEmitDiagnostics(program), { ...host, getCurrentDirectory: () => folder }), "");
});

/** The name and the text of a file as TypeScript: of a Vue or Svelte component its script, which the browser tests run with its template. */
function module(name, code) {
  if (/(vue|svelte)$/.test(name)) return [`${name}.ts`, code.match(/<script.*?>(.*)<\/script>/s)[1]];
  return [name, /^(import|export) /m.test(code) ? code : `${context}\nexport async function fragment() {\n${code}\n}`];
}
