/** What people who had only the page's address stumbled over. */

import { execFileSync } from "node:child_process";
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import type { Page } from "playwright-core";
import { expect, test } from "vitest";
import { ask, axeFree, box, eventually, listening, onThread, open, serve, steered, talk, unfold } from "./stage.js";

const PHONE = { viewport: { width: 390, height: 844 }, isMobile: true, hasTouch: true };
/** What 1280×800 is at a zoom of 200 %. */
const ZOOMED = { viewport: { width: 640, height: 400 } };
const LANDSCAPE = { viewport: { width: 844, height: 390 }, isMobile: true, hasTouch: true };

const focusIn = (page: Page, selector: string) =>
  page.evaluate((inside) => document.activeElement?.closest(inside) !== null, selector);

const isOnScreen = (page: Page, selector: string) =>
  page
    .locator(selector)
    .first()
    .evaluate((element) => {
      const { top, bottom, left, right } = element.getBoundingClientRect();
      const middle = document.elementFromPoint((left + right) / 2, (top + bottom) / 2);
      return top >= 0 && bottom <= innerHeight && right <= innerWidth && middle !== null && element.contains(middle);
    });

async function asked(page: Page): Promise<void> {
  await ask(page, "mcp please");
  await page.locator("[data-approval]").waitFor();
  await listening(page);
}

test("Changes shows what commands changed, as git says", async () => {
  const { page, server } = await onThread();
  const git = (...words: string[]) =>
    execFileSync("git", ["-c", "user.name=A", "-c", "user.email=a@b", ...words], { cwd: server.workspace });
  writeFileSync(join(server.workspace, "stats.py"), "one\n");
  git("init", "-q");
  git("add", "-A");
  git("commit", "-qm", "One");
  writeFileSync(join(server.workspace, "stats.py"), "two\n");
  await ask(page, "flood");
  await talk(page).getByText("That was a lot.").waitFor();
  await page.getByRole("button", { name: "Changes", exact: true }).click();
  const panel = page.getByRole("complementary", { name: "Changes" });
  await panel.getByText("Everything in this folder that is not committed").waitFor();
  await panel.getByRole("region", { name: "stats.py" }).waitFor();
  await panel.getByRole("button", { name: "Edits of this thread" }).click();
  await panel.getByText("no edits with the edit tools").waitFor();
  await axeFree(page);
});

test("without git, Changes says what it cannot know", async () => {
  const { page } = await onThread();
  await ask(page, "flood");
  await talk(page).getByText("That was a lot.").waitFor();
  await page.getByRole("button", { name: "Changes", exact: true }).click();
  await page.getByText("Commands may have changed files.").waitFor();
});

test.each(["the conversation", "a menu button", "the page"])("y answers while the focus is on %s", async (where) => {
  const { page } = await onThread();
  await asked(page);
  if (where === "the conversation") await talk(page).focus();
  if (where === "a menu button") await page.getByRole("button", { name: "More" }).focus();
  if (where === "the page") await page.evaluate(() => (document.activeElement as HTMLElement).blur());
  await page.keyboard.press("y");
  await talk(page).getByText("Done.", { exact: true }).waitFor();
});

test("letters typed into the message box answer nothing, and “yes” sent from it does", async () => {
  const { page, thread } = await onThread();
  await asked(page);
  await box(page).click();
  await page.keyboard.type("any news");
  expect(await box(page).inputValue()).toBe("any news");
  expect(thread.state.approvals).toHaveLength(1);
  await box(page).fill("yes");
  await box(page).press("Enter");
  await talk(page).getByText("Done.", { exact: true }).waitFor();
  expect(steered(page)).toEqual([]);
});

test("Alt+A goes to the question, and Alt+M leaves the message box and comes back", async () => {
  const { page } = await onThread();
  await asked(page);
  await box(page).click();
  await page.keyboard.press("Alt+A");
  await eventually(() => focusIn(page, "[data-approval]"), true);
  await page.keyboard.press("Alt+M");
  await eventually(() => focusIn(page, "[data-composer]"), true);
  await page.keyboard.press("Alt+M");
  await eventually(() => focusIn(page, ".viewport"), true);
  expect(await focusIn(page, "[data-composer]")).toBe(false);
});

test("a change of the permissions by Shift+Tab is said aloud", async () => {
  const { page } = await onThread();
  await box(page).focus();
  await page.keyboard.press("Shift+Tab");
  await page.getByRole("status").getByText("Mode: Auto").waitFor({ state: "attached" });
});

