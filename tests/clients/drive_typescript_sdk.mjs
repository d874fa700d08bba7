// Drives `hames exec` with OpenAI's TypeScript SDK as it is: COMMAND WORKSPACE PICTURE MCP.
// Prints what the SDK handed over, as JSON, a member for each thing that was tried.
import { Codex } from "@openai/codex-sdk";
import { attempt, told } from "./attempts.mjs";

const [command, workspace, picture, mcp] = process.argv.slice(2);
const codex = new Codex({ codexPathOverride: command });
const options = { workingDirectory: workspace, skipGitRepoCheck: true };
const said = (turn) => ({ ...turn, text: turn.finalResponse });
const run = async (input, more = {}, client = codex) =>
  said(await client.startThread({ ...options, ...more }).run(input));

let thread;
await attempt("text", async () => {
  thread = codex.startThread(options);
  return said(await thread.run("Greet me"));
});
await attempt("again", async () => said(await thread.run("Still there?")));
await attempt("resume", async () => said(await codex.resumeThread(thread.id, options).run("Still there?")));
await attempt("command", () => run("Make a file"));
await attempt("file", () => run("Write a note"));
await attempt("read", () => run("Read the note"));
await attempt("plan", () => run("Plan"));
await attempt("schema", async () => {
  const schema = { type: "object", properties: { n: { type: "integer" } }, required: ["n"] };
  return said(await codex.startThread(options).run("Count", { outputSchema: schema }));
});
await attempt("image", () =>
  run([
    { type: "text", text: "Look" },
    { type: "local_image", path: picture },
  ]),
);
await attempt("instructions", () => {
  const config = { developer_instructions: "You are a lighthouse." };
  return run("Greet me", {}, new Codex({ codexPathOverride: command, config }));
});
await attempt("mcp", () => {
  const [program, ...args] = JSON.parse(mcp);
  const config = { mcp_servers: { test: { command: program, args, enabled_tools: ["add"] } } };
  return run("Add them", {}, new Codex({ codexPathOverride: command, config }));
});
await attempt("streamed", async () => {
  const asking = { ...options, sandboxMode: "workspace-write", approvalPolicy: "on-request" };
  const { events } = await codex.startThread({ ...asking, networkAccessEnabled: false }).runStreamed("Make a file");
  const kinds = [];
  for await (const event of events) kinds.push(event.type);
  return { kinds };
});
await attempt("readonly", () => run("Make a file", { sandboxMode: "read-only" }));
await attempt("refused", () => run("Greet me", { model: "no-such-model" }));
await attempt("interrupt", async () => {
  const stop = new AbortController();
  try {
    const running = await codex.startThread(options).runStreamed("Wait", { signal: stop.signal });
    for await (const event of running.events) if (event.type === "item.started") stop.abort();
  } catch (error) {
    return { aborted: error.name === "AbortError" };
  }
  return { aborted: false };
});
console.log(JSON.stringify(told));
process.exit(0);
