// Drives `hames app-server` with a provider for the AI SDK as it is: PACKAGE COMMAND WORKSPACE MODEL PICTURE MCP [THREAD].
// Prints what the SDK handed over, as JSON, a member for each thing that was tried.
import { readFileSync } from "node:fs";
import { generateObject, generateText, jsonSchema, streamText } from "ai";

const [name, command, workspace, modelId, picture, mcp, resumed] = process.argv.slice(2);
const { createCodexAppServer, listModels } = await import(name);
const KEY = "codex-app-server";
const told = {};
let session;
const onSessionCreated = (opened) => void (session = opened);
const providers = [];

function provider(settings = {}) {
  const made = createCodexAppServer({
    defaultSettings: {
      codexPath: command,
      cwd: workspace,
      logger: false,
      onSessionCreated,
      ...settings,
    },
  });
  providers.push(made);
  return made;
}

async function attempt(what, work) {
  let clock;
  const late = new Promise((_, fail) => (clock = setTimeout(() => fail(new Error("it took too long")), 60_000)));
  try {
    told[what] = await Promise.race([work(), late]);
  } catch (error) {
    told[what] = { error: String(error.message ?? error) };
  }
  clearTimeout(clock);
}

async function said(result) {
  const tools = [];
  let reasoning = "";
  for await (const part of result.fullStream) {
    if (part.type === "tool-call") tools.push(part.toolName);
    if (part.type === "reasoning-delta") reasoning += part.text;
    if (part.type === "error") throw part.error;
  }
  return {
    text: await result.text,
    tools,
    reasoning,
    usage: await result.usage,
  };
}

if (resumed) {
  const again = provider({ resume: resumed, threadMode: "persistent" })(modelId);
  await attempt("resume", () => said(streamText({ model: again, prompt: "Still there?" })));
  console.log(JSON.stringify(told));
  process.exit(0);
}

const model = provider()(modelId);
await attempt("text", () => said(streamText({ model, prompt: "Greet me" })));
await attempt("command", () => said(streamText({ model, prompt: "Make a file" })));
await attempt("file", () => said(streamText({ model, prompt: "Write a note" })));
await attempt("read", () => said(streamText({ model, prompt: "Read the note" })));
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
    { type: "image", image: readFileSync(picture), mediaType: "image/png" },
  ];
  return said(streamText({ model, messages: [{ role: "user", content }] }));
});
await attempt("instructions", () => {
  const instructed = provider({ baseInstructions: "You are a lighthouse." });
  return said(streamText({ model: instructed(modelId), prompt: "Greet me" }));
});
await attempt("mcp", () => {
  const [program, ...args] = JSON.parse(mcp);
  // Both would ask before they use it, and neither asks anybody here.
  const unasked = name.endsWith("codex-cli") ? { autoApprove: true } : { approvalMode: "never" };
  const served = provider({
    ...unasked,
    mcpServers: { test: { transport: "stdio", command: program, args } },
  });
  return said(streamText({ model: served(modelId), prompt: "Add them" }));
});
await attempt("steer", async () => {
  const result = streamText({
    model: provider({ threadMode: "persistent" })(modelId),
    prompt: "Take your time",
  });
  const ended = said(result);
  while (!session?.isActive?.()) await new Promise((done) => setTimeout(done, 20));
  await session.injectMessage("Also sing");
  return ended;
});
await attempt("interrupt", async () => {
  const stop = new AbortController();
  const result = streamText({
    model,
    prompt: "Wait",
    abortSignal: stop.signal,
  });
  for await (const part of result.fullStream) {
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
  await said(
    streamText({
      model: provider({ threadMode: "persistent" })(modelId),
      prompt: "Greet me",
    }),
  );
  return { thread: session.threadId };
});
for (const made of providers) await (made.close ?? made.dispose)?.call(made);
console.log(JSON.stringify(told));
process.exit(0);
