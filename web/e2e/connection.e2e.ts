/** What the page says while the server is dead: nothing that it cannot know. On the real server, which is killed. */

import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { House, python } from "./house.js";
import { ask, box, eventually, open, talk, tryNow } from "./stage.js";

describe.skipIf(python() === undefined)("a dead server", () => {
  let house: House;
  beforeEach(async () => {
    house = await House.open();
  });
  afterEach(() => house.close());

  test("the page claims nothing about the agent, and counts no time", async () => {
    const thread = await house.api.create();
    const page = await open(`${house.url}/t/${thread.id}`);
    await box(page).waitFor();
    await ask(page, "endless please");
    await talk(page).getByText("word40 ").waitFor();
    await page.locator(".activity-words", { hasText: "Writing" }).waitFor();
    await house.kill();
    const banner = page.getByRole("status").filter({ hasText: "Connection lost" });
    await banner.waitFor();
    await banner.getByText("This page may be out of date").waitFor();
    expect(await page.locator(".banner").innerText()).not.toMatch(/goes on|nothing is lost/i);
    await eventually(() => page.locator(".activity-words").count(), 0);
    await eventually(() => page.locator(".activity-time").count(), 0);
    await page.getByText("The server does not answer. Check that hames serve is running.").waitFor();
    await house.start();
    await tryNow(page);
    await page.locator(".banner").waitFor({ state: "hidden" });
    // The turn goes on by itself: the reply is asked for again.
    await page.locator(".activity-words", { hasText: /Writing|Thinking|Working/ }).waitFor();
    expect(
      await talk(page)
        .getByRole("heading", { name: /agent failed/ })
        .count(),
    ).toBe(0);
  });
});
