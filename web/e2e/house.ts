/** The real server, as a process, behind a wire that can be cut. */

import { type ChildProcess, spawn } from "node:child_process";
import { existsSync, mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { HarnessApi } from "@hames/client";
import { Wire } from "./proxy.js";

const ROOT = fileURLToPath(new URL("../../", import.meta.url));

/** `PYTHON`, or the one of the checkout. */
export function python(): string | undefined {
  const ours = join(ROOT, ".venv/bin/python");
  return process.env["PYTHON"] ?? (existsSync(ours) ? ours : undefined);
}

export class House {
  readonly api: HarnessApi;
  private process: ChildProcess | null = null;
  private complaints = "";

  private constructor(
    readonly workspace: string,
    readonly wire: Wire,
  ) {
    this.api = new HarnessApi(this.url);
  }

  static async open(): Promise<House> {
    const house = new House(mkdtempSync(join(tmpdir(), "house-")), await Wire.lay());
    await house.start();
    return house;
  }

  get url(): string {
    return `http://127.0.0.1:${this.wire.port}`;
  }

  /** Starts the server, again on the same threads when it was there before. */
  async start(): Promise<void> {
    const script = join(ROOT, "tests/e2e/playhouse.py");
    const child = spawn(python()!, [script, "--cwd", this.workspace, "--behind", String(this.wire.port)], {
      stdio: ["ignore", "pipe", "pipe"],
    });
    this.process = child;
    child.stderr.on("data", (data: Buffer) => (this.complaints += data.toString()));
    const line = await new Promise<string>((resolve, reject) => {
      child.stdout.once("data", (data: Buffer) => resolve(data.toString()));
      child.once("exit", () => reject(new Error(`the server did not start\n${this.complaints}`)));
    });
    this.wire.target = Number(new URL(line.trim()).port);
  }

  /** Not asked, not told: the process is gone. */
  async kill(): Promise<void> {
    const child = this.process;
    if (!child || child.exitCode !== null) return;
    const gone = new Promise((resolve) => child.once("exit", resolve));
    child.kill("SIGKILL");
    await gone;
  }

  file(name: string): string | null {
    const path = join(this.workspace, name);
    return existsSync(path) ? readFileSync(path, "utf8") : null;
  }

  async close(): Promise<void> {
    await this.wire.close();
    await this.kill();
    rmSync(this.workspace, { recursive: true, force: true });
  }
}
