// The call of an operation, to copy: for curl and for the TypeScript client. It is the one that was executed, and until then the one
// that the examples of the contract make.

/**
 * The call that Swagger UI has executed, or that of the examples. `contract` has no references, and `base` is the path of the service's
 * address.
 */
export function callOf(contract, base, path, method, executed) {
  const { operationId, parameters = [], requestBody } = contract.paths[path][method];
  const parameter = (name) => parameters.find((one) => one.name === name);
  const example = base + path.replace(/{(\w+)}/g, (_, name) => encodeURIComponent(parameter(name).example));
  const url = new URL(executed?.url ?? example, location.href);
  const names = [...path.matchAll(/{(\w+)}/g)].map(([, name]) => name);
  const values = url.pathname.match(new RegExp(`${path.replace(/{\w+}/g, "([^/]+)")}$`)).slice(1);
  const isNumber = (name) => parameter(name).schema.type === "integer";
  const call = { operationId, method, url, body: executed ? executed.body : requestBody && JSON.stringify(exampleOf(requestBody)) };
  if (names.length) call.path = Object.fromEntries(names.map((name, i) => [name, decodeURIComponent(values[i])]));
  const headers = parameters.filter((one) => one.in === "header" && executed?.headers?.[one.name]);
  if (headers.length) call.headers = Object.fromEntries(headers.map(({ name }) => [name, executed.headers[name]]));
  if (url.search) call.query = Object.fromEntries([...url.searchParams].map(([name, text]) => [name, isNumber(name) ? Number(text) : text]));
  return call;
}

function exampleOf({ content }) {
  const { properties } = content["application/json"].schema;
  return Object.fromEntries(Object.entries(properties).map(([name, { example }]) => [name, example]));
}

const quote = (text) => `'${text.replaceAll("'", "'\\''")}'`;

/** The call in a shell. `cookies` is what the variable C is set to: scripts of a page cannot read those of the browser. */
export function inShell({ method, url, headers, body }, cookies) {
  const lines = Object.entries({ ...body && { "Content-Type": "application/json" }, ...headers }).map((line) => ` -H ${quote(line.join(": "))}`);
  const sent = lines.join("") + (body ? ` -d ${quote(body)}` : method === "get" ? "" : ` -X ${method.toUpperCase()}`);
  return `C=${cookies}\ncurl -i -b "$C"${sent} ${quote(url.href)}`;
}

/** The call with the TypeScript client of a service at `baseUrl`. */
export function inTypeScript({ operationId, path, query, headers, body }, baseUrl) {
  const options = { path, query, headers, body: parsed(body) };
  const text = Object.values(options).some(Boolean) ? literal(options) : "";
  return `import { connect, ${operationId} } from "worldevents-client";\n\nconnect({ baseUrl: ${JSON.stringify(baseUrl)} });\n`
    + `const { data, error } = await ${operationId}(${text});`;
}

/** What somebody types need not be JSON; the service says so, and here it stays a text. */
function parsed(body) {
  try {
    return body && JSON.parse(body);
  } catch {
    return body;
  }
}

/** A value as a person would write it in TypeScript. */
function literal(value, indent = "") {
  if (value?.constructor !== Object) return JSON.stringify(value);
  const entries = Object.entries(value).filter(([, part]) => part !== undefined)
    .map(([name, part]) => `${/^\w+$/.test(name) ? name : JSON.stringify(name)}: ${literal(part, `${indent}  `)}`);
  const line = `{ ${entries.join(", ")} }`;
  return line.length < 60 && !line.includes("\n") ? line : `{\n${entries.map((entry) => `${indent}  ${entry},\n`).join("")}${indent}}`;
}

/** The component that shows the calls of an operation above its responses. */
export const Calls = (React, contract, { base, cookies }) => function Calls({ path, method, request }) {
  const call = callOf(contract, base, path, method, request?.toJS());
  return React.createElement("div", { className: "calls" },
    React.createElement("div", { className: "opblock-section-header" }, React.createElement("h4", null, request ? "The call" : "The call of the examples")),
    React.createElement(Call, { React, title: "curl", text: inShell(call, cookies) }),
    React.createElement(Call, { React, title: "TypeScript", text: inTypeScript(call, location.origin + base) }));
};

function Call({ React, title, text }) {
  const shown = React.useRef();
  const [copied, setCopied] = React.useState();
  const copy = async () => {
    getSelection().selectAllChildren(shown.current); // which a person can copy where the page may not: over plain HTTP
    await navigator.clipboard?.writeText(text);
    setCopied(navigator.clipboard && text);
  };
  return React.createElement("section", { className: "call" },
    React.createElement("h5", null, title),
    React.createElement("span", { role: "status" }, copied === text ? "Copied" : ""),
    React.createElement("button", { type: "button", className: "btn", "aria-label": `Copy for ${title}`, onClick: copy }, "Copy"),
    React.createElement("pre", { className: "microlight", ref: shown }, text));
}
