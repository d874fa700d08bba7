/** Files in a browser's hands: pasted, dropped, chosen. */

import type { Page } from "playwright-core";

/** Drops files onto the element that the selector names. Says whether the browser would have left the page for them. */
export async function drop(
  page: Page,
  selector: string,
  files: readonly { name: string; type: string }[],
): Promise<{ prevented: boolean }> {
  await page.locator(selector).first().waitFor({ state: "attached" });
  return page.evaluate(
    async ({ selector, files }) => {
      const canvas = new OffscreenCanvas(8, 8);
      canvas.getContext("2d")!.fillRect(0, 0, 8, 8);
      const picture = await canvas.convertToBlob();
      const dataTransfer = new DataTransfer();
      for (const { name, type } of files)
        dataTransfer.items.add(new File([type.startsWith("image/") ? picture : "words"], name, { type }));
      const target = document.querySelector(selector)!;
      const events = ["dragenter", "dragover", "drop"].map(
        (kind) => new DragEvent(kind, { dataTransfer, bubbles: true, cancelable: true }),
      );
      for (const event of events) target.dispatchEvent(event);
      return { prevented: events.slice(1).every((event) => event.defaultPrevented) };
    },
    { selector, files: [...files] },
  );
}

export const PNG = { name: "shot.png", type: "image/png" };
