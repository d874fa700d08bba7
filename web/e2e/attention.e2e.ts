/** Notifications, also in a browser whose `Notification` cannot be constructed, as on Android. */

import { expect, test } from "vitest";
import { ask, eventually, onThread, talk } from "./stage.js";

/** What a page finds on a phone: permission is granted, and the constructor throws. */
function asOnAndroid(): void {
  class Illegal {
    static permission = "granted";
    static requestPermission = async () => "granted";
    constructor() {
      throw new TypeError("Failed to construct 'Notification': Illegal constructor. Use ServiceWorkerRegistration.");
    }
  }
  Object.assign(window, { Notification: Illegal });
  Object.defineProperty(document, "hidden", { get: () => true });
}

async function shown(page: Parameters<typeof talk>[0]): Promise<string[]> {
  return page.evaluate(async () => {
    const worker = await navigator.serviceWorker.getRegistration();
    const all = (await worker?.getNotifications()) ?? [];
    return all.map(({ title, body }) => `${title}: ${body}`);
  });
}

test("where the constructor throws the service worker shows it, and the page stays", async () => {
  const { page, url } = await onThread();
  await page.context().grantPermissions(["notifications"], { origin: url });
  await page.addInitScript(asOnAndroid);
  await page.reload();
  await page.getByRole("button", { name: /^Notify me/ }).click();
  await ask(page, "mcp please");
  await page.locator("[data-approval]").waitFor();
  await eventually(() => shown(page), ["mcp please: Waiting for your approval"]);
  await page.getByRole("button", { name: /^Yes, once/ }).click();
  await talk(page).getByText("Done.", { exact: true }).waitFor();
  await eventually(() => shown(page), ["mcp please: Finished"]);
  expect(await page.getByText("This page crashed").count()).toBe(0);
});

test("where nothing can show it the page says so and goes on", async () => {
  const { page } = await onThread();
  await page.addInitScript(asOnAndroid);
  // No service worker either: a page that came over plain HTTP from another machine.
  await page.addInitScript(() => Object.defineProperty(Navigator.prototype, "serviceWorker", { get: () => undefined }));
  await page.reload();
  await page.getByRole("button", { name: /^Notify me/ }).click();
  await ask(page, "mcp please");
  await page.getByText("This browser could not show a notification.").waitFor();
  await page.getByRole("button", { name: /^Yes, once/ }).click();
  await talk(page).getByText("Done.", { exact: true }).waitFor();
});

test("a browser without notifications says what they need", async () => {
  const { page } = await onThread();
  await page.addInitScript(() => {
    Object.defineProperty(window, "Notification", { value: undefined });
  });
  await page.reload();
  await page.getByRole("button", { name: /^Notify me/ }).click();
  await page.getByText("Most need https:// or localhost.").waitFor();
});
