import react from "@vitejs/plugin-react";
import { defineConfig } from "vite";
import { precompress } from "./precompress.js";

export default defineConfig({
  plugins: [react(), precompress()],
  resolve: { conditions: ["hames-source", "module", "browser", "import", "default"] },
  build: {
    outDir: "../../../src/hames/web/static",
    emptyOutDir: true,
    target: "es2022",
    // The policy of the page allows no inline anything.
    assetsInlineLimit: 0,
    modulePreload: { polyfill: false },
    license: { fileName: "licenses.md" },
    reportCompressedSize: false,
  },
  server: {
    proxy: Object.fromEntries(
      ["/threads", "/status", "/files", "/uploads", "/links", "/sign-in"]
        .map((path) => [path, "http://127.0.0.1:8765"])
        .concat([["/ws", "ws://127.0.0.1:8765"]]),
    ),
  },
});
