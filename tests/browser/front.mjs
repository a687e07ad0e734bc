// A front such as a deployment has: serves the example page under /page/ and passes everything else to the service,
// over TLS and under a path if asked to. Alone it serves the page to look at:
//   PORT=8090 node tests/browser/front.mjs http://localhost:8080
import { once } from "node:events";
import { readFile } from "node:fs/promises";
import http from "node:http";
import https from "node:https";
import { extname, join, normalize } from "node:path";

const ownFolders = {
  "/page/": join(import.meta.dirname, "page"),
  "/client/": join(import.meta.dirname, "../../gen/typescript/dist"),
};
const types = { ".html": "text/html; charset=utf-8", ".js": "text/javascript", ".css": "text/css" };

/**
 * Starts a front of the service at `address`. `tls` is `{ key, cert }`; `path` is stripped from what is passed on;
 * `connect` are further origins that the page may call; `pages` are further folders by their paths; `render(request)` makes the page
 * at the root; `texts` are further files by their paths. `hold(request, answer)`
 * may return a promise: the service's answer waits for it. `arrive(request, response)` sees each request before it is passed on, which
 * waits for a promise of it, too, and is not done if it has answered.
 */
export async function startFront(
  address, { tls, path = "", port = 0, connect = "", pages = {}, texts = {}, render, hold = () => {}, arrive = () => {} } = {},
) {
  const server = (tls ? https : http).createServer(tls ?? {}, async (request, response) => {
    try {
      await answer(request, response);
    } catch (error) {
      if (!response.headersSent) response.writeHead(502, { "Content-Type": "text/plain" }).end(String(error));
    }
  });

  async function answer(request, response) {
    const { pathname } = new URL(request.url, "http://front");
    const folders = { ...ownFolders, ...pages };
    const folder = Object.keys(folders).find((name) => pathname.startsWith(name));
    if (folder) {
      const file = normalize(pathname.slice(folder.length)).replace(/^\.$|\/$/, "index.html");
      const text = await readFile(join(folders[folder], file)).catch(() => undefined);
      if (!text) return response.writeHead(404).end("no such file");
      response.writeHead(200, {
        "Content-Type": types[extname(file)] ?? "application/octet-stream",
        "Content-Security-Policy": `default-src 'none'; script-src 'self'; style-src 'self'; img-src data:; connect-src 'self' ${connect}`,
      });
      return response.end(text);
    }
    if (pathname in texts) return response.writeHead(200, { "Content-Type": types[extname(pathname)] }).end(texts[pathname]);
    if (render && pathname === "/") {
      const page = await render(request);
      return response.writeHead(200, { "Content-Type": "text/html; charset=utf-8", "Cache-Control": "no-store" }).end(page);
    }
    if (!request.url.startsWith(path)) return response.writeHead(404).end();
    await arrive(request, response);
    if (response.writableEnded) return;
    const passed = http.request(address + (request.url.slice(path.length) || "/"), {
      method: request.method, headers: request.headers, setHost: false,
    });
    request.pipe(passed);
    response.on("close", () => passed.destroy());
    passed.on("error", () => response.destroy());
    const [received] = await once(passed, "response");
    await hold(request, received);
    response.writeHead(received.statusCode, received.rawHeaders);
    received.pipe(response);
  }

  server.listen(port, "127.0.0.1");
  await once(server, "listening");
  return {
    port: server.address().port,
    stop: () => {
      server.closeAllConnections();
      return new Promise((closed) => server.close(closed));
    },
  };
}

if (process.argv[1] === import.meta.filename) {
  const { port } = await startFront(process.argv[2] ?? "http://localhost:8080", { port: Number(process.env.PORT ?? 8090) });
  console.log(`http://localhost:${port}/page/?world=plaza`);
}
