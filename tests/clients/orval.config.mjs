// Functions over fetch, whose result is a union by status: checking `status` types `data`. Beside them hooks for TanStack Query
// with handlers for MSW, and schemas of zod.
const input = "./generated/openapi.json";
const calls = { urlEncodeParameters: true, baseUrl: { getBaseUrlFromSpecification: true } };

export default {
  fetch: { input, output: { target: "./generated/orval/api.ts", client: "fetch", ...calls } },
  query: {
    input,
    output: {
      target: "./generated/orval-query/api.ts", client: "react-query", httpClient: "fetch", mode: "split", mock: { generators: [{ type: "msw" }] }, ...calls,
      override: {
        fetch: { forceSuccessResponse: true },
        // It is a GET, but spends the refresh token: no query, which is repeated as it likes.
        operations: { refreshSession: { query: { useQuery: false, useMutation: true } } },
      },
    },
  },
  zod: {
    input,
    output: { target: "./generated/orval/zod.ts", client: "zod", override: { zod: { dateTimeOptions: { offset: true } } } },
  },
};
