import { defineConfig } from "@kubb/core";
import { pluginClient } from "@kubb/plugin-client";
import { pluginOas } from "@kubb/plugin-oas";
import { pluginReactQuery } from "@kubb/plugin-react-query";
import { pluginTs } from "@kubb/plugin-ts";
import { pluginZod } from "@kubb/plugin-zod";

// Over a client of one's own: kubb's takes every response for a success, and sends a body as text/plain.
const input = { path: "./generated/openapi.json" };
const output = (path) => ({ path: `./generated/${path}`, clean: true, format: false });
const common = [pluginOas({ generators: [] }), pluginTs({ output: { path: "types" } })];

// It is a GET, but spends the refresh token: no query, which is repeated as it likes.
const refresh = {
  type: "operationId", pattern: "refreshSession",
  options: { query: false, mutation: { methods: ["get"], importPath: "@tanstack/react-query" } },
};

export default defineConfig([
  { // Functions, and schemas of zod.
    name: "functions", input, output: output("kubb"),
    plugins: [
      ...common,
      pluginClient({ output: { path: "api" }, importPath: "../../../programs/kubb-client", dataReturnType: "full" }),
      pluginZod({ output: { path: "zod" }, version: "4", dateType: "stringOffset" }),
    ],
  },
  { // Hooks for TanStack Query.
    name: "hooks", input, output: output("kubb-query"),
    plugins: [
      ...common,
      pluginReactQuery({
        output: { path: "hooks" }, client: { importPath: "../../../programs/kubb-query-client" }, suspense: false, override: [refresh],
      }),
    ],
  },
]);
