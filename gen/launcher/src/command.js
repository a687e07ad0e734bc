// Runs a command of the service in the folder of the world, beside a service that may run there.
import { existsSync } from "node:fs";
import { join } from "node:path";
import { folder, settings } from "./folder.js";
import { environment, findProgram, start } from "./program.js";

/** Resolves to how the command has ended. It throws where there is no world that the command could mean. */
export async function runCommand(args) {
  if (args[0] === "serve") throw new Error("worldevents without a command serves");
  const needsWorld = !args.includes("--help") && !args[0].endsWith("version");
  if (needsWorld && !existsSync(join(folder, ".env"))) throw new Error(`there is no ${folder}: start worldevents here first`);
  return start(findProgram(), args, needsWorld ? folder : ".", environment(settings)).ended;
}
