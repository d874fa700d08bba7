/** From a prompt to a finished turn, and everything that may happen in between. */

import { expect, test } from "vitest";
import { axe } from "./axe.js";
import {
  ask,
  box,
  eventually,
  listening,
  onThread,
  onToldThread,
  open,
  queue,
  serve,
  talk,
  TIMEOUT_MS,
  tryNow,
  unfold,
} from "./stage.js";

test("an approval is answered with a key", async () => {
  const { page, thread } = await onThread();
  await ask(page, "mcp please");
  const card = page.locator("[data-approval]");
  await card.waitFor();
  await eventually(() => page.title(), "(!) mcp please · Hames");
  await eventually(() => card.evaluate((element) => element === document.activeElement), true);
  await listening(page);
  await page.keyboard.press("y");
  await talk(page).getByText("Done.", { exact: true }).waitFor();
  await eventually(() => thread.state.approvals, []);
});

test("a key pressed the moment the question appears answers nothing", async () => {
  const { page, thread } = await onThread();
  await ask(page, "mcp please");
  await page.locator("[data-approval]").waitFor();
  await page.keyboard.press("y");
  expect(thread.state.approvals).toHaveLength(1);
});

test("an approval is rejected with a message to the agent", async () => {
  const { page } = await onThread();
  await ask(page, "mcp please");
  await page.getByLabel("Reject and tell the agent why").fill("use the tracker instead");
  await page.getByLabel("Reject and tell the agent why").press("Enter");
  await talk(page).getByText("Understood: use the tracker instead").waitFor();
  expect(await page.locator('[data-outcome="declined"]').count()).toBe(1);
});

test("the exact command is shown, and characters that hide are made visible", async () => {
  const { page, tell } = await onToldThread();
  const command = "echo safe \u202e# rm -rf ~";
  tell({ approvals: [{ id: "q1", toolCallId: "none", kind: "command", command, cwd: "/tmp", reason: "" }] });
  await talk(page).getByText("U+202E").waitFor();
  await talk(page).getByText("invisible characters").waitFor();
});

test("what an MCP server asks is filled in as a form, and sent as its schema has it", async () => {
  const { page, tell, sent } = await onToldThread();
  const requestedSchema = {
    type: "object",
    properties: {
      team: { type: "string", title: "Team" },
      priority: { type: "string", title: "Priority", enum: ["low", "high"] },
      count: { type: "integer", title: "How many", default: 2 },
      watch: { type: "boolean", title: "Watch it" },
    },
    required: ["team", "priority"],
  };
  const input = { mode: "form", message: "Where does it belong?", requestedSchema };
  const ask = { id: "q1", toolCallId: "none", kind: "elicitation", server: "tracker", reason: "", input };
  tell({ approvals: [ask] });
  const card = page.getByRole("group", { name: "A question for you" });
  await card.getByText("The MCP server tracker asks: Where does it belong?").waitFor();
  expect(await card.getByRole("button", { name: "Send" }).isDisabled()).toBe(true);
  await card.getByLabel("Team").fill("yes and no");
  await card.getByLabel("Priority").selectOption("high");
  await card.getByLabel("Watch it").check();
  expect(await axe(page)).toEqual([]);
  await card.getByRole("button", { name: "Send" }).click();
  const content = { team: "yes and no", priority: "high", count: 2, watch: true };
  const expected = { type: "commands", commands: [{ type: "approve", id: "q1", decision: "once", content }] };
  await eventually(() => JSON.parse(sent.at(-1) ?? "null"), expected);
});

test("an address an MCP server names is shown whole and opened by nobody but the reader", async () => {
  const { page, tell } = await onToldThread();
  const ask = (id: string, url: string) => ({
    id,
    toolCallId: "none",
    kind: "elicitation",
    server: "tracker",
    reason: "",
    input: { mode: "url", message: "Sign in.", url },
  });
  tell({ approvals: [ask("q1", "https://example.com/in?state=1")] });
  const link = page.getByRole("link", { name: "https://example.com/in?state=1" });
  expect(await link.getAttribute("rel")).toBe("noreferrer noopener");
  tell({ approvals: [ask("q2", "javascript:alert(1)")] });
  await page.getByText("javascript:alert(1)").waitFor();
  expect(await page.getByRole("link", { name: /javascript/ }).count()).toBe(0);
});

test("stop stops at once, also while an approval waits", async () => {
  const { page, thread } = await onThread();
  await ask(page, "mcp please");
  await page.locator("[data-approval]").waitFor();
  await page.getByRole("button", { name: "Stop", exact: true }).click();
  await talk(page).getByText("Stopped", { exact: true }).waitFor();
  await eventually(() => thread.state.status, "idle");
});

