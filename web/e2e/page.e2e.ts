/** The rest of the page: threads, diffs, the past, the composer's helpers, small screens, keys, screen readers. */

import { expect, test } from "vitest";
import { axe } from "./axe.js";
import { ask, box, eventually, listening, onThread, open, serve, talk, visibleMarks, words } from "./stage.js";

const PHONE = { viewport: { width: 390, height: 844 }, isMobile: true, hasTouch: true };

test("the newest thread opens by itself, and every thread has an address", async () => {
  const { server, url } = await serve();
  const old = await server.create({ title: "Old" });
  const fresh = await server.create({ title: "Fresh" });
  const page = await open(url);
  await eventually(() => new URL(page.url()).pathname, `/t/${fresh.id}`);
  await page.getByRole("link", { name: /Old/ }).click();
  await eventually(() => new URL(page.url()).pathname, `/t/${old.id}`);
  await page.getByRole("heading", { level: 1, name: "Old" }).waitFor();
  await page.goBack();
  await page.getByRole("heading", { level: 1, name: "Fresh" }).waitFor();
});

test("a server without threads gets a first one", async () => {
  const { server, url } = await serve();
  const page = await open(url);
  await box(page).waitFor();
  await eventually(async () => (await server.threadIds()).length, 1);
});

test("switching threads shows the other one and nothing of this one", async () => {
  const { server, page } = await onThread();
  await ask(page, "hello here");
  await talk(page).getByText("Hello. What shall we do?").waitFor();
  const other = await server.create({ title: "Elsewhere" });
  await page.getByRole("link", { name: /Elsewhere/ }).click();
  await eventually(() => new URL(page.url()).pathname, `/t/${other.id}`);
  await eventually(async () => (await words(page)).includes("hello here"), false);
  await page.getByRole("link", { name: /hello here/ }).click();
  await talk(page).getByText("Hello. What shall we do?").waitFor();
});

test("threads are found by their words", async () => {
  const { server, url } = await serve();
  await server.create({ title: "Parser" });
  await server.create({ title: "Sandbox" });
  const page = await open(url);
  await page.getByRole("searchbox", { name: "Search threads" }).fill("pars");
  await eventually(() => page.locator("[data-row]").count(), 1);
});

test("older threads come a page at a time", async () => {
  const { server, url } = await serve();
  for (let i = 0; i < 120; i++) await server.api.create({ title: `Thread ${i}` });
  const page = await open(url);
  await eventually(() => page.locator("[data-row]").count(), 50);
  await page.getByRole("button", { name: "Older threads" }).click();
  await eventually(() => page.locator("[data-row]").count(), 100);
  await page.getByRole("button", { name: "Older threads" }).click();
  await eventually(() => page.locator("[data-row]").count(), 120);
  expect(await page.getByRole("button", { name: "Older threads" }).count()).toBe(0);
});

test("somebody who looks elsewhere is told when they are needed, and not before they asked for it", async () => {
  const { page } = await onThread();
  await page.evaluate(() => {
    class Told {
      static permission = "granted";
      static requestPermission = async () => "granted";
      static said: string[] = [];
      constructor(title: string, { body }: { body: string }) {
        Told.said.push(`${title}: ${body}`);
      }
    }
    Object.assign(window, { Notification: Told });
    Object.defineProperty(document, "hidden", { get: () => true });
  });
  const said = () => page.evaluate(() => (window.Notification as unknown as { said: string[] }).said);
  await ask(page, "hello");
  await talk(page).getByText("Hello. What shall we do?").waitFor();
  expect(await said()).toEqual([]);
  await page.getByRole("button", { name: /^Notify me/ }).click();
  await ask(page, "mcp please");
  await eventually(said, ["hello: Waiting for your approval"]);
  await page.getByRole("button", { name: /^Yes, once/ }).click();
  await eventually(said, ["hello: Waiting for your approval", "hello: Finished"]);
});