test.each([
  ["a phone", PHONE],
  ["a large zoom", ZOOMED],
])("with %s the thread list takes the focus, keeps it, and Escape gives it back", async (_, look) => {
  const { page } = await onThread({}, look);
  const opener = page.getByRole("button", { name: "Threads", exact: true });
  await opener.focus();
  await page.keyboard.press("Enter");
  await eventually(() => focusIn(page, ".sidebar"), true);
  for (let step = 0; step < 15; step++) {
    await page.keyboard.press("Tab");
    expect(await focusIn(page, "#main")).toBe(false);
  }
  await page.keyboard.press("Escape");
  await eventually(() => page.locator(".sidebar[data-open]").count(), 0);
  await eventually(() => opener.evaluate((element) => element === document.activeElement), true);
});

test.each([
  ["a wide window", {}],
  ["a large zoom", ZOOMED],
])("in %s a panel takes the focus, and Escape gives it back", async (_, look) => {
  const { page } = await onThread({}, look);
  const opener = page.getByRole("button", { name: "Changes", exact: true });
  await opener.focus();
  await page.keyboard.press("Enter");
  await eventually(() => focusIn(page, ".panel"), true);
  await page.keyboard.press("Escape");
  await eventually(() => page.locator(".panel").count(), 0);
  await eventually(() => opener.evaluate((element) => element === document.activeElement), true);
});

test("a message that the agent did not read before it was stopped says so, and is sent again", async () => {
  const { page, thread } = await onThread();
  await asked(page);
  await box(page).fill("keep the style");
  await box(page).press("Enter");
  await talk(page).getByText("keep the style").waitFor();
  expect(await page.getByText("Not read by the agent").count()).toBe(0);
  await page.getByRole("button", { name: "Stop", exact: true }).click();
  await page.getByText("Not read by the agent").waitFor();
  await page.getByRole("button", { name: "Send again" }).click();
  await eventually(() => thread.state.messages.filter(({ content }) => content === "keep the style").length, 2);
});

test("a tool that was never approved was not run, and a stop is called a stop", async () => {
  const { page } = await onThread();
  await asked(page);
  await page.getByRole("button", { name: "Stop", exact: true }).click();
  await talk(page).getByText("not run", { exact: true }).waitFor();
  await eventually(() => page.locator("[data-announcer]").innerText(), "Stopped.");
  // The button is gone: the focus is where people type.
  await eventually(() => focusIn(page, "[data-composer]"), true);
});

test.each([
  ["a wide window", {}],
  ["a phone", PHONE],
])("in %s a message at the edge covers neither the message box nor the lists", async (_, look) => {
  const { page, server } = await onThread({}, look);
  server.wire.down = true;
  server.wire.cut();
  await page.getByText("Connection lost").waitFor();
  await page.getByRole("button", { name: /^Mode:/ }).click();
  await page.getByRole("option", { name: /Ask every time/ }).click();
  await page.locator(".toast").waitFor();
  const overlap = await page.evaluate(() => {
    const toast = document.querySelector(".toast")!.getBoundingClientRect();
    return [".composer", ".head", ".sidebar-foot"].filter((selector) => {
      const element = document.querySelector<HTMLElement>(selector)!;
      const other = element.getBoundingClientRect();
      if (getComputedStyle(element).visibility === "hidden") return false;
      return (
        toast.left < other.right && toast.right > other.left && toast.top < other.bottom && toast.bottom > other.top
      );
    });
  });
  expect(overlap).toEqual([]);
});

test("on a phone every setting says what it is, and its list has a title", async () => {
  const { page } = await onThread({}, PHONE);
  const mode = page.getByRole("button", { name: /^Mode:/ });
  await mode.getByText("Ask", { exact: true }).waitFor();
  expect(await mode.locator("span").evaluate((words) => words.scrollWidth <= words.clientWidth)).toBe(true);
  for (const [name, title] of [
    [/^Mode:/, "Mode"],
    [/^Model/, "Model"],
    [/^Sandbox/, "Sandbox"],
    [/^Effort/, "Effort"],
  ] as const) {
    const button = page.getByRole("button", { name });
    expect((await button.innerText()).trim()).not.toBe("");
    await button.tap();
    await page.locator(".menu-heading strong").getByText(title, { exact: true }).waitFor();
    await page.keyboard.press("Escape");
  }
});

test("on a phone the button that copies the output does not lie on it", async () => {
  const { page } = await onThread({}, PHONE);
  await box(page).fill("flood");
  await page.getByRole("button", { name: "Send", exact: true }).tap();
  await talk(page).getByText("That was a lot.").waitFor();
  await unfold(page.getByRole("button", { name: /^seq 20000/ }));
  const copy = await page.getByRole("button", { name: "Copy output" }).boundingBox();
  const output = await page.getByRole("group", { name: "Output" }).boundingBox();
  expect(copy!.y + copy!.height).toBeLessThanOrEqual(output!.y + 0.5);
});

