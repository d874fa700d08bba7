/**
 * `npm run types`: the client's types are what `hames schema` writes for sync. A test compares them.
 *
 * PYTHON names an interpreter that has the package; by default that of the checkout.
 */

import { execFileSync } from "node:child_process";
import { copyFileSync, mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";

const here = (path) => fileURLToPath(new URL(path, import.meta.url));
const python = process.env.PYTHON ?? here("../../.venv/bin/python");
const out = mkdtempSync(join(tmpdir(), "schema-"));
try {
  execFileSync(python, ["-m", "hames", "schema", "--out", out], { stdio: ["ignore", "ignore", "inherit"] });
  copyFileSync(join(out, "sync/messages.ts"), here("../packages/client/src/messages.ts"));
} finally {
  rmSync(out, { recursive: true });
}
