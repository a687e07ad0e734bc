#!/usr/bin/env node
// The command worldevents: reads its arguments, and serves or runs a command of the service.
import { parseArgs } from "node:util";
import { runCommand } from "./command.js";
import { endAs } from "./program.js";
import { serve } from "./serve.js";

const usage = `The worldevents service to develop a frontend against. Its data is in ./.worldevents.

  worldevents [options]            serves on this machine alone, until Ctrl-C
  worldevents COMMAND …            runs a command of the service, such as: session issue --expired alice
                                   (its own help: worldevents session issue --help)

  --fresh                          begins with new demo data: alice, bob and carol, and the world plaza
  --port PORT                      the port, 8080 unless it is given
  --jwt-ttl TIME                   how long a JWT lives, 1s to 15m: after 10s the client has to refresh
  --latency MS                     delays each call of the API by so many milliseconds
  --fail STATUS:SHARE              answers this share of the calls with this status: 503:0.1 is one in ten

Other settings are in ./.worldevents/.env, which says what each is for.
`;

const args = process.argv.slice(2);
try {
  if (args[0] === "--help" || args[0] === "-h") process.stdout.write(usage);
  else if (args[0] === "--version") endAs(await runCommand(args));
  else if (args.length === 0 || args[0].startsWith("-")) endAs(await serve(readOptions()));
  else endAs(await runCommand(args));
} catch (error) {
  console.error(`worldevents: ${error.message}`);
  process.exitCode = 1;
}

/** The options of serving. It throws where one is unknown or means nothing. */
function readOptions() {
  const text = { type: "string" };
  const { values } = parseArgs({
    args, options: { fresh: { type: "boolean" }, port: { ...text, default: "8080" }, "jwt-ttl": text, latency: { ...text, default: "0" }, fail: text },
  });
  const [, status, share] = values.fail?.match(/^([45]\d\d):(0|1|[01]?\.\d+)$/) ?? [];
  if (values.fail !== undefined && !(share <= 1)) throw new Error("--fail must be a status of 400 to 599 and a share of 0 to 1, such as 503:0.1");
  return {
    fresh: values.fresh ?? false,
    port: whole("--port", values.port, 1, 65_535),
    latency: whole("--latency", values.latency, 0, 60_000),
    jwtTTL: values["jwt-ttl"], // which the service judges
    fail: values.fail === undefined ? undefined : { status: Number(status), share: Number(share) },
  };
}

function whole(name, text, least, most) {
  const number = /^\d+$/.test(text) ? Number(text) : NaN;
  if (!(number >= least && number <= most)) throw new Error(`${name} must be a whole number from ${least} to ${most}`);
  return number;
}
