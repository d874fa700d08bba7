import { defineConfig } from "vitest/config";

export default defineConfig({
  resolve: { conditions: ["hames-source"] },
  ssr: { resolve: { conditions: ["hames-source", "node"] } },
  test: {
    root: import.meta.dirname,
    include: ["*.e2e.ts"],
    environment: "node",
    testTimeout: 240_000,
    hookTimeout: 60_000,
    // One browser, one test at a time: they share two cores with the thing they measure.
    fileParallelism: false,
  },
});
