import { defineConfig } from "vitest/config";

export default defineConfig({
  resolve: { conditions: ["hames-source"] },
  ssr: { resolve: { conditions: ["hames-source", "node"] } },
  test: {
    root: import.meta.dirname,
    include: ["*.e2e.ts"],
    environment: "node",
    testTimeout: 240_000,
    hookTimeout: 120_000,
    // Tests wait for the page far longer than they compute, so `make e2e` runs three files at a time. `make test` runs
    // other tests beside them and leaves it at one.
    maxWorkers: 1,
  },
});
