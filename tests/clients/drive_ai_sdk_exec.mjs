// Drives `hames exec` with the second provider of ai-sdk-provider-codex-cli: COMMAND WORKSPACE MODEL PICTURE MCP.
// Prints what the SDK handed over, as JSON, a member for each thing that was tried.
import { readFileSync } from "node:fs";
import { generateObject, jsonSchema, streamText } from "ai";
import { codexExec } from "ai-sdk-provider-codex-cli";
import { attempt, said, told } from "./attempts.mjs";

const [command, workspace, modelId, picture, mcp] = process.argv.slice(2);
const provider = (settings = {}) =>
  codexExec(modelId, { codexPath: command, cwd: workspace, logger: false, ...settings });
const model = provider();

await attempt("text", () => said(streamText({ model, prompt: "Greet me" })));
await attempt("command", () => said(streamText({ model, prompt: "Make a file" })));
await attempt("file", () => said(streamText({ model, prompt: "Write a note" })));
await attempt("read", () => said(streamText({ model, prompt: "Read the note" })));
await attempt("schema", async () => {
  const schema = { type: "object", properties: { n: { type: "integer" } }, required: ["n"] };
  return (await generateObject({ model, schema: jsonSchema(schema), prompt: "Count" })).object;
});
await attempt("image", () => {
  const content = [
    { type: "text", text: "Look" },
    { type: "file", data: readFileSync(picture), mediaType: "image/png" },
  ];
  return said(streamText({ model, messages: [{ role: "user", content }] }));
});
await attempt("instructions", () => {
  const instructed = provider({ configOverrides: { developer_instructions: "You are a lighthouse." } });
  return said(streamText({ model: instructed, system: "Shine at night.", prompt: "Greet me" }));
});
await attempt("mcp", () => {
  const [program, ...args] = JSON.parse(mcp);
  const servers = { test: { transport: "stdio", command: program, args, startupTimeoutSec: 60, enabledTools: ["add"] } };
  return said(streamText({ model: provider({ approvalMode: "never", mcpServers: servers }), prompt: "Add them" }));
});
await attempt("interrupt", async () => {
  const stop = new AbortController();
  const result = streamText({ model, prompt: "Wait", abortSignal: stop.signal });
  for await (const part of result.fullStream ?? result.stream) {
    if (part.type === "tool-call") stop.abort();
    if (part.type === "abort") return { aborted: true };
  }
  return { aborted: stop.signal.aborted };
});
console.log(JSON.stringify(told));
process.exit(0);
