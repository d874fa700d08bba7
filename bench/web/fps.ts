/**
 * How smooth the page stays while text streams into a long thread, in headless Chromium.
 *
 *     cd web && npm run bench
 *
 * The page is on the real server. A proxy between the two says what streams in, coalesced as the server does it (at most one message
 * per 16 ms); what is counted are the frames the page drew and the
 * longest time it took between two of them. A thread of 0 messages is the floor this machine allows.
 */

import { readdirSync, readFileSync } from "node:fs";
import { loadavg } from "node:os";
import { fileURLToPath } from "node:url";
import { gzipSync } from "node:zlib";
import { launch } from "../../web/e2e/browser.js";
import { House } from "../../web/e2e/house.js";
import { Told } from "../../web/e2e/told.js";

/** `PAGE` names another build, `RUNS` how often the long thread is measured: for comparing two builds on a machine that others use too. */
const STATIC = process.env["PAGE"]
  ? `${process.env["PAGE"]}/`
  : fileURLToPath(new URL("../../src/hames/web/static/", import.meta.url));
const RUNS = Number(process.env["RUNS"] ?? 1);
const SECONDS = 8;
const WARM_UP_SECONDS = 2;

const PROSE =
  "The parser reads a line, **decides** what it is, and hands it to `handle()`. See [the notes](https://example.com/notes).\n\n";
const CODE =
  "```python\ndef handle(line: str) -> Event:\n    kind, _, rest = line.partition(':')\n    return Event(kind=kind, value=rest.strip())\n```\n\n";
const TABLE = "| name | value |\n|---|---:|\n| a | 1 |\n| b | 2 |\n\n";

function fill(told: Told, count: number): void {
  const base = {
    createdAt: Date.now(),
    turnId: "t",
    reasoning: "",
    stopReason: "",
    error: "",
    attachments: [],
    toolCalls: [],
  };
  const messages = Array.from({ length: count }, (_, index) => {
    if (index % 4 === 0)
      return {
        ...base,
        id: `m${index}`,
        role: "user",
        content: `Question ${index}`,
        status: "complete",
      };
    const call = {
      id: `t${index}`,
      name: "shell",
      status: "complete",
      kind: "command",
      outcome: "completed",
      title: `pytest -k test_${index}`,
      input: null,
      output: "ok\n".repeat(40),
      outputTruncated: false,
      exitCode: 0,
      durationMs: 300,
      changes: [],
    };
    return {
      ...base,
      id: `m${index}`,
      role: "assistant",
      content: PROSE + CODE + (index % 3 ? TABLE : ""),
      status: "complete",
      toolCalls: index % 2 ? [call] : [],
    };
  });
  const last = {
    ...base,
    id: "last",
    role: "assistant",
    content: "",
    status: "streaming",
  };
  told.say(
    { type: "set", path: ["messages"], value: [...messages, last] },
    { type: "set", path: ["status"], value: "running" },
  );
}

/** Words, with a code block and a table now and then, at a steady rate. */
async function stream(
  told: Told,
  messages: number,
  perSecond: number,
  seconds: number,
): Promise<number> {
  const text = (PROSE.repeat(3) + CODE + TABLE).match(/[\s\S]{1,5}/g)!;
  const path = ["messages", String(messages), "content"];
  const began = performance.now();
  let sent = 0;
  while (performance.now() - began < seconds * 1_000) {
    const due = Math.floor(((performance.now() - began) / 1_000) * perSecond);
    while (sent < due)
      told.say({
        type: "append-text",
        path,
        value: text[sent++ % text.length]!,
      });
    await new Promise((resolve) => setTimeout(resolve, 1));
  }
  return sent;
}

/** As text: what compiles this file would put helpers into a function that the page does not have. */
const COUNT_FRAMES = `new Promise((resolve) => {
  const at = [];
  const tick = (now) => {
    at.push(now);
    if (now - at[0] < ${SECONDS * 1_000}) requestAnimationFrame(tick);
    else resolve(at);
  };
  requestAnimationFrame(tick);
})`;

type Frames = {
  fps: number;
  p99: number;
  worst: number;
  busy: number;
  script: number;
  layout: number;
  /** Milliseconds of script for a thousand deltas: it does not depend on who else uses the machine. */
  cost: number;
};

