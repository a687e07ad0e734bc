// Shows the contract in Swagger UI.
import { callOf, languages } from "./calls.js";

const root = document.getElementById("swagger-ui");
const address = location.origin + root.dataset.base;
const cookies = "development" in root.dataset ? "$(./bin/worldevents session issue bob)" : "'token=…; refreshToken=…'";
const wide = matchMedia("(min-width: 60rem)").matches;

// Swagger UI has dark colours below this class alone; the system says when.
const dark = matchMedia("(prefers-color-scheme: dark)");
const followScheme = () => document.documentElement.classList.toggle("dark-mode", dark.matches);
dark.addEventListener("change", followScheme);
followScheme();

// The index links operations, and headings of what is true of all. Ids are as Swagger UI makes them.
const index = document.querySelector(".index");
const links = index.querySelector("div");
const targetOf = ({ hash }) => document.getElementById(`operations${hash.slice(1).replaceAll("/", "-")}`);
index.querySelector("details").open = wide;
index.querySelector("input").addEventListener("input", ({ target }) => {
  for (const link of links.children) link.hidden = !`${link.textContent} ${link.title}`.toLowerCase().includes(target.value.toLowerCase());
});

function linkTo(target) {
  const [, group, name] = target.id.match(/^operations-(\w+)-(.+)/);
  const link = Object.assign(document.createElement("a"), { href: `#/${group}/${name}`, textContent: name.replaceAll("-", " ") });
  if (group !== "all") {
    link.title = target.querySelector(".opblock-summary-control").innerText;
    link.dataset.method = target.querySelector(".opblock-summary-method").textContent;
  }
  return link;
}

function markWhereOneIs() {
  const here = [...links.children].findLast((link) => targetOf(link)?.getBoundingClientRect().top < 120);
  for (const link of links.children) link.ariaCurrent = link === here || null;
}
addEventListener("scroll", markWhereOneIs);

addEventListener("click", (event) => {
  const link = event.target.closest("a[href^='#/']");
  if (!link) return;
  event.preventDefault();
  history.pushState(null, "", link.hash);
  lead(link, link.closest(".intro") ? ".execute" : "button");
});

/** Opens what a link leads to, and focuses a part of it. */
function lead(link, part) {
  let left = 30; // frames: React replaces what has the focus
  const arrive = () => {
    const target = targetOf(link);
    const button = target?.querySelector("button");
    if (button?.ariaExpanded === "false") button.click();
    const focused = target?.querySelector(part) ?? target?.closest("h2");
    if (focused && focused !== document.activeElement) {
      focused.focus({ preventScroll: true });
      target.scrollIntoView();
    }
    if (!focused || --left > 0) requestAnimationFrame(arrive);
  };
  arrive();
}

const names = {
  "textarea.body-param__text": () => "Request body",
  "[data-param-name] input": (input) => input.closest("[data-param-name]").dataset.paramName,
  "select.examples-select-element": (select) => `Example of ${select.closest("[data-code]").dataset.code}`,
  ".model-toggle": (arrow) => `Details of ${arrow.closest("tr")?.cells[0].textContent.replace("*", "") ?? "the schema"}`,
  "table[role=region]": (table) => `Responses of ${table.closest(".opblock").id.split("-")[2]}`,
};

// React leaves an attribute alone that it has not set.
new MutationObserver(() => {
  const each = (selector, mend) => root.querySelectorAll(selector).forEach(mend);
  for (const selector in names) each(`${selector}:not([aria-label])`, (element) => (element.ariaLabel = names[selector](element)));
  each(".model-toggle:not([role])", (arrow) => (arrow.role = "img")); // in a button without a text
  each("pre.microlight:not([tabindex])", (code) => (code.tabIndex = 0)); // which scrolls
  each(":is(.models > h4, .about h2):not([id], .title)", (heading) => {
    heading.id = `operations-all-${heading.textContent.replaceAll(" ", "-")}`;
    heading.tabIndex = -1;
  });
  const targets = root.querySelectorAll(".opblock, [id^=operations-all]");
  if (targets.length === links.childElementCount) return;
  links.replaceChildren(...[...targets].map(linkTo));
  markWhereOneIs();
}).observe(root, { childList: true, subtree: true });

const operationsOf = ({ paths }) => Object.values(paths).flatMap(Object.values);

/** Folds what an operation says after its first sentence, and parameters where there is little room. */
function fold(spec) {
  for (const operation of operationsOf(spec)) {
    operation.description = operation.description.replace(/^(.+?[.:])\s+(.+)$/s, "$1\n\n<details><summary>More</summary>\n\n$2\n\n</details>");
  }
  for (const one of [...Object.values(spec.components.parameters), ...operationsOf(spec).flatMap(({ parameters = [] }) => parameters)]) {
    const about = `<details ${wide ? "open" : ""}><summary aria-label="About ${one.name}">?</summary>`;
    if (one.name) one.description = `${about}\n\n${one.description}\n\n</details>`;
  }
}

