// Clients of AG-UI, OpenAI's APIs and MCP for TypeScript, against one server. Prints what each of them saw, as JSON.
//   node drive_requests.mjs NODE_MODULES http://127.0.0.1:PORT '["hames","mcp","serve",…]'
import { createRequire } from "node:module";
import { pathToFileURL } from "node:url";

const [modules, url, command] = process.argv.slice(2);
const require = createRequire(pathToFileURL(`${modules}/x.js`));
const load = (name) => import(pathToFileURL(require.resolve(name)).href);
const told = {};
const WEATHER = { type: "object", properties: { city: { type: "string" } }, required: ["city"] };

// -- AG-UI: the official client checks the order of events itself, and fails for a wrong one
{
  const { HttpAgent } = await load("@ag-ui/client");
  const agent = new HttpAgent({ url: `${url}/agui`, threadId: "agui-client" });
  const ask = async (text, tools) => {
    agent.addMessage({ id: crypto.randomUUID(), role: "user", content: text });
    return run({ tools });
  };
  const run = async (parameters) => {
    let finished;
    const before = agent.messages.length;
    const done = await agent.runAgent(parameters, { onRunFinishedEvent: ({ event }) => void (finished = event) });
    const texts = done.newMessages.filter((one) => one.role === "assistant" && one.content).map((one) => one.content);
    return { texts, outcome: finished?.outcome ?? null, usage: finished?.usage ?? null, added: agent.messages.length - before };
  };
  const greeting = await ask("Greet me");
  const reasoning = agent.messages.filter((one) => one.role === "reasoning").map((one) => one.content);
  const again = await ask("Still there?");
  const tool = await ask("Weather", [{ name: "weather", description: "The weather", parameters: WEATHER }]);
  for (const id of tool.outcome?.pendingToolCallIds ?? []) {
    agent.addMessage({ id: crypto.randomUUID(), role: "tool", toolCallId: id, content: "sunny" });
  }
  const sunny = await run({ tools: [{ name: "weather", description: "The weather", parameters: WEATHER }] });
  const asked = await ask("Ask and be approved");
  const interrupts = asked.outcome?.interrupts ?? [];
  const resume = interrupts.map((one) => ({ interruptId: one.id, status: "resolved", payload: { decision: "once" } }));
  const approved = await run({ resume });
  told.agui = { greeting, reasoning, again, tool, sunny, asked, approved };
}

// -- OpenAI's own package
{
  const { default: OpenAI } = await load("openai");
  const client = new OpenAI({ baseURL: `${url}/v1`, apiKey: "none", maxRetries: 0 });
  const models = [];
  for await (const model of client.models.list()) models.push(model.id);
  const messages = [{ role: "user", content: "Greet me" }];
  const whole = await client.chat.completions.create({ model: "hames", messages });
  messages.push(whole.choices[0].message, { role: "user", content: "Still there?" });
  let streamed = "";
  for await (const chunk of await client.chat.completions.create({ model: "hames", messages, stream: true })) {
    streamed += chunk.choices[0]?.delta?.content ?? "";
  }
  const first = await client.responses.create({ model: "hames", input: "Greet me" });
  const kinds = [];
  let text = "";
  for await (const event of await client.responses.create({
    model: "hames", input: "Ask and be approved", previous_response_id: first.id, stream: true,
  })) {
    kinds.push(event.type);
    if (event.type === "response.completed") text = event.response;
  }
  const request = text.output.find((one) => one.type === "mcp_approval_request");
  const approved = await client.responses.create({
    model: "hames",
    previous_response_id: text.id,
    input: [{ type: "mcp_approval_response", approval_request_id: request.id, approve: true }],
  });
  told.openai = {
    models, whole: whole.choices[0].message.content, usage: whole.usage, streamed, kinds,
    first: first.output_text, approved: approved.output_text, stored: (await client.responses.retrieve(first.id)).output_text,
  };
}

// -- the AI SDK, with both of its providers
{
  const { generateText, streamText, tool, jsonSchema, stepCountIs } = await load("ai");
  const { createOpenAI } = await load("@ai-sdk/openai");
  const { createOpenAICompatible } = await load("@ai-sdk/openai-compatible");
  const openai = createOpenAI({ baseURL: `${url}/v1`, apiKey: "none" });
  const compatible = createOpenAICompatible({ name: "hames", baseURL: `${url}/v1`, apiKey: "none" });
  told.ai = {};
  for (const [name, model] of [["responses", openai.responses("hames")], ["chat", openai.chat("hames")], ["compatible", compatible("hames")]]) {
    const called = [];
    const weather = tool({
      description: "The weather", inputSchema: jsonSchema(WEATHER),
      execute: async (input) => (called.push(input.city), "sunny"),
    });
    const text = (await generateText({ model, prompt: "Greet me", maxRetries: 0 })).text;
    const streamed = await streamText({ model, prompt: "Still there?", maxRetries: 0 }).text;
    const withTool = await generateText({ model, prompt: "Weather", tools: { weather }, stopWhen: stepCountIs(4), maxRetries: 0 });
    told.ai[name] = { text, streamed, tool: withTool.text, called };
  }
}

// -- the official MCP SDK, over both transports
{
  const { Client } = await load("@modelcontextprotocol/sdk/client/index.js");
  const { StdioClientTransport } = await load("@modelcontextprotocol/sdk/client/stdio.js");
  const { StreamableHTTPClientTransport } = await load("@modelcontextprotocol/sdk/client/streamableHttp.js");
  const { ElicitRequestSchema } = await load("@modelcontextprotocol/sdk/types.js");
  const [program, ...args] = JSON.parse(command);
  const transports = {
    stdio: () => new StdioClientTransport({ command: program, args, env: { ...process.env } }),
    http: () => new StreamableHTTPClientTransport(new URL(`${url}/mcp`)),
  };
  told.mcp = {};
  for (const [name, open] of Object.entries(transports)) {
    const client = new Client({ name: "driver", version: "1" }, { capabilities: { elicitation: {} } });
    const questions = [];
    client.setRequestHandler(ElicitRequestSchema, async (request) => {
      questions.push(request.params.message);
      return { action: "accept", content: { decision: "once" } };
    });
    await client.connect(open());
    const progress = [];
    const call = (tool, args) =>
      client.callTool({ name: tool, arguments: args }, undefined, { onprogress: (one) => void progress.push(one.message), timeout: 300000 });
    const tools = (await client.listTools()).tools.map((one) => one.name);
    const first = await call("hames", { prompt: "Greet me" });
    const reply = await call("hames-reply", { threadId: first.structuredContent.threadId, prompt: "Ask and be approved" });
    const resources = (await client.listResources()).resources.length;
    told.mcp[name] = { tools, first: first.structuredContent, reply: reply.structuredContent, questions, progress, resources };
    await client.close();
  }
}

console.log(JSON.stringify(told));
process.exit(0);
