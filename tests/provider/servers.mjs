// Starts what the test needs beside a browser: the real binary, the identity provider, and a page of another origin.
import { randomBytes } from "node:crypto";
import { once } from "node:events";
import http from "node:http";

import Provider from "oidc-provider";

import { freePort, startService } from "../browser/service.mjs";

const client = { client_id: "worldevents", client_secret: "s3cret&odd %" };

/** Listens on a free port of loopback. */
async function listen(handler) {
  const server = http.createServer(handler).listen(0, "127.0.0.1");
  await once(server, "listening");
  const stop = async () => {
    server.closeAllConnections();
    server.close();
    await once(server, "close");
  };
  return { server, port: server.address().port, stop };
}

/**
 * An identity provider where every login works. Somebody who logs in as name@company is called name. It is another
 * site than the service: an address, where the others are called localhost.
 */
async function startProvider(service) {
  const { server, port, stop } = await listen();
  const issuer = `http://127.0.0.1:${port}`;
  const provider = new Provider(issuer, {
    clients: [{
      ...client, redirect_uris: [`${service}/sign-in/callback`],
      backchannel_logout_uri: `${service}/sign-in/back-channel-logout`, backchannel_logout_session_required: true,
    }],
    features: { backchannelLogout: { enabled: true } },
    fetch: (url, { dispatcher, ...options }) => fetch(url, options), // its own calls no address of this machine
    cookies: { keys: [randomBytes(16).toString("hex")] },
    claims: { openid: ["sub"], profile: ["preferred_username"] },
    findAccount: (_, id) => ({
      accountId: id,
      claims: () => ({ sub: id, preferred_username: id.split("@")[0] }),
    }),
  });
  server.on("request", provider.callback());
  return { issuer, stop };
}

/** A page of another origin, as a frontend team would write it. */
async function startApp(service) {
  const { port, stop } = await listen((request, response) => {
    response.setHeader("Content-Type", "text/html");
    response.end(`<!doctype html><title>App</title><h1>App</h1><p id="who"></p>
      <script>
        fetch("${service}/api/auth/session", { credentials: "include" }).then((response) => {
          const name = response.headers.get("Session-User");
          who.innerHTML = response.ok ? "Hello " + decodeURIComponent(name)
            : '<a href="${service}/sign-in?return_to=' + encodeURIComponent(location.href) + '">Sign in</a>';
        });
      </script>`);
  });
  return { origin: `http://localhost:${port}`, stop };
}

/** Starts all three, the service with the settings of production. */
export async function start() {
  const port = await freePort();
  const address = `http://localhost:${port}`; // browsers take Secure cookies from localhost
  const provider = await startProvider(address);
  const app = await startApp(address);
  const service = await startService({
    APP_ENV: "production",
    LISTEN_ADDR: `127.0.0.1:${port}`,
    BASE_URL: address,
    ALLOWED_ORIGINS: app.origin,
    RETURN_ORIGINS: app.origin,
    OIDC_ISSUER: provider.issuer,
    OIDC_CLIENT_ID: client.client_id,
    OIDC_CLIENT_SECRET: client.client_secret,
  });
  const stop = async () => {
    await service.stop();
    await Promise.all([app.stop(), provider.stop().catch(() => {})]);
  };
  return { address, provider, app, stop };
}