test("a picture that is dropped is attached", async () => {
  const { page } = await onThread();
  await page.evaluate(async () => {
    const canvas = new OffscreenCanvas(4, 4);
    canvas.getContext("2d")!.fillRect(0, 0, 4, 4);
    const dataTransfer = new DataTransfer();
    dataTransfer.items.add(new File([await canvas.convertToBlob()], "drop.png", { type: "image/png" }));
    dataTransfer.items.add(new File(["x"], "notes.txt", { type: "text/plain" }));
    const target = document.querySelector(".composer")!;
    target.dispatchEvent(new DragEvent("dragover", { dataTransfer, bubbles: true, cancelable: true }));
    target.dispatchEvent(new DragEvent("drop", { dataTransfer, bubbles: true, cancelable: true }));
  });
  await eventually(() => page.getByRole("list", { name: "Attached pictures" }).getByRole("listitem").count(), 1);
  await page.getByRole("button", { name: "Remove drop.png" }).click();
  await eventually(() => page.getByRole("list", { name: "Attached pictures" }).count(), 0);
});

test("a thread that needs somebody says so in the list and in the title of every tab", async () => {
  const { server, page, url } = await onThread();
  const other = await server.create({ title: "Elsewhere" });
  const second = await open(`${url}/t/${other.id}`);
  await ask(page, "mcp please");
  await second.getByText("needs you", { exact: true }).waitFor();
  await eventually(() => second.title(), "(!) Elsewhere · Hames");
});

test("a change is shown unified and side by side, and the thread's changes in one place", async () => {
  const { page } = await onThread();
  await ask(page, "edits please");
  await page.getByRole("button", { name: /^Yes, once/ }).click();
  await talk(page).getByText("Changed.").first().waitFor();
  const diff = page.getByRole("group", { name: "Changes to src/login.py" }).first();
  expect(await diff.locator("tr.add").count()).toBe(1);
  expect(await diff.locator("tr.delete").count()).toBe(1);
  await talk(page).getByRole("button", { name: "Side by side" }).click();
  await eventually(() => diff.locator("table.split").count(), 1);
  // Within a line, what changed is marked.
  expect((await diff.locator("mark").allInnerTexts()).join(" ")).toContain("user");
  await page.getByRole("button", { name: /^Changes/ }).click();
  const panel = page.getByRole("complementary", { name: "Changes" });
  await panel.getByText("1 file").waitFor();
  await panel.getByRole("group", { name: "Changes to src/login.py" }).waitFor();
});

test("the slider shows the thread as it was, and a fork goes on from there", async () => {
  const { page, server, thread } = await onThread();
  await ask(page, "hello one");
  await talk(page).getByText("Hello. What shall we do?").waitFor();
  await ask(page, "hello two");
  await eventually(() => talk(page).getByText("Hello. What shall we do?").count(), 2);
  const before =
    visibleMarks((await server.api.timeline(thread.id)).marks).findLastIndex(({ kind }) => kind === "turn") - 1;

  await page.getByRole("button", { name: "Time travel" }).click();
  const slider = page.getByRole("slider");
  await slider.fill(String(before));
  await eventually(async () => (await words(page)).includes("hello two"), false);
  expect(await words(page)).toContain("hello one");
  expect(await box(page).count()).toBe(0);
  await slider.press("ArrowRight");
  await slider.press("ArrowRight");
  await eventually(async () => (await words(page)).includes("hello two"), true);
  await slider.fill(String(before));
  await page.getByRole("button", { name: "Fork from here" }).click();
  await eventually(async () => (await server.threadIds()).length, 2);
  await box(page).waitFor();
  const fork = await server.follow((await server.threadIds()).find((id) => id !== thread.id)!);
  await eventually(() => new URL(page.url()).pathname, `/t/${fork.id}`);
  expect(fork.state.messages.map(({ content }) => content)).toEqual(["hello one", "Hello. What shall we do?"]);
  expect(thread.state.messages).toHaveLength(4);
});

test("files are offered after @ and sent along, commands after / and run", async () => {
  const { page, thread } = await onThread();
  await box(page).pressSequentially("hello @login");
  await page.getByRole("option", { name: "src/login.py", exact: true }).waitFor();
  await box(page).press("Enter");
  await eventually(() => box(page).inputValue(), "hello @src/login.py ");
  await box(page).press("Enter");
  await eventually(
    () => thread.state.messages[0]?.attachments,
    [{ kind: "file", name: "src/login.py", url: "", upload: "" }],
  );
  await box(page).pressSequentially("/chan");
  await box(page).press("Enter");
  await page.getByRole("complementary", { name: "Changes" }).waitFor();
  expect(await box(page).inputValue()).toBe("");
});

