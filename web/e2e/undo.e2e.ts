/** A turn whose changes were taken back says so: at once, after a reload, and no longer once they were done again. */

import type { Page } from "playwright-core";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { axe } from "./axe.js";
import { House, python } from "./house.js";
import { ask, box, open, talk } from "./stage.js";

describe.skipIf(python() === undefined)("undone changes", () => {
  let house: House;

  beforeEach(async () => {
    house = await House.open();
  });
  afterEach(() => house.close());

  async function changed(): Promise<{ page: Page; url: string }> {
    const url = `${house.url}/t/${(await house.api.create()).id}`;
    const page = await open(url);
    await box(page).waitFor();
    await ask(page, "change it");
    const yes = page.getByRole("button", { name: /^Yes, once/ });
    const done = talk(page).getByText("Changed.").first();
    await yes.or(done).first().waitFor();
    if (await yes.isVisible()) await yes.click();
    await done.waitFor();
    await page.getByRole("button", { name: "Stop", exact: true }).waitFor({ state: "detached" });
    return { page, url };
  }

  const line = (page: Page) => talk(page).getByText("Changes undone: src/login.py");
  const card = (page: Page, how: string) => talk(page).getByRole("region", { name: `src/login.py: ${how}` });

  test("are marked on the edit and on the turn", async () => {
    const { page } = await changed();
    await card(page, "done").waitFor();
    await page.getByRole("button", { name: /^Changes 1/ }).waitFor();
    await page.getByRole("button", { name: "Undo file changes" }).click();
    await page.getByRole("button", { name: "Undo 1 change" }).click();
    await line(page).waitFor();
    await card(page, "done, then undone").getByText("undone", { exact: true }).waitFor();
    await page.getByRole("button", { name: /^Changes 1/ }).waitFor({ state: "detached" });
    expect(house.file("src/login.py")).not.toContain("compare(user.password, password)");
    await page.reload();
    await line(page).waitFor();
    await card(page, "done, then undone").waitFor();
    expect(await axe(page)).toEqual([]);

    await box(page).fill("/redo");
    await box(page).press("Enter");
    await page.getByRole("button", { name: "Redo 1 change" }).click();
    await card(page, "done").waitFor();
    await line(page).waitFor({ state: "detached" });
    await page.reload();
    await card(page, "done").waitFor();
    expect(await line(page).count()).toBe(0);
  });

  test("are seen in every tab", async () => {
    const { page, url } = await changed();
    const other = await open(url);
    await card(other, "done").waitFor();
    await page.getByRole("button", { name: "Undo file changes" }).click();
    await page.getByRole("button", { name: "Undo 1 change" }).click();
    await line(other).waitFor();
    await card(other, "done, then undone").waitFor();
  });
});
