// Clients of OpenAI's APIs for TypeScript, against `/v1` of a server. Prints what one of them saw, as JSON.
//   node drive_v1.mjs NODE_MODULES CLIENT http://127.0.0.1:PORT
import { createRequire } from "node:module";
import { pathToFileURL } from "node:url";

const [modules, client, url] = process.argv.slice(2);
const require = createRequire(pathToFileURL(`${modules}/x.js`));
const load = (name) => import(pathToFileURL(require.resolve(name)).href);
const baseURL = `${url}/v1`;
const apiKey = "none";
const told = { called: [] };
const threads = async () => (await (await fetch(`${url}/threads`)).json()).threads.length;
const weather = async ({ city }) => (told.called.push(city), "sunny");

const drivers = {
  // the AI SDK, both APIs and both providers
  async ai() {
    const { generateText, streamText, tool, stepCountIs, Output } = await load("ai");
    const { createOpenAI } = await load("@ai-sdk/openai");
    const { createOpenAICompatible } = await load("@ai-sdk/openai-compatible");
    const { z } = await load("zod");
    const openai = createOpenAI({ baseURL, apiKey });
    const compatible = createOpenAICompatible({ name: "hames", baseURL, apiKey, supportsStructuredOutputs: true });
    const drive = async (model, into) => {
      const messages = [{ role: "user", content: "Greet me" }];
      const first = await generateText({ model, messages, maxRetries: 0 });
      Object.assign(into, { text: first.text, usage: first.usage.outputTokens });
      messages.push(...(first.responseMessages ?? first.response.messages), { role: "user", content: "Still there?" });
      into.streamed = await streamText({ model, messages, maxRetries: 0 }).text;
      into.threads = await threads();
      const tools = { weather: tool({ description: "d", inputSchema: z.object({ city: z.string() }), execute: weather }) };
      into.tool = (await generateText({ model, prompt: "Weather", tools, stopWhen: stepCountIs(4), maxRetries: 0 })).text;
      const output = Output.object({ schema: z.object({ n: z.number() }) });
      into.typed = (await generateText({ model, prompt: "Count", output, maxRetries: 0 })).output;
    };
    await drive(openai.chat("hames"), told);
    await drive(openai.responses("hames"), (told.responses = {}));
    await drive(compatible("hames"), (told.compatible = {}));
  },

  // OpenAI's own package, with its helpers
  async openai() {
    const { default: OpenAI } = await load("openai");
    const { zodResponseFormat, zodTextFormat, zodFunction } = await load("openai/helpers/zod");
    const { z } = await load("zod");
    const api = new OpenAI({ baseURL, apiKey, maxRetries: 0 });
    const model = "hames";
    const messages = [{ role: "user", content: "Greet me" }];
    const first = await api.chat.completions.create({ model, messages });
    Object.assign(told, { text: first.choices[0].message.content, usage: first.usage.completion_tokens });
    messages.push(first.choices[0].message, { role: "user", content: "Still there?" });
    told.streamed = await api.chat.completions.stream({ model, messages }).finalContent();
    told.threads = await threads();
    const called = zodFunction({ name: "weather", parameters: z.object({ city: z.string() }), function: weather });
    const runner = api.chat.completions.runTools({ model, messages: [{ role: "user", content: "Weather" }], tools: [called] });
    told.tool = await runner.finalContent();
    const count = z.object({ n: z.number() });
    const asked = { model, messages: [{ role: "user", content: "Count" }], response_format: zodResponseFormat(count, "count") };
    told.typed = (await api.chat.completions.parse(asked)).choices[0].message.parsed;
    const responses = (told.responses = {});
    const one = await api.responses.create({ model, input: "Greet me" });
    responses.text = one.output_text;
    const stream = api.responses.stream({ model, input: "Still there?", previous_response_id: one.id });
    responses.streamed = (await stream.finalResponse()).output_text;
    const text = { format: zodTextFormat(count, "count") };
    responses.typed = (await api.responses.parse({ model, input: "Count", text })).output_parsed;
  },

  async "@openai/agents"() {
    const agents = await load("@openai/agents");
    const { default: OpenAI } = await load("openai");
    const { z } = await load("zod");
    agents.setTracingDisabled(true);
    const api = new OpenAI({ baseURL, apiKey, maxRetries: 0 });
    const drive = async (model, into) => {
      const agent = new agents.Agent({ name: "a", instructions: "You are a lighthouse.", model });
      const first = await agents.run(agent, "Greet me");
      Object.assign(into, { text: first.finalOutput, usage: first.rawResponses[0].usage.outputTokens });
      const stream = await agents.run(agent, [...first.history, agents.user("Still there?")], { stream: true });
      await stream.completed;
      into.streamed = stream.finalOutput;
      into.threads = await threads();
      const tool = agents.tool({ name: "weather", description: "d", parameters: z.object({ city: z.string() }), execute: weather });
      into.tool = (await agents.run(new agents.Agent({ name: "b", model, tools: [tool] }), "Weather")).finalOutput;
      const outputType = z.object({ n: z.number() });
      into.typed = (await agents.run(new agents.Agent({ name: "c", model, outputType }), "Count")).finalOutput;
    };
    await drive(new agents.OpenAIChatCompletionsModel(api, "hames"), told);
    await drive(new agents.OpenAIResponsesModel(api, "hames"), (told.responses = {}));
  },
};

await drivers[client]();
console.log(JSON.stringify(told));
process.exit(0);
