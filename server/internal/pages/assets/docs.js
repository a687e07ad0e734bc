// Shows the contract in Swagger UI. Calls go to the origin of this page, whose cookies the browser sends by itself.
import { Calls } from "./calls.js";
import { Errors } from "./errors.js";
import { nameControls } from "./names.js";

const root = document.getElementById("swagger-ui");
const { base } = root.dataset;

// Swagger UI has dark colours below this class alone; the system says when.
const dark = matchMedia("(prefers-color-scheme: dark)");
const followScheme = () => document.documentElement.classList.toggle("dark-mode", dark.matches);
dark.addEventListener("change", followScheme);
followScheme();

// The cookies are httpOnly: nothing that the Authorize dialog could set would count.
const withoutAuthorize = () => ({
  wrapComponents: {
    authorizeBtn: () => () => null,
    authorizeOperationBtn: () => () => null,
  },
});

// The button that copies a path is seen by who points at it, and by nobody else.
const withoutHiddenCopy = () => ({ wrapComponents: { CopyToClipboardBtn: () => () => null } });

// The path of an operation is a link inside the button that opens it, which leads where the button does.
const withoutNestedLinks = () => ({ wrapComponents: { DeepLink: () => ({ text }) => text } });

// The headers of a response are a table below each of its statuses, and mostly the same: who wants them opens them.
const withFoldedHeaders = ({ React }) => ({
  wrapComponents: {
    headers: (Headers) => (props) => props.headers?.size ? React.createElement("details", { className: "headers-of" },
      React.createElement("summary", null, "Headers"), React.createElement(Headers, props)) : null,
  },
});

// The operations come first, and what is true of all of them after the last. Swagger UI has the operations alone in its main, so their
// heading goes there, and the rest is a region of its own.
const operationsFirst = (contract) => ({ React }) => {
  let Info;
  const ErrorsByCode = Errors(React, contract);
  return {
    wrapComponents: {
      InfoContainer: (original) => {
        Info = original;
        return () => null;
      },
      operations: (Operations) => (props) => React.createElement("div", null,
        React.createElement("h2", { className: "operations" }, "Operations"), React.createElement(Operations, props)),
      Models: (Models) => (props) => React.createElement("section", { "aria-label": "About all operations" },
        React.createElement(Models, props), React.createElement(ErrorsByCode, props), React.createElement(Info, props)),
    },
  };
};

// The calls to copy stand above the responses, in place of the one for curl that Swagger UI shows once it was executed.
const withCalls = (contract) => ({ React }) => {
  const cookies = "development" in root.dataset ? "$(./bin/worldevents session issue bob)" : "'token=…; refreshToken=…'";
  const CallsToCopy = Calls(React, contract, { base, cookies });
  return {
    wrapComponents: {
      curl: () => () => null,
      responses: (Responses) => (props) => React.createElement("div", null,
        React.createElement(CallsToCopy, props), React.createElement(Responses, props)),
    },
  };
};

/** The contract with each reference replaced by what it refers to. */
function withoutReferences(contract, part = contract) {
  const whole = (inner) => withoutReferences(contract, inner);
  if (Array.isArray(part)) return part.map(whole);
  if (typeof part !== "object" || part === null) return part;
  if (part.$ref) return whole(part.$ref.slice(2).split("/").reduce((at, name) => at[name], contract));
  return Object.fromEntries(Object.entries(part).map(([name, inner]) => [name, whole(inner)]));
}

/** Opens an operation that a link of the page leads to, at what to fill in and with the focus on Execute. */
function lead(ui, link) {
  const [tag, operation] = link.hash.slice(2).split("/");
  ui.layoutActions.show(["operations", tag, operation], true);
  let left = 30; // frames for React to replace what is there, with which the focus goes
  const arrive = () => {
    const [execute, form] = [".execute", ".opblock-section"].map((part) => document.querySelector(`#operations-${tag}-${operation} ${part}`));
    if (execute && form && (left === 30 || document.activeElement === document.body)) {
      execute.focus({ preventScroll: true });
      form.scrollIntoView({ behavior: matchMedia("(prefers-reduced-motion: reduce)").matches ? "auto" : "smooth" });
    }
    if (!execute || !form || --left > 0) requestAnimationFrame(arrive);
  };
  arrive();
}

async function show() {
  // An expired session refreshes itself when asked; then the page can say whose it is.
  if ("expired" in root.dataset && (await fetch(`${base}/api/auth/session`)).ok) return location.reload();

  const spec = await (await fetch(`${base}/openapi.json`)).json();
  spec.servers = [{ url: base || "/" }];
  const contract = withoutReferences(spec);
  nameControls(root);
  const ui = SwaggerUIBundle({
    spec,
    domNode: root,
    presets: [SwaggerUIBundle.presets.apis],
    plugins: [withoutAuthorize, withoutHiddenCopy, withoutNestedLinks, withFoldedHeaders, operationsFirst(contract), withCalls(contract)],
    layout: "BaseLayout",
    deepLinking: true,
    displayRequestDuration: true,
    tryItOutEnabled: true,
    defaultModelsExpandDepth: 0,
    validatorUrl: null,
  });
  for (const link of document.querySelectorAll(".intro a[href^='#/']")) {
    if (link.hash === location.hash) lead(ui, link); // who was quicker than the contract
    link.addEventListener("click", (event) => {
      event.preventDefault();
      lead(ui, link);
    });
  }
}

show().catch((error) => {
  root.textContent = `The contract could not be loaded: ${error}`;
});
