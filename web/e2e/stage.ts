/** What every scene needs: a browser, a server, and a page on a thread of its own. */

import { fileURLToPath } from "node:url";
import type { Browser, BrowserContextOptions, Locator, Page } from "playwright-core";
import { afterAll, afterEach, beforeAll, expect } from "vitest";
import { type FakeOptions, FakeServer } from "../dev/server.js";
import type { FakeThread } from "../dev/thread.js";
import { axe } from "./axe.js";
import { launch } from "./browser.js";

const PAGE = fileURLToPath(new URL("../../src/hames/web/static", import.meta.url));

/** Generous: the machine may be busy, and a test that passes does not wait for it. */
const TIMEOUT_MS = 25_000;

let browser: Browser;
const servers: FakeServer[] = [];
const complaints: string[] = [];

beforeAll(async () => {
  browser = await launch();
});

afterAll(async () => {
  await browser.close();
});

afterEach(async () => {
  await Promise.all(browser.contexts().map((context) => context.close()));
  await Promise.all(servers.splice(0).map((server) => server.stop()));
  // A policy that was violated, an exception, a warning of React: each is a failure of the scene it happened in.
  expect(complaints.splice(0)).toEqual([]);
});

export async function serve(options: Partial<FakeOptions> = {}): Promise<{ server: FakeServer; url: string }> {
  const server = new FakeServer({ page: PAGE, pace: 0, ...options });
  servers.push(server);
  return { server, url: await server.start() };
}

/** What the browser may say without anybody having done wrong. */
const HARMLESS = /WebSocket connection to|ERR_EMPTY_RESPONSE|ERR_CONNECTION|Failed to load resource/;

export async function open(url: string, options: BrowserContextOptions = {}): Promise<Page> {
  const context = await browser.newContext({ viewport: { width: 1280, height: 860 }, ...options });
  const page = await context.newPage();
  page.setDefaultTimeout(TIMEOUT_MS);
  page.on("pageerror", (error) => complaints.push(String(error)));
  page.on("console", (message) => {
    if ((message.type() === "error" || message.type() === "warning") && !HARMLESS.test(message.text()))
      complaints.push(message.text());
  });
  await page.goto(url);
  return page;
}

export async function onThread(
  options: Partial<FakeOptions> = {},
  look: BrowserContextOptions = {},
): Promise<{ server: FakeServer; thread: FakeThread; page: Page; url: string }> {
  const { server, url } = await serve(options);
  const thread = server.create();
  const page = await open(`${url}/t/${thread.id}`, look);
  await box(page).waitFor();
  return { server, thread, page, url };
}

/** Where people type. */
export function box(page: Page): Locator {
  return page.getByRole("textbox", { name: "Message" });
}

/** The conversation: what is said there is not also in a list, a title or an announcement. */
export function talk(page: Page): Locator {
  return page.getByRole("region", { name: "Conversation" });
}

export async function ask(page: Page, prompt: string): Promise<void> {
  await box(page).fill(prompt);
  await box(page).press("Enter");
}

/** A message for the next turn, while one runs. */
export async function queue(page: Page, prompt: string): Promise<void> {
  await box(page).fill(prompt);
  await box(page).press("Tab");
}

/** Waits until an approval takes keys: it ignores them for a moment after it appears. */
export async function listening(page: Page): Promise<void> {
  await page.locator("[data-approval][data-listening]").first().waitFor();
}

/** Reconnects now. The page may have done so by itself meanwhile: then there is nothing to press any more. */
export async function tryNow(page: Page): Promise<void> {
  const press = page.getByRole("button", { name: "Try now" }).click({ timeout: 5_000 });
  await press.catch(async (problem: unknown) => {
    if ((await page.locator(".banner").count()) > 0) throw problem;
  });
}

/** Opens a card unless it is open: one that takes its time opens by itself. */
export async function unfold(head: Locator): Promise<void> {
  await head.waitFor();
  if ((await head.getAttribute("aria-expanded")) !== "true") await head.click();
}

/** Nothing that axe complains about. */
export async function axeFree(page: Page): Promise<void> {
  expect(await axe(page)).toEqual([]);
}

/** Waits for the moment, and says what was there instead when it does not come. */
export async function eventually(look: () => unknown, expected: unknown): Promise<void> {
  await expect.poll(look, { timeout: TIMEOUT_MS, interval: 30 }).toEqual(expected);
}

/** The words of the conversation as a reader finds them. */
export function words(page: Page): Promise<string> {
  return talk(page).innerText();
}
