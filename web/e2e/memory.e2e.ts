/** What a long reply costs the page: precise heap after a garbage collection, by Chromium's own protocol. */

import type { CDPSession, Page } from "playwright-core";
import { expect, test } from "vitest";
import type { FakeThread } from "../dev/thread.js";
import { eventually, onThread, talk } from "./stage.js";

const REPLY_CHARS = 200_000;
const PIECE_CHARS = 400;
/** A few copies of the text and the elements that show it. One copy for every frame would be 60 MB and more. */
const MOST_GROWTH_MB = 16;

const PROSE =
  "The parser reads a line, **decides** what it is, and hands it to `handle()`. Some more words follow it.\n\n";
const LINE = '    return Event(kind=kind, value=rest.strip(), note="a line of code that is neither short nor long")\n';

async function heapMb(session: CDPSession): Promise<number> {
  await session.send("HeapProfiler.collectGarbage");
  return (await session.send("Runtime.getHeapUsage")).usedSize / 1e6;
}

/** One piece a frame, so that the page draws every generation of the text. */
async function streamed(page: Page, thread: FakeThread, member: "content" | "reasoning", unit: string): Promise<void> {
  const text = unit.repeat(Math.ceil(REPLY_CHARS / unit.length)).slice(0, REPLY_CHARS);
  const path = ["messages", 1, member];
  for (let at = 0; at < text.length; at += PIECE_CHARS) {
    thread.commit([thread.append(path, text.slice(at, at + PIECE_CHARS))]);
    await page.evaluate(() => new Promise(requestAnimationFrame));
  }
}

const blank = { createdAt: 1, turnId: "t", reasoning: "", stopReason: "", error: "", attachments: [], toolCalls: [] };

test.each([
  ["prose", "content", PROSE, ""],
  ["one block of code", "content", LINE, "```python\n"],
  ["reasoning", "reasoning", PROSE, ""],
] as const)(
  "memory stays flat while 200 kB of %s stream in",
  async (kind, member, unit, opening) => {
    const { page, thread } = await onThread();
    const session = await page.context().newCDPSession(page);
    const messages = [
      { ...blank, id: "m1", role: "user", content: "go", status: "complete" },
      { ...blank, id: "m2", role: "assistant", content: "", status: "streaming", [member]: `${opening}Begin. ` },
    ];
    thread.commit([thread.set(["messages"], messages), thread.set(["status"], "running")]);
    await talk(page).getByText("Begin.").waitFor();
    const before = await heapMb(session);
    await streamed(page, thread, member, unit);
    thread.commit([thread.append(["messages", 1, member], "\n\nThe end.")]);
    await talk(page).getByText("The end.").waitFor();
    const during = await heapMb(session);
    thread.commit([thread.set(["messages", 1, "status"], "complete"), thread.set(["status"], "idle")]);
    await eventually(() => page.getByRole("button", { name: "Stop", exact: true }).count(), 0);
    const after = await heapMb(session);
    await page.reload();
    await talk(page).getByText("go", { exact: true }).waitFor();
    const reloaded = await heapMb(session);
    const figures = [before, during, after, reloaded].map((mb) => mb.toFixed(1)).join(" → ");
    console.log(`${kind}: ${figures} MB`);
    expect(Math.max(during, after) - before, figures).toBeLessThan(MOST_GROWTH_MB);
  },
  180_000,
);
