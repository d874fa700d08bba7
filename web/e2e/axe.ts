/** What axe has to say about a page. */

import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import type { Page } from "playwright-core";

const AXE = readFileSync(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8");

export type Finding = { id: string; impact: string; nodes: string[] };

/** Everything that axe finds, best practices included. */
export async function axe(page: Page): Promise<Finding[]> {
  // Not a script element: the policy of the page would refuse it, and it should.
  await page.evaluate(AXE);
  return page.evaluate(async () => {
    type Result = { violations: { id: string; impact: string; nodes: { html: string }[] }[] };
    const { axe } = window as unknown as { axe: { run: () => Promise<Result> } };
    const { violations } = await axe.run();
    return violations.map(({ id, impact, nodes }) => ({
      id,
      impact,
      nodes: nodes.map(({ html }) => html.slice(0, 160)),
    }));
  });
}