test("Enter takes a file that fits what was typed, also while the list for it is on its way", async () => {
  const { page } = await onThread();
  await box(page).pressSequentially("see @");
  await page.getByRole("option", { name: "README.md" }).waitFor();
  await page.route("**/files?*", () => {}); // never answered
  // As people type: each letter asks for a list that the next letter makes useless.
  await box(page).pressSequentially("login", { delay: 150 });
  await eventually(() => page.getByRole("option", { name: "README.md" }).count(), 0);
  await box(page).press("Enter");
  await eventually(() => box(page).inputValue(), "see @src/login.py ");
});

test("a pasted picture is uploaded, shown and sent", async () => {
  const { page, thread } = await onThread();
  await box(page).focus();
  await page.evaluate(async () => {
    const canvas = new OffscreenCanvas(8, 8);
    canvas.getContext("2d")!.fillRect(0, 0, 8, 8);
    const clipboard = new DataTransfer();
    clipboard.items.add(new File([await canvas.convertToBlob()], "shot.png", { type: "image/png" }));
    document.activeElement!.dispatchEvent(
      new ClipboardEvent("paste", { clipboardData: clipboard, bubbles: true, cancelable: true }),
    );
  });
  await page.getByRole("list", { name: "Attached pictures" }).getByRole("img", { name: "shot.png" }).waitFor();
  await box(page).fill("hello look");
  await page.getByRole("button", { name: "Send" }).click();
  await eventually(() => thread.state.messages[0]?.attachments?.[0]?.name, "shot.png");
  const image = talk(page).getByRole("img", { name: "shot.png" });
  await eventually(() => image.evaluate((element) => (element as HTMLImageElement).naturalWidth), 8);
});

test("what was typed is there again after a reload, and earlier prompts with the arrow key", async () => {
  const { page } = await onThread();
  await ask(page, "hello first");
  await talk(page).getByText("Hello. What shall we do?").waitFor();
  await box(page).fill("a draft");
  await page.reload();
  await eventually(() => box(page).inputValue(), "a draft");
  // The draft is there before the thread has come, and with it the earlier prompts.
  await talk(page).getByText("Hello. What shall we do?").waitFor();
  await box(page).fill("");
  await box(page).press("ArrowUp");
  await eventually(() => box(page).inputValue(), "hello first");
});

test("model, permissions and the server's own options are chosen from lists", async () => {
  const { server, url } = await serve({
    serve: ["--model", "anthropic/claude-sonnet-5-5"],
    environment: { ANTHROPIC_API_KEY: "x" },
  });
  const thread = await server.create();
  const page = await open(`${url}/t/${thread.id}`);
  const model = () => thread.state.settings?.model;
  await page.getByRole("button", { name: "Model: Claude Sonnet 5.5" }).click();
  await page.getByRole("option", { name: /OpenAI: no key/ }).click({ force: true });
  await page.keyboard.press("Escape");
  expect(model()).toBe("anthropic/claude-sonnet-5-5");
  await page.getByRole("button", { name: "Model: Claude Sonnet 5.5" }).click();
  await page
    .getByRole("option", { name: /Claude Opus/ })
    .first()
    .click();
  await eventually(() => model()?.startsWith("anthropic/claude-opus"), true);
  await page.getByRole("button", { name: /^Sandbox/ }).click();
  await page.getByRole("option", { name: /network.*reach the internet, but not this machine/ }).waitFor();
  await page.getByRole("option", { name: /Read only/ }).click();
  await eventually(() => thread.state.settings?.sandbox, { type: "readOnly" });
});

test("an option of the server's own is chosen with keys", async () => {
  const { page, thread } = await onThread();
  await page.getByRole("button", { name: "Effort Medium" }).click();
  await page.keyboard.press("ArrowDown");
  await page.keyboard.press("Enter");
  await eventually(() => thread.state.settings?.options, { effort: "high" });
});

test("everything from the first prompt to the answer works without a mouse", async () => {
  const { page, server, thread } = await onThread();
  await ask(page, "hello");
  await talk(page).getByText("Hello. What shall we do?").waitFor();
  // A new thread has a message box of its own: what is typed before it is there belongs to the old one.
  await page.keyboard.press("Alt+n");
  await eventually(async () => (await server.threadIds()).length, 2);
  const fresh = (await server.threadIds()).find((id) => id !== thread.id);
  await eventually(() => new URL(page.url()).pathname, `/t/${fresh}`);
  await page.getByRole("heading", { level: 1, name: "New thread" }).waitFor();
  await eventually(() => box(page).evaluate((element) => element === document.activeElement), true);
  await page.keyboard.type("mcp please");
  await page.keyboard.press("Enter");
  await eventually(
    () => page.locator("[data-approval]").evaluate((element) => element === document.activeElement),
    true,
  );
  await listening(page);
  await page.keyboard.press("n");
  await page.locator('[data-outcome="declined"]').waitFor();
  await eventually(() => box(page).evaluate((element) => element === document.activeElement), true);
});

