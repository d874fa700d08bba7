/** A second device signs in by link, code or QR code, without a shell. On `hames serve` with a token. */

import { execFileSync } from "node:child_process";
import jsQR from "jsqr";
import type { Page } from "playwright-core";
import { afterEach, describe, expect, test } from "vitest";
import { axe } from "./axe.js";
import { House, python } from "./house.js";
import { ask, box, eventually, open, talk } from "./stage.js";

const PHONE = { viewport: { width: 390, height: 844 }, isMobile: true, hasTouch: true };
const TOKEN = "a-long-enough-token-for-a-test-0123456789";

describe.skipIf(python() === undefined)("a second device", () => {
  let house: House | undefined;
  afterEach(() => house?.close());

  async function signedIn(): Promise<{ url: string; link: string; page: Page }> {
    house = await House.open({ serve: ["--model", "scripted/hello"], environment: { HAMES_TOKEN: TOKEN } });
    const link = `${house.url}/${/\?token=\S+/.exec(house.printed)![0]}`;
    const page = await open(link);
    await box(page).waitFor();
    return { url: house.url, link, page };
  }

  async function addDevice(page: Page) {
    await page.getByRole("button", { name: "Add a device" }).click();
    const dialog = page.getByRole("dialog", { name: "Add a device" });
    await dialog.getByRole("img", { name: "QR code of the link" }).waitFor();
    return {
      dialog,
      code: await dialog.locator(".device-code").innerText(),
      link: await dialog.locator(".device-link code").innerText(),
    };
  }

  test("an observer sees everything, and is offered nothing that would be refused", async () => {
    const { url, page } = await signedIn();
    await ask(page, "hello");
    await talk(page).getByText("Hello").first().waitFor();
    const words = ["-m", "hames", "tokens", "add", "watcher", "--role", "observer"];
    const token = execFileSync(python()!, words, { env: house!.environment(), encoding: "utf8" }).trim();
    const observer = await open(url);
    await observer.getByRole("textbox", { name: "Code or token" }).fill(token);
    await observer.getByRole("button", { name: "Sign in" }).click();
    await talk(observer).getByText("Hello").first().waitFor();
    await observer.getByText("You can look at this thread and change nothing").waitFor();
    for (const name of [/^New$/, /^Archive /, /^Rename/, /^Fork/, /^Undo/, /^Send/])
      expect(await observer.getByRole("button", { name }).count(), String(name)).toBe(0);
    await observer.getByRole("button", { name: "More" }).click();
    await observer.getByRole("menuitem", { name: "Outline" }).waitFor();
    for (const name of [/^Rename/, /^Fork/, /^Compact/, /^Archive/, /^Delete/])
      expect(await observer.getByRole("menuitem", { name }).count(), String(name)).toBe(0);
    await observer.keyboard.press("Escape");
    await observer.keyboard.press("Alt+n");
    await observer.locator(".toast").getByText("change nothing").waitFor();
    await observer.getByRole("button", { name: "Time travel" }).click();
    await observer.locator(".time-bar").waitFor();
    expect(await observer.getByRole("button", { name: "Fork from here" }).count()).toBe(0);
    expect(await axe(observer)).toEqual([]);
  });

  test("a used link opens a page that says so and takes a code", async () => {
    const { link, page } = await signedIn();
    const phone = await open(link, PHONE);
    await phone.getByRole("heading", { name: "Sign in to Hames" }).waitFor();
    await phone.getByText("That link was already used or has expired.").waitFor();
    expect(phone.url()).not.toContain("token");
    expect(await phone.locator("body").innerText()).not.toContain('{"error"');
    expect(await axe(phone)).toEqual([]);
    const { code } = await addDevice(page);
    await phone.getByRole("textbox", { name: "Code or token" }).fill("AAAA-AAAA");
    await phone.getByRole("button", { name: "Sign in" }).click();
    await phone.getByText("This code or token is wrong, was already used, or has expired.").waitFor();
    await phone.getByRole("textbox", { name: "Code or token" }).fill(code.toLowerCase().replace("-", ""));
    await phone.getByRole("button", { name: "Sign in" }).click();
    await box(phone).waitFor();
    await phone.reload();
    await box(phone).waitFor();
  });

  test("the QR code is the link, which works once", async () => {
    const { page } = await signedIn();
    const { dialog, link } = await addDevice(page);
    expect(await axe(page)).toEqual([]);
    expect(await scanned(page)).toBe(link);
    const phone = await open(link, PHONE);
    await box(phone).waitFor();
    expect(phone.url()).not.toContain("token");
    const thief = await open(link);
    await thief.getByText("That link was already used or has expired.").waitFor();
    await dialog.press("Escape");
    await dialog.waitFor({ state: "detached" });
  });

  test("the browser that used a link may open it again", async () => {
    const { link, page } = await signedIn();
    await page.goto(link);
    await box(page).waitFor();
    expect(page.url()).not.toContain("token");
  });

  test("a stranger sees the sign-in page on every address", async () => {
    const { url } = await signedIn();
    for (const path of ["/", "/t/ses_x"]) {
      const stranger = await open(url + path);
      await stranger.getByRole("heading", { name: "Sign in to Hames" }).waitFor();
      expect(await stranger.getByText("already used").count()).toBe(0);
    }
  });

  /** As a server in a network would answer. */
  const links = (page: Page, link: object) =>
    page.route("**/links", (route) =>
      route.fulfill({ status: 201, json: { path: "/?token=a-word", code: "ABCD-EFGH", addresses: [], ...link } }),
    );

  test("the address for other devices is offered, and can be changed", async () => {
    const { page } = await signedIn();
    await links(page, { expiresInSeconds: 600, addresses: ["http://192.0.2.7:4800", "http://192.0.2.8:4800"] });
    const { dialog } = await addDevice(page);
    await dialog.getByText("http://192.0.2.7:4800/?token=a-word").waitFor();
    expect(await scanned(page)).toBe("http://192.0.2.7:4800/?token=a-word");
    await dialog.getByRole("combobox").selectOption("http://192.0.2.8:4800");
    await dialog.getByText("http://192.0.2.8:4800/?token=a-word").waitFor();
  });

  test("a code that has expired is replaced", async () => {
    const { page } = await signedIn();
    await links(page, { expiresInSeconds: 1 });
    await page.getByRole("button", { name: "Add a device" }).click();
    await page.getByText("This code has expired.").waitFor();
    await page.unroute("**/links");
    await page.getByRole("button", { name: "New code" }).click();
    await eventually(async () => /^\w{4}-\w{4}$/.test(await page.locator(".device-code").innerText()), true);
    expect(await page.locator(".device-code").innerText()).not.toBe("ABCD-EFGH");
  });
});

