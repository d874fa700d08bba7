// CopilotKit: its runtime on Node with an AG-UI agent, asked by its own client. Prints what the client saw, as JSON.
//   node drive_copilotkit.mjs NODE_MODULES http://127.0.0.1:PORT
import http from "node:http";
import { createRequire } from "node:module";
import { pathToFileURL } from "node:url";

process.env.COPILOTKIT_TELEMETRY_DISABLED = "true";
const [modules, url] = process.argv.slice(2);
const require = createRequire(pathToFileURL(`${modules}/x.js`));
const load = (name) => import(pathToFileURL(require.resolve(name)).href);
const { HttpAgent } = await load("@ag-ui/client");
const { CopilotRuntime } = await load("@copilotkit/runtime/v2");
const { createCopilotNodeListener } = await load("@copilotkit/runtime/v2/node");
const { CopilotKitCore } = await load("@copilotkit/core");

const runtime = new CopilotRuntime({ agents: { hames: new HttpAgent({ url: `${url}/agui` }) } });
const server = http.createServer(createCopilotNodeListener({ runtime, basePath: "/api/copilotkit" }));
await new Promise((done) => server.listen(0, "127.0.0.1", done));
// Its client is made for browsers, and connects only where there is a window.
const listen = () => undefined;
globalThis.window = { location: new URL("http://localhost/"), addEventListener: listen, removeEventListener: listen };
const { z } = await load("zod");
const core = new CopilotKitCore({
  runtimeUrl: `http://127.0.0.1:${server.address().port}/api/copilotkit`,
  tools: [
    {
      name: "weather",
      description: "The weather",
      parameters: z.object({ city: z.string() }),
      handler: async ({ city }) => (called.push(city), "sunny"),
    },
  ],
});
const called = [];
const errors = [];
core.subscribe({
  onError: ({ error, code }) => void errors.push(`${code}: ${error?.message}`),
});
core.connect?.();
for (let tries = 0; tries < 600 && !core.getAgent("hames"); tries++) await new Promise((done) => setTimeout(done, 100));
const agent = core.getAgent("hames");
if (!agent) throw new Error(`the runtime lists no agent: ${core.runtimeConnectionStatus} ${errors}`);
const ask = async (text) => {
  agent.addMessage({ id: crypto.randomUUID(), role: "user", content: text });
  const before = agent.messages.length;
  const done = await core.runAgent({ agent });
  const said = agent.messages.slice(before).filter((one) => one.role === "assistant" && one.content);
  return { text: said.map((one) => one.content).join("|"), interrupt: done?.outcome ?? null };
};
const told = { text: await ask("Greet me"), again: await ask("Still there?"), tool: await ask("Weather"), called, errors };
console.log(JSON.stringify(told));
process.exit(0);
