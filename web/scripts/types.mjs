/**
 * `npm run types`: the types of the npm packages, made from the JSON Schemas of the protocols in `schemas/`. A part of every
 * build. With `--check` nothing is written: it fails when the types are not those of the schema.
 */

import { readFileSync, writeFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { compile } from "json-schema-to-typescript";

const here = (path) => fileURLToPath(new URL(path, import.meta.url));
const PACKAGES = [
  { protocol: "sync", folder: "client" },
  { protocol: "flint", folder: "protocol" },
];

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

const typeOf = (schema) => (schema.$ref ? schema.$ref.replace(/^.*\//, "") : "unknown");

/** Which parameters and results belong to which method, where the schema says so. */
function methods({ requests, notifications, asks }) {
  const pairs = (name, entries) =>
    `export interface ${name} {\n${Object.entries(entries)
      .map(
        ([method, { params, result }]) => `  "${method}": { params: ${typeOf(params)}; result: ${typeOf(result)} };\n`,
      )
      .join("")}}\n`;
  const told = Object.entries(notifications)
    .map(([method, params]) => `  "${method}": ${typeOf(params.params ?? params)};\n`)
    .join("");
  return `\n${pairs("Requests", requests)}\nexport interface Notifications {\n${told}}\n\n${pairs("Asks", asks)}`;
}

async function typesOf(protocol) {
  const schema = JSON.parse(readFileSync(here(`../../schemas/${protocol}/schema.json`), "utf8"));
  const compiled = await compile({ $defs: namingAnything(schema.$defs) }, "Messages", {
    additionalProperties: false,
    bannerComment: `// The messages of ${protocol}. Written by \`npm run types\` from schemas/${protocol}/schema.json: do not edit.`,
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
  return protocol === "flint" ? types + methods(schema) : types;
}

for (const { protocol, folder } of PACKAGES) {
  const file = here(`../packages/${folder}/src/messages.ts`);
  const types = await typesOf(protocol);
  if (!process.argv.includes("--check")) writeFileSync(file, types);
  else if (readFileSync(file, "utf8") !== types) {
    console.error(`packages/${folder}/src/messages.ts is not what the schema says: npm run types`);
    process.exit(1);
  }
}
