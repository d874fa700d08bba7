/** Pictures stay with the prompt they belong to, whatever is done with it; files may be dropped anywhere. On the real server. */

import type { Locator, Page } from "playwright-core";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { drop, PNG } from "./files.js";
import { House, python } from "./house.js";
import { ask, box, eventually, open, queue, talk } from "./stage.js";

describe.skipIf(python() === undefined)("pictures", () => {
  let house: House;
  beforeEach(async () => {
    house = await House.open();
  });
  afterEach(() => house.close());

  async function onThread() {
    const thread = await house.api.create();
    const page = await open(`${house.url}/t/${thread.id}`);
    await box(page).waitFor();
    return { page, thread, messages: async () => (await house.api.read(thread.id)).state.messages };
  }

  const attached = (page: Page) => page.getByRole("list", { name: "Attached pictures" }).getByRole("listitem");
  const waiting = (page: Page) => page.getByRole("region", { name: "Queued prompts" });
  const width = (image: Locator) => image.evaluate((element) => (element as HTMLImageElement).naturalWidth);

  /** Uploaded, so that it can be sent. */
  async function attach(page: Page, name = "shot.png"): Promise<void> {
    await drop(page, ".composer", [{ ...PNG, name }]);
    await page.getByRole("list", { name: "Attached pictures" }).getByRole("img", { name }).waitFor();
    await eventually(() => page.locator(".pictures [data-uploading]").count(), 0);
  }

  async function busy(page: Page): Promise<void> {
    await ask(page, "run it");
    await page.locator("[data-approval]").waitFor();
  }

  test("a queued prompt that is edited keeps its picture", async () => {
    const { page, messages } = await onThread();
    await busy(page);
    await attach(page);
    await queue(page, "hello look");
    await eventually(() => width(waiting(page).getByRole("img", { name: "shot.png" })), 8);
    await waiting(page).getByRole("button", { name: "Edit" }).click();
    await eventually(() => box(page).inputValue(), "hello look");
    await eventually(() => attached(page).count(), 1);
    await queue(page, "hello look again");
    await page.getByRole("button", { name: /^Yes, once/ }).click();
    await talk(page).getByText("Hello. What shall we do?").waitFor();
    const said = (await messages()).find(({ content }) => content === "hello look again");
    expect(said?.attachments).toMatchObject([{ kind: "image", name: "shot.png" }]);
    await eventually(() => width(talk(page).getByRole("img", { name: "shot.png" })), 8);
  });

  test("a queued prompt that is sent to the running turn keeps its picture", async () => {
    const { page, messages } = await onThread();
    await busy(page);
    await attach(page);
    await queue(page, "hello look");
    await waiting(page).getByRole("button", { name: "Send to the agent now" }).click();
    await eventually(() => waiting(page).count(), 0);
    await page.getByRole("button", { name: /^Yes, once/ }).click();
    await eventually(
      async () => (await messages()).find(({ content }) => content === "hello look")?.attachments,
      [expect.objectContaining({ kind: "image", name: "shot.png" })],
    );
  });

  test("a message with a picture is sent to the running turn with Enter", async () => {
    const { page, messages } = await onThread();
    await busy(page);
    await attach(page);
    await ask(page, "hello look");
    await talk(page).getByText("The agent reads this at its next step").waitFor();
    await page.getByRole("button", { name: /^Yes, once/ }).click();
    await eventually(
      async () => (await messages()).find(({ content }) => content === "hello look")?.attachments,
      [expect.objectContaining({ kind: "image", name: "shot.png" })],
    );
  });

  test("a failed turn is tried again with its picture", async () => {
    const { page, messages } = await onThread();
    await attach(page);
    await ask(page, "fail please");
    await page.getByRole("button", { name: "Try again" }).click();
    const prompts = async () => (await messages()).filter(({ role }) => role === "user");
    await eventually(async () => (await prompts()).map(({ attachments }) => attachments?.length), [1, 1]);
    const images = talk(page).getByRole("img", { name: "shot.png" });
    await eventually(() => images.count(), 2);
    await eventually(() => width(images.last()), 8);
  });

  test("a refused prompt is edited with its picture, and so is an earlier one in a fork", async () => {
    const { page, thread } = await onThread();
    await attach(page);
    await ask(page, "refuse please");
    await page.getByRole("button", { name: "Edit the prompt" }).click();
    await eventually(() => attached(page).count(), 1);
    await eventually(() => box(page).inputValue(), "refuse please");
    await talk(page).getByRole("button", { name: "Edit in a new fork" }).click();
    await eventually(() => new URL(page.url()).pathname === `/t/${thread.id}`, false);
    await eventually(() => attached(page).count(), 1);
    await eventually(() => page.locator(".pictures [data-uploading]").count(), 0);
    await box(page).fill("hello instead");
    await box(page).press("Enter");
    await eventually(() => width(talk(page).getByRole("img", { name: "shot.png" })), 8);
  });

  test("a picture that was attached is there after a reload", async () => {
    const { page } = await onThread();
    await attach(page);
    await page.reload();
    await eventually(() => attached(page).count(), 1);
    await eventually(() => width(attached(page).getByRole("img")), 8);
    await ask(page, "hello look");
    await eventually(() => width(talk(page).getByRole("img", { name: "shot.png" })), 8);
    await page.reload();
    await talk(page).getByText("Hello. What shall we do?").waitFor();
    expect(await attached(page).count()).toBe(0);
  });

  test.each([".viewport", ".head", ".sidebar", ".composer textarea", "body"])(
    "a picture may be dropped on %s",
    async (selector) => {
      const { page } = await onThread();
      expect(await drop(page, selector, [PNG])).toEqual({ prevented: true });
      await eventually(() => attached(page).count(), 1);
    },
  );

  test("a file that cannot be attached is said so in words, and the page stays", async () => {
    const { page } = await onThread();
    const dropped = await drop(page, ".viewport", [
      { name: "notes.txt", type: "text/plain" },
      { name: "drawing.svg", type: "image/svg+xml" },
      PNG,
    ]);
    expect(dropped).toEqual({ prevented: true });
    await page.getByText("notes.txt was not attached: only PNG, JPEG, GIF and WebP pictures can be sent.").waitFor();
    await page.getByText("drawing.svg was not attached").waitFor();
    await eventually(() => attached(page).count(), 1);
  });

  test("while a file is dragged over the page it says where it can be dropped", async () => {
    const { page } = await onThread();
    await page.evaluate(() => {
      const dataTransfer = new DataTransfer();
      dataTransfer.items.add(new File(["x"], "x.png", { type: "image/png" }));
      document.body.dispatchEvent(new DragEvent("dragover", { dataTransfer, bubbles: true, cancelable: true }));
    });
    await page.getByText("Drop pictures anywhere to attach them").waitFor();
    await page.evaluate(() => window.dispatchEvent(new DragEvent("dragleave", { bubbles: true })));
    await eventually(() => page.getByText("Drop pictures anywhere to attach them").count(), 0);
  });

  test("in the past a dropped file is refused in words", async () => {
    const { page } = await onThread();
    await ask(page, "hello");
    await talk(page).getByText("Hello. What shall we do?").waitFor();
    await page.getByRole("button", { name: "Time travel" }).click();
    await page.getByRole("slider").waitFor();
    expect(await drop(page, ".viewport", [PNG])).toEqual({ prevented: true });
    await page.getByText("Go back to now before you attach something").waitFor();
  });
});
