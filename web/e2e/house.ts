/** The real server, as a process, behind a wire that can be cut. */

import { type ChildProcess, spawn } from "node:child_process";
import { existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { HarnessApi, HarnessClient, type HarnessState, type NewThread } from "@hames/client";
import { Wire } from "./proxy.js";

const ROOT = fileURLToPath(new URL("../../", import.meta.url));

/** `PYTHON`, or the one of the checkout. */
export function python(): string | undefined {
  const ours = join(ROOT, ".venv/bin/python");
  return process.env["PYTHON"] ?? (existsSync(ours) ? ours : undefined);
}

/**
 * Removes a directory in which a process that was killed may have children that still write. `maxRetries` of Node.js tries again to
 * remove the directory, but not what came into it meanwhile.
 */
async function removeTree(path: string): Promise<void> {
  for (const until = Date.now() + 30_000; ; await new Promise((resolve) => setTimeout(resolve, 100))) {
    try {
      return rmSync(path, { recursive: true, force: true });
    } catch (problem) {
      if (Date.now() > until) throw problem;
    }
  }
}

/** `serve`: `hames serve` itself, as people start it, with these options and nothing of our environment but `environment`. */
export type HouseOptions = { serve?: string[]; environment?: Record<string, string>; stage?: string[] };

/** Where the package lies, if somebody said so: nothing else of ours is its business. */
function inherited(): Record<string, string> {
  const { PYTHONPATH } = process.env;
  return PYTHONPATH ? { PYTHONPATH } : {};
}

/** A thread as the server tells it, followed without the wire that a test may cut. */
export class Followed {
  private readonly client: HarnessClient;

  constructor(
    readonly id: string,
    origin: string,
  ) {
    this.client = new HarnessClient({ url: `${origin.replace("http", "ws")}/ws?thread=${id}` });
  }

  /** Resolves with the first state. */
  async begin(): Promise<this> {
    const first = new Promise<void>((resolve) => {
      const stop = this.client.subscribe(() => {
        if (this.client.getSnapshot().state === null) return;
        stop();
        resolve();
      });
    });
    this.client.connect();
    await first;
    return this;
  }

  get state(): HarnessState {
    return this.client.getSnapshot().state!;
  }

  /** What the user said, oldest first. */
  get said(): string[] {
    return this.state.messages.filter(({ role }) => role === "user").map(({ content }) => content);
  }

  close(): void {
    this.client.close();
  }
}

export class House {
  readonly api: HarnessApi;
  /** What the server printed when it was ready. */
  printed = "";
  private process: ChildProcess | null = null;
  private readonly followed: Followed[] = [];
  private complaints = "";

  private constructor(
    readonly workspace: string,
    readonly wire: Wire,
    private readonly options: HouseOptions,
  ) {
    this.api = new HarnessApi(this.url);
  }

  static async open(options: HouseOptions = {}): Promise<House> {
    const workspace = join(mkdtempSync(join(tmpdir(), "house-")), "project");
    mkdirSync(workspace);
    const house = new House(workspace, await Wire.lay(), options);
    await house.start();
    return house;
  }

  get url(): string {
    return `http://127.0.0.1:${this.wire.port}`;
  }

  /** Starts the server, again on the same threads when it was there before. */
  async start(): Promise<void> {
    const child = spawn(python()!, this.arguments(), {
      stdio: ["ignore", "pipe", "pipe"],
      ...(this.options.serve && { env: this.environment() }),
    });
    this.process = child;
    child.stderr.on("data", (data: Buffer) => (this.complaints += data.toString()));
    const line = await new Promise<string>((resolve, reject) => {
      child.stdout.once("data", (data: Buffer) => resolve(data.toString()));
      child.once("exit", () => reject(new Error(`the server did not start\n${this.complaints}`)));
    });
    this.printed = line;
    this.wire.target = Number(new URL(/http:\S+/.exec(line)![0]).port);
  }

  /** What `hames serve` runs with, and any other command beside it. */
  environment(): Record<string, string> {
    return { HOME: this.workspace, ...inherited(), ...this.options.environment };
  }

  private arguments(): string[] {
    const behind = `127.0.0.1:${this.wire.port}`;
    if (!this.options.serve)
      return [
        join(ROOT, "tests/e2e/playhouse.py"),
        "--cwd",
        this.workspace,
        "--behind",
        String(this.wire.port),
        ...(this.options.stage ?? []),
      ];
    const names = ["--allow-host", behind, "--allow-origin", `http://${behind}`];
    return ["-m", "hames", "serve", "--cwd", this.workspace, "--port", "0", ...names, ...this.options.serve];
  }

  /** A new thread, followed until the end. */
  async create(thread: NewThread = {}): Promise<Followed> {
    return this.follow((await this.api.create(thread)).id);
  }

  async follow(threadId: string): Promise<Followed> {
    const followed = await new Followed(threadId, `http://127.0.0.1:${this.wire.target}`).begin();
    this.followed.push(followed);
    return followed;
  }

  /** The ids of all threads, the newest first. */
  async threadIds(): Promise<string[]> {
    return (await this.api.threads({ limit: 200 })).threads.map(({ id }) => id);
  }

  /** Not asked, not told: the process is gone. */
  async kill(): Promise<void> {
    const child = this.process;
    if (!child || child.exitCode !== null || child.signalCode !== null) return;
    const gone = new Promise((resolve) => child.once("exit", resolve));
    child.kill("SIGKILL");
    await gone;
  }

  file(name: string): string | null {
    const path = join(this.workspace, name);
    return existsSync(path) ? readFileSync(path, "utf8") : null;
  }

  async close(): Promise<void> {
    for (const one of this.followed.splice(0)) one.close();
    await this.wire.close();
    await this.kill();
    await removeTree(dirname(this.workspace));
  }
}
