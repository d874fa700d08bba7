/** Every row of `specs/keys.json`, pressed in a real browser. The terminal is tested against the same rows. */

import { expect, test } from "vitest";
import table from "../../specs/keys.json";
import { ask, box, eventually, listening, onThread, steered, talk } from "./stage.js";

type Stage = Awaited<ReturnType<typeof onThread>>;
type Row = (typeof table.keys)[number] & { if?: string };

const focused = ({ page }: Stage) => box(page).evaluate((element) => element === document.activeElement);
const said = ({ thread }: Stage) =>
  thread.state.messages.filter(({ role }) => role === "user").map(({ content }) => content);
const mode = ({ thread }: Stage) => {
  const { agent, approvalPolicy } = thread.state.settings!;
  return table.modes.find(
    ({ set }) => set.agent === agent && (!("approvalPolicy" in set) || set.approvalPolicy === approvalPolicy),
  )?.id;
};

/** What pressing a key must lead to, by its meaning. `when` and `if` are prepared already. */
const MEANINGS: Record<string, (stage: Stage, press: () => Promise<void>, row: Row) => Promise<void>> = {
  send: async (stage, press) => {
    await box(stage.page).fill("hello");
    await press();
    await eventually(() => said(stage), ["hello"]);
  },
  steer: async (stage, press) => {
    await box(stage.page).fill("left, not right");
    await press();
    await eventually(() => steered(stage.page), ["left, not right"]);
    expect(stage.thread.state.queue).toEqual([]);
    expect(await box(stage.page).inputValue()).toBe("");
  },
  queue: async (stage, press) => {
    await press();
    await eventually(() => stage.thread.state.queue!.map(({ prompt }) => prompt), ["some text"]);
    expect(steered(stage.page)).toEqual([]);
    expect(await focused(stage)).toBe(true);
  },
  stop: async (stage, press) => {
    await press();
    await eventually(() => stage.thread.state.status, "idle");
    await talk(stage.page).getByText("Stopped", { exact: true }).waitFor();
  },
  "next-mode": async (stage, press) => {
    const cycle = table.modes.filter(({ shiftTab }) => shiftTab).map(({ id }) => id);
    const start = cycle.indexOf(mode(stage)!);
    for (let step = 1; step <= cycle.length + 1; step++) {
      await press();
      await eventually(() => mode(stage), cycle[(start + step) % cycle.length]);
    }
    // Two quick presses are two steps.
    const now = cycle.indexOf(mode(stage)!);
    await press();
    await press();
    await eventually(() => mode(stage), cycle[(now + 2) % cycle.length]);
    expect(await focused(stage)).toBe(true);
  },
  newline: async (stage, press) => {
    await box(stage.page).fill("one");
    await press();
    await box(stage.page).pressSequentially("two");
    expect(await box(stage.page).inputValue()).toBe("one\ntwo");
    expect(steered(stage.page)).toEqual([]);
  },
  "approve-once": async (stage, press) => {
    await press();
    await talk(stage.page).getByText("Done.", { exact: true }).waitFor();
  },
  "approve-always": async (stage, press) => {
    const sent: string[] = [];
    stage.page.on("websocket", (socket) => socket.on("framesent", ({ payload }) => sent.push(String(payload))));
    await stage.page.reload();
    await stage.page.locator("[data-approval]").focus();
    await listening(stage.page);
    await press();
    await eventually(() => sent.some((frame) => frame.includes('"decision":"always"')), true);
  },
  "approve-project": async (stage, press) => {
    const sent: string[] = [];
    stage.page.on("websocket", (socket) => socket.on("framesent", ({ payload }) => sent.push(String(payload))));
    await stage.page.reload();
    await stage.page.locator("[data-approval]").focus();
    await listening(stage.page);
    await press();
    await eventually(() => sent.some((frame) => frame.includes('"scope":"project"')), true);
  },
  reject: async (stage, press) => {
    await press();
    await stage.page.locator('[data-outcome="declined"]').waitFor();
  },
  "reject-with-message": async (stage, press) => {
    await press();
    const note = stage.page.getByLabel("Reject and tell the agent why");
    await eventually(() => note.evaluate((element) => element === document.activeElement), true);
    await note.pressSequentially("use the tracker");
    await note.press("Enter");
    await talk(stage.page).getByText("Understood: use the tracker").waitFor();
  },
  "keep-asking": async (stage, press) => {
    const before = mode(stage);
    await press();
    await stage.page.locator("[data-approval]").waitFor();
    expect({ mode: mode(stage), status: stage.thread.state.status }).toEqual({ mode: before, status: "running" });
    // The keys of the question still count.
    await stage.page.keyboard.press("y");
    await talk(stage.page).getByText("Done.", { exact: true }).waitFor();
  },
  none: async (stage, press, row) => {
    const before = { said: said(stage), mode: mode(stage), text: await box(stage.page).inputValue() };
    await press();
    if (row.key === "Tab") await eventually(() => focused(stage), false);
    else {
      // After Escape, Shift+Tab leaves the message box: otherwise the keyboard could not.
      await stage.page.keyboard.press("Shift+Tab");
      await eventually(() => focused(stage), false);
    }
    expect({ said: said(stage), mode: mode(stage), text: await box(stage.page).inputValue() }).toEqual(before);
    expect(stage.thread.state.queue).toEqual([]);
    expect(steered(stage.page)).toEqual([]);
  },
};

