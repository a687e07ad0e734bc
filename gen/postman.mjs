// Prints a Postman collection (format v2.1) of the contract: a sign-in by the form of development, then each operation once.
//   node gen/postman.mjs >worldevents.postman_collection.json
// Values are the contract's examples. A parameter without one has no value that works for everybody, and is switched off.
import { readFileSync } from "node:fs";

const contract = JSON.parse(readFileSync(new URL("openapi.json", import.meta.url), "utf8"));
const resolved = (value) => (value.$ref ? value.$ref.slice(2).split("/").reduce((part, name) => part[name], contract) : value);

/** A request. The session is in the tool's cookie jar, so it has no other auth, and inherits none. */
function request(name, method, path, { query = [], variable = [], script = [], ...rest }) {
  const search = query.filter(({ disabled }) => !disabled).map(({ key, value }) => `${key}=${value}`).join("&");
  const raw = `{{baseUrl}}${path}${search && `?${search}`}`; // some importers read nothing else
  const url = { raw, host: ["{{baseUrl}}"], path: path.slice(1).split("/"), query, variable };
  const exec = ["pm.test('succeeds', () => pm.response.to.have.status(200));", ...script];
  return { name, request: { method, auth: { type: "noauth" }, url, ...rest }, event: [{ listen: "test", script: { type: "text/javascript", exec } }] };
}

const form = { username: "{{username}}", return_to: "/api/auth/session" };
const items = [request("Sign in", "POST", "/sign-in", {
  description: "Signs in as anybody, and leads on to the session. Only development has this form.",
  body: { mode: "urlencoded", urlencoded: Object.entries(form).map(([key, value]) => ({ key, value })) },
})];

for (const [path, methods] of Object.entries(contract.paths)) {
  for (const [method, { operationId, summary, description, parameters = [], requestBody }] of Object.entries(methods)) {
    const named = (where) => parameters.map(resolved).filter((parameter) => parameter.in === where).map(({ name, description, example }) => (
      { key: name, value: String(example ?? ""), description, disabled: example === undefined }));
    const id = parameters[0]?.$ref.endsWith("WorldId") ? "{{world}}" : "{{event}}"; // the paths of both have {id}
    const body = requestBody && Object.entries(resolved(requestBody.content["application/json"].schema).properties).map(([name, { example }]) => [name, example]);
    items.push(request(summary, method.toUpperCase(), path.replace(/\{(\w+)\}/, ":$1"), {
      description,
      header: named("header"), query: named("query"), variable: named("path").map((parameter) => ({ ...parameter, value: id })),
      ...(body && { body: { mode: "raw", raw: JSON.stringify(Object.fromEntries(body), null, 2), options: { raw: { language: "json" } } } }),
      script: operationId === "createEvent" ? ["pm.collectionVariables.set('event', pm.response.headers.get('Event-Id'));"] : [],
    }));
  }
}

const { title: name, version, description } = contract.info;
const variables = { baseUrl: "http://localhost:8080", username: "alice", world: "plaza", event: "" };
console.log(JSON.stringify({
  info: { name, version, description, schema: "https://schema.getpostman.com/json/collection/v2.1.0/collection.json" },
  auth: { type: "noauth" },
  variable: Object.entries(variables).map(([key, value]) => ({ key, value })),
  item: items,
}, null, 2));
