// Packs the launcher for npm, the same to the byte whoever packs it: `worldevents`, and for each PROGRAM a package that has it,
// which npm installs on its machine alone. The program must be there before; OS and ARCH are Go's names.
//   node gen/launcher/pack.mjs FOLDER OS/ARCH=PROGRAM…
import { execFileSync } from "node:child_process";
import { chmodSync, copyFileSync, cpSync, mkdirSync, mkdtempSync, readFileSync, renameSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { basename, join, resolve } from "node:path";

/**
 * The owner's scope on npm, and this is the one place that names it. Until the owner puts in one that is claimed it is a
 * name that nobody can claim: npm takes no new ones with capital letters. So nobody else's package can come in its place.
 */
const scope = "@OWNER";

const machines = ["linux-x64", "linux-arm64", "darwin-x64", "darwin-arm64"];

process.umask(0o022); // modes are in the packages
const here = import.meta.dirname;
const read = (path) => JSON.parse(readFileSync(join(here, path), "utf8"));
const { version } = read("../typescript/package.json");
const [folder, ...programs] = process.argv.slice(2);

const launcher = read("package.json");
pack({
  ...launcher, version,
  optionalDependencies: Object.fromEntries(machines.map((machine) => [`${scope}/worldevents-${machine}`, version])),
}, (stage) => {
  cpSync(join(here, "src"), join(stage, "src"), { recursive: true });
  chmodSync(join(stage, "src/cli.js"), 0o755);
  copyFileSync(join(here, "README.md"), join(stage, "README.md"));
  copyFileSync(join(here, "../../.env.example"), join(stage, "env.example"));
});

for (const program of programs) {
  const [, os, arch, path] = program.match(/^(\w+)\/(\w+)=(.+)$/);
  const cpu = arch === "amd64" ? "x64" : arch;
  const machine = `${os}-${cpu}`;
  if (!machines.includes(machine)) throw new Error(`no launcher looks for ${machine}`);
  pack({
    name: `${scope}/worldevents-${machine}`, version,
    description: `The program of the package worldevents for ${os} on ${cpu}`,
    os: [os], cpu: [cpu], files: ["bin"], preferUnplugged: true,
  }, (stage) => {
    mkdirSync(join(stage, "bin"));
    copyFileSync(path, join(stage, "bin/worldevents"));
    chmodSync(join(stage, "bin/worldevents"), 0o755);
  });
}

/** Packs what `fill` puts into a folder, as NAME-VERSION.tgz without the scope. */
function pack(manifest, fill) {
  const stage = mkdtempSync(join(tmpdir(), "worldevents-pack-"));
  try {
    writeFileSync(join(stage, "package.json"), `${JSON.stringify(manifest, null, 2)}\n`);
    fill(stage);
    execFileSync("npm", ["pack", "--silent", "--ignore-scripts", "--pack-destination", resolve(folder)], { cwd: stage, stdio: ["ignore", "ignore", "inherit"] });
    const packed = `${manifest.name.replace("@", "").replace("/", "-")}-${version}.tgz`;
    renameSync(join(folder, packed), join(folder, `${basename(manifest.name)}-${version}.tgz`));
  } finally {
    rmSync(stage, { recursive: true });
  }
}
