import { defineConfig } from "@kubb/core";
import { pluginClient } from "@kubb/plugin-client";
import { pluginOas } from "@kubb/plugin-oas";
import { pluginTs } from "@kubb/plugin-ts";

// Functions over a client of one's own: kubb's takes every answer for a success, and sends a body as text/plain.
export default defineConfig({
  input: { path: "./generated/openapi.json" },
  output: { path: "./generated/kubb", clean: true, format: false },
  plugins: [
    pluginOas({ generators: [] }),
    pluginTs({ output: { path: "types" } }),
    pluginClient({ output: { path: "api" }, importPath: "../../../programs/kubb-client", dataReturnType: "full" }),
  ],
});
