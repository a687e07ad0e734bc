// The call of an operation, as Swagger UI has executed it, or that of the examples.

export function callOf({ operationId, parameters = [], requestBody }, address, path, method, executed) {
  const of = (name) => parameters.find((one) => one.name === name);
  const example = address + path.replace(/{(\w+)}/g, (_, name) => encodeURIComponent(of(name).example));
  const url = new URL(executed?.url ?? example, location.href);
  const { groups = {} } = url.pathname.match(`${path.replace(/{(\w+)}/g, "(?<$1>[^/]+)")}$`);
  const headers = parameters.filter(({ name }) => executed?.headers?.[name]).map(({ name }) => [name, executed.headers[name]]);
  const query = [...url.searchParams].map(([name, text]) => [name, of(name).schema.type === "integer" ? Number(text) : text]);
  const body = executed ? executed.body : requestBody && JSON.stringify(exampleOf(requestBody), null, 2);
  return {
    operationId,
    method: method.toUpperCase(),
    url,
    path: objectOf(Object.entries(groups).map(([name, text]) => [name, decodeURIComponent(text)])),
    query: objectOf(query),
    headers: objectOf(headers),
    body,
    sent: objectOf([...body ? [["Content-Type", "application/json"]] : [], ...headers]),
  };
}

const objectOf = (entries) => entries.length ? Object.fromEntries(entries) : undefined;

const exampleOf = ({ content }) =>
  objectOf(Object.entries(content["application/json"].schema.properties).map(([name, { example }]) => [name, example]));

/** Each writes a call to the service at `address`. */
export const languages = { curl: inShell, fetch: inFetch, TypeScript: inTypeScript, Go: inGo };

/** `cookies` is what a shell sets C to: no script can read those of the browser. */
function inShell({ method, url, sent = {}, body }, { cookies }) {
  const headers = Object.entries(sent).map((header) => ` -H ${quote(header.join(": "))}`);
  const rest = headers.join("") + (body ? ` -d ${quote(body)}` : method === "GET" ? "" : ` -X ${method}`);
  return `C=${cookies}\ncurl -i -b "$C"${rest} ${quote(url.href)}`;
}

const quote = (text) => `'${text.replaceAll("'", "'\\''")}'`;

function inFetch({ method, url, sent, body }) {
  const options = literal({
    method: method === "GET" ? undefined : method,
    credentials: "include",
    headers: sent,
    body: body && ((indent) => parsed(body) === body ? JSON.stringify(body) : `JSON.stringify(${literal(parsed(body), indent)})`),
  });
  return `const response = await fetch(${JSON.stringify(url.href)}, ${options});\nconsole.log(response.status, await response.text());`;
}

function inTypeScript({ operationId, path, query, headers, body }, { address }) {
  const options = literal({ path, query, headers, body: parsed(body) });
  return `import { connect, ${operationId} } from "worldevents-client";\n\nconnect({ baseUrl: ${JSON.stringify(address)} });\n`
    + `const { data, error } = await ${operationId}(${options === "{  }" ? "" : options});`;
}

function inGo({ method, url, sent = {}, body }, { cookies }) {
  const text = /[`\r]/.test(body) ? JSON.stringify(body) : `\`${body}\``;
  const header = ([name, value]) => `\n\treq.Header.Set(${JSON.stringify(name)}, ${JSON.stringify(value)})`;
  const check = "if err != nil {\n\t\tlog.Fatal(err)\n\t}";
  return `// C=${cookies} go run main.go
package main

import (
	"io"
	"log"
	"net/http"
	"os"${body ? '\n\t"strings"' : ""}
)

func main() {
	req, err := http.NewRequest("${method}", ${JSON.stringify(url.href)}, ${body ? `strings.NewReader(${text})` : "nil"})
	${check}
	req.Header.Set("Cookie", os.Getenv("C"))${Object.entries(sent).map(header).join("")}
	res, err := http.DefaultClient.Do(req)
	${check}
	defer res.Body.Close()
	log.Println(res.Status)
	io.Copy(os.Stdout, res.Body)
}`;
}

// What somebody types need not be JSON.
function parsed(body) {
  try {
    return body && JSON.parse(body);
  } catch {
    return body;
  }
}

/** A value as a person writes it. A function writes itself. */
function literal(value, indent = "") {
  if (typeof value === "function") return value(indent);
  if (value?.constructor !== Object) return JSON.stringify(value);
  const entries = Object.entries(value).filter(([, part]) => part !== undefined)
    .map(([name, part]) => `${/^\w+$/.test(name) ? name : JSON.stringify(name)}: ${literal(part, `${indent}  `)}`);
  const line = `{ ${entries.join(", ")} }`;
  return line.length < 60 && !line.includes("\n") ? line : `{\n${entries.map((entry) => `${indent}  ${entry},\n`).join("")}${indent}}`;
}
