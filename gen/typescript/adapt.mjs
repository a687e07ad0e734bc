// Changes what the generator has made where it has no option for it, as the last step of `make generate`.
import { readFileSync, writeFileSync } from "node:fs";

/** Replaces what is in a file of src/api. A new version of the generator may write it in another way: then this fails. */
function change(file, ...changes) {
  const path = new URL(`src/api/${file}`, import.meta.url);
  let text = readFileSync(path, "utf8");
  for (const [pattern, replacement] of changes) {
    if (!pattern.test(text)) throw new Error(`${file} has no ${pattern}`);
    text = text.replace(pattern, replacement);
  }
  writeFileSync(path, text);
}

// Options may be undefined where they may be left out.
change("sdk.gen.ts",
  [/(export type Options<.*> = )(Options2<[^]*?\n\});/, "$1OrUndefined<$2>;"],
  [/^import /m, "import type { OrUndefined } from '../options.js';\nimport "],
);
