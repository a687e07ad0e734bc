// Keeps the folder of a project's world: its settings with a key of its own, its database, and who serves it.
import { randomBytes, randomUUID } from "node:crypto";
import { once } from "node:events";
import { rmSync } from "node:fs";
import { lstat, mkdir, readdir, readFile, rename, rm, writeFile } from "node:fs/promises";
import net from "node:net";
import { join, resolve } from "node:path";

/** The folder, which is the working directory of the program. */
export const folder = resolve(".worldevents");

/** The settings that make it a world for development, in this folder, whatever stands in its file .env. */
export const settings = { APP_ENV: "development", DATABASE_URL: "sqlite:worldevents.db", ADMIN_ADDR: "" };

/** Makes the folder, for its owner alone and for no repository. It throws where a link would have other files written. */
export async function makeFolder() {
  await mkdir(folder, { recursive: true, mode: 0o700 });
  for (const path of [folder, ...(await readdir(folder)).map((name) => join(folder, name))]) {
    if ((await lstat(path)).isSymbolicLink()) throw new Error(`${path} is a link: remove it, or start in another folder`);
  }
  await writeOnce(".gitignore", "*\n");
}

/** Writes the file .env of the service's example with a fresh key, unless there is one. */
export async function writeSettings() {
  const example = await readFile(new URL("../env.example", import.meta.url), "utf8");
  await writeOnce(".env", example.replace(/^JWT_SECRET=$/m, `JWT_SECRET=${randomBytes(32).toString("hex")}`));
}

/** Removes the database. The next start makes a new one. */
export async function removeWorld() {
  for (const end of ["", "-wal", "-shm"]) await rm(join(folder, `worldevents.db${end}`), { force: true });
}

/** Writes a file that is not there, in one step: what is there is whole. */
async function writeOnce(name, text) {
  if ((await readdir(folder)).includes(name)) return;
  await rm(join(folder, `${name}.new`), { force: true }); // left of a process that was killed
  await writeFile(join(folder, `${name}.new`), text, { mode: 0o600, flag: "wx" }); // which follows no link (open(2), O_EXCL)
  await rename(join(folder, `${name}.new`), join(folder, name));
}

/**
 * Keeps other launchers out of the folder, for a service at `url`, until the function is called that it returns, or the process
 * ends, however that happens. It throws when another one is in.
 *
 * Each listens on a port of its own, which a file running-PORT-ID names, before it looks for the files of others. So of two at least one
 * sees the other. A file whose port does not say its id is left of a process that was killed.
 */
export async function claim(url) {
  const id = randomUUID();
  const server = net.createServer((socket) => socket.on("error", () => {}).end(`${id} ${url}`)).listen(0, "127.0.0.1");
  await once(server, "listening");
  const file = `running-${server.address().port}-${id}`;
  const release = () => {
    rmSync(join(folder, file), { force: true });
    server.close();
  };
  try {
    await writeFile(join(folder, file), "", { flag: "wx" });
    for (const other of await readdir(folder)) {
      const [, port, otherId] = other.match(/^running-(\d+)-(.+)$/) ?? [];
      if (!port || other === file) continue;
      const [saidId, otherUrl] = (await ask(Number(port))).split(" ");
      if (saidId === otherId) throw new Error(`${folder} is in use by the one at ${otherUrl}: end it, or start this one in another folder`);
      await rm(join(folder, other), { force: true });
    }
  } catch (error) {
    release();
    throw error;
  }
  return release;
}

/** What a port of this machine says to whoever connects, or "" where it says nothing for a second. */
function ask(port) {
  return new Promise((resolve) => {
    let said = "";
    net.connect(port, "127.0.0.1")
      .setTimeout(1000, function () { this.destroy(); })
      .on("data", (text) => { said += text; })
      .on("error", () => {})
      .on("close", () => resolve(said));
  });
}
