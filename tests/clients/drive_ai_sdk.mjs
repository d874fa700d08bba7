// Drives `hames app-server` with a provider for the AI SDK as it is: PACKAGE COMMAND WORKSPACE MODEL PICTURE MCP [THREAD].
// Prints what the SDK handed over, as JSON, a member for each thing that was tried.
import { readdirSync, readFileSync } from "node:fs";
import { generateObject, jsonSchema, streamText } from "ai";
import { z } from "zod";
import { attempt, said, told } from "./attempts.mjs";

const [name, command, workspace, modelId, picture, mcp, resumed] = process.argv.slice(2);
const { createCodexAppServer, createSdkMcpServer, listModels, tool } = await import(name);
const answersQuestions = name.endsWith("codex-cli");
let session;
const onSessionCreated = (opened) => void (session = opened);
const providers = [];

function provider(settings = {}) {
  const made = createCodexAppServer({
    defaultSettings: { codexPath: command, cwd: workspace, logger: false, onSessionCreated, ...settings },
  });
  providers.push(made);
  return made;
}

async function finish() {
  for (const made of providers) await (made.close ?? made.dispose)?.call(made);
  console.log(JSON.stringify(told));
  process.exit(0);
}

if (resumed) {
  const again = provider({ resume: resumed, threadMode: "persistent" })(modelId);
  await attempt("resume", () => said(streamText({ model: again, prompt: "Still there?" })));
  await finish();
}

const model = provider()(modelId);
await attempt("text", () => said(streamText({ model, prompt: "Greet me" })));
await attempt("saved", () => readdirSync(`${workspace}/.harness/threads`).filter((one) => one.startsWith("ses_")));
await attempt("command", () => said(streamText({ model, prompt: "Make a file" })));
await attempt("file", () => said(streamText({ model, prompt: "Write a note" })));
await attempt("read", () => said(streamText({ model, prompt: "Read the note" })));
await attempt("plan", () => {
  const raw = { includeRawChunks: true, include: { rawChunks: true } };
  return said(streamText({ model, prompt: "Plan", ...raw }));
});
await attempt("schema", async () => {
  const schema = {
    type: "object",
    properties: { n: { type: "integer" } },
    required: ["n"],
    additionalProperties: false,
  };
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
  const instructed = provider({ baseInstructions: "You are a lighthouse." });
  return said(streamText({ model: instructed(modelId), system: "Shine at night.", prompt: "Greet me" }));
});

// Both would ask before they use a server, and one of them answers nothing.
const unasked = answersQuestions ? { autoApprove: true } : { approvalMode: "never" };
const [program, ...args] = JSON.parse(mcp);
await attempt("mcp", () => {
  const served = provider({
    ...unasked,
    mcpServers: { test: { transport: "stdio", command: program, args } },
  });
  return said(streamText({ model: served(modelId), prompt: "Add them" }));
});
await attempt("mcpInProcess", () => {
  const add = tool({
    name: "add",
    description: "Adds two numbers.",
    parameters: z.object({ a: z.number(), b: z.number() }),
    execute: async ({ a, b }) => ({ sum: a + b }),
  });
  const served = provider({
    ...unasked,
    mcpServers: { test: createSdkMcpServer({ name: "test", tools: [add] }) },
  });
  return said(streamText({ model: served(modelId), prompt: "Add them" }));
});

if (answersQuestions) {
  await attempt("approvals", async () => {
    const asked = [];
    let decision = "decline";
    const onCommandExecutionApproval = async (request) => {
      asked.push(request.params.command);
      return { decision };
    };
    const asking = provider({ threadMode: "persistent", serverRequests: { onCommandExecutionApproval } })(modelId);
    const texts = [];
    for (const [word, prompt] of [
      ["decline", "Ask and be declined"],
      ["accept", "Ask and be approved"],
      ["acceptForSession", "Ask for the session"],
      ["decline", "Ask for the session"],
    ]) {
      decision = word;
      texts.push((await said(streamText({ model: asking, prompt }))).text);
    }
    return { asked, texts };
  });
}

await attempt("steer", () => {
  const result = streamText({ model: provider({ threadMode: "persistent" })(modelId), prompt: "Take your time" });
  return said(result, () => session.injectMessage("Also sing"));
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
await attempt("models", async () => {
  const { models, defaultModel } = await listModels({ codexPath: command });
  return { models: models.length, isDefault: defaultModel?.id };
});
await attempt("kept", async () => {
  await said(streamText({ model: provider({ threadMode: "persistent" })(modelId), prompt: "Greet me" }));
  return { thread: session.threadId };
});
await finish();
