// The program in Node, Bun and Deno: main.mjs BASE_URL COOKIE WORLD prints what it tells.
import process from "node:process";
import { run } from "./program.mjs";

console.log(JSON.stringify(await run(...process.argv.slice(2))));
