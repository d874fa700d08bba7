/** The page on the real server: real engine, real log, real tools in their sandbox. Only the model plays scenes. */

import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { axe } from "./axe.js";
import { House, python } from "./house.js";
import { ask, box, eventually, listening, open, queue, talk, unfold, visibleMarks, words } from "./stage.js";

const PHONE = { viewport: { width: 390, height: 844 }, isMobile: true, hasTouch: true };

describe.skipIf(python() === undefined)("on the real server", () => {
  let house: House;

  beforeEach(async () => {
    house = await House.open();
  });
  afterEach(() => house.close());

  async function onThread(look: Parameters<typeof open>[1] = {}) {
    const thread = await house.api.create();
    const page = await open(`${house.url}/t/${thread.id}`, look);
    await box(page).waitFor();
    const state = async () => (await house.api.read(thread.id)).state;
    return { page, thread, state };
  }

  test("a first prompt leads to a finished turn", async () => {
    const { page, state } = await onThread();
    await ask(page, "look around");
    await talk(page).getByText("There it is.").waitFor();
    await page.getByRole("button", { name: "Stop", exact: true }).waitFor({ state: "detached" });
    await unfold(page.getByRole("button", { name: /^cat colours/ }));
    const output = page.getByRole("group", { name: "Output" });
    expect(await output.innerText()).toContain("README.md");
    expect(await output.locator("span", { hasText: "red" }).evaluate((span) => span.style.color)).toBe("var(--ansi-1)");
    expect((await state()).status).toBe("idle");
  });

  test("a command runs when somebody says yes with a key", async () => {
    const { page } = await onThread();
    await ask(page, "run it");
    const card = page.locator("[data-approval]");
    await card.getByText("touch done.txt && echo made").waitFor();
    expect(house.file("done.txt")).toBeNull();
    await eventually(() => card.evaluate((element) => element === document.activeElement), true);
    await listening(page);
    await page.keyboard.press("y");
    await talk(page).getByText("It ran.").waitFor();
    expect(house.file("done.txt")).toBe("");
  });

  test("what a turn did to files is undone and redone, and shown before", async () => {
    const { page } = await onThread();
    await ask(page, "run it");
    await page.getByRole("button", { name: /^Yes, once/ }).click();
    await talk(page).getByText("It ran.").waitFor();
    expect(house.file("done.txt")).toBe("");
    await page.getByRole("button", { name: "Undo file changes" }).click();
    const dialog = page.getByRole("dialog", { name: "Undo changes to files" });
    await dialog.getByText("done.txt").waitFor();
    expect(house.file("done.txt")).toBe("");
    await dialog.getByRole("button", { name: "Undo 1 change" }).click();
    await page.getByText("1 change undone").first().waitFor();
    await eventually(() => Promise.resolve(house.file("done.txt")), null);
    await box(page).fill("/redo");
    await box(page).press("Enter");
    await page.getByRole("button", { name: "Redo 1 change" }).click();
    await page.getByText("1 change redone").first().waitFor();
    await eventually(() => Promise.resolve(house.file("done.txt")), "");
    expect(await axe(page)).toEqual([]);
  });

  test("a command does not run when somebody says no with a click", async () => {
    const { page, state } = await onThread();
    await ask(page, "leave the sandbox");
    await page.getByText("Runs outside the sandbox: it has to be outside").waitFor();
    await page.getByRole("button", { name: "No n" }).click();
    await talk(page).getByText("Understood.").waitFor();
    expect(house.file("outside.txt")).toBeNull();
    const calls = (await state()).messages.flatMap(({ toolCalls }) => toolCalls ?? []);
    expect(calls.map(({ outcome }) => outcome)).toEqual(["declined"]);
  });

  test("stop ends a running command", async () => {
    const { page, state } = await onThread();
    await ask(page, "stuck please");
    await page.getByRole("button", { name: /^Yes, once/ }).click();
    await page.getByRole("group", { name: "Output" }).getByText("begun").waitFor();
    await page.getByRole("button", { name: "Stop", exact: true }).click();
    await talk(page).getByText("Stopped", { exact: true }).waitFor();
    await eventually(async () => (await state()).status, "idle");
  });

  test("prompts wait for each other, and can be taken back", async () => {
    const { page, state } = await onThread();
    await ask(page, "run it");
    await page.locator("[data-approval]").waitFor();
    await queue(page, "hello one");
    await queue(page, "hello two");
    const waiting = page.getByRole("region", { name: "Queued prompts" });
    await eventually(() => waiting.getByRole("listitem").count(), 2);
    await waiting.getByRole("listitem").first().getByRole("button", { name: "Remove" }).click();
    await eventually(() => waiting.getByRole("listitem").count(), 1);
    await page.getByRole("button", { name: /^Yes, once/ }).click();
    await talk(page).getByText("Hello. What shall we do?").waitFor();
    const said = (await state()).messages.filter(({ role }) => role === "user").map(({ content }) => content);
    expect(said).toEqual(["run it", "hello two"]);
  });

  test("a wire that is cut in the middle of a stream loses no text", async () => {
    const { page, state } = await onThread();
    await ask(page, "slow please");
    await talk(page).getByText("word10 ").waitFor();
    for (let i = 0; i < 4; i++) {
      house.wire.cut();
      await page.waitForTimeout(350);
    }
    await eventually(async () => (await state()).status, "idle");
    const whole = (await state()).messages.at(-1)!.content.trim();
    expect(whole.endsWith("word400")).toBe(true);
    await eventually(async () => (await words(page)).includes(whole), true);
  });

  test("a server that is killed in the middle of a stream comes back with what was seen", async () => {
    const { page, state } = await onThread();
    await ask(page, "slow please");
    await talk(page).getByText("word40 ").waitFor();
    await house.kill();
    await page.getByText("Reconnecting").waitFor();
    const seen = (await words(page)).match(/word\d+/g)!;
    await ask(page, "hello after all");
    await talk(page).getByText("Will be sent when the connection is back").waitFor();
    await house.start();
    await talk(page).getByText("Hello. What shall we do?").waitFor();
    const kept = (await state()).messages[1]!.content;
    expect(kept).toContain(seen.at(-1)!);
    expect((await state()).messages.filter(({ role }) => role === "user")).toHaveLength(2);
  });

  test("two tabs on one thread see the same, and either may answer", async () => {
    const { page, thread } = await onThread();
    const other = await open(`${house.url}/t/${thread.id}`);
    await ask(page, "run it");
    await other.getByRole("button", { name: /^Yes, once/ }).click();
    await talk(page).getByText("It ran.").waitFor();
    await talk(other).getByText("It ran.").waitFor();
    await eventually(() => words(other), await words(page));
  });

  test("every tab is told at once who is new, who runs and who waits, without asking", async () => {
    const { page } = await onThread();
    const elsewhere = await house.api.create({ title: "Elsewhere" });
    const other = await open(`${house.url}/t/${elsewhere.id}`);
    const rows = other.getByRole("navigation", { name: "Threads" });
    await rows.getByRole("link", { name: /Elsewhere/ }).waitFor();
    await eventually(() => rows.getByRole("link").count(), 2);
    // From now on it learns of the other threads by its socket, or not at all.
    await other.route("**/threads?*", (route) => route.abort());
    await ask(page, "run it");
    await rows.getByText("needs you", { exact: true }).waitFor();
    await rows.getByRole("link", { name: /run it/ }).waitFor();
    await eventually(() => other.title(), "(!) Elsewhere · Hames");
    await page.getByRole("button", { name: /^Yes, once/ }).click();
    await eventually(() => other.title(), "Elsewhere · Hames");
    await page.getByRole("heading", { level: 1 }).getByRole("button").click();
    await page.getByRole("textbox", { name: "Title" }).fill("A better name");
    await page.keyboard.press("Enter");
    await rows.getByRole("link", { name: /A better name/ }).waitFor();
    await other.unroute("**/threads?*");
    await house.api.create({ title: "Brand new" });
    await rows.getByRole("link", { name: /Brand new/ }).waitFor();
  });

  test("threads are switched, searched and archived", async () => {
    const { page, thread } = await onThread();
    await ask(page, "hello here");
    await talk(page).getByText("Hello. What shall we do?").waitFor();
    const other = await house.api.create({ title: "Elsewhere" });
    await page.getByRole("link", { name: /Elsewhere/ }).click();
    await eventually(() => new URL(page.url()).pathname, `/t/${other.id}`);
    await page.getByRole("searchbox").fill("here");
    await page.getByRole("link", { name: /hello here/ }).click();
    await talk(page).getByText("Hello. What shall we do?").waitFor();
    await page.getByRole("searchbox").fill("");
    await page.getByRole("button", { name: "Archive Elsewhere" }).click();
    await eventually(() => page.getByRole("link", { name: /Elsewhere/ }).count(), 0);
    expect((await house.api.threads({ archived: true })).threads.map(({ id }) => id)).toEqual([other.id]);
    expect(new URL(page.url()).pathname).toBe(`/t/${thread.id}`);
  });

  test("a change is shown, and the plan", async () => {
    const { page } = await onThread();
    await ask(page, "change it");
    const yes = page.getByRole("button", { name: /^Yes, once/ });
    const done = talk(page).getByText("Changed.").first();
    await yes.or(done).first().waitFor();
    if (await yes.isVisible()) await yes.click();
    await done.waitFor();
    expect(house.file("src/login.py")).toContain("compare(user.password, password)");
    const diff = page.getByRole("group", { name: "Changes to src/login.py" }).first();
    expect(await diff.locator("tr.add").innerText()).toContain("compare(user.password, password)");
    await page.getByRole("button", { name: /^Changes 1/ }).click();
    await page.getByRole("complementary", { name: "Changes" }).getByText("1 file").waitFor();
    await page.getByRole("button", { name: /^Plan 0\/2/ }).click();
    await page.getByRole("complementary", { name: "Plan" }).getByText("Run the tests").waitFor();
  });

  test("the past can be looked at, and gone on from", async () => {
    const { page, thread } = await onThread();
    await ask(page, "hello one");
    await talk(page).getByText("Hello. What shall we do?").waitFor();
    await ask(page, "hello two");
    await eventually(() => talk(page).getByText("Hello. What shall we do?").count(), 2);
    await page.getByRole("button", { name: "Stop", exact: true }).waitFor({ state: "detached" });
    const marks = visibleMarks((await house.api.timeline(thread.id)).marks);
    const before = marks.findLastIndex(({ kind }) => kind === "turn") - 1;
    await page.getByRole("button", { name: "Time travel" }).click();
    await page.getByRole("slider").fill(String(before));
    await eventually(async () => (await words(page)).includes("hello two"), false);
    await page.getByRole("button", { name: "Fork from here" }).click();
    await box(page).waitFor();
    const fork = new URL(page.url()).pathname.split("/").at(-1)!;
    expect(fork).not.toBe(thread.id);
    await ask(page, "hello three");
    await eventually(async () => {
      const { messages } = (await house.api.read(fork)).state;
      return messages.filter(({ role }) => role === "user").map(({ content }) => content);
    }, ["hello one", "hello three"]);
  });

  test("an earlier prompt is edited in a fork", async () => {
    const { page, thread } = await onThread();
    await ask(page, "hello one");
    await talk(page).getByText("Hello. What shall we do?").waitFor();
    await page.getByRole("button", { name: "Stop", exact: true }).waitFor({ state: "detached" });
    await talk(page).getByRole("button", { name: "Edit in a new fork" }).click();
    await eventually(() => new URL(page.url()).pathname === `/t/${thread.id}`, false);
    await eventually(() => box(page).inputValue(), "hello one");
    const fork = new URL(page.url()).pathname.split("/").at(-1)!;
    expect((await house.api.read(fork)).state.messages).toEqual([]);
  });

  test("long output is a tail, and all of it is one button away", async () => {
    const { page } = await onThread();
    await ask(page, "flood please");
    await talk(page).getByText("That was a lot.").waitFor();
    await unfold(page.getByRole("button", { name: /^seq 20000/ }));
    await page.getByRole("button", { name: /Show all/ }).click();
    const output = page.getByRole("group", { name: "Output" });
    await eventually(async () => (await output.innerText()).startsWith("1\n2\n3\n"), true);
  });

  test("files are offered, pictures are taken along", async () => {
    const { page, state } = await onThread();
    await box(page).pressSequentially("hello @login");
    await page.getByRole("option", { name: "src/login.py", exact: true }).click();
    await page.evaluate(async () => {
      const canvas = new OffscreenCanvas(8, 8);
      canvas.getContext("2d")!.fillRect(0, 0, 8, 8);
      const clipboard = new DataTransfer();
      clipboard.items.add(new File([await canvas.convertToBlob()], "shot.png", { type: "image/png" }));
      const paste = { clipboardData: clipboard, bubbles: true, cancelable: true };
      document.querySelector("textarea")!.dispatchEvent(new ClipboardEvent("paste", paste));
    });
    await page.getByRole("img", { name: "shot.png" }).waitFor();
    await page.getByRole("button", { name: "Send" }).click();
    await talk(page).getByText("Hello. What shall we do?").waitFor();
    expect((await state()).messages[0]!.attachments).toMatchObject([
      { kind: "image", name: "shot.png" },
      { kind: "file", name: "src/login.py" },
    ]);
    const image = talk(page).getByRole("img", { name: "shot.png" });
    await eventually(() => image.evaluate((element) => (element as HTMLImageElement).naturalWidth), 8);
  });

  test("settings are chosen from the server's own list", async () => {
    const { page, state } = await onThread();
    await page.getByRole("button", { name: "Effort Medium" }).click();
    await page.getByRole("option", { name: "High" }).click();
    await page.getByRole("button", { name: "Effort High" }).waitFor();
    await page.getByRole("button", { name: /^Mode:/ }).click();
    await page.getByRole("option", { name: /Never ask/ }).click();
    await eventually(async () => (await state()).settings?.approvalPolicy, "never");
    await ask(page, "run it");
    await talk(page).getByText("It ran.").waitFor();
  });

  test("a failure says what helps, and a title is kept", async () => {
    const { page, state } = await onThread();
    await ask(page, "fail please");
    await page.getByRole("heading", { name: "The model provider rejected the API key" }).waitFor();
    await page.getByRole("heading", { level: 1 }).getByRole("button").click();
    await page.getByRole("textbox", { name: "Title" }).fill("A better name");
    await page.keyboard.press("Enter");
    await eventually(async () => (await state()).thread?.title, "A better name");
  });

  test("a refusal offers the prompt again, a thread that is too long a summary", async () => {
    const { page } = await onThread();
    await ask(page, "refuse this");
    await page.getByRole("heading", { name: "The model refused" }).waitFor();
    await page.getByRole("button", { name: "Edit the prompt" }).click();
    await eventually(() => box(page).inputValue(), "refuse this");
    await ask(page, "long please");
    await page.getByRole("heading", { name: "The conversation is too long for this model" }).waitFor();
    await page.getByRole("button", { name: "Summarise and continue" }).waitFor();
  });

  test("the whole tour: a bug is found, a test is written, the fix is reviewed side by side, and time goes back", async () => {
    const { page, thread } = await onThread();
    await ask(page, "The sign-in crashes for unknown names.");
    const card = page.locator("[data-approval]");
    for (const asked of ["python3 -c", "test_signin.py", "signin.py", "signin.py", "unittest discover"]) {
      await card.filter({ hasText: asked }).waitFor();
      const id = await card.getAttribute("data-approval");
      await card.getByRole("button", { name: /^Yes, once/ }).click();
      await page.locator(`[data-approval="${id}"]`).waitFor({ state: "detached" });
    }
    await card.getByText("git commit").waitFor();
    expect(await talk(page).getByText("Step 4 of 4: Commit").count()).toBe(1);
    await page.getByRole("button", { name: /^Changes 2/ }).click();
    const panel = page.getByRole("complementary", { name: "Changes" });
    await panel.getByText("2 files").waitFor();
    expect(await panel.getByRole("group", { name: "Changes to accounts/signin.py" }).count()).toBe(1);
    await panel.getByRole("button", { name: "Side by side" }).click();
    await panel.getByRole("button", { name: "Wider" }).click();
    expect(await panel.locator("table.split").count()).toBe(2);
    expect(await talk(page).isVisible()).toBe(false);
    await panel.getByRole("button", { name: "Wider" }).click();
    expect(await talk(page).locator("table.split").count()).toBeGreaterThan(1);
    await page.getByRole("button", { name: "Close panel" }).click();
    await page.getByRole("button", { name: "Time travel" }).click();
    await page.getByRole("slider").fill("2");
    await eventually(() => talk(page).locator("[data-approval]").count(), 0);
    await page.keyboard.press("Escape");
    await card.getByText("git commit").waitFor();
    expect((await house.api.read(thread.id)).state.approvals).toHaveLength(1);
  });

  test("what a model writes is text", async () => {
    const { page } = await onThread();
    await ask(page, "hostile please");
    await talk(page).getByText("Raw HTML is text").waitFor();
    expect(await page.evaluate(() => (window as unknown as Record<string, unknown>)["__pwned"])).toBeUndefined();
    expect(await talk(page).locator("a").count()).toBe(0);
  });

  test.each([
    ["light", {}],
    ["dark", { colorScheme: "dark" as const }],
    ["on a phone", PHONE],
  ])("axe finds nothing: %s", async (_, look) => {
    const { page } = await onThread(look);
    await box(page).fill("run it");
    await page.getByRole("button", { name: "Send" }).click();
    await page.locator("[data-approval]").waitFor();
    expect(await axe(page)).toEqual([]);
    const overflow = await page.evaluate(() => document.documentElement.scrollWidth - window.innerWidth);
    expect(overflow).toBe(0);
    await page.getByRole("button", { name: /^Yes, once/ }).click();
    await talk(page).getByText("It ran.").waitFor();
    expect(await axe(page)).toEqual([]);
  });
});
