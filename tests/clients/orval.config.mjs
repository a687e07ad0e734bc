// Functions over fetch. An answer is a union by status: checking `status` types `data`.
export default {
  worldevents: {
    input: "./generated/openapi.json",
    output: {
      target: "./generated/orval/api.ts",
      client: "fetch",
      urlEncodeParameters: true,
      baseUrl: { getBaseUrlFromSpecification: true },
    },
  },
};
