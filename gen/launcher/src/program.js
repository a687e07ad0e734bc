// Finds the program of the service for this machine, and runs it: signals are passed on to it, and its end is passed back.
import { spawn } from "node:child_process";
import { once } from "node:events";
import { createRequire } from "node:module";
import { dirname, join } from "node:path";

const require = createRequire(import.meta.url);

/** The package.json of this package, which names the packages of programs. */
export const own = require("../package.json");

/** The path of the program. It is in the package that npm has chosen by "os" and "cpu"; no script has installed it. */
export function findProgram() {
  const name = Object.keys(own.optionalDependencies).find((name) => name.endsWith(`-${process.platform}-${process.arch}`));
  if (!name) throw new Error(`there is no program for ${process.platform} on ${process.arch}: Linux and macOS have one, on x64 and arm64`);
  let path;
  try {
    path = require.resolve(`${name}/package.json`);
  } catch {
    throw new Error(`the package ${name} is not installed. It belongs to this machine, and npm leaves it out with --omit=optional`);
  }
  const { version } = require(path);
  if (version !== own.version) throw new Error(`the package ${name} has version ${version}, and this one ${own.version}: install both of one version`);
  return join(dirname(path), "bin/worldevents");
}

/**
 * How long SIGINT waits in a terminal before it is passed on, in milliseconds: as long as the service takes to stop at most. Ctrl-C
 * reaches the program, too, and a second signal would end it in the middle of a request.
 */
const terminalAlone = 10_000;

/**
 * Starts the program in a folder. `ended` resolves to how it has ended: `{ code }` or `{ signal }`. The program stays in the
 * process group of this process, so that whoever ends the group ends both.
 */
export function start(file, args, folder, env) {
  const child = spawn(file, args, { cwd: folder, env, stdio: "inherit" });
  const passOn = (signal) => {
    // SIGHUP means here that the terminal has closed. The service would read its secrets again, and go on.
    const passed = signal === "SIGHUP" ? "SIGTERM" : signal;
    setTimeout(() => child.kill(passed), signal === "SIGINT" && process.stdin.isTTY ? terminalAlone : 0).unref();
  };
  const signals = ["SIGINT", "SIGTERM", "SIGHUP"];
  for (const signal of signals) process.on(signal, passOn);
  const ended = once(child, "exit").then(([code, signal]) => ({ code, signal })).finally(() => {
    for (const signal of signals) process.off(signal, passOn);
  });
  return { ended };
}

/** Ends this process as the program has ended: with its status, or by the same signal. */
export function endAs({ code, signal }) {
  if (signal) process.kill(process.pid, signal);
  else process.exitCode = code;
}

/** The environment of the program: the settings, and of this process's own what no setting is. Its DATABASE_URL may be another project's. */
export function environment(settings) {
  const { PATH, HOME, TMPDIR } = process.env;
  return { PATH, HOME, TMPDIR, ...settings };
}
