import { defineConfig } from "vitest/config";

export default defineConfig({
  resolve: { conditions: ["development"] },
  test: {
    include: ["packages/*/test/**/*.test.ts", "apps/*/test/**/*.test.{ts,tsx}", "dev/**/*.test.ts"],
    environment: "node",
    testTimeout: 5_000,
    restoreMocks: true,
  },
});
