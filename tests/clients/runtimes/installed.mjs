// The runtimes that tests/clients/package.json names, for Linux on x64. Elsewhere they are not installed.
import { existsSync } from "node:fs";
import { join } from "node:path";

const packages = join(import.meta.dirname, "../node_modules");

export const node24 = join(packages, "node-24/bin/node");
export const node26 = join(packages, "node-26/bin/node");
export const bun = join(packages, "@oven/bun-linux-x64-baseline/bin/bun");
export const deno = join(packages, "@deno/linux-x64-glibc/deno");
export const workerd = join(packages, "@cloudflare/workerd-linux-64/bin/workerd");

/** Why a test is skipped that needs the program, if it is. With CI=true it is not. */
export const skipWithout = (program) => !existsSync(program) && process.env.CI !== "true" && `${program} is not installed`;
