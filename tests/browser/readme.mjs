// The code of the client's README, and of other pages, for tests that do what they say.
import { mkdir, readFile, writeFile } from "node:fs/promises";
import { dirname, join } from "node:path";

const repository = join(import.meta.dirname, "../..");

/** What stands in code fences under a heading: shell commands, and files by the path in the comment of their first line. */
export async function readme(heading, page = "gen/typescript/README.md") {
  const text = await readFile(join(repository, page), "utf8");
  const [, section] = text.split(`\n## ${heading}\n`);
  if (!section) throw new Error(`${page} has no section ${heading}`);
  const commands = [];
  const files = {};
  for (const [, language, code] of section.split("\n## ")[0].matchAll(/^```(\w+)\n(.*?)^```/gms)) {
    const path = code.match(/^(?:\/\/|<!--) ([\w./+-]+\.\w+)/)?.[1];
    if (path) files[path] = code;
    else if (language === "sh") commands.push(...code.split("\n").filter(Boolean));
  }
  return { commands, files };
}

/** Writes files into a folder. */
export async function writeFiles(folder, files) {
  for (const [path, text] of Object.entries(files)) {
    await mkdir(dirname(join(folder, path)), { recursive: true });
    await writeFile(join(folder, path), text);
  }
}
