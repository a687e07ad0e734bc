// Serves the world of the folder: makes what is missing, fills it, starts the service, and says where it is.
import http from "node:http";
import { setTimeout as sleep } from "node:timers/promises";
import { claim, folder, makeFolder, removeWorld, settings, writeSettings } from "./folder.js";
import { front } from "./front.js";
import { close, freePort, listen } from "./loopback.js";
import { environment, findProgram, own, start } from "./program.js";

/**
 * Resolves to how the service has ended. It throws, before anything has changed, where another one has the folder or the port.
 * Without `latency` and `fail` browsers talk to the service itself.
 */
export async function serve({ fresh, port, jwtTTL, latency, fail }) {
  const program = findProgram();
  const url = `http://localhost:${port}`;
  const isFronted = latency > 0 || fail !== undefined;
  const servicePort = isFronted ? await freePort() : port;
  let service, becomeReady, servers = [];
  const ready = new Promise((resolve) => { becomeReady = resolve; });

  await makeFolder();
  const release = await claim(url);
  try {
    servers = await listen(port, front({ port: servicePort, ready, latency, fail }));
    await writeSettings();
    if (fresh) await removeWorld();
    const env = environment({
      ...settings,
      LISTEN_ADDR: isFronted ? `127.0.0.1:${servicePort}` : `localhost:${port}`,
      ...isFronted && { BASE_URL: url },
      ...jwtTTL !== undefined && { JWT_TTL: jwtTTL },
    });
    const filled = await start(program, ["demo"], folder, env).ended;
    if (filled.code !== 0) return filled;
    if (!isFronted) {
      await Promise.all(servers.map((server) => close(server, 0))); // they have only held the port
      servers = [];
    }
    service = start(program, ["serve"], folder, env);

    if (await responds(servicePort, service.ended)) {
      becomeReady();
      console.log(greeting(url));
    }
    return await service.ended;
  } finally {
    becomeReady(); // to whom it may concern: the service has ended
    await Promise.all(servers.map((server) => close(server, 1000)));
    release();
  }
}

/** Waits until the service takes requests; false when it has ended before. */
async function responds(port, ended) {
  let hasEnded = false;
  ended.then(() => { hasEnded = true; });
  while (!hasEnded) {
    const status = await new Promise((resolve) => {
      http.get({ host: "127.0.0.1", port, path: "/api/auth/session", agent: false }, (response) => resolve(response.resume().statusCode))
        .on("error", () => resolve(0));
    });
    if (status !== 0 && status !== 503) return true;
    await sleep(50);
  }
  return false;
}

const greeting = (url) => `
worldevents ${own.version} serves ${url} until Ctrl-C
  sign in as anybody   ${url}/sign-in
  try the API          ${url}/docs
  demo data            the world plaza, with alice, bob and carol
  kept in              ${folder} (--fresh begins anew)
`;