const browserKey = (key: string) => key.replace("Esc", "Escape");

test.each(table.keys as Row[])("$key when $when ($if) means $meaning", async (row) => {
  const stage = await onThread();
  const { page } = stage;
  if (row.when !== "idle") {
    await ask(page, "mcp please");
    await page.locator("[data-approval]").waitFor();
  }
  if (row.when === "approval") {
    await page.locator("[data-approval]").focus();
    await listening(page);
  } else await box(page).focus();
  if (row.if === "text") await box(page).fill("some text");
  await MEANINGS[row.meaning]!(stage, () => page.keyboard.press(browserKey(row.key)), row);
});

test("the modes have the names of the table, in its order", async () => {
  const { page } = await onThread();
  await page.getByRole("button", { name: /^Mode:/ }).click();
  const names = page.getByRole("option").locator(".menu-name");
  await eventually(
    () => names.allInnerTexts(),
    table.modes.map(({ name }) => name),
  );
});

test("the help says what the table says", async () => {
  const { page } = await onThread();
  await page.getByRole("button", { name: "Keys and commands" }).click();
  const dialog = page.getByRole("dialog", { name: "Keys and commands" });
  for (const { words } of table.keys) if (words) await dialog.getByText(words, { exact: false }).first().waitFor();
});

test("an open list of suggestions takes Enter, Tab and Esc first", async () => {
  const stage = await onThread();
  const { page } = stage;
  await ask(page, "mcp please");
  await page.locator("[data-approval]").waitFor();
  for (const key of ["Enter", "Tab"]) {
    await box(page).fill("");
    await box(page).pressSequentially("see @login");
    await page.getByRole("option", { name: "src/login.py", exact: true }).waitFor();
    await box(page).press(key);
    await eventually(() => box(page).inputValue(), "see @src/login.py ");
  }
  await box(page).fill("");
  await box(page).pressSequentially("see @login");
  await page.getByRole("option", { name: "src/login.py", exact: true }).waitFor();
  await box(page).press("Escape");
  await eventually(() => page.getByRole("option").count(), 0);
  expect(stage.thread.state.status).toBe("running");
  expect(steered(stage.page)).toEqual([]);
  expect(stage.thread.state.queue).toEqual([]);
});

test("a menu takes Esc, and the turn goes on", async () => {
  const { page, thread } = await onThread();
  await ask(page, "mcp please");
  await page.locator("[data-approval]").waitFor();
  await page.getByRole("button", { name: /^Sandbox/ }).click();
  await page.getByRole("option", { name: /Read only/ }).waitFor();
  await page.keyboard.press("Escape");
  await eventually(() => page.getByRole("option").count(), 0);
  expect(thread.state.status).toBe("running");
});

test("somebody who types in the search box keeps the focus when the thread appears", async () => {
  const { page, server } = await onThread();
  await page.getByRole("searchbox", { name: "Search threads" }).focus();
  const other = await server.create({ title: "Other" });
  await page.evaluate((id) => window.history.pushState(null, "", `/t/${id}`), other.id);
  await page.evaluate(() => window.dispatchEvent(new PopStateEvent("popstate")));
  await page.getByRole("heading", { level: 1, name: "Other" }).waitFor();
  await page.keyboard.type("pars");
  expect(await page.getByRole("searchbox", { name: "Search threads" }).inputValue()).toBe("pars");
});
