/** Threads as things: deleted for good, archived with a way back, found by what was said in them. On the real server. */

import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { House, python } from "./house.js";
import { ask, box, eventually, open, talk } from "./stage.js";

describe.skipIf(python() === undefined)("threads", () => {
  let house: House;
  beforeEach(async () => {
    house = await House.open();
  });
  afterEach(() => house.close());

  const ids = async (archived = false) => (await house.api.threads({ archived })).threads.map(({ id }) => id);

  test("a thread is deleted after a question, and only then", async () => {
    const other = await house.api.create({ title: "Other" });
    const thread = await house.api.create({ title: "Unwanted" });
    const page = await open(`${house.url}/t/${thread.id}`);
    const second = await open(`${house.url}/t/${thread.id}`);
    await page.getByRole("heading", { level: 1, name: "Unwanted" }).waitFor();
    const choose = async () => {
      await page.getByRole("button", { name: "More" }).click();
      await page.getByRole("menuitem", { name: "Delete…" }).click();
      return page.getByRole("dialog", { name: "Delete this thread?" });
    };
    const first = await choose();
    await first.getByText("“Unwanted” and its whole history are deleted for good.").waitFor();
    await first.getByRole("button", { name: "Cancel" }).click();
    await first.waitFor({ state: "detached" });
    expect(await ids()).toContain(thread.id);
    await (await choose()).press("Escape");
    expect(await ids()).toContain(thread.id);
    await (await choose()).getByRole("button", { name: "Delete" }).click();
    await eventually(ids, [other.id]);
    await eventually(() => new URL(page.url()).pathname, `/t/${other.id}`);
    await eventually(() => page.getByRole("link", { name: /Unwanted/ }).count(), 0);
    await second.getByRole("heading", { name: "Thread not found" }).waitFor();
  });

  test("a thread that runs is not deleted, and the page says why", async () => {
    const thread = await house.api.create({ title: "Busy" });
    const page = await open(`${house.url}/t/${thread.id}`);
    await box(page).waitFor();
    await ask(page, "run it");
    await page.locator("[data-approval]").waitFor();
    await page.getByRole("button", { name: "More" }).click();
    await page.getByRole("menuitem", { name: "Delete…" }).click();
    await page.getByRole("dialog").getByRole("button", { name: "Delete" }).click();
    await page.getByText("interrupt it first").waitFor();
    expect(await ids()).toEqual([thread.id]);
  });

  test("archiving can be undone, from the list and from the thread itself", async () => {
    const other = await house.api.create({ title: "Other" });
    const thread = await house.api.create({ title: "Old" });
    const page = await open(`${house.url}/t/${thread.id}`);
    await page.getByRole("link", { name: /Other/ }).waitFor();
    await page.getByRole("button", { name: "Archive Other" }).click();
    await page.getByText("Archived “Other”").waitFor();
    await eventually(() => ids(true), [other.id]);
    await page.getByRole("button", { name: "Undo" }).click();
    await eventually(() => ids(true), []);
    await page.getByRole("link", { name: /Other/ }).waitFor();
    await page.getByRole("button", { name: "More" }).click();
    await page.getByRole("menuitem", { name: "Archive" }).click();
    await eventually(() => new URL(page.url()).pathname, `/t/${other.id}`);
    await page.getByRole("button", { name: "Undo" }).click();
    await eventually(() => new URL(page.url()).pathname, `/t/${thread.id}`);
    expect(await ids(true)).toEqual([]);
  });

  test("an archived thread is deleted from its list", async () => {
    const thread = await house.api.create({ title: "Old" });
    await house.api.archive(thread.id);
    await house.api.create({ title: "Open" });
    const page = await open(house.url);
    await page.getByRole("button", { name: "Show archived threads" }).click();
    await page.getByRole("link", { name: /Old/ }).hover();
    await page.getByRole("button", { name: "Delete Old" }).click();
    await page.getByRole("dialog").getByRole("button", { name: "Delete" }).click();
    await eventually(() => ids(true), []);
    await page.getByText("Nothing is archived").waitFor();
  });

  test("a thread is found by a word of a reply, and shows where", async () => {
    const thread = await house.api.create({ title: "Music" });
    await house.api.create({ title: "Something else" });
    const page = await open(`${house.url}/t/${thread.id}`);
    await box(page).waitFor();
    await ask(page, "remember please");
    await talk(page).getByText("The xylophone is in the third room.").waitFor();
    await page.getByRole("button", { name: "Stop", exact: true }).waitFor({ state: "detached" });
    await page.getByRole("searchbox", { name: "Search threads" }).fill("xylo");
    await eventually(() => page.locator("[data-row]").count(), 1);
    await page.getByRole("link", { name: /Music.*The xylophone is in the third room/ }).waitFor();
    await page.getByRole("searchbox", { name: "Search threads" }).fill("nowhere");
    await page.getByText("Nothing found").waitFor();
  });

  test("a thread without a title is named by the first sentence of its prompt", async () => {
    const thread = await house.api.create();
    const page = await open(`${house.url}/t/${thread.id}`);
    await box(page).waitFor();
    await ask(page, "hello there. And then there are many more words that belong in no title at all");
    await page.getByRole("heading", { level: 1, name: "hello there" }).waitFor();
    await eventually(() => page.title(), "hello there · Hames");
    expect(await page.locator(".thread-title").innerText()).toBe("hello there");
    // The list is in groups by day, and each row is one line of its own.
    await page.getByText("Today", { exact: true }).waitFor();
  });
});
