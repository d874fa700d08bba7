/** What a long reply costs the page: precise heap after a garbage collection, by Chromium's own protocol. */

import type { CDPSession } from "playwright-core";
import { expect, test } from "vitest";
import { ask, eventually, onThread, talk } from "./stage.js";

/** A few copies of the text and the elements that show it. One copy for every frame would be 60 MB and more. */
const MOST_GROWTH_MB = 16;

async function heapMb(session: CDPSession): Promise<number> {
  await session.send("HeapProfiler.collectGarbage");
  return (await session.send("Runtime.getHeapUsage")).usedSize / 1e6;
}

test.each(["prose", "code", "reasoning"])(
  "memory stays flat while 200 kB of %s stream in",
  async (kind) => {
    const { page } = await onThread();
    const session = await page.context().newCDPSession(page);
    const before = await heapMb(session);
    await ask(page, `${kind} please`);
    await talk(page).getByText("Begin.").waitFor();
    // Reasoning is folded when it ends.
    const last = kind === "reasoning" ? "Thought about it." : "The end.";
    await talk(page).getByText(last).waitFor({ timeout: 120_000 });
    const during = await heapMb(session);
    await eventually(() => page.getByRole("button", { name: "Stop", exact: true }).count(), 0);
    const after = await heapMb(session);
    await page.reload();
    await talk(page).getByText(`${kind} please`, { exact: true }).waitFor();
    const reloaded = await heapMb(session);
    const figures = [before, during, after, reloaded].map((mb) => mb.toFixed(1)).join(" → ");
    console.log(`${kind}: ${figures} MB`);
    expect(Math.max(during, after) - before, figures).toBeLessThan(MOST_GROWTH_MB);
  },
  180_000,
);
