// Shows the contract in Swagger UI. Calls go to the origin of this page, whose cookies the browser sends by itself.
import { nameControls } from "./names.js";

const root = document.getElementById("swagger-ui");
const base = root.dataset.base;

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

// The operations come first, and what the contract says about all of them after the last. Swagger UI has the operations alone in
// its main, so their heading goes there, and the rest is a region of its own.
const operationsFirst = ({ React }) => {
  let Info;
  return {
    wrapComponents: {
      InfoContainer: (original) => {
        Info = original;
        return () => null;
      },
      operations: (Operations) => (props) => React.createElement("div", null,
        React.createElement("h2", { className: "operations" }, "Operations"), React.createElement(Operations, props)),
      Models: (Models) => (props) => React.createElement("section", { "aria-label": "About all operations" },
        React.createElement(Models, props), React.createElement(Info, props)),
    },
  };
};

// Scripts cannot read the cookies that the browser sends, so the command printed for a call shows their place.
const withCookieHint = (request) => Object.assign(request, { curlOptions: ["-b", "token=…; refreshToken=…"] });

async function show() {
  // An expired session refreshes itself when asked; then the page can say whose it is.
  if ("expired" in root.dataset && (await fetch(`${base}/api/auth/session`)).ok) return location.reload();

  const spec = await (await fetch(`${base}/openapi.json`)).json();
  spec.servers = [{ url: base || "/" }];
  nameControls(root);
  SwaggerUIBundle({
    spec,
    domNode: root,
    presets: [SwaggerUIBundle.presets.apis],
    plugins: [withoutAuthorize, withoutHiddenCopy, withoutNestedLinks, operationsFirst],
    requestInterceptor: withCookieHint,
    layout: "BaseLayout",
    deepLinking: true,
    displayRequestDuration: true,
    tryItOutEnabled: true,
    defaultModelsExpandDepth: 0,
    validatorUrl: null,
  });
}

show().catch((error) => {
  root.textContent = `The contract could not be loaded: ${error}`;
});
