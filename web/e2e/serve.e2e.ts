/** `hames serve` itself, as people start it: no key, no prop, nothing of ours between them. */

import { cpSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { afterEach, describe, expect, test } from "vitest";
import { House, type HouseOptions, python } from "./house.js";
import { ask, box, eventually, open, talk } from "./stage.js";

describe.skipIf(python() === undefined)("hames serve", () => {
  let house: House | undefined;

  async function served(options: HouseOptions = {}): Promise<House> {
    return (house = await House.open({ serve: [], ...options }));
  }
  afterEach(() => house?.close());

  test("the first page of a new workspace says what to set, and the demo needs nothing", async () => {
    const { url, api } = await served();
    const page = await open(url);
    await page.getByText("set ANTHROPIC_API_KEY").waitFor();
    await page.getByRole("button", { name: /scripted demo/ }).click();
    const { demoModel, models } = await api.status();
    const name = models.find(({ id }) => id === demoModel)?.name ?? demoModel;
    await page.getByRole("button", { name: `Model: ${name}` }).waitFor();
    await ask(page, "hello");
    await eventually(async () => (await api.threads()).threads.map(({ preview }) => preview), ["hello", ""]);
    await talk(page).locator(".assistant").first().waitFor();
    await page.getByRole("button", { name: "Stop", exact: true }).waitFor({ state: "detached" });
    expect((await talk(page).locator(".assistant").last().innerText()).length).toBeGreaterThan(10);
  });

  test("a model without a key fails with what helps", async () => {
    const { url } = await served();
    const page = await open(url);
    await box(page).waitFor();
    await ask(page, "try anyway");
    await talk(page)
      .getByRole("heading", { name: /rejected the API key|agent failed/ })
      .waitFor();
    await talk(page).getByText("ANTHROPIC_API_KEY").first().waitFor();
  });

  test.each([
    ["Markdown", "(page)\n\nhello"],
    ["JSON", '"type":"turn_started"'],
  ])("a thread is exported as %s", async (format, contained) => {
    const { url } = await served({ serve: ["--model", "scripted/hello"] });
    const page = await open(url);
    await box(page).waitFor();
    await ask(page, "hello");
    await talk(page).locator(".assistant").first().waitFor();
    await page.getByRole("button", { name: "More" }).click();
    const [download] = await Promise.all([
      page.waitForEvent("download"),
      page.getByRole("menuitem", { name: `Export as ${format}` }).click(),
    ]);
    expect(readFileSync(await download.path(), "utf8")).toContain(contained);
  });

  test("a thread that somebody else wrote is shown, with a word about whose settings apply", async () => {
    const { url, api, workspace } = await served({ serve: ["--model", "scripted/hello"] });
    const page = await open(url);
    await box(page).waitFor();
    await ask(page, "hello");
    await talk(page).locator(".assistant").first().waitFor();
    expect(await page.getByRole("note").count()).toBe(0);
    const own = (await api.threads()).threads[0]!.id;
    const threads = join(workspace, ".harness", "threads");
    cpSync(join(threads, own), join(threads, "ses_theirs"), { recursive: true });
    const theirs = await open(`${url}/t/ses_theirs`);
    await theirs.getByRole("note").getByText("This thread was not written by you on this machine").waitFor();
    await talk(theirs).getByText("hello").first().waitFor();
  });

  test("with a token the printed link lets a browser in, and nobody else", async () => {
    const { url, printed } = await served({
      environment: { HAMES_TOKEN: "a-long-enough-token-for-a-test-0123456789" },
    });
    const stranger = await open(url);
    await stranger.getByRole("heading", { name: "Sign in to Hames" }).waitFor();
    const token = /\?token=\S+/.exec(printed)![0];
    const page = await open(`${url}/${token}`);
    await box(page).waitFor();
    expect(page.url()).not.toContain("token");
    await page.getByRole("heading", { name: /cannot be used yet/ }).waitFor();
  });
});
