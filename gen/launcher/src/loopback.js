// Listens on this machine alone.
import { once } from "node:events";
import http from "node:http";
import net from "node:net";

/**
 * HTTP servers with one handler, on both loopback addresses that browsers try for localhost. It throws where another
 * program has the port. Not every machine has IPv6.
 */
export async function listen(port, handler) {
  const servers = [];
  for (const host of ["127.0.0.1", "::1"]) {
    const server = http.createServer({ keepAliveTimeout: 120_000 }, handler).listen({ host, port }); // as the service's
    try {
      await once(server, "listening");
      servers.push(server);
    } catch (error) {
      if (error.code === "EADDRNOTAVAIL" || error.code === "EAFNOSUPPORT") continue;
      await Promise.all(servers.map((server) => close(server, 0)));
      if (error.code !== "EADDRINUSE") throw error;
      throw new Error(`port ${port} is in use: end what listens there, or choose another one with --port`);
    }
  }
  return servers;
}

/** Takes no more connections, and waits so many milliseconds at most for the responses that are under way. */
export async function close(server, patience) {
  const closed = once(server, "close");
  server.close();
  const late = setTimeout(() => server.closeAllConnections(), patience);
  await closed;
  clearTimeout(late);
}

/** A port that nobody listens on. */
export async function freePort() {
  const server = net.createServer().listen(0, "127.0.0.1");
  await once(server, "listening");
  const { port } = server.address();
  server.close();
  await once(server, "close");
  return port;
}
