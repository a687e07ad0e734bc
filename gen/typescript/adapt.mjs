// Changes what the generator has made where it has no option for it, as the last step of `make generate`.
import { readFileSync, rmSync, writeFileSync } from "node:fs";

const at = (file) => new URL(`src/api/${file}`, import.meta.url);

/** Replaces what is in a file of src/api. A new version of the generator may write it in another way: then this fails. */
function change(file, ...changes) {
  let text = readFileSync(at(file), "utf8");
  for (const [pattern, replacement] of changes) {
    if (!pattern.test(text)) throw new Error(`${file} has no ${pattern}`);
    text = text.replace(pattern, replacement);
  }
  writeFileSync(at(file), text);
}

// Options may be undefined where they may be left out.
change("sdk.gen.ts",
  [/(export type Options<.*> = )(Options2<[^]*?\n\});/, "$1OrUndefined<$2>;"],
  [/^import /m, "import type { OrUndefined } from '../options.js';\nimport "],
);

// The service has no server-sent events, and what reads them would be an eighth of a bundle.
rmSync(at("core/serverSentEvents.gen.ts"));
change("client/client.gen.ts",
  [/import \{ createSseClient \}.*\n/, ""],
  [/  const makeSseFn = [^]*?\n  };\n\n/, ""],
  [/    sse: \{\n[^]*?\n    \},\n/, ""],
  // Deno's Request has an option `client`, too, and throws where that is another one's.
  [/new Request\(url, requestInit\)/, "new Request(url, { ...requestInit, client: undefined } as RequestInit)"],
);
change("client/types.gen.ts",
  [/import type \{\n  ServerSentEventsOptions,\n[^]*?;\n/, ""],
  [/,\n    Pick<\n      ServerSentEventsOptions<TData>,\n[^]*?\n    >/, ""],
  [/type SseFn = <\n[^]*?;\n\n/, ""],
  [/, SseFn>/, ">"],
);
change("client/index.ts", [/export type \{ ServerSentEventsResult \}.*\n/, ""]);

// The session is in cookies, so no call has a token of its own to send.
rmSync(at("core/auth.gen.ts"));
change("client/client.gen.ts", [/  setAuthParams,\n/, ""], [/    if \(opts\.security\) \{\n[^]*?\n    \}\n\n/, ""]);
change("client/utils.gen.ts",
  [/import \{ getAuthToken \}.*\n/, ""],
  [/const checkForExistence = [^]*?\n\};\n\n/, ""],
  [/export async function setAuthParams[^]*?\n\}\n\n/, ""],
);
change("client/types.gen.ts", [/import type \{ Auth \}.*\n/, ""], [/  \/\*\*\n   \* Security mechanism[^]*?ReadonlyArray<Auth>;\n/, ""]);
change("client/index.ts", [/export type \{ Auth \}.*\n/, ""]);
change("core/types.gen.ts", [/import type \{ Auth, AuthToken \}.*\n/, ""], [/  \/\*\*\n   \* Auth token or a function[^]*?AuthToken;\n/, ""]);

// The contract has neither lists nor objects in paths and queries, and what writes them would be a tenth of a bundle.
change("client/utils.gen.ts",
  [/  serializeArrayParam,\n  serializeObjectParam,\n/, ""],
  [/        if \(Array\.isArray\(value\)\) \{\n[^]*?\n        \} else \{\n([^]*?)\n        \}\n/, "$1\n"],
);
change("core/utils.gen.ts",
  [/import \{\n  type ArraySeparatorStyle,[^]*?;\n/, ""],
  [/      let explode = false;\n      let name = ([^]*?;\n)[^]*?(?=\n      const value)/, "      const name = $1"],
  [/      if \(Array\.isArray\(value\)\) \{[^]*?(?=      const replaceValue)/, ""],
  [/encodeURIComponent\(\n[^]*?\n      \);/, "encodeURIComponent(value as string);"],
);
