/** The page below a path that nginx has put in front of `hames serve`, configured as docs/reverse-proxy.md says. */

import { type ChildProcess, execFileSync, spawn } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { type AddressInfo, createServer } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, describe, expect, test } from "vitest";
import { PNG, drop } from "./files.js";
import { python } from "./house.js";
import { ask, box, eventually, open, serve, talk } from "./stage.js";

const DOCUMENTATION = new URL("../../docs/reverse-proxy.md", import.meta.url);
const SEARCH = `${process.env["PATH"]}:/usr/sbin`;

function nginxIsThere(): boolean {
  try {
    execFileSync("nginx", ["-v"], { stdio: "ignore", env: { ...process.env, PATH: SEARCH } });
    return true;
  } catch {
    return false;
  }
}

async function freePort(): Promise<number> {
  const server = createServer();
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const { port } = server.address() as AddressInfo;
  await new Promise((resolve) => server.close(resolve));
  return port;
}

/** The documented block, without TLS: which certificate a browser trusts is not the question here. */
function configuration(folder: string, port: number, target: number): string {
  let block = readFileSync(DOCUMENTATION, "utf8").split("```nginx\n")[1]!.split("```")[0]!;
  for (const [old, now] of [
    ["listen 443 ssl;", `listen 127.0.0.1:${port};`],
    ["ssl_certificate /etc/ssl/hames.pem;", ""],
    ["ssl_certificate_key /etc/ssl/hames.key;", ""],
    ["hames.example.com", "127.0.0.1"],
    ["location / {", "location /hames/ {"],
    ["proxy_pass http://127.0.0.1:4800;", `proxy_pass http://127.0.0.1:${target}/;`],
  ] as const) {
    expect(block).toContain(old);
    block = block.replace(old, now);
  }
  const folders = ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"].map((kind) => `${kind}_temp_path ${folder};`);
  return `daemon off; pid ${folder}/pid; error_log stderr; events {}\nhttp { access_log off; ${folders.join(" ")}\n${block}}\n`;
}

describe.skipIf(python() === undefined || !nginxIsThere())("below a path", () => {
  let proxy: ChildProcess | undefined;
  let folder = "";

  afterEach(async () => {
    if (proxy && proxy.exitCode === null) {
      const gone = new Promise((resolve) => proxy!.once("exit", resolve));
      proxy.kill("SIGTERM");
      await gone;
    }
    rmSync(folder, { recursive: true, force: true });
  });

  /** `hames serve` with a token, its address below `/hames/`, and the link that it printed. */
  async function below() {
    const port = await freePort();
    const { server } = await serve({
      serve: ["--model", "scripted/hello", "--allow-host", `127.0.0.1:${port}`, "--trusted-proxy", "127.0.0.1"],
      environment: { HAMES_TOKEN: "a-long-enough-token-for-a-test-0123456789" },
    });
    folder = mkdtempSync(join(tmpdir(), "nginx-"));
    writeFileSync(join(folder, "nginx.conf"), configuration(folder, port, server.wire.port));
    let said = "";
    proxy = spawn("nginx", ["-p", folder, "-c", join(folder, "nginx.conf")], {
      env: { ...process.env, PATH: SEARCH },
      stdio: ["ignore", "ignore", "pipe"],
    });
    proxy.stderr!.on("data", (data: Buffer) => (said += data.toString()));
    const home = `http://127.0.0.1:${port}/hames/`;
    await eventually(async () => {
      if (proxy!.exitCode !== null) throw new Error(`nginx did not start\n${said}`);
      return (await fetch(`${home}status`).catch(() => null))?.status;
    }, 401);
    return { home, link: home + /\?token=\S+/.exec(server.printed)![0] };
  }

  test("a link signs in, a prompt is answered, and a thread's address can be loaded again", async () => {
    const { home, link } = await below();
    const page = await open(link);
    await box(page).waitFor();
    expect(page.url().startsWith(home)).toBe(true);
    expect(page.url()).not.toContain("token");
    await ask(page, "hello");
    const answer = talk(page).locator(".assistant").first();
    await answer.waitFor();
    await eventually(() => page.url().startsWith(`${home}t/`), true);
    await page.getByRole("button", { name: "Stop", exact: true }).waitFor({ state: "detached" });
    const [address, text] = [page.url(), await answer.innerText()];
    await page.reload();
    await eventually(() => talk(page).locator(".assistant").first().innerText(), text);
    expect(page.url()).toBe(address);
    const before = await talk(page).locator(".assistant").count();
    await ask(page, "once more");
    await eventually(async () => (await talk(page).locator(".assistant").count()) > before, true);
  });

  test("pictures, exports, links for devices and the way back stay below the path", async () => {
    const { home, link } = await below();
    const page = await open(link);
    await box(page).waitFor();
    const outside: string[] = [];
    page.on("request", (request) => {
      if (/^(http|ws)/.test(request.url()) && !request.url().startsWith(home)) outside.push(request.url());
    });
    await drop(page, ".composer", [PNG]);
    await page.getByRole("list", { name: "Attached pictures" }).getByRole("img").waitFor();
    await eventually(() => page.locator(".pictures [data-uploading]").count(), 0);
    await ask(page, "what is this?");
    const picture = talk(page).locator(".user img").first();
    await eventually(() => picture.evaluate((image: HTMLImageElement) => image.naturalWidth > 0), true);
    await talk(page).locator(".assistant").first().waitFor();
    const first = page.url();
    await page.getByRole("button", { name: "More" }).click();
    const [download] = await Promise.all([
      page.waitForEvent("download"),
      page.getByRole("menuitem", { name: "Export as Markdown" }).click(),
    ]);
    expect(readFileSync(await download.path(), "utf8")).toContain("what is this?");
    await page.getByRole("button", { name: "Add a device" }).click();
    const device = await page.getByRole("dialog").locator(".device-link code").innerText();
    expect(device.startsWith(`${home}?token=`)).toBe(true);
    const phone = await open(device);
    await box(phone).waitFor();
    expect(phone.url().startsWith(home)).toBe(true);
    await page.keyboard.press("Escape");
    await page.keyboard.press("Alt+n");
    await eventually(() => page.url() === first, false);
    expect(page.url().startsWith(home)).toBe(true);
    await page.goBack();
    await eventually(() => page.url(), first);
    await talk(page).getByText("what is this?").first().waitFor();
    expect(outside).toEqual([]);
  });

  test("a stranger signs in with a code on a thread's address", async () => {
    const { home, link } = await below();
    const page = await open(link);
    await box(page).waitFor();
    await ask(page, "hello");
    await eventually(() => page.url().startsWith(`${home}t/`), true);
    const address = page.url();
    await page.getByRole("button", { name: "Add a device" }).click();
    const code = await page.getByRole("dialog").locator(".device-code").innerText();
    const stranger = await open(address);
    await stranger.getByRole("textbox", { name: "Code or token" }).fill(code);
    await stranger.getByRole("button", { name: "Sign in" }).click();
    await talk(stranger).getByText("hello").first().waitFor();
    expect(stranger.url()).toBe(address);
  });
});
