import react from "@vitejs/plugin-react";
import { defineConfig } from "vite";
import { precompress } from "./precompress.js";
import { threadPage } from "./thread-page.js";

export default defineConfig({
  // A reverse proxy may put a path in front of the server: nothing in the page begins with `/`.
  base: "./",
  plugins: [react(), threadPage(), precompress()],
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
