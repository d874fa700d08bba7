/** The first load: what travels, and what is seen before the program is there. On `hames serve`. */

import { afterEach, describe, expect, test } from "vitest";
import { House, python } from "./house.js";
import { box, eventually, open } from "./stage.js";

describe.skipIf(python() === undefined)("the first load", () => {
  let house: House | undefined;
  afterEach(() => house?.close());

  test("files travel compressed, and a second visit fetches none of them", async () => {
    house = await House.open({ serve: ["--model", "scripted/hello"] });
    const page = await open("about:blank");
    const session = await page.context().newCDPSession(page);
    await session.send("Network.enable");
    const encodings = new Map<string, string>();
    const paths = new Map<string, string>();
    let bytes = 0;
    session.on("Network.responseReceived", ({ requestId, response }) => {
      const { pathname } = new URL(response.url);
      paths.set(requestId, pathname);
      if (/\.(js|css)$/.test(pathname)) encodings.set(pathname, response.headers["content-encoding"] ?? "");
    });
    session.on("Network.loadingFinished", ({ requestId, encodedDataLength }) => {
      if (paths.get(requestId)?.startsWith("/assets/")) bytes += encodedDataLength;
    });
    await page.goto(house.url);
    await box(page).waitFor();
    console.log(`assets of the first load: ${(bytes / 1_000).toFixed(1)} kB`);
    expect([...encodings.values()].filter((encoding) => encoding !== "br" && encoding !== "gzip")).toEqual([]);
    expect(encodings.size).toBeGreaterThanOrEqual(2);
    expect(bytes).toBeLessThan(300_000);
    bytes = 0;
    await page.reload();
    await box(page).waitFor();
    expect(bytes).toBe(0);
  });

  test("before the program has arrived there is a page that says so", async () => {
    house = await House.open({ serve: ["--model", "scripted/hello"] });
    const page = await open("about:blank");
    let release = () => {};
    const held = new Promise<void>((resolve) => (release = resolve));
    await page.route("**/assets/*.js", async (route) => {
      await held;
      await route.continue();
    });
    await page.goto(house.url, { waitUntil: "commit" });
    await page.getByText("Loading Hames…").waitFor();
    // With its colours: the style sheet is small and comes first.
    await eventually(() => page.evaluate(() => getComputedStyle(document.body).backgroundColor), "rgb(250, 249, 246)");
    expect(await page.locator(".shell .sidebar").isVisible()).toBe(true);
    release();
    await box(page).waitFor();
    expect(await page.getByText("Loading Hames…").count()).toBe(0);
  });

  test("a slow connection shows the page within seconds", async () => {
    house = await House.open({ serve: ["--model", "scripted/hello"] });
    const page = await open("about:blank");
    const session = await page.context().newCDPSession(page);
    await session.send("Network.enable");
    // 400 kbit/s, as on a train.
    const kilobits = 400;
    await session.send("Network.emulateNetworkConditions", {
      offline: false,
      latency: 200,
      downloadThroughput: (kilobits * 1_000) / 8,
      uploadThroughput: (kilobits * 1_000) / 8,
    });
    const began = Date.now();
    await page.goto(house.url, { waitUntil: "commit" });
    await page.getByText("Loading Hames…").waitFor();
    const shell = Date.now() - began;
    await box(page).waitFor();
    console.log(`at ${kilobits} kbit/s: shell after ${shell} ms, ready after ${Date.now() - began} ms`);
  });
});
