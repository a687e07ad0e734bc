// The errors of all operations by their codes, as the contract has them.

/** Each error that has codes, once, in the order of statuses: `{ status, codes, description }`. The contract has no references. */
export function errorsOf(contract) {
  const found = new Map();
  for (const path of Object.values(contract.paths)) for (const operation of Object.values(path)) {
    for (const [status, { description, content }] of Object.entries(operation.responses)) {
      const { allOf = [] } = content?.["application/json"].schema ?? {};
      const codes = allOf.flatMap((part) => part.properties.code.enum ?? []);
      if (codes.length) found.set(codes.join(), { status, codes, description });
    }
  }
  return [...found.values()].sort((a, b) => a.status - b.status);
}

/** The component that shows them. */
export const Errors = (React, contract) => function Errors({ getComponent }) {
  const Markdown = getComponent("Markdown", true);
  return React.createElement("section", { className: "errors-by-code", "aria-labelledby": "errors-by-code" },
    React.createElement("h2", { id: "errors-by-code" }, "Errors by code"),
    React.createElement("dl", null, errorsOf(contract).map(({ status, codes, description }) => React.createElement("div", { key: codes[0] },
      React.createElement("dt", null, React.createElement("b", null, status), codes.map((code) => React.createElement("code", { key: code }, code))),
      React.createElement("dd", null, React.createElement(Markdown, { source: description }))))));
};
