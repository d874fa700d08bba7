/** Tool calls: what was skipped, why something failed, what was made, and cards that do not jump. On the real server. */

import { readFileSync } from "node:fs";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { axe } from "./axe.js";
import { House, python } from "./house.js";
import { ask, box, eventually, open, talk } from "./stage.js";

describe.skipIf(python() === undefined)("tool calls", () => {
  let house: House;
  beforeEach(async () => {
    house = await House.open();
  });
  afterEach(() => house.close());

  async function onThread() {
    const thread = await house.api.create();
    const page = await open(`${house.url}/t/${thread.id}`);
    await box(page).waitFor();
    return { page, thread };
  }

  test("calls after a failed one of the same reply are shown as skipped, with the reason", async () => {
    const { page } = await onThread();
    await ask(page, "skip please");
    await page
      .getByRole("button", { name: /^Yes, once/ })
      .or(talk(page).getByText("The rest was not run."))
      .first()
      .waitFor();
    const yes = page.getByRole("button", { name: /^Yes, once/ });
    if (await yes.isVisible()) await yes.click();
    await talk(page).getByText("The rest was not run.").waitFor();
    const skipped = page.locator('.tool[data-outcome="skipped"]');
    await eventually(() => skipped.count(), 2);
    await skipped.getByText("echo never").waitFor();
    expect(await skipped.first().getAttribute("aria-label")).toMatch(/: not run$/);
    expect(await skipped.first().locator(".tool-facts").innerText()).toBe("not run");
    await skipped.first().getByRole("button").click();
    await skipped.first().getByText("an earlier call of the same reply failed").waitFor();
    await page.reload();
    await eventually(() => skipped.count(), 2);
  });

  test("an artifact and a picture that was read are shown as pictures, to open and to save", async () => {
    const { page } = await onThread();
    await ask(page, "artifact please");
    await talk(page).getByText("Here they are.").waitFor();
    const width = (name: string) =>
      talk(page)
        .getByRole("img", { name })
        .evaluate((element) => (element as HTMLImageElement).naturalWidth);
    await eventually(() => width("The chart"), 16);
    await eventually(() => width("read chart.png"), 16);
    expect(await talk(page).getByText("mediaType").count()).toBe(0);
    const chart = page.locator(".tool", { hasText: "The chart" });
    const [download] = await Promise.all([
      page.waitForEvent("download"),
      chart.getByRole("link", { name: "Download" }).click(),
    ]);
    expect(download.suggestedFilename()).toBe("chart.png");
    expect(
      readFileSync(await download.path())
        .subarray(1, 4)
        .toString(),
    ).toBe("PNG");
    const [opened] = await Promise.all([
      page.context().waitForEvent("page"),
      page.locator(".tool", { hasText: "The notes" }).getByRole("link", { name: "Open" }).click(),
    ]);
    // Whatever an agent wrote, it is text in the browser and nothing runs.
    await eventually(
      async () => (await opened.locator("body").innerText()).includes("<script>alert(1)</script>"),
      true,
    );
    expect(await opened.evaluate(() => document.contentType)).toBe("text/plain");
  });

  test("background processes are listed with what they print, and can be ended", async () => {
    const { page, thread } = await onThread();
    await ask(page, "background please");
    const yes = page.getByRole("button", { name: /^Yes, once/ });
    await yes.or(talk(page).getByText("It runs in the background.")).first().waitFor();
    if (await yes.isVisible()) await yes.click();
    await talk(page).getByText("It runs in the background.").waitFor();
    await ask(page, "/ps");
    const panel = page.getByRole("complementary", { name: "Processes" });
    await panel.getByText("listening on 8000", { exact: true }).waitFor();
    await panel.getByText(/Process 1 · running for/).waitFor();
    expect(await axe(page)).toEqual([]);
    await panel.getByRole("button", { name: "End process 1" }).click();
    await panel.getByText(/Process 1 · (ended|exit code)/).waitFor();
    await eventually(async () => (await house.api.processes(thread.id)).map(({ running }) => running), [false]);
    await page.keyboard.press("Escape");
    await eventually(() => panel.count(), 0);
  });

  test("what fills the model's context is shown, and changes with the conversation", async () => {
    const { page } = await onThread();
    await ask(page, "hello please");
    await talk(page).getByText("Hello. What shall we do?").waitFor();
    await page.getByRole("button", { name: "More" }).click();
    await page.getByRole("menuitem", { name: /^Context/ }).click();
    const panel = page.getByRole("complementary", { name: "Context" });
    await panel.getByText(/^About .* tokens are in use/).waitFor();
    await panel.getByRole("rowheader", { name: /^user messages \(1\)/ }).waitFor();
    expect(await axe(page)).toEqual([]);
    await ask(page, "hello again");
    await panel.getByRole("rowheader", { name: /^user messages \(2\)/ }).waitFor();
  });

  test("an artifact that is gone says so", async () => {
    const { page, thread } = await onThread();
    await ask(page, "artifact please");
    await talk(page).getByText("Here they are.").waitFor();
    await page.route(`**/threads/${thread.id}/artifacts/**`, (route) => route.fulfill({ status: 404, body: "{}" }));
    await page.reload();
    await talk(page).getByText("cannot be shown any more").first().waitFor();
  });

  test("a failed tool says why before anything else", async () => {
    const { page } = await onThread();
    await ask(page, "missing please");
    await talk(page).getByText("It is not there.").waitFor();
    const failed = page.locator('.tool[data-outcome="failed"]');
    const body = failed.locator(".tool-body");
    expect(await body.locator("> :first-child").getAttribute("class")).toBe("tool-reason");
    expect((await body.locator(".tool-reason").innerText()).toLowerCase()).toContain("missing.txt");
    expect(await body.getByText("old_string").isVisible()).toBe(false);
    await body.getByText("Arguments").click();
    await body.getByText("old_string").waitFor();
  });

  test("a command of several lines keeps its lines in a closed card", async () => {
    const { page } = await onThread();
    await page.getByRole("button", { name: /^Mode:/ }).click();
    await page.getByRole("option", { name: /Never ask/ }).click();
    await page.getByRole("button", { name: "Mode: Never ask" }).waitFor();
    await ask(page, "lines please");
    await talk(page).getByText("Five lines.").waitFor();
    const title = page.locator(".tool-title.command");
    const head = page.locator(".tool-head");
    // A command that ran for long has opened its card, and on a busy machine that happens.
    if ((await head.getAttribute("aria-expanded")) === "true") await head.click();
    expect((await title.innerText()).split("\n").map((line) => line.trim())).toEqual([
      "cd src",
      "ls",
      "",
      "# and count",
      "… 1 more line",
    ]);
    await head.click();
    await page.locator(".tool-command", { hasText: "ls | wc -l" }).waitFor();
  });

  test("a quick command never opens, so nothing jumps", async () => {
    const { page } = await onThread();
    // The second after which a command counts as slow never ends, however busy the machine is.
    await page.evaluate(() => {
      const timer = window.setTimeout.bind(window) as (act: TimerHandler, ms?: number) => number;
      Object.assign(window, { setTimeout: (act: TimerHandler, ms?: number) => (ms === 1_000 ? 0 : timer(act, ms)) });
    });
    // Every height that the card has, from its first frame on.
    await page.evaluate(() => {
      const seen: string[] = [];
      Object.assign(window, { seen });
      new MutationObserver(() => {
        for (const head of document.querySelectorAll(".tool-head")) {
          const now = head.getAttribute("aria-expanded")!;
          if (seen.at(-1) !== now) seen.push(now);
        }
      }).observe(document.body, { subtree: true, childList: true, attributes: true });
    });
    await ask(page, "quick please");
    await talk(page).getByText("Listed.").waitFor();
    expect(await page.evaluate(() => (window as unknown as { seen: string[] }).seen)).toEqual(["false"]);
  });

  test.each([
    ["run it", "touch creates a file"],
    ["variable please", "it uses a shell variable ($HOME), so what it reads cannot be known in advance"],
  ])("the approval of %s says why it is asked, in plain words", async (prompt, reason) => {
    const { page } = await onThread();
    await ask(page, prompt);
    const card = page.locator("[data-approval]");
    await card.waitFor();
    const words = (await card.innerText()).replaceAll(/\s+/g, " ");
    expect(words.toLowerCase()).toContain(reason.toLowerCase());
    // The reason does not say the command once more.
    const command = prompt.startsWith("run") ? "touch done.txt && echo made" : "cat $HOME/notes.txt";
    expect(words.split(command)).toHaveLength(2);
  });

  test("a thought says how long it took, also after a reload", async () => {
    const { page } = await onThread();
    await ask(page, "ponder please");
    await talk(page).getByText("Pondered.").waitFor();
    const thought = talk(page).getByRole("button", { name: /^Thought for [\d.]+ s/ });
    await thought.waitFor();
    expect(await thought.innerText()).toContain("Weighing it");
    await page.reload();
    await thought.waitFor();
  });

  test("a thought shows its first words", async () => {
    const { page } = await onThread();
    await ask(page, "quick please");
    await talk(page).getByText("Listed.").waitFor();
    const thought = talk(page).getByRole("button", { name: /^Thought/ });
    expect(await thought.innerText()).toContain("A quick look");
    expect(await talk(page).getByText("First I list the files.").count()).toBe(0);
    await thought.click();
    await talk(page).getByText("First I list the files.").waitFor();
  });
});
