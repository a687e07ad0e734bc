// Functions over fetch, schemas of zod and valibot, and options for TanStack Query.
export default {
  input: "./generated/openapi.json",
  output: "./generated/hey-api",
  plugins: [
    "@hey-api/client-fetch",
    "@hey-api/sdk",
    "valibot",
    { name: "zod", dates: { offset: true } },
    "@tanstack/react-query",
  ],
  parser: {
    hooks: {
      operations: {
        // It is a GET, but spends the refresh token: no query, which is repeated as it likes.
        isQuery: ({ id }) => (id === "refreshSession" ? false : undefined),
        isMutation: ({ id }) => (id === "refreshSession" ? true : undefined),
      },
    },
  },
};
