/**
 * `npm run built`: the page in the package is the page in this directory.
 *
 * The built files are committed, so that nobody needs Node to use them; this builds them again elsewhere and compares. Compressed files are
 * compared by what is in them: other versions of Node compress to other bytes.
 */

import { execFileSync } from "node:child_process";
import { mkdtempSync, readdirSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { brotliDecompressSync, gunzipSync } from "node:zlib";

const committed = new URL("../../src/hames/web/static/", import.meta.url).pathname;
const fresh = mkdtempSync(join(tmpdir(), "page-"));

const list = (root) =>
  readdirSync(root, { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile())
    .map((entry) => join(entry.parentPath, entry.name).slice(root.replace(/\/$/, "").length + 1))
    .sort();

const content = (path) => {
  const bytes = readFileSync(path);
  return path.endsWith(".br") ? brotliDecompressSync(bytes) : path.endsWith(".gz") ? gunzipSync(bytes) : bytes;
};

try {
  execFileSync("npx", ["vite", "build", "--outDir", fresh, "--emptyOutDir"], {
    cwd: new URL("../apps/page", import.meta.url),
    stdio: "ignore",
  });
  const [ours, theirs] = [list(fresh), list(committed)];
  const other = ours.filter(
    (name) => !theirs.includes(name) || !content(join(fresh, name)).equals(content(join(committed, name))),
  );
  const left = theirs.filter((name) => !ours.includes(name));
  if (other.length + left.length > 0) {
    console.error(`the built page is not this page: run \`npm run build\`\n${[...other, ...left].join("\n")}`);
    process.exitCode = 1;
  }
} finally {
  rmSync(fresh, { recursive: true });
}
