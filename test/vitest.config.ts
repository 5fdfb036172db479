import { fileURLToPath } from "node:url"
import { defineConfig } from "vitest/config"

const at = (path: string) => fileURLToPath(new URL(path, import.meta.url))

export default defineConfig({
  root: at(".."),
  // Programs shown to readers import the package by its own name; here that is the source.
  resolve: {
    alias: [
      { find: /^daybook$/, replacement: at("../src/index.ts") },
      { find: /^daybook\/(?!internal\/)(.+)$/, replacement: `${at("../src")}/$1.ts` }
    ]
  },
  test: {
    include: ["test/**/*.test.ts"],
    testTimeout: 30_000,
    hookTimeout: 30_000,
    pool: "forks",
    poolOptions: { forks: { minForks: 1, maxForks: 2 } }
  }
})
