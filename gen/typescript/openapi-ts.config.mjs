// What @hey-api/openapi-ts makes of the contract: src/api, which adapt.mjs then changes and nobody edits. See `make generate`.
export default {
  input: "../../openapi.yaml",
  output: { path: "src/api", importFileExtension: ".js" },
  plugins: ["@hey-api/typescript", { name: "@hey-api/sdk", auth: false }, { name: "@hey-api/client-fetch", baseUrl: false }],
};
