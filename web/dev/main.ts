/** `npm run dev`: the built page on the fake server. */

import { fileURLToPath } from "node:url";
import { FakeServer } from "./server.js";

const server = new FakeServer({
  page: fileURLToPath(new URL("../../src/hames/web/static", import.meta.url)),
  port: Number(process.env["PORT"] ?? 8765),
  pace: Number(process.env["PACE"] ?? 1),
  keyless: process.argv.includes("--keyless"),
  sandboxless: process.argv.includes("--sandboxless"),
});
console.log(await server.start());
