/** On a phone: everything is in reach and large enough for a finger. */

import type { Page } from "playwright-core";
import { expect, test } from "vitest";
import { box, eventually, onThread, steered, talk } from "./stage.js";

const PHONE = { viewport: { width: 390, height: 844 }, isMobile: true, hasTouch: true };
const SMALL_PHONE = { viewport: { width: 360, height: 640 }, isMobile: true, hasTouch: true };

/** What can be pressed, is visible, and is smaller than a finger, or lies under something else. */
function troubles(page: Page): Promise<string[]> {
  return page.evaluate(() => {
    const found: string[] = [];
    const pressable = document.querySelectorAll<HTMLElement>(
      'button, a[href], select, summary, [role="option"], [role="menuitem"], input:not([type="hidden"]), textarea',
    );
    for (const element of pressable) {
      // Links inside sentences are as large as their words, and skip links are for keyboards.
      if (element.matches(".markdown a, .skip, [hidden], [hidden] *, .shade") || element.closest("[aria-hidden]"))
        continue;
      const style = getComputedStyle(element);
      const box = element.getBoundingClientRect();
      if (style.visibility === "hidden" || box.width === 0) continue;
      const name = `${element.getAttribute("aria-label") ?? element.textContent?.slice(0, 40) ?? ""} ${Math.round(box.width)}×${Math.round(box.height)}`;
      if (box.height < 43.5 || box.width < 43.5) found.push(`small: ${name}`);
      const x = box.x + box.width / 2;
      const y = box.y + box.height / 2;
      const scrolls = element.closest(".viewport, .threads, .panel-body, .menu-list, .dialog, .selectors");
      if (scrolls) continue;
      if (box.left < -0.5 || box.right > innerWidth + 0.5) found.push(`off the screen: ${name}`);
      const top = document.elementFromPoint(x, y);
      // What is open lies above the rest, which is reached again when it is closed.
      const covered =
        document.querySelector(".sidebar[data-open], dialog[open], [role='listbox'], .menu-list") !== null;
      if (!covered && top && !element.contains(top) && !top.contains(element)) found.push(`covered: ${name}`);
    }
    return found;
  });
}

const overflow = (page: Page) => page.evaluate(() => document.documentElement.scrollWidth - window.innerWidth);

test.each([
  ["a phone", PHONE],
  ["a small phone", SMALL_PHONE],
])("on %s every control is in reach and at least 44 pixels large", async (_, look) => {
  const { page } = await onThread({}, look);
  await talk(page).getByRole("heading").waitFor();
  expect(await troubles(page)).toEqual([]);
  await box(page).fill("Fix the sign-in");
  await page.getByRole("button", { name: "Send", exact: true }).click();
  await page.locator("[data-approval]").waitFor();
  await box(page).fill("hello queued");
  await page.getByRole("button", { name: "Queue", exact: true }).click();
  await page.getByText("Up next").waitFor();
  await box(page).fill("one more");
  expect(await troubles(page)).toEqual([]);
  expect(await overflow(page)).toBe(0);
  for (const name of [/^Model/, /^Mode:/, /^Sandbox/, /^Effort/]) {
    await page.getByRole("button", { name }).click();
    await page.getByRole("option").first().waitFor();
    expect(await troubles(page)).toEqual([]);
    expect(await overflow(page)).toBe(0);
    await page.keyboard.press("Escape");
  }
  await page.getByRole("button", { name: "Threads", exact: true }).click();
  await eventually(() => page.locator(".sidebar").evaluate((it) => it.getBoundingClientRect().left), 0);
  expect(await troubles(page)).toEqual([]);
  await page.getByRole("button", { name: "Keys and commands" }).click();
  const help = page.getByRole("dialog");
  await help.getByText("Queue", { exact: true }).waitFor();
  await help.getByText("/compact", { exact: true }).waitFor();
  expect(await help.getByText("Alt").first().isVisible()).toBe(false);
  expect(await troubles(page)).toEqual([]);
});

test("permissions and sandbox are changed with a finger", async () => {
  const { page, thread } = await onThread({}, PHONE);
  await page.getByRole("button", { name: /^Mode:/ }).tap();
  await page.getByRole("option", { name: /Ask every time/ }).tap();
  await eventually(() => thread.state.settings?.approvalPolicy, "always");
  await page.getByRole("button", { name: /^Sandbox/ }).tap();
  await page.getByRole("option", { name: /Read only/ }).tap();
  await eventually(() => thread.state.settings?.sandbox, { type: "readOnly" });
});

test("New closes the drawer, also where an unused thread is there already", async () => {
  const { page } = await onThread({}, PHONE);
  const open = () => page.locator(".sidebar[data-open]").count();
  for (let time = 0; time < 2; time++) {
    await page.getByRole("button", { name: "Threads", exact: true }).tap();
    await eventually(open, 1);
    await page.getByRole("button", { name: "New", exact: true }).tap();
    await eventually(open, 0);
    await box(page).waitFor();
  }
});

test("while a turn runs a finger can send to it, queue, and stop it", async () => {
  const { page, thread } = await onThread({}, PHONE);
  await box(page).fill("mcp please");
  await page.getByRole("button", { name: "Send", exact: true }).tap();
  await page.locator("[data-approval]").waitFor();
  await box(page).fill("left, not right");
  await page.getByRole("button", { name: "Send to the agent now" }).tap();
  await eventually(() => steered(page), ["left, not right"]);
  await box(page).fill("then this");
  await page.getByRole("button", { name: "Queue", exact: true }).tap();
  await eventually(() => thread.state.queue!.map(({ prompt }) => prompt), ["then this"]);
  await page.getByRole("button", { name: "Stop", exact: true }).tap();
  await eventually(() => thread.state.status, "idle");
});
