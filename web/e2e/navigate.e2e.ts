/** Ways through a long thread: its first message, an outline, a search in all of it, and its past. */

import { expect, test } from "vitest";
import { ask, axeFree, box, eventually, onThread, open, serve, talk, TIMEOUT_MS } from "./stage.js";

const COUNT = 3_000;

async function onLongThread() {
  const { server, url } = await serve({ stage: ["--history", String(COUNT)] });
  const id = (await server.threadIds())[0]!;
  const page = await open(`${url}/t/${id}`);
  await talk(page)
    .getByText(`Message number ${COUNT - 1}.`)
    .first()
    .waitFor();
  return { page, server, id, drawn: () => page.locator("[data-message-id]").count() };
}

/** Whether a message that begins with these words is on the screen. */
const inView = (page: Parameters<typeof talk>[0], words: string) =>
  page.evaluate((begin) => {
    const box = document.querySelector(".viewport")!.getBoundingClientRect();
    const all = [...document.querySelectorAll<HTMLElement>("[data-message-id]")];
    const it = all.find((one) => one.innerText.includes(begin))?.getBoundingClientRect();
    return it !== undefined && it.top >= box.top - 1 && it.top < box.bottom;
  }, words);

test("the first message is one press away, and so is the way back", async () => {
  const { page, drawn } = await onLongThread();
  await page.keyboard.press("Alt+o");
  const outline = page.getByRole("complementary", { name: "Outline" });
  await outline.getByRole("button", { name: "First message" }).click();
  await eventually(() => inView(page, "Message number 0."), true);
  expect(await drawn()).toBeLessThanOrEqual(240);
  await talk(page).getByText("later messages").waitFor();
  await outline.getByRole("button", { name: "Latest message" }).click();
  await eventually(() => inView(page, `Message number ${COUNT - 1}.`), true);
  await page.getByRole("button", { name: "Close panel" }).click();
  await axeFree(page);
});

test("a prompt of the outline is shown, with what is around it", async () => {
  const { page } = await onLongThread();
  await page.getByRole("button", { name: "Outline" }).click();
  const outline = page.getByRole("complementary", { name: "Outline" });
  await outline.getByRole("button", { name: /^Message number 1500\./ }).click();
  await eventually(() => inView(page, "Message number 1500."), true);
  await axeFree(page);
  // From there it goes on in both directions.
  const viewport = page.locator(".viewport");
  await expect
    .poll(
      async () => {
        await viewport.evaluate((element) => element.scrollTo(0, element.scrollHeight));
        return talk(page).getByText("Message number 1700.").count();
      },
      { timeout: TIMEOUT_MS, interval: 300 },
    )
    .toBe(1);
  // A message that is sent leads to the end, where it is.
  await box(page).fill("hello");
  await box(page).press("Enter");
  await talk(page).getByText("Hello. What shall we do?").waitFor();
});

test("words are found in messages that are not drawn", async () => {
  const { page } = await onLongThread();
  await page.keyboard.press("Control+f");
  const find = page.getByRole("searchbox", { name: "Find in this thread" });
  await find.fill("XYLOPHONE");
  await page.getByText("1 of 1").waitFor();
  await eventually(() => inView(page, "The xylophone is here."), true);
  // What is found is marked, without a change in the page.
  await eventually(
    () => page.evaluate(() => [...(CSS.highlights.get("find") ?? [])].map((range) => String(range))),
    ["xylophone"],
  );
  await axeFree(page);
  await find.fill("glockenspiel");
  await page.getByText("1 of 1").waitFor();
  await eventually(() => inView(page, "Message number 1801."), true);
  await talk(page).getByRole("group", { name: "Output" }).getByText("a glockenspiel").waitFor();
  await find.fill("nowhere to be found");
  await page.getByText("Nothing found").waitFor();
  await find.press("Escape");
  await eventually(() => find.count(), 0);
});

test("Enter goes to the match before, Shift+Enter to the one after", async () => {
  const { page } = await onLongThread();
  await page.getByRole("button", { name: "Find in this thread" }).click();
  const find = page.getByRole("searchbox", { name: "Find in this thread" });
  await find.fill("number 12");
  await page.getByText("1 of 111").waitFor();
  await eventually(() => inView(page, "Message number 1299."), true);
  await find.press("Enter");
  await page.getByText("2 of 111").waitFor();
  await eventually(() => inView(page, "Message number 1298."), true);
  await find.press("Shift+Enter");
  await find.press("Shift+Enter");
  await page.getByText("111 of 111").waitFor();
  await eventually(() => inView(page, "Message number 12."), true);
});

test("time travel shows what was there until the other moment has arrived", async () => {
  const { page } = await onThread();
  await ask(page, "hello one");
  await talk(page).getByText("Hello. What shall we do?").waitFor();
  await ask(page, "hello two");
  await eventually(() => talk(page).getByText("Hello. What shall we do?").count(), 2);
  let release = () => {};
  const held = new Promise<void>((resolve) => (release = resolve));
  await page.route("**/at/**", async (route) => {
    await held;
    await route.continue();
  });
  await page.getByRole("button", { name: "Time travel" }).click();
  const slider = page.getByRole("slider");
  await slider.waitFor();
  await slider.fill("3");
  await page.locator(".time-bar .spinner").waitFor();
  expect(await talk(page).getByText("hello two").count()).toBe(1);
  expect(await page.locator(".thread-main > .loading").count()).toBe(0);
  release();
  await eventually(() => talk(page).getByText("hello two").count(), 0);
  await page.getByRole("button", { name: /Back to now/ }).click();
  await talk(page).getByText("hello two").waitFor();
});

test("the slider of a long thread goes turn by turn, and fetches the end of each moment", async () => {
  const { page, server, id } = await onLongThread();
  const marks = Array.from({ length: 2_000 }, (_, index) => ({
    seq: index + 1,
    at: Date.now(),
    kind: index % 10 === 1 ? "turn" : index % 10 === 2 ? "user" : "tool",
    label: `step ${index}`,
    messageId: "",
  }));
  const asked: string[] = [];
  const { state } = await server.api.read(id);
  await page.route("**/timeline", (route) => route.fulfill({ json: { seq: marks.length, marks } }));
  await page.route("**/at/**", (route) => {
    asked.push(route.request().url());
    const end = { ...state, messages: state.messages.slice(-120) };
    return route.fulfill({ json: { rev: 1, at: 1, state: end, skipped: COUNT - 120 } });
  });
  await page.getByRole("button", { name: "Time travel" }).click();
  const slider = page.getByRole("slider", { name: "Turn of the thread" });
  expect(Number(await slider.getAttribute("max"))).toBeLessThan(210);
  await page.getByRole("button", { name: "One step back" }).click();
  await page.getByText("1999 / 2000").waitFor();
  await slider.press("ArrowLeft");
  await eventually(async () => (await page.locator(".time-label").innerText()).endsWith("0"), true);
  await eventually(() => asked.length > 0 && asked.every((url) => url.includes("last=120")), true);
  await page.locator(".viewport").evaluate((element) => element.scrollTo(0, 0));
  // The real server has another past: a request that is still under way must not reach it.
  await talk(page)
    .getByRole("button", { name: `Show ${COUNT - 120} earlier messages` })
    .waitFor();
});
