/** What every scene needs: a browser, a server, and a page on a thread of its own. */

import type { Mark } from "@hames/client";
import type { Browser, BrowserContextOptions, Locator, Page } from "playwright-core";
import { afterAll, afterEach, beforeAll, expect } from "vitest";
import { axe } from "./axe.js";
import { launch } from "./browser.js";
import { type Followed, House, type HouseOptions } from "./house.js";
import { Told } from "./told.js";

/** Generous: the machine may be busy, and a test that passes does not wait for it. */
export const TIMEOUT_MS = 60_000;

let browser: Browser;
const houses: House[] = [];
const complaints: string[] = [];

beforeAll(async () => {
  browser = await launch();
});

afterAll(async () => {
  await browser.close();
});

afterEach(async () => {
  await Promise.all(browser.contexts().map((context) => context.close()));
  await Promise.all(houses.splice(0).map((house) => house.close()));
  // A policy that was violated, an exception, a warning of React: each is a failure of the scene it happened in.
  expect(complaints.splice(0)).toEqual([]);
});

export async function serve(options: HouseOptions = {}): Promise<{ server: House; url: string }> {
  const server = await House.open(options);
  houses.push(server);
  return { server, url: server.url };
}

const sentFrames = new WeakMap<Page, string[]>();

/** What a page sent to the running turn. The server shows it when the model has read it. */
export function steered(page: Page): string[] {
  type Sent = { commands?: { type: string; prompt?: string }[] };
  const commands = sentFrames.get(page)!.flatMap((frame) => (JSON.parse(frame) as Sent).commands ?? []);
  return commands.filter(({ type }) => type === "steer").map(({ prompt }) => prompt ?? "");
}

/** What the browser may say without anybody having done wrong. */
const HARMLESS = /WebSocket connection to|ERR_EMPTY_RESPONSE|ERR_CONNECTION|Failed to load resource/;

export async function open(url: string, options: BrowserContextOptions = {}): Promise<Page> {
  const context = await browser.newContext({ viewport: { width: 1280, height: 860 }, ...options });
  const page = await context.newPage();
  page.setDefaultTimeout(TIMEOUT_MS);
  const frames: string[] = [];
  sentFrames.set(page, frames);
  page.on("websocket", (socket) => socket.on("framesent", ({ payload }) => void frames.push(String(payload))));
  page.on("pageerror", (error) => complaints.push(String(error)));
  page.on("console", (message) => {
    if ((message.type() === "error" || message.type() === "warning") && !HARMLESS.test(message.text()))
      complaints.push(message.text());
  });
  await page.goto(url);
  return page;
}

export async function onThread(
  options: HouseOptions = {},
  look: BrowserContextOptions = {},
): Promise<{ server: House; thread: Followed; page: Page; url: string }> {
  const { server, url } = await serve(options);
  const thread = await server.create();
  const page = await open(`${url}/t/${thread.id}`, look);
  await box(page).waitFor();
  // The message box is there before the thread's state has come; a key that changes a setting does nothing until then.
  await page
    .getByRole("button", { name: /^Mode:/ })
    .first()
    .waitFor({ state: "attached" });
  return { server, thread, page, url };
}

/** A page whose server also says what a test wants it to say. */
export async function onToldThread(): Promise<{ page: Page; tell: (state: object) => void; sent: string[] }> {
  const { server, url } = await serve();
  const told = new Told();
  const page = await open("about:blank");
  await told.join(page);
  await page.goto(`${url}/t/${(await server.api.create()).id}`);
  await told.begun;
  await box(page).waitFor();
  const tell = (state: object) =>
    told.say(...Object.entries(state).map(([name, value]) => ({ type: "set" as const, path: [name], value })));
  return { page, tell, sent: told.sent };
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
  await eventually(async () => {
    if ((await page.locator(".banner").count()) === 0) return true;
    const press = page.getByRole("button", { name: "Try now" }).click({ timeout: 1_000 });
    return press.then(
      () => true,
      () => false,
    );
  }, true);
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

/** Where time travel stops, counted here: the page's own modules look for a document when they are loaded, and Node has none. */
export function visibleMarks(marks: readonly Mark[]): readonly Mark[] {
  return marks.filter(({ kind }, index) => kind !== "other" || index === 0);
}

/** The words of the conversation as a reader finds them. */
export function words(page: Page): Promise<string> {
  return talk(page).innerText();
}
