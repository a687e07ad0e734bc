// The client's types: under exactOptionalPropertyTypes, with which what may be absent is not what may be undefined, and as editors show them.
import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { test } from "node:test";
import { promisify } from "node:util";
import ts from "typescript";

process.chdir(import.meta.dirname);

test("undefined is taken wherever absence is", async () => {
  const { stdout } = await promisify(execFile)("node_modules/.bin/tsc", ["-p", "exact"]).catch((error) => error);
  assert.equal(stdout, "");
});

test("an editor shows what the hooks return as names", () => {
  const { options } = ts.getParsedCommandLineOfConfigFile("frameworks/tsconfig.json", {}, ts.sys);
  const program = ts.createProgram(["exact/program.ts", "frameworks/svelte.ts", "frameworks/vue.ts"], options);
  for (const file of program.getRootFileNames()) {
    const shown = {};
    const visit = (node) => {
      const name = ts.isCallExpression(node) && node.expression.getText();
      const checker = program.getTypeChecker();
      if (/^use(Session|Events|EventPages|CreateEvent|Join|Leave)$/.test(name)) shown[name] = checker.typeToString(checker.getTypeAtLocation(node));
      ts.forEachChild(node, visit);
    };
    visit(program.getSourceFile(file));
    assert.equal(shown.useEvents, "LiveEvents", file);
    assert.equal(Object.keys(shown).length, 6, file);
    for (const [hook, type] of Object.entries(shown)) assert.match(type, /^(Live|Use|Create)\w+(<[\w ,|[\]]+>)?$/, hook);
  }
});
