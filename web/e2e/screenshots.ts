/** `npm run screenshots [name…]`: the scenes of the documentation, on the real server. Only the model plays. */

import { mkdirSync } from "node:fs";
import { fileURLToPath } from "node:url";
import type { BrowserContextOptions, Page } from "playwright-core";
import { launch } from "./browser.js";
import { House, type HouseOptions } from "./house.js";

const OUT = fileURLToPath(new URL("../../docs/screenshots/", import.meta.url));
const PHONE: BrowserContextOptions = {
  viewport: { width: 390, height: 780 },
  isMobile: true,
  hasTouch: true,
  deviceScaleFactor: 2,
};
const DARK: BrowserContextOptions = { colorScheme: "dark" };
const PROMPT = "The sign-in crashes for unknown names. Find out why, and fix it with a test.";
const WANTED = process.argv.slice(2);

mkdirSync(OUT, { recursive: true });
const browser = await launch();

type Stage = { page: Page; house: House };

async function scene(
  name: string,
  look: BrowserContextOptions,
  act: (stage: Stage) => Promise<unknown>,
  options: HouseOptions = {},
): Promise<void> {
  if (WANTED.length > 0 && !WANTED.includes(name)) return;
  const house = await House.open(options);
  for (const title of ["Release notes for 0.9", "Why does the parser drop trailing commas?", "Speed up the test suite"])
    await house.api.create({ title });
  const thread = await house.api.create();
  const context = await browser.newContext({ viewport: { width: 1280, height: 820 }, ...look });
  const page = await context.newPage();
  await page.goto(`${house.url}/t/${thread.id}`);
  await box(page).waitFor();
  await act({ page, house });
  await page.waitForTimeout(600);
  await page.screenshot({ path: `${OUT}${name}.png` });
  await context.close();
  await house.close();
  console.log(name);
}

const box = (page: Page) => page.getByRole("textbox", { name: "Message" });

async function ask(page: Page, prompt: string): Promise<void> {
  await box(page).fill(prompt);
  await page.getByRole("button", { name: "Send" }).click();
}

/** From the bug to a question: the last one is whether to commit. */
async function fix({ page }: Stage, until: string | RegExp = /git commit -m/): Promise<void> {
  await ask(page, PROMPT);
  const card = page.locator("[data-approval]");
  for (;;) {
    await card.waitFor();
    if ((await card.filter({ hasText: until }).count()) > 0) return;
    const asked = await card.innerText();
    await card.getByRole("button", { name: /^Yes, once/ }).click();
    while ((await card.count()) > 0 && (await card.innerText()) === asked) await page.waitForTimeout(50);
  }
}

async function scrollTo(page: Page, top: number): Promise<void> {
  await page.locator(".viewport").evaluate((element, to) => element.scrollTo(0, to), top);
}

const NO_KEY: HouseOptions = { serve: [] };

await scene("empty", {}, async () => {});
await scene("empty-dark", DARK, async () => {});
await scene("thread", {}, async (stage) => {
  await fix(stage);
  await stage.page.getByRole("button", { name: /^Plan \d/ }).click();
  await scrollTo(stage.page, 0);
});
await scene("approval", {}, (stage) => fix(stage));
await scene("approval-file", {}, (stage) => fix(stage, /accounts\/signin\.py/));
await scene("approval-dark", DARK, async (stage) => {
  await fix(stage);
  await box(stage.page).fill("then update the changelog");
  await stage.page.keyboard.press("Tab");
  await stage.page.getByText("Up next").waitFor();
});
await scene("diff-dark", DARK, async (stage) => {
  await fix(stage);
  await stage.page.locator(".conversation").getByRole("button", { name: "Side by side" }).first().click();
  await stage.page.getByRole("group", { name: "Changes to accounts/signin.py" }).first().scrollIntoViewIfNeeded();
});
await scene("changes", {}, async (stage) => {
  await fix(stage);
  await stage.page.getByRole("button", { name: /^Changes \d/ }).click();
});
await scene("changes-wide", {}, async ({ page, house }) => {
  await fix({ page, house });
  await page.getByRole("button", { name: /^Changes \d/ }).click();
  await page.locator(".panel").getByRole("button", { name: "Side by side" }).click();
  await page.getByRole("button", { name: "Wider" }).click();
});
await scene("time-travel", {}, async (stage) => {
  await fix(stage);
  await stage.page.getByRole("button", { name: "Time travel" }).click();
  await stage.page.getByRole("slider").fill("9");
});
await scene("commands", {}, async ({ page }) => {
  await ask(page, "hello");
  await box(page).fill("");
  await box(page).pressSequentially("/");
});
await scene("files-dark", DARK, async ({ page }) => {
  await box(page).pressSequentially("Look at @sign");
  await page.getByRole("option").first().waitFor();
});
await scene("no-key", {}, async () => {}, NO_KEY);
await scene("no-sandbox", {}, async () => {}, { stage: ["--without-walls"] });
await scene("refused", {}, async ({ page }) => {
  await ask(page, "refuse please");
  await page.getByRole("heading", { name: "The model refused" }).waitFor();
});
await scene("server-gone", {}, async ({ page, house }) => {
  await ask(page, "look around");
  await page.locator(".conversation").getByText("There it is.").waitFor();
  await house.kill();
  await page.getByText("Reconnecting").waitFor();
  await box(page).fill("and then?");
  await page.keyboard.press("Enter");
});
await scene("help", {}, async ({ page }) => {
  await box(page).press("Escape");
  await page.getByRole("button", { name: "Keys and commands" }).click();
});
await scene("phone", PHONE, (stage) => fix(stage));
await scene("phone-dark", { ...PHONE, ...DARK }, async (stage) => {
  await fix(stage);
  await stage.page.getByRole("button", { name: "Threads" }).click();
});
await scene("phone-changes", PHONE, async (stage) => {
  await fix(stage);
  await stage.page.getByRole("button", { name: /^Changes \d/ }).click();
});
await browser.close();
process.exit(0);