test("a server for this machine only says how to open it to others", async () => {
  if (python() === undefined) return;
  const house = await House.open({ serve: ["--model", "scripted/hello"] });
  try {
    const page = await open(house.url);
    await box(page).waitFor();
    await page.getByRole("button", { name: "Add a device" }).click();
    await page.getByRole("dialog").getByText("hames serve --host 0.0.0.0 --token").waitFor();
  } finally {
    await house.close();
  }
});

/** What a camera reads off the screen. */
async function scanned(page: Page): Promise<string | undefined> {
  const side = 240;
  const dark = await page.locator(".qr").evaluate(async (svg, side) => {
    const copy = svg.cloneNode(true) as SVGElement;
    copy.setAttribute("width", `${side}`);
    copy.setAttribute("height", `${side}`);
    copy.setAttribute("xmlns", "http://www.w3.org/2000/svg");
    const image = new Image(side, side);
    image.src = `data:image/svg+xml;base64,${btoa(new XMLSerializer().serializeToString(copy))}`;
    await image.decode();
    const context = new OffscreenCanvas(side, side).getContext("2d")!;
    context.drawImage(image, 0, 0, side, side);
    const { data } = context.getImageData(0, 0, side, side);
    return Array.from({ length: side * side }, (_, pixel) => (data[pixel * 4]! < 128 ? "1" : "0")).join("");
  }, side);
  const pixels = [...dark].flatMap((one) => (one === "1" ? [0, 0, 0, 255] : [255, 255, 255, 255]));
  return jsQR(new Uint8ClampedArray(pixels), side, side)?.data;
}