test("on a phone Back closes a panel, then the thread list, before it leaves the thread", async () => {
  const { page } = await onThread({}, PHONE);
  const address = page.url();
  await page.getByRole("button", { name: "Changes", exact: true }).tap();
  await page.locator(".panel").waitFor();
  await page.goBack();
  await eventually(() => page.locator(".panel").count(), 0);
  await page.getByRole("button", { name: "Threads", exact: true }).tap();
  await page.locator(".sidebar[data-open]").waitFor();
  await page.goBack();
  await eventually(() => page.locator(".sidebar[data-open]").count(), 0);
  expect(page.url()).toBe(address);
});

test.each([
  ["a phone on its side", LANDSCAPE],
  ["a large zoom", ZOOMED],
])("with %s the question and its answers are on the screen", async (_, look) => {
  const { page } = await onThread({}, look);
  await box(page).fill("fix the sign-in");
  await page.getByRole("button", { name: "Send", exact: true }).click();
  await page.locator(".approval-command").waitFor();
  await eventually(() => isOnScreen(page, ".approval-command"), true);
  await eventually(() => isOnScreen(page, ".approval-answers .primary"), true);
});

test("with a large zoom no button is squeezed", async () => {
  const { page } = await onThread({}, ZOOMED);
  const widths = await page
    .locator(".composer button:visible, .head button:visible")
    .evaluateAll((all) => all.map((one) => Math.round(one.getBoundingClientRect().width)));
  expect(Math.min(...widths)).toBeGreaterThanOrEqual(24);
});

test("a server for this machine only says how other devices get in, and is not asked in vain", async () => {
  const { server, url } = await serve();
  const page = await open(`${url}/t/${(await server.create()).id}`);
  const asked: string[] = [];
  page.on("request", (request) => void asked.push(new URL(request.url()).pathname));
  await box(page).waitFor();
  await page.getByRole("button", { name: "Add a device" }).click();
  const dialog = page.getByRole("dialog", { name: "Add a device" });
  await dialog.getByText("Stop this server").waitFor();
  await dialog.getByText("Your threads stay").waitFor();
  await dialog.getByRole("button", { name: "Copy command" }).waitFor();
  expect(asked).not.toContain("/links");
});

test("a rejection in one's own words is sent with a button", async () => {
  const { page } = await onThread();
  await asked(page);
  await page.getByLabel("Reject and tell the agent why").fill("use the tracker");
  await page.getByRole("button", { name: "Reject and send" }).click();
  await talk(page).getByText("Understood: use the tracker").waitFor();
});

test("Find and Rename give the focus back", async () => {
  const { page } = await onThread();
  await box(page).focus();
  await page.keyboard.press("Alt+F");
  await eventually(() => focusIn(page, ".find-bar"), true);
  await page.keyboard.press("Escape");
  await eventually(() => focusIn(page, "[data-composer]"), true);
  const title = page.locator(".head-title button");
  await title.click();
  const field = page.getByRole("textbox", { name: "Title" });
  await eventually(
    () =>
      field.evaluate((input: HTMLInputElement) => input.selectionEnd! - input.selectionStart! === input.value.length),
    true,
  );
  await page.keyboard.press("Escape");
  await eventually(() => title.evaluate((element) => element === document.activeElement), true);
});

test("archived threads have a heading, and a way back", async () => {
  const { page } = await onThread();
  await page.getByRole("button", { name: "Show archived threads" }).click();
  await page.getByRole("heading", { name: "Archived threads" }).waitFor();
  await page.getByText("Nothing is archived").waitFor();
  await page.getByRole("button", { name: "Back to all threads" }).click();
  await eventually(() => page.getByRole("heading", { name: "Archived threads" }).count(), 0);
});

test("models that can be used come first, the others are a line for each provider", async () => {
  const { server, url } = await serve({
    serve: ["--model", "scripted/hello"],
    environment: { ANTHROPIC_API_KEY: "x" },
  });
  const page = await open(`${url}/t/${(await server.create()).id}`);
  await page.getByRole("button", { name: /^Model/ }).click();
  const names = page.getByRole("option").locator(".menu-name");
  await eventually(
    async () => (await names.allInnerTexts()).some((name) => /^OpenAI: no key \(\d+ models\)$/.test(name)),
    true,
  );
  const shown = await names.allInnerTexts();
  const usable = shown.findLastIndex((name) => !name.includes("no key"));
  expect(shown.findIndex((name) => name.includes("no key"))).toBe(usable + 1);
  await page
    .getByRole("option", { name: /OpenAI/ })
    .locator("code")
    .getByText("hames setup")
    .waitFor();
});
