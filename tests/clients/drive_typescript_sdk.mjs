// Drives `hames exec` with OpenAI's TypeScript SDK as it is. Prints what the SDK handed over, as JSON.
import { Codex } from "@openai/codex-sdk";

const [command, workspace, picture] = process.argv.slice(2);
const codex = new Codex({ codexPathOverride: command });
const options = { workingDirectory: workspace, skipGitRepoCheck: true };
const told = {};

const thread = codex.startThread(options);
told.greeting = await thread.run("Greet me");
told.again = await thread.run("Still there?");
told.thread = thread.id;
told.resumed = await codex.resumeThread(thread.id, options).run("Still there?");

const schema = {
  type: "object",
  properties: { n: { type: "integer" } },
  required: ["n"],
};
told.schema = await codex.startThread(options).run("Count", { outputSchema: schema });

const seen = [
  { type: "text", text: "Look" },
  { type: "local_image", path: picture },
];
told.image = await codex.startThread(options).run(seen);

const { events } = await codex
  .startThread({
    ...options,
    sandboxMode: "workspace-write",
    approvalPolicy: "on-request",
    networkAccessEnabled: false,
  })
  .runStreamed("Make a file");
told.streamed = [];
for await (const event of events) told.streamed.push(event);

told.readonly = await codex.startThread({ ...options, sandboxMode: "read-only" }).run("Make a file");

try {
  await codex.startThread(options).run("Fail");
} catch (error) {
  told.failed = error.message;
}
try {
  await codex.startThread({ ...options, model: "no-such-model" }).run("Greet me");
} catch (error) {
  told.refused = error.message;
}

const stop = new AbortController();
try {
  const running = await codex.startThread(options).runStreamed("Wait", { signal: stop.signal });
  for await (const event of running.events) {
    if (event.type === "item.started") stop.abort();
  }
} catch (error) {
  told.aborted = error.name;
}
console.log(JSON.stringify(told));
