// Shows the contract in Swagger UI. Calls go to the origin of this page, whose cookies the browser sends by itself.
const root = document.getElementById("swagger-ui");
const base = root.dataset.base;

// The cookies are httpOnly: nothing that the Authorize dialog could set would count.
const withoutAuthorize = () => ({
  wrapComponents: {
    authorizeBtn: () => () => null,
    authorizeOperationBtn: () => () => null,
  },
});

async function show() {
  // An expired session refreshes itself when asked; then the page can say whose it is.
  if ("expired" in root.dataset && (await fetch(`${base}/api/auth/session`)).ok) return location.reload();

  const spec = await (await fetch(`${base}/openapi.json`)).json();
  spec.servers = [{ url: base || "/" }];
  SwaggerUIBundle({
    spec,
    domNode: root,
    presets: [SwaggerUIBundle.presets.apis],
    plugins: [withoutAuthorize],
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