/** The errors with codes, by status. */
function errorsOf(spec) {
  const named = ({ $ref }, all) => all[$ref.split("/").pop()];
  const errors = {};
  for (const { responses } of operationsOf(spec)) for (const [status, response] of Object.entries(responses)) {
    if (!response.$ref) continue;
    const { description, content } = named(response, spec.components.responses);
    const codes = named(content["application/json"].schema, spec.components.schemas).allOf[1].properties.code.enum;
    errors[codes] = { status, codes, description };
  }
  return Object.values(errors).sort((a, b) => a.status - b.status);
}

const plugin = (spec) => ({ React: { createElement: h, useId, useState } }) => {
  function Choice({ label, options, chosen, choose }) {
    const name = useId();
    return h("div", { className: "choice", role: "radiogroup", "aria-label": label }, options.map((option) => h("label", { key: option },
      h("input", { type: "radio", name, checked: option === chosen, onChange: () => choose(option) }), option)));
  }

  function Calls({ path, method, request, layoutActions, layoutSelectors, specSelectors, getComponent }) {
    const [copied, setCopied] = useState();
    const language = layoutSelectors.whatMode("language", "curl");
    const operation = specSelectors.specResolvedSubtree(["paths", path, method]).toJS();
    const text = languages[language](callOf(operation, address, path, method, request?.toJS()), { address, cookies });
    const copy = async ({ target }) => {
      getSelection().selectAllChildren(target.nextSibling); // to copy by hand over plain HTTP
      await navigator.clipboard?.writeText(text);
      setCopied(navigator.clipboard && text);
    };
    return h("div", { className: "calls" },
      h(Choice, { label: "Language", options: Object.keys(languages), chosen: language, choose: (name) => layoutActions.changeMode("language", name) }),
      h("span", { role: "status" }, copied === text ? "Copied" : ""),
      h("button", { type: "button", className: "btn", "aria-label": `Copy for ${language}`, onClick: copy }, "Copy"),
      h(getComponent("SyntaxHighlighter", true), { className: "microlight", language: language === "curl" ? "bash" : "javascript" }, text));
  }

  // Of the responses one status is shown: what was chosen, or what the answer has.
  const responses = (Responses) => function CallAndResponses(props) {
    const [chosen, choose] = useState();
    const { responses, tryItOutResponse: response, getComponent } = props;
    const codes = [...responses.keys()];
    const code = chosen ?? codes.find((one) => one === `${response?.get("status")}`) ?? codes[0];
    return h("div", null, h(getComponent("Calls", true), props),
      response && h("div", { className: "responses-inner" }, h(getComponent("liveResponse", true), { ...props, response })),
      h("h4", null, "Responses"),
      h(Choice, { label: "Status", options: codes, chosen: code, choose }),
      h(Responses, { ...props, tryItOutResponse: null, responses: responses.filter((_, one) => one === code) }));
  };

  const Errors = ({ getComponent }) => h("section", { className: "errors-by-code", "aria-label": "Errors by code" },
    h("h2", null, "Errors by code"),
    h("dl", null, errorsOf(spec).map(({ status, codes, description }) => h("div", { key: codes },
      h("dt", null, h("b", null, status), codes.map((code) => h("code", { key: code }, code))),
      h("dd", null, h(getComponent("Markdown", true), { source: description }))))));

  const first = location.hash ? "" : "listEvents";
  let Info;
  return {
    components: { Calls },
    wrapComponents: {
      responses,
      DeepLink: () => ({ text }) => text, // no link is in a button
      headers: (Headers) => (props) => h("details", { className: "headers-of" }, h("summary", null, "Headers"), h(Headers, props)),
      // What is true of all operations comes after the last, and is no part of their main.
      InfoContainer: (original) => {
        Info = original;
        return () => null;
      },
      Models: (Models) => (props) => h("section", { className: "about", "aria-label": "About all operations" },
        h(Models, props), h(Errors, props), h(Info, props)),
    },
    statePlugins: { layout: { wrapSelectors: { isShown: (isShown) => (_, thing, shown) => isShown(thing, shown || thing[2] === first) } } },
  };
};

async function show() {
  // An expired session refreshes itself when asked; then the page can say whose it is.
  if ("expired" in root.dataset && (await fetch(`${address}/api/auth/session`)).ok) return location.reload();

  const spec = await (await fetch(`${address}/openapi.json`)).json();
  spec.servers = [{ url: root.dataset.base || "/" }];
  fold(spec);
  const methods = ["get", "post", "delete"];
  SwaggerUIBundle({
    spec,
    domNode: root,
    plugins: [plugin(spec)],
    deepLinking: true,
    tryItOutEnabled: true,
    defaultModelsExpandDepth: 0,
    validatorUrl: null,
    tagsSorter: (a, b) => b.localeCompare(a),
    operationsSorter: (a, b) => methods.indexOf(a.get("method")) - methods.indexOf(b.get("method")), // a list before what changes it
  });
}

show().catch((error) => {
  root.textContent = `The contract could not be loaded: ${error}`;
});
