// What the launcher's front passes on, between servers of the test.
import assert from "node:assert/strict";
import { once } from "node:events";
import http from "node:http";
import net from "node:net";
import { test } from "node:test";
import { front } from "../../gen/launcher/src/front.js";
import { close, listen } from "../../gen/launcher/src/loopback.js";
import { eventually, freePort } from "../browser/service.mjs";

/** A front of a server with `handler`. */
async function frontOf(t, handler, options = {}) {
  const ports = [await freePort(), await freePort()];
  const servers = [...await listen(ports[0], handler), ...await listen(ports[1], front({ port: ports[0], ready: Promise.resolve(), latency: 0, ...options }))];
  t.after(() => Promise.all(servers.map((server) => close(server, 0))));
  return ports[1];
}

test("requests and responses pass as they are, and a response as it comes", async (t) => {
  let got, secondPart;
  const port = await frontOf(t, async (request, response) => {
    let body = "";
    for await (const text of request) body += text;
    got = { method: request.method, url: request.url, headers: request.rawHeaders, body };
    response.writeHead(207, ["Set-Cookie", "a=1; Path=/", "Set-Cookie", "b=2", "X-Mixed-CASE", "kept", "Date", "Wed, 02 Jan 2030 03:04:05 GMT"]);
    response.write("first,");
    secondPart = () => response.end("second");
  });
  const client = net.connect(port, "127.0.0.1");
  t.after(() => client.destroy());
  let received = "";
  client.on("data", (text) => { received += text; });
  client.write("DELETE /api/x%2Fy?q=%00 HTTP/1.1\r\nHost: some.name:1\r\nCookie: a=1\r\nCookie: b=2\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nbody\r\n0\r\n\r\n");
  await eventually("the first part has come", () => received.includes("first,"));
  assert.ok(!received.includes("second"));
  secondPart();
  await eventually("the second part has come", () => received.includes("second"));
  assert.deepEqual(got, {
    method: "DELETE", url: "/api/x%2Fy?q=%00", body: "body",
    headers: ["Host", "some.name:1", "Cookie", "a=1", "Cookie", "b=2", "Transfer-Encoding", "chunked", "Connection", "close"],
  });
  const [head] = received.split("\r\n\r\n");
  assert.deepEqual(head.split("\r\n").slice(0, 5), [
    "HTTP/1.1 207 Multi-Status", "Set-Cookie: a=1; Path=/", "Set-Cookie: b=2", "X-Mixed-CASE: kept", "Date: Wed, 02 Jan 2030 03:04:05 GMT",
  ]);
  assert.ok(!head.includes("Connection: close")); // that was of the front's own connection
});

test("who goes away, on either side, is gone on the other", async (t) => {
  const arrived = [], left = [];
  const port = await frontOf(t, (request, response) => {
    arrived.push(request.url);
    response.on("close", () => left.push(request.url));
    if (request.url === "/cut") {
      response.writeHead(200).write("begun");
      setImmediate(() => response.destroy());
    }
  });
  const client = http.get({ host: "127.0.0.1", port, path: "/waits", agent: false }).on("error", () => {});
  await eventually("the request has arrived", () => arrived.includes("/waits"));
  client.destroy();
  await eventually("the request is gone", () => left.includes("/waits"));

  const cut = http.get({ host: "127.0.0.1", port, path: "/cut", agent: false });
  const [response] = await once(cut, "response");
  await assert.rejects(once(response.resume(), "end"), { code: "ECONNRESET" });

  const nobody = await freePort();
  const alone = await listen(nobody, front({ port: await freePort(), ready: Promise.resolve(), latency: 0 }));
  t.after(() => Promise.all(alone.map((server) => close(server, 0))));
  assert.equal((await fetch(`http://127.0.0.1:${nobody}/`)).status, 502);
});