async function measure(
  messages: number,
  perSecond: number,
): Promise<Frames & { opened: number; sent: number }> {
  const server = await House.open({ stage: ["--page", STATIC] });
  const thread = await server.api.create({ title: "A long thread" });
  const told = new Told();
  const browser = await launch();
  try {
    const page = await browser.newPage({
      viewport: { width: 1280, height: 860 },
    });
    await told.join(page);
    const began = performance.now();
    await page.goto(`${server.url}/t/${thread.id}`);
    await page.getByRole("textbox", { name: "Message" }).waitFor();
    await told.begun;
    fill(told, messages);
    await page.locator("[data-message-id=last]").waitFor({ state: "attached" });
    const opened = performance.now() - began;
    await stream(told, messages, perSecond, WARM_UP_SECONDS);
    const cdp = await page.context().newCDPSession(page);
    // Processor time of the page's main thread: what the page costs, however busy the machine is with other things.
    await cdp.send("Performance.enable", { timeDomain: "threadTicks" });
    const spent = async () => {
      const { metrics } = await cdp.send("Performance.getMetrics");
      return Object.fromEntries(
        metrics.map(({ name, value }) => [name, value]),
      );
    };
    const before = await spent();
    const frames = page.evaluate<number[]>(COUNT_FRAMES);
    const sent = await stream(told, messages, perSecond, SECONDS + 0.5);
    const at = await frames;
    const after = await spent();
    const busy = (name: string) =>
      ((after[name]! - before[name]!) / (SECONDS + 0.5)) * 100;
    const gaps = at
      .slice(1)
      .map((now, index) => now - at[index]!)
      .sort((a, b) => a - b);
    return {
      opened,
      sent,
      fps: (gaps.length / (at.at(-1)! - at[0]!)) * 1_000,
      p99: gaps[Math.floor(gaps.length * 0.99)]!,
      worst: gaps.at(-1)!,
      busy: busy("TaskDuration"),
      script: busy("ScriptDuration"),
      cost:
        ((after["ScriptDuration"]! - before["ScriptDuration"]!) * 1e6) / sent,
      layout: busy("LayoutDuration") + busy("RecalcStyleDuration"),
    };
  } finally {
    await browser.close();
    await server.close();
  }
}

function sizes(): void {
  const assets = readdirSync(new URL("assets/", `file://${STATIC}`));
  const gzipped = (name: string) =>
    gzipSync(readFileSync(`${STATIC}assets/${name}`), { level: 9 }).length;
  const html = readFileSync(`${STATIC}index.html`, "utf8");
  const first = assets.filter((name) => html.includes(name));
  const total = first.reduce(
    (sum, name) => sum + gzipped(name),
    gzipSync(html, { level: 9 }).length,
  );
  console.log(
    `first load: ${(total / 1_000).toFixed(1)} kB gzipped (${first.join(", ")})`,
  );
  for (const name of assets.filter((asset) => !first.includes(asset)))
    console.log(
      `later: ${(gzipped(name) / 1_000).toFixed(1)} kB gzipped (${name})`,
    );
}

sizes();
const CASES: (readonly [number, number])[] = [
  [0, 100],
  [500, 100],
  ...Array.from({ length: RUNS }, () => [500, 1_000] as const),
  [8_000, 1_000],
];
const long = CASES.filter(
  ([messages, perSecond]) => messages === 500 && perSecond === 1_000,
);
console.log(
  "\n| messages | deltas/s | open ms | fps | p99 ms | worst ms | main thread busy % | script % | style and layout % | script ms per 1,000 deltas | load |\n|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|",
);
for (const [messages, perSecond] of RUNS > 1 ? long : CASES) {
  const { opened, fps, p99, worst, busy, script, layout, cost } = await measure(
    messages,
    perSecond,
  );
  const row = [
    messages,
    perSecond,
    opened.toFixed(0),
    fps.toFixed(1),
    p99.toFixed(0),
    worst.toFixed(0),
  ];
  const costs = [
    busy.toFixed(0),
    script.toFixed(0),
    layout.toFixed(0),
    cost.toFixed(0),
    loadavg()[0]!.toFixed(1),
  ];
  console.log(`| ${[...row, ...costs].join(" | ")} |`);
}
process.exit(0);