test("what is queued while a turn runs can be edited and removed", async () => {
  const { page, thread } = await onThread();
  await ask(page, "mcp please");
  await page.locator("[data-approval]").waitFor();
  await queue(page, "hello one");
  await queue(page, "hello two");
  const waiting = page.getByRole("region", { name: "Queued prompts" });
  await eventually(() => waiting.getByRole("listitem").count(), 2);
  await waiting.getByRole("listitem").nth(1).getByRole("button", { name: "Edit" }).click();
  await eventually(() => box(page).inputValue(), "hello two");
  await eventually(() => waiting.getByRole("listitem").count(), 1);
  await page.getByRole("button", { name: /^Yes, once/ }).click();
  await talk(page).getByText("Hello. What shall we do?").waitFor();
  await eventually(() => thread.said, ["mcp please", "hello one"]);
});

test("after a stop the queue is paused until the next message", async () => {
  const { page, thread } = await onThread();
  await ask(page, "mcp please");
  await page.locator("[data-approval]").waitFor();
  await queue(page, "hello later");
  await page.getByText("Up next").waitFor();
  await page.getByRole("button", { name: "Stop", exact: true }).click();
  await page.getByText("Queue paused").waitFor();
  await ask(page, "hello now");
  await eventually(() => thread.said, ["mcp please", "hello later", "hello now"]);
});

test("while the server is away the page says so, keeps what it has, and sends later", async () => {
  const { page, server } = await onThread();
  await ask(page, "hello");
  await talk(page).getByText("Hello. What shall we do?").waitFor();
  server.wire.down = true;
  server.wire.cut();
  await page.getByText("Reconnecting").waitFor();
  await ask(page, "hello again");
  await talk(page).getByText("Will be sent when the connection is back").waitFor();
  await talk(page).getByText("Hello. What shall we do?").waitFor();
  server.wire.down = false;
  await tryNow(page);
  await eventually(() => talk(page).getByText("Hello. What shall we do?").count(), 2);
  expect(await talk(page).getByText("hello again").count()).toBe(1);
});

test("a failed turn says why and what helps", async () => {
  const { page } = await onThread();
  await ask(page, "fail please");
  await page.getByRole("heading", { name: "The model provider rejected the API key" }).waitFor();
  await page.getByRole("button", { name: "Try again" }).click();
  await eventually(() => talk(page).getByText("fail please").count(), 2);
});

test("what a model writes is text: no script runs, no picture loads, no bad link leads anywhere", async () => {
  const { page } = await onThread();
  const asked: string[] = [];
  page.on("request", (request) => void asked.push(request.url()));
  await ask(page, "evil please");
  await talk(page).getByText("Raw HTML is text").waitFor();
  await unfold(page.getByRole("button", { name: /<b>bold/ }));
  await talk(page).getByText("Arguments").click();
  await talk(page).getByText("<script>window.__pwned=1</script>").last().waitFor();
  expect(await page.evaluate(() => (window as unknown as Record<string, unknown>)["__pwned"])).toBeUndefined();
  const links = await page
    .locator(".markdown a")
    .evaluateAll((all) => all.map((link) => (link as HTMLAnchorElement).href));
  expect(links).toEqual(["https://example.com/?q=1", "https://example.com/track.png"]);
  expect(asked.filter((url) => url.includes("example.com") || url.endsWith("/x"))).toEqual([]);
});

test("a long thread draws its end, and earlier messages come without a jump when somebody scrolls up", async () => {
  const { server, url } = await serve({ stage: ["--history", "300"] });
  const page = await open(`${url}/t/${(await server.threadIds())[0]}`);
  await talk(page).getByText("Message number 299.").first().waitFor();
  const drawn = () => page.locator("[data-message-id]").count();
  await eventually(async () => (await drawn()) >= 60 && (await drawn()) < 80, true);
  const viewportAtEnd = () =>
    page.locator(".viewport").evaluate((it) => it.scrollHeight - it.scrollTop - it.clientHeight < 4);
  await eventually(viewportAtEnd, true);

  const viewport = page.locator(".viewport");
  await viewport.evaluate((element) => element.scrollTo(0, 500));
  const first = talk(page).getByText("Message number 240.").first();
  const before = await first.evaluate((element) => element.getBoundingClientRect().top);
  await eventually(async () => (await drawn()) >= 120, true);
  const after = await first.evaluate((element) => element.getBoundingClientRect().top);
  expect(Math.abs(after - before)).toBeLessThan(4);

  // However far somebody scrolls, what is drawn stays bounded.
  await expect
    .poll(
      async () => {
        await viewport.evaluate((element) => element.scrollTo(0, 0));
        return talk(page).getByText("Message number 0.").count();
      },
      { timeout: TIMEOUT_MS, interval: 300 },
    )
    .toBe(1);
  expect(await drawn()).toBeLessThanOrEqual(240);
  await page.getByRole("button", { name: "Go to the latest message" }).click();
  await talk(page).getByText("Message number 299.").first().waitFor();
  await ask(page, "hello");
  await talk(page).getByText("Hello. What shall we do?").waitFor();
  await eventually(async () => (await drawn()) < 90, true);
});
