/** Writes `t/index.html`: the page as it is served at `/t/ID`, one level below the files that it names. */

import { mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import type { Plugin } from "vite";

export function threadPage(): Plugin {
  let directory = "";
  return {
    name: "thread-page",
    apply: "build",
    configResolved: ({ root, build }) => {
      directory = build.outDir.startsWith("/") ? build.outDir : join(root, build.outDir);
    },
    writeBundle: () => {
      const page = readFileSync(join(directory, "index.html"), "utf8");
      mkdirSync(join(directory, "t"), { recursive: true });
      writeFileSync(join(directory, "t", "index.html"), page.replaceAll(/(href|src)="\.\//g, '$1="../'));
    },
  };
}
