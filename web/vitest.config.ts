import { defineConfig } from "vitest/config";

export default defineConfig({
  resolve: { conditions: ["hames-source", "node"] },
  ssr: { resolve: { conditions: ["hames-source", "node"] } },
  test: {
    include: ["packages/*/test/**/*.test.{ts,tsx}", "apps/*/test/**/*.test.{ts,tsx}"],
    environment: "node",
    testTimeout: 60_000,
    restoreMocks: true,
  },
});
