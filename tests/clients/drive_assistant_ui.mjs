// assistant-ui: its components and its AG-UI runtime, as a page has them, in a DOM of jsdom. Prints what was seen.
//   node drive_assistant_ui.mjs NODE_MODULES http://127.0.0.1:PORT
import { createRequire } from "node:module";
import { pathToFileURL } from "node:url";

const [modules, url] = process.argv.slice(2);
const require = createRequire(pathToFileURL(`${modules}/x.js`));
const load = (name) => import(pathToFileURL(`${modules}/${name}`).href);
const { JSDOM } = require("jsdom");

const page = new JSDOM('<!doctype html><div id="root"></div>', { url: "http://localhost/", pretendToBeVisual: true });
globalThis.window = page.window;
for (const name of ["document", "HTMLElement", "Element", "Node", "MutationObserver", "getComputedStyle", "requestAnimationFrame", "cancelAnimationFrame", "InputEvent", "Event", "DocumentFragment", "HTMLTextAreaElement"]) {
  globalThis[name] = page.window[name];
}
globalThis.navigator ??= page.window.navigator; // Node 21 and newer have their own
globalThis.ResizeObserver = page.window.ResizeObserver = class { observe() {} unobserve() {} disconnect() {} };
page.window.Element.prototype.scrollTo = () => undefined;

const React = require("react");
const { createRoot } = require("react-dom/client");
const ui = await load("@assistant-ui/react/dist/index.js");
const { useAgUiRuntime } = await load("@assistant-ui/react-ag-ui/dist/index.js");
const { HttpAgent } = require("@ag-ui/client");

const h = React.createElement;
const errors = [];
const called = [];
let runtime;

const Reasoning = ({ text }) => h("em", null, text);
const Tool = ({ toolName, args, result }) => h("code", null, `${toolName} ${JSON.stringify(args)} ${JSON.stringify(result)}`);
const Message = () =>
  h(ui.MessagePrimitive.Root, { className: "message" }, h(ui.MessagePrimitive.Parts, { components: { Reasoning, tools: { Fallback: Tool } } }));
const Weather = ui.makeAssistantTool({
  toolName: "weather",
  type: "frontend",
  description: "The weather",
  parameters: { type: "object", properties: { city: { type: "string" } }, required: ["city"] },
  execute: async ({ city }) => (called.push(city), "sunny"),
});
const App = () => {
  const [agent] = React.useState(() => new HttpAgent({ url: `${url}/agui`, threadId: crypto.randomUUID() }));
  runtime = useAgUiRuntime({ agent, onError: (error) => void errors.push(String(error)) });
  const thread = h(
    ui.ThreadPrimitive.Root, null,
    h(ui.ThreadPrimitive.Messages, { components: { Message } }),
    h(ui.ComposerPrimitive.Root, null, h(ui.ComposerPrimitive.Input, null), h(ui.ComposerPrimitive.Send, null, "Send")),
  );
  return h(ui.AssistantRuntimeProvider, { runtime }, h(Weather), thread);
};
createRoot(document.getElementById("root")).render(h(App));

const wait = (seconds) => new Promise((done) => setTimeout(done, seconds * 1000));
const until = async (what, is) => {
  for (let tries = 0; tries < 600; tries++, await wait(0.1)) if (is()) return;
  throw new Error(`${what}: ${document.body.textContent} ${errors}`);
};
const shown = (text) => document.body.textContent.includes(text);
const ask = async (prompt, answer) => {
  await until("the composer", () => document.querySelector("textarea"));
  const input = document.querySelector("textarea");
  Object.getOwnPropertyDescriptor(page.window.HTMLTextAreaElement.prototype, "value").set.call(input, prompt);
  input.dispatchEvent(new page.window.Event("input", { bubbles: true }));
  const send = [...document.querySelectorAll("button")].find((one) => one.textContent === "Send");
  await until("the button", () => !send.disabled);
  send.click();
  await until(prompt, () => shown(answer) && !runtime.thread.getState().isRunning);
};
await ask("Greet me", "Hello from Hames.");
const reasoning = [...document.querySelectorAll("em")].map((one) => one.textContent);
await ask("Still there?", "Still here.");
await ask("Weather", "It is sunny.");
await ask("Ask and be approved", "touch approved");
const interrupts = runtime.unstable_getPendingInterrupts();
await runtime.unstable_submitInterruptResponses(
  interrupts.map((one) => ({ interruptId: one.id, status: "resolved", payload: { decision: "once" } })),
);
await until("the approval", () => shown("It was approved.") && !runtime.thread.getState().isRunning);
const messages = [...document.querySelectorAll(".message")].map((one) => one.textContent);
console.log(JSON.stringify({ reasoning, called, interrupts, messages, errors }));
process.exit(0);
