// Drives Hames with the TypeScript SDK of ACP as it is: MODULES TRANSPORT VERSION TARGET WORKSPACE PICTURE MCP.
// TRANSPORT is stdio (TARGET is a command as JSON), http or ws (TARGET is an address). Prints what the SDK handed over,
// as JSON, a member for each thing that was tried.
import { spawn } from "node:child_process";
import { readFileSync } from "node:fs";
import { Readable, Writable } from "node:stream";
import { attempt, told } from "./attempts.mjs";

const [modules, transport, wanted, target, workspace, picture, mcp] = process.argv.slice(2);
const version = Number(wanted);
const sdk = (path) => import(`${modules}/@agentclientprotocol/sdk/dist/${path}`);
const acp = await sdk(version === 2 ? "v2/stable/acp.js" : "v1/stable/acp.js");

let end = async () => {};

async function open() {
  if (transport === "http") return (await sdk("transports/http-stream.js")).createHttpStream(target);
  if (transport === "ws") return (await sdk("transports/ws-stream.js")).createWebSocketStream(target);
  const [program, ...words] = JSON.parse(target);
  const child = spawn(program, words, { stdio: ["pipe", "pipe", "inherit"], cwd: workspace });
  end = () => new Promise((done) => child.once("exit", done) && child.stdin.destroy());
  return acp.ndJsonStream(Writable.toWeb(child.stdin), Readable.toWeb(child.stdout));
}

class Editor {
  updates = [];
  asked = [];
  decision = "allow_once";
  onTool = undefined;
  waiting = [];

  async start() {
    const app = acp
      .client({ name: "test" })
      .onRequest("session/request_permission", (context) => {
        this.asked.push(context.params);
        const option = context.params.options.find((one) => one.kind === this.decision) ?? context.params.options.at(-1);
        return { outcome: { outcome: "selected", optionId: option.optionId } };
      })
      .onNotification("session/update", (context) => this.hear(context.params.update));
    this.connection = app.connect(await open());
    this.agent = this.connection.agent;
    const info = { name: "test", version: "1" };
    this.initialized = await this.agent.request(
      "initialize",
      version === 2
        ? { protocolVersion: 2, info, capabilities: {} }
        : { protocolVersion: 1, clientInfo: info, clientCapabilities: { session: { notices: {} } } },
    );
    return this;
  }

  hear(update) {
    this.updates.push(update);
    const kind = update.sessionUpdate;
    if (this.onTool && (kind === "tool_call" || kind === "tool_call_update")) {
      const work = this.onTool;
      this.onTool = undefined;
      work();
    }
    if (kind === "state_update" && update.state === "idle") this.waiting.splice(0).forEach((done) => done(update.stopReason));
  }

  async session(more = {}) {
    return this.agent.request("session/new", { cwd: workspace, mcpServers: [], ...more });
  }

  async prompt(sessionId, text, ...blocks) {
    this.updates = [];
    const idle = version === 2 ? new Promise((done) => this.waiting.push(done)) : undefined;
    const answer = await this.agent.request("session/prompt", { sessionId, prompt: [{ type: "text", text }, ...blocks] });
    const stop = version === 2 ? await idle : answer.stopReason;
    return { ...this.said(), stop };
  }

  said() {
    const of = (...kinds) => this.updates.filter((one) => kinds.includes(one.sessionUpdate));
    const words = (kind) => {
      const texts = {};
      for (const one of of(kind, `${kind}_chunk`)) {
        const blocks = Array.isArray(one.content) ? one.content : [one.content];
        const text = blocks.map((block) => block.text ?? "").join("");
        texts[one.messageId] = one.sessionUpdate === kind ? text : (texts[one.messageId] ?? "") + text;
      }
      return Object.values(texts).join("");
    };
    const plans = of("plan", "plan_update").map((one) => (one.plan ?? one).entries);
    return {
      text: words("agent_message"),
      reasoning: words("agent_thought"),
      user: words("user_message"),
      calls: of("tool_call", "tool_call_update"),
      plan: (plans.at(-1) ?? []).map((entry) => entry.content),
      usage: of("usage_update").map((one) => one.used),
    };
  }
}

const editor = await new Editor().start();
told.initialized = editor.initialized;
let session;
await attempt("models", async () => {
  const opened = await editor.session();
  session = opened.sessionId;
  return opened;
});
for (const [name, text] of [
  ["text", "Greet me"],
  ["command", "Make a file"],
  ["file", "Write a note"],
  ["read", "Read the note"],
  ["plan", "Plan"],
])
  await attempt(name, () => editor.prompt(session, text));
told.askedBefore = editor.asked.splice(0);
for (const [decision, text] of [
  ["reject_once", "Ask and be declined"],
  ["allow_once", "Ask and be approved"],
  ["allow_always", "Ask for the session"],
  ["reject_once", "Ask for the session"],
])
  await attempt(text, () => {
    editor.decision = decision;
    return editor.prompt(session, text);
  });
told.asked = editor.asked.splice(0);
editor.decision = "allow_once";
await attempt("image", () => {
  const data = readFileSync(picture).toString("base64");
  return editor.prompt(session, "Look", { type: "image", data, mimeType: "image/png" });
});
await attempt("interrupt", () => {
  editor.onTool = () => editor.agent.notify("session/cancel", { sessionId: session });
  return editor.prompt(session, "Wait");
});
await attempt("mcp", async () => {
  const [command, ...args] = JSON.parse(mcp);
  const server = { name: "test", command, args, env: [], ...(version === 2 ? { type: "stdio" } : {}) };
  const other = await editor.session({ mcpServers: [server] });
  return editor.prompt(other.sessionId, "Add them");
});
await attempt("unknown", async () => {
  try {
    await editor.agent.request("_no/such/method", {});
    return { answered: true };
  } catch (error) {
    return { code: error.code };
  }
});
await attempt("list", () => editor.agent.request("session/list", {}));
await attempt("close", () => editor.agent.request("session/close", { sessionId: session }));
editor.connection.close();
await attempt("end", end);

const second = await new Editor().start();
await attempt("replayed", async () => {
  const params = { sessionId: session, cwd: workspace, mcpServers: [] };
  if (version === 2) await second.agent.request("session/resume", { ...params, replayFrom: { type: "start" } });
  else await second.agent.request("session/load", params);
  return second.said();
});
await attempt("resume", () => second.prompt(session, "Still there?"));
await attempt("deleted", async () => {
  await second.agent.request("session/delete", { sessionId: session });
  const { sessions } = await second.agent.request("session/list", {});
  return { gone: sessions.every((one) => one.sessionId !== session) };
});
second.connection.close();
process.stdout.write(JSON.stringify(told));
process.exit(0);
