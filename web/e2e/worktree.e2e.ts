/** The git worktree of a thread on the page: a copy goes on in one, and it is merged, kept or dropped. */

import { execFileSync } from "node:child_process";
import { existsSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import type { BrowserContextOptions, Page } from "playwright-core";
import { describe, expect, test } from "vitest";
import type { House } from "./house.js";
import { axeFree, box, eventually, onThread, talk } from "./stage.js";

const PHONE = { viewport: { width: 390, height: 844 }, isMobile: true, hasTouch: true } as const;
const LOOKS: [string, BrowserContextOptions][] = [
  ["light", {}],
  ["dark on a phone", { ...PHONE, colorScheme: "dark" }],
];

function git(cwd: string, ...words: string[]): string {
  const who = ["-c", "user.name=You", "-c", "user.email=you@example.org"];
  return execFileSync("git", [...who, ...words], { cwd, encoding: "utf8" }).trim();
}

/** With a finger or a mouse: on a phone, Enter is a new line. */
async function send(page: Page, words: string): Promise<void> {
  await box(page).fill(words);
  await page.getByRole("button", { name: "Send" }).click();
}

/** A thread whose copy is in a worktree: where that is, and the page on the copy. */
async function inWorktree(look: BrowserContextOptions): Promise<{ server: House; page: Page; path: string }> {
  const { server, thread, page } = await onThread({}, look);
  git(server.workspace, "init", "-q", "-b", "main");
  git(server.workspace, "config", "user.name", "You");
  git(server.workspace, "config", "user.email", "you@example.org");
  writeFileSync(join(server.workspace, ".gitignore"), ".harness\n");
  git(server.workspace, "add", "-A");
  git(server.workspace, "commit", "-qm", "Start");
  writeFileSync(join(server.workspace, "draft.txt"), "not committed\n");
  await send(page, "hello here");
  await talk(page).getByText("Hello. What shall we do?").waitFor();
  await send(page, "/worktree");
  const dialog = page.getByRole("dialog", { name: "Continue in a git worktree" });
  await dialog.getByText("also those that are not committed").waitFor();
  await axeFree(page);
  await dialog.getByRole("button", { name: "Continue in a copy" }).click();
  await eventually(() => new URL(page.url()).pathname === `/t/${thread.id}`, false);
  const copy = new URL(page.url()).pathname.split("/").at(-1)!;
  await eventually(async () => (await server.api.read(copy)).state.thread?.cwd === server.workspace, false);
  const path = (await server.api.read(copy)).state.thread!.cwd;
  expect(existsSync(join(path, "draft.txt"))).toBe(true);
  return { server, page, path };
}

describe("a worktree", () => {
  test.each(LOOKS)("is dropped only after its name was typed: %s", async (_, look) => {
    const { page, path } = await inWorktree(look);
    await send(page, "/worktree");
    const dialog = page.getByRole("dialog", { name: /^Worktree / });
    const drop = dialog.getByRole("button", { name: "Drop" });
    await drop.waitFor();
    expect(await drop.isDisabled()).toBe(true);
    const { x, width } = (await dialog.boundingBox())!;
    expect(x).toBeGreaterThanOrEqual(0);
    expect(x + width).toBeLessThanOrEqual(page.viewportSize()!.width);
    await axeFree(page);
    const name = (await dialog.getByRole("heading").innerText()).replace("Worktree ", "");
    await dialog.getByRole("textbox").fill(name);
    await drop.click();
    await dialog.waitFor({ state: "detached" });
    await eventually(() => existsSync(path), false);
  });

  test("is merged, and what stands against it is said where it was asked for", async () => {
    const { server, page, path } = await inWorktree({});
    writeFileSync(join(path, "README.md"), "# The copy's\n");
    writeFileSync(join(server.workspace, "README.md"), "# Another one\n");
    git(server.workspace, "commit", "-qam", "Another one");
    await send(page, "/worktree");
    const dialog = page.getByRole("dialog", { name: /^Worktree / });
    await dialog.getByRole("button", { name: "Merge" }).click();
    await dialog.getByRole("alert").getByText("README.md").first().waitFor();
    git(server.workspace, "reset", "-q", "--hard", "HEAD~1");
    writeFileSync(join(server.workspace, "draft.txt"), "");
    git(server.workspace, "clean", "-qf", "draft.txt");
    await dialog.getByRole("button", { name: "Merge" }).click();
    await dialog.waitFor({ state: "detached" });
    await eventually(() => server.file("README.md"), "# The copy's\n");
    expect(server.file("draft.txt")).toBe("not committed\n");
  });

  test("of a repository without a commit is refused in words, in the dialog", async () => {
    const { page } = await onThread();
    await send(page, "hello here");
    await talk(page).getByText("Hello. What shall we do?").waitFor();
    await send(page, "/worktree");
    const dialog = page.getByRole("dialog", { name: "Continue in a git worktree" });
    await dialog.getByRole("button", { name: "Continue in a copy" }).click();
    expect(await dialog.getByRole("alert").innerText()).toMatch(/git/);
    await dialog.getByRole("button", { name: "Cancel" }).click();
    await dialog.waitFor({ state: "detached" });
  });
});
