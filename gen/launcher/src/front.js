// Stands between browsers and the service, and makes calls of the API slow or fail. What it passes on it leaves as it is.
import { randomUUID } from "node:crypto";
import http from "node:http";
import { setTimeout as sleep } from "node:timers/promises";

/** What these say about one connection is not passed on (RFC 9110 section 7.6.1). Node answers Expect itself. */
const ofOneConnection = new Set(["connection", "keep-alive", "proxy-connection", "te", "upgrade", "expect"]);

/**
 * A handler that passes requests on to `port`, once `ready` has resolved: calls of the API after `latency` milliseconds, but for
 * `fail.share` of them, which get `fail.status` and do not reach the service.
 */
export function front({ port, ready, latency, fail }) {
  return async (request, response) => {
    await ready;
    const isCall = request.url.startsWith("/api/");
    if (isCall && latency > 0) await sleep(latency);
    if (response.destroyed) return; // the client has not waited
    if (isCall && request.method !== "OPTIONS" && Math.random() < (fail?.share ?? 0)) refuse(request, response, fail.status);
    else passOn(request, response, port);
  };
}

function passOn(request, response, port) {
  const passed = http.request({
    host: "127.0.0.1", port, method: request.method, path: request.url, headers: without(request.rawHeaders, ofOneConnection), agent: false,
  });
  response.on("close", () => passed.destroy());
  passed.on("error", (error) => {
    if (response.headersSent) return; // it may have answered without reading the body to its end
    response.writeHead(502, { "Content-Type": "text/plain" }).end(`the service has not answered: ${error.message}\n`);
  });
  passed.on("response", (received) => {
    response.writeHead(received.statusCode, without(received.rawHeaders, new Set([...ofOneConnection, "transfer-encoding"])));
    received.on("error", () => response.destroy());
    received.pipe(response);
  });
  request.pipe(passed);
}

/** Of names and values in turn, those whose name is not in `names`. */
function without(headers, names) {
  return headers.filter((_, i) => !names.has(headers[i - (i % 2)].toLowerCase()));
}

/** The service's own errors of these statuses, as the contract has them. */
const errors = {
  429: { error: "Too many requests", code: "rate_limited" },
  500: { error: "Internal error", code: "internal", detail: "the launcher was started with --fail" },
  503: { error: "Overloaded", code: "overloaded" },
};

/** Fails a call: as the service would, or with another status as a proxy in front of it would. */
function refuse(request, response, status) {
  request.resume();
  const requestId = randomUUID();
  const error = errors[status];
  response.writeHead(status, {
    "Content-Type": error ? "application/json" : "text/html",
    "Cache-Control": "no-store",
    "X-Request-Id": requestId,
    ...(status === 429 || status === 503) && { "Retry-After": "1" },
    // Whether the service knows the page's origin is in its settings. There is nothing here to keep from a page.
    ...request.headers.origin && {
      "Access-Control-Allow-Origin": request.headers.origin, "Access-Control-Allow-Credentials": "true",
      "Access-Control-Expose-Headers": "Retry-After, X-Request-Id", Vary: "Origin",
    },
  });
  response.end(error ? JSON.stringify({ ...error, requestId }) : `<h1>${status} ${http.STATUS_CODES[status] ?? ""}</h1>\n`);
  console.error(`worldevents: ${request.method} ${request.url} has failed with ${status}, as --fail says`);
}
