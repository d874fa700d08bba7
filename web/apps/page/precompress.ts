/** Writes `index.js.br` and `index.js.gz` beside `index.js`: the server sends what a browser takes, and compresses nothing itself. */

import { readdirSync, readFileSync, writeFileSync } from "node:fs";
import { extname, join } from "node:path";
import { brotliCompressSync, constants, gzipSync } from "node:zlib";
import type { Plugin } from "vite";

const COMPRESSIBLE: ReadonlySet<string> = new Set([".html", ".js", ".css", ".svg", ".md", ".webmanifest"]);
/** A smaller file fits into one packet either way. */
const LEAST_BYTES = 1_000;

export function precompress(): Plugin {
  let directory = "";
  return {
    name: "precompress",
    apply: "build",
    configResolved: ({ root, build }) => {
      directory = join(root, build.outDir);
      if (build.outDir.startsWith("/")) directory = build.outDir;
    },
    closeBundle: {
      // After everything else has been written.
      order: "post",
      handler: () => {
        for (const name of readdirSync(directory, { recursive: true }) as string[]) {
          if (!COMPRESSIBLE.has(extname(name))) continue;
          const content = readFileSync(join(directory, name));
          if (content.length < LEAST_BYTES) continue;
          const brotli = brotliCompressSync(content, {
            params: {
              [constants.BROTLI_PARAM_QUALITY]: constants.BROTLI_MAX_QUALITY,
              [constants.BROTLI_PARAM_SIZE_HINT]: content.length,
            },
          });
          const gzip = gzipSync(content, { level: 9 });
          if (brotli.length < content.length) writeFileSync(join(directory, `${name}.br`), brotli);
          if (gzip.length < content.length) writeFileSync(join(directory, `${name}.gz`), gzip);
        }
      },
    },
  };
}