test("what happens is said aloud, once", async () => {
  const { page } = await onThread();
  const aloud = page.locator("[data-announcer]");
  await ask(page, "mcp please");
  await eventually(async () => (await aloud.innerText()).startsWith("The agent asks for your approval"), true);
  expect(await aloud.getAttribute("role")).toBe("status");
  await page.getByRole("button", { name: /^Yes, once/ }).click();
  await eventually(() => aloud.innerText(), "The agent has finished. Done.");
});

test("the title is changed in place", async () => {
  const { page, thread } = await onThread();
  await page.getByRole("heading", { level: 1 }).getByRole("button").click();
  await page.getByRole("textbox", { name: "Title" }).fill("A better name");
  await page.keyboard.press("Enter");
  await eventually(() => thread.state.thread?.title, "A better name");
});

test("an address that leads nowhere offers a way out", async () => {
  const { server, url } = await serve();
  const thread = await server.create({ title: "There" });
  const page = await open(`${url}/t/nowhere`);
  await page.getByRole("button", { name: "Open the newest thread" }).click();
  await eventually(() => new URL(page.url()).pathname, `/t/${thread.id}`);
});

test("on a phone nothing is wider than the screen, and everything can be reached", async () => {
  const { page } = await onThread({}, PHONE);
  await box(page).fill("Fix the sign-in");
  await page.getByRole("button", { name: "Send" }).click();
  await page.locator("[data-approval]").waitFor();
  const overflow = () => page.evaluate(() => document.documentElement.scrollWidth - window.innerWidth);
  expect(await overflow()).toBe(0);
  await page.getByRole("button", { name: "Threads" }).click();
  await page.getByRole("navigation", { name: "Threads" }).getByRole("link").first().click();
  await page.getByRole("button", { name: /^Changes/ }).click();
  await page.getByRole("complementary", { name: "Changes" }).waitFor();
  expect(await overflow()).toBe(0);
  await page.getByRole("button", { name: "Close panel" }).click();
  await page.getByRole("button", { name: /^Yes, once/ }).click();
  await talk(page).getByText("Committed.").waitFor();
});

test("dark and light follow the system until somebody chooses", async () => {
  const { page } = await onThread({}, { colorScheme: "dark" });
  const ground = () => page.evaluate(() => getComputedStyle(document.body).backgroundColor);
  expect(await ground()).toBe("rgb(23, 22, 20)");
  await page.getByRole("button", { name: "Theme: system" }).click();
  await eventually(ground, "rgb(250, 249, 246)");
  await page.reload();
  await eventually(ground, "rgb(250, 249, 246)");
  await page.getByRole("button", { name: "Theme: light" }).click();
  await page.emulateMedia({ colorScheme: "light" });
  await eventually(ground, "rgb(23, 22, 20)");
});

test.each([
  ["light", {}],
  ["dark", { colorScheme: "dark" as const }],
  ["on a phone", PHONE],
])("axe finds nothing: %s", async (_, look) => {
  const { page, server } = await onThread({}, look);
  expect(await axe(page)).toEqual([]);
  await box(page).fill("Fix the sign-in");
  await page.getByRole("button", { name: "Send" }).click();
  await page.locator("[data-approval]").waitFor();
  await box(page).fill("hello queued");
  await page.getByRole("button", { name: "Queue", exact: true }).click();
  await page.getByText("Up next").waitFor();
  await page.getByRole("button", { name: /^Changes/ }).click();
  expect(await axe(page)).toEqual([]);
  await page.getByRole("button", { name: "Close panel" }).click();
  await page.getByRole("button", { name: /^Mode:/ }).click();
  expect(await axe(page)).toEqual([]);
  await page.keyboard.press("Escape");
  await page.getByRole("button", { name: "Time travel" }).click();
  await page.getByRole("slider").waitFor();
  expect(await axe(page)).toEqual([]);
  server.wire.cut();
});
