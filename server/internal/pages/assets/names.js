// Names what Swagger UI leaves without a name, so that a screen reader says more than "edit text" or "list box", and lets the keyboard
// reach what scrolls.

/** The operation that an element belongs to, such as "GET /api/auth/session". */
function operationOf(element) {
  const summary = element.closest(".opblock").querySelector(".opblock-summary");
  return `${summary.querySelector(".opblock-summary-method").textContent} ${summary.querySelector("[data-path]").dataset.path}`;
}

/** What has no name, and how it gets one from where it stands. */
const names = {
  "textarea.body-param__text": () => "Request body",
  "[data-param-name] input": (input) => input.closest("[data-param-name]").dataset.paramName,
  "select.examples-select-element": (select) => `Example of ${select.closest("[data-code]").dataset.code}`,
  ".model-toggle": (arrow) => `Details of ${arrow.closest("tr")?.cells[0].textContent.replace("*", "") ?? "the schema"}`,
  "table[role=region]": (table) => `Responses of ${operationOf(table)}`,
};

/** Mends what is in `root`, and whatever comes into it. React leaves an attribute alone that it has not set. */
export function nameControls(root) {
  const mend = () => {
    for (const [selector, nameOf] of Object.entries(names)) {
      for (const element of root.querySelectorAll(`${selector}:not([aria-label])`)) element.setAttribute("aria-label", nameOf(element));
    }
    for (const arrow of root.querySelectorAll(".model-toggle:not([role])")) arrow.setAttribute("role", "img"); // in a button without a text
    for (const code of root.querySelectorAll("pre.microlight:not([tabindex])")) code.tabIndex = 0;
  };
  new MutationObserver(mend).observe(root, { childList: true, subtree: true });
}
