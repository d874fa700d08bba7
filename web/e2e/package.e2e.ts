/** `@hames/client` as others get it: packed, installed into an empty folder, compiled strictly, run by plain Node.js. */

import { execFile } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { createRequire } from "node:module";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import { afterAll, beforeAll, expect, test } from "vitest";
import { House } from "./house.js";

const run = promisify(execFile);
const WEB = fileURLToPath(new URL("../", import.meta.url));
const resolve = createRequire(import.meta.url).resolve;

const folder = mkdtempSync(join(tmpdir(), "client-"));
let server: House;
let origin = "";

beforeAll(async () => {
  server = await House.open();
  origin = server.url;
  const pack = async (...what: string[]) => {
    const { stdout } = await run("npm", ["pack", "--json", "--pack-destination", folder, ...what], { cwd: WEB });
    // The build that runs before packing may print in front of the answer.
    return (JSON.parse(stdout.slice(stdout.indexOf("[\n"))) as [{ filename: string; files: { path: string }[] }])[0];
  };
  const packed = await pack("-w", "@hames/client");
  const files = packed.files.map(({ path }) => path);
  expect(files).toContain("README.md");
  expect(files.filter((path) => !/^(dist\/|package\.json$|README\.md$)/.test(path))).toEqual([]);
  // No registry is asked: the one dependency comes from this checkout.
  const ws = await pack(dirname(resolve("ws/package.json")));
  writeFileSync(
    join(folder, "package.json"),
    JSON.stringify({
      type: "module",
      private: true,
      dependencies: { "@hames/client": `file:${packed.filename}`, ws: `file:${ws.filename}` },
    }),
  );
  await run("npm", ["install", "--offline", "--omit=peer", "--no-audit", "--no-fund"], { cwd: folder });
});

afterAll(async () => {
  await server.close();
  rmSync(folder, { recursive: true, force: true });
});

async function tsc(name: string): Promise<void> {
  const strict = ["--strict", "--module", "nodenext", "--target", "es2022", "--exactOptionalPropertyTypes"];
  const bin = join(WEB, "node_modules/.bin/tsc");
  const types = ["--types", "node", "--typeRoots", join(WEB, "node_modules/@types"), "--skipLibCheck", "false"];
  const lib = ["--lib", "es2023,dom"];
  await run(bin, [...strict, ...lib, ...types, name], { cwd: folder }).catch((failure: { stdout: string }) => {
    throw new Error(failure.stdout);
  });
}

test("the example of the README creates a thread, sends a prompt, prints the answer, and ends by itself", async () => {
  const readme = readFileSync(join(folder, "node_modules/@hames/client/README.md"), "utf8");
  const example = /## Follow a thread[^`]*```ts\n([\s\S]*?)```/.exec(readme)![1]!;
  const app = example.replace("http://127.0.0.1:8765", origin).replace("What does this project do?", "hello there");
  expect(app).not.toBe(example);
  writeFileSync(join(folder, "app.ts"), app);
  await tsc("app.ts");
  // Closing inside the subscriber must leave nothing that keeps the process alive.
  const { stdout } = await run(process.execPath, ["app.js"], { cwd: folder, timeout: 120_000 });
  expect(stdout).toBe("Hello. What shall we do?\n");
});

test("a server that is not there is tried again and never ends the process", async () => {
  writeFileSync(
    join(folder, "alone.ts"),
    `import { HarnessClient } from "@hames/client";
     const client = new HarnessClient({ url: "ws://127.0.0.1:1/ws", random: () => 0 });
     client.subscribe(() => {
       const { connection } = client.getSnapshot();
       if (connection.status === "waiting" && connection.attempt === 2) {
         console.log("waited twice");
         client.close();
       }
     });
     client.connect();`,
  );
  await tsc("alone.ts");
  const { stdout } = await run(process.execPath, ["alone.js"], { cwd: folder, timeout: 120_000 });
  expect(stdout).toBe("waited twice\n");
});

test("a bundle for browsers leaves the Node.js WebSocket out", async () => {
  writeFileSync(join(folder, "page.ts"), `export { HarnessClient } from "@hames/client";`);
  const vite = join(WEB, "node_modules/.bin/vite");
  writeFileSync(
    join(folder, "vite.config.js"),
    `export default { build: { lib: { entry: "page.ts", formats: ["es"], fileName: "page" }, outDir: "out", minify: false } };`,
  );
  await run(vite, ["build"], { cwd: folder });
  const bundle = readFileSync(join(folder, "out/page.js"), "utf8");
  expect(bundle).toMatch(/HarnessClient\b/);
  expect(bundle).not.toContain("websocket-server");
  expect(bundle).not.toMatch(/from "ws"|require\("ws"\)|node:/);
});
