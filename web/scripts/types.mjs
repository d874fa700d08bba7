/**
 * `npm run types`: the client's types, made from the JSON Schema of the sync protocol in `schemas/`. A part of every
 * build. With `--check` nothing is written: it fails when the types are not those of the schema.
 */

import { readFileSync, writeFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { compile } from "json-schema-to-typescript";

const here = (path) => fileURLToPath(new URL(path, import.meta.url));
const file = here("../packages/client/src/messages.ts");
const { $defs } = JSON.parse(readFileSync(here("../../schemas/sync/schema.json"), "utf8"));

/** A schema that says nothing of its type allows everything; the compiler takes it for an object. */
function isAnything(schema) {
  return Object.keys(schema).every((key) => key === "default" || key === "description");
}

function namingAnything(schema) {
  if (Array.isArray(schema)) return schema.map(namingAnything);
  if (schema === null || typeof schema !== "object") return schema;
  const properties = Object.entries(schema.properties ?? {}).map(([name, member]) => [
    name,
    isAnything(member) ? { ...member, tsType: "unknown" } : namingAnything(member),
  ]);
  const rest = Object.entries(schema).map(([key, inner]) => [key, namingAnything(inner)]);
  return { ...Object.fromEntries(rest), ...(schema.properties && { properties: Object.fromEntries(properties) }) };
}

const compiled = await compile({ $defs: namingAnything($defs) }, "Messages", {
  additionalProperties: false,
  bannerComment: "// The messages of sync. Written by `npm run types` from schemas/sync/schema.json: do not edit.",
  unreachableDefinitions: true,
  unknownAny: true,
});
const types = compiled
  .replace(/export interface Messages \{[^}]*\}\n/, "")
  .replace(
    / \*\n \* This interface was referenced by `Messages`'s JSON-Schema\n \* via the `definition` "\w+"\.\n/g,
    "",
  )
  .replace(
    /\/\*\*\n \* This interface was referenced by `Messages`'s JSON-Schema\n \* via the `definition` "\w+"\.\n \*\/\n/g,
    "",
  );
if (!process.argv.includes("--check")) writeFileSync(file, types);
else if (readFileSync(file, "utf8") !== types) {
  console.error("packages/client/src/messages.ts is not what the schema says: npm run types");
  process.exit(1);
}
