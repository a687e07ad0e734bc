// An identity provider where everybody is alice, once they follow the link Continue. It is another site than localhost: an address.
import { generateKeyPairSync, sign } from "node:crypto";
import { once } from "node:events";
import http from "node:http";

const { publicKey, privateKey } = generateKeyPairSync("ed25519");

/** Starts it for the client `worldevents`. Its root is an empty page. */
export async function startProvider() {
  const server = http.createServer((request, response) => {
    const { pathname, searchParams: asked } = new URL(request.url, issuer);
    const page = (html) => response.writeHead(200, { "Content-Type": "text/html" }).end(html);
    const json = (value) => response.writeHead(200, { "Content-Type": "application/json" }).end(JSON.stringify(value));
    switch (pathname) {
      case "/.well-known/openid-configuration":
        return json({
          issuer, authorization_endpoint: `${issuer}/authorize`, token_endpoint: `${issuer}/token`, jwks_uri: `${issuer}/keys`,
          id_token_signing_alg_values_supported: ["EdDSA"],
        });
      case "/authorize": // the code is the nonce
        return page(`<a href="${asked.get("redirect_uri")}?state=${asked.get("state")}&code=${asked.get("nonce")}">Continue</a>`);
      case "/token":
        return request.on("data", (form) => json({ access_token: "any", token_type: "Bearer", id_token: idToken(new URLSearchParams(`${form}`).get("code")) }));
      case "/keys":
        return json({ keys: [publicKey.export({ format: "jwk" })] });
    }
    return page("<!doctype html>");
  }).listen(0, "127.0.0.1");
  await once(server, "listening");
  const issuer = `http://127.0.0.1:${server.address().port}`;

  function idToken(nonce) {
    const now = Math.floor(Date.now() / 1000);
    const claims = { iss: issuer, aud: "worldevents", sub: "1", preferred_username: "alice", iat: now, exp: now + 60, nonce };
    const text = [{ alg: "EdDSA" }, claims].map((part) => Buffer.from(JSON.stringify(part)).toString("base64url")).join(".");
    return `${text}.${sign(null, Buffer.from(text), privateKey).toString("base64url")}`;
  }

  return {
    issuer,
    stop: () => {
      server.closeAllConnections();
      return new Promise((closed) => server.close(closed));
    },
  };
}
