/** A server that follows `docs/sync-extensions.md` without an engine behind it. For development and tests only. */

import { existsSync, readFileSync } from "node:fs";
import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { extname, join, normalize } from "node:path";
import type {
  Attachment,
  FileChange,
  HarnessCommand,
  HarnessState,
  Model,
  ServerMessage,
  ThreadRow,
} from "@hames/client";
import { type WebSocket, WebSocketServer } from "ws";
import { play } from "./scenarios.js";
import { FakeThread, Stopped } from "./thread.js";
import { nextId, Turn } from "./turn.js";

export const POLICY =
  "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data: blob:; font-src 'self'; " +
  "connect-src 'self'; manifest-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

const TYPES: Record<string, string> = {
  ".html": "text/html; charset=utf-8",
  ".js": "text/javascript; charset=utf-8",
  ".css": "text/css; charset=utf-8",
  ".svg": "image/svg+xml",
  ".json": "application/json",
  ".webmanifest": "application/manifest+json",
};

export type FakeOptions = { page: string; pace?: number; keyless?: boolean; sandboxless?: boolean; port?: number };

type Prompt = Extract<HarnessCommand, { type: "submit" | "steer" }>;

const CWD = "/home/ada/project";

export class FakeServer {
  readonly threads = new Map<string, FakeThread>();
  private readonly sockets = new Set<WebSocket>();
  private readonly uploads = new Map<string, { bytes: Buffer; type: string; name: string }>();
  private readonly http = createServer((request, response) => void this.handle(request, response));
  private readonly ws = new WebSocketServer({ noServer: true, maxPayload: 1 << 20 });
  signedIn = true;
  away = false;
  /** What git says of the folder: files, or why it says nothing. */
  git: { files: FileChange[]; problem: string } = { files: [], problem: "this directory is not in a git repository" };
  /** Whether other devices can be signed in. */
  canAddDevices = true;
  /** Paths that were asked for and not found. */
  readonly notFound: string[] = [];
  /** What was sent to running turns. */
  readonly steered: string[] = [];
  /** Files of artifacts and pictures of tools, by tool call id. */
  readonly files = new Map<string, { bytes: Buffer; type: string }>();

  constructor(readonly options: FakeOptions) {
    this.http.on("upgrade", (request, socket, head) => {
      if (this.away) return socket.destroy();
      this.ws.handleUpgrade(request, socket, head, (client) => this.follow(client, request));
    });
  }

  async start(): Promise<string> {
    await new Promise<void>((resolve) => this.http.listen(this.options.port ?? 0, "127.0.0.1", resolve));
    return `http://127.0.0.1:${(this.http.address() as AddressInfo).port}`;
  }

  async stop(): Promise<void> {
    this.breakConnections();
    this.http.closeAllConnections();
    await new Promise((resolve) => this.http.close(resolve));
  }

  breakConnections(): void {
    for (const socket of this.sockets) socket.terminate();
  }

  create(change: Partial<HarnessState["thread"]> = {}, model?: string): FakeThread {
    const now = Date.now();
    const chosen = model ?? "anthropic/claude-sonnet-5";
    const thread = new FakeThread({
      status: "idle",
      messages: [],
      error: "",
      errorInfo: "",
      thread: {
        id: nextId("thr"),
        title: "",
        preview: "",
        cwd: CWD,
        model: chosen,
        archived: false,
        forkedFrom: "",
        createdAt: now,
        updatedAt: now,
        ...change,
      },
      approvals: [],
      plan: null,
      usage: {
        inputTokens: 0,
        outputTokens: 0,
        thinkingTokens: 0,
        cacheReadTokens: 0,
        cacheWriteTokens: 0,
        contextTokens: 0,
        contextWindow: 200_000,
        cost: 0,
      },
      queue: [],
      queueHeld: false,
      settings: {
        model: chosen,
        approvalPolicy: "unlessTrusted",
        sandbox: { type: "workspaceWrite", writableRoots: [], networkAccess: false },
        agent: "code",
        options: {},
      },
      selectors: [
        {
          id: "effort",
          name: "Effort",
          description: "How long the model thinks before it answers",
          group: "Reasoning",
          default: "medium",
          value: "medium",
          choices: [
            { id: "low", name: "Low", description: "Quick answers" },
            { id: "medium", name: "Medium", description: "" },
            { id: "high", name: "High", description: "Takes its time" },
          ],
        },
      ],
      models: this.models(),
    });
    thread.commit([], { kind: "other", label: "thread created" });
    this.threads.set(thread.id, thread);
    return thread;
  }

  models(): Model[] {
    const usable = !this.options.keyless;
    const problem = usable ? "" : "set ANTHROPIC_API_KEY, then start the server again";
    const base = {
      provider: "anthropic",
      contextWindow: 200_000,
      images: true,
      reasoning: true,
      available: usable,
      problem,
    };
    return [
      { ...base, id: "anthropic/claude-sonnet-5", name: "Claude Sonnet 5", description: "Fast and capable" },
      { ...base, id: "anthropic/claude-opus-5", name: "Claude Opus 5", description: "The most capable" },
      {
        ...base,
        id: "openai/gpt-6-codex",
        provider: "openai",
        name: "GPT-6 Codex",
        description: "",
        available: false,
        problem: "set OPENAI_API_KEY",
      },
      {
        ...base,
        id: "scripted/demo",
        provider: "scripted",
        name: "Scripted demo",
        description: "Needs no key",
        available: true,
        problem: "",
        reasoning: false,
      },
    ];
  }

  private row(thread: FakeThread): ThreadRow {
    const { forkedFrom: _, ...head } = thread.state.thread!;
    const status = (thread.state.approvals?.length ?? 0) > 0 ? "approval" : thread.state.status;
    return { ...head, status };
  }

  // --- sync ------------------------------------------------------------------------------------------------------

  private follow(client: WebSocket, request: IncomingMessage): void {
    const url = new URL(request.url ?? "/", "http://x");
    const thread = this.threads.get(url.searchParams.get("thread") ?? "");
    if (!this.signedIn) return client.close(4401);
    if (!thread) return client.close(4404);
    this.sockets.add(client);
    const tell = (message: ServerMessage) => client.send(JSON.stringify(message));
    const stop = thread.watch(tell);
    const beat = setInterval(() => tell({ type: "delta", operations: [], rev: thread.seq }), 20_000);
    client.on("close", () => (clearInterval(beat), stop(), this.sockets.delete(client)));
    client.on("message", (data) => {
      try {
        for (const command of (JSON.parse(String(data)) as { commands: HarnessCommand[] }).commands)
          this.obey(thread, command, tell);
      } catch (failure) {
        tell({ type: "error", message: String(failure) });
      }
    });
  }

  obey(thread: FakeThread, command: HarnessCommand, tell: (message: ServerMessage) => void): void {
    switch (command.type) {
      case "submit":
        return this.submit(thread, command, tell);
      case "steer":
        return thread.stop ? this.steer(thread, command) : this.submit(thread, command, tell);
      case "cancel":
        if (thread.stop) thread.stop();
        else if (thread.state.queueHeld) thread.commit([thread.set(["queue"], []), thread.set(["queueHeld"], false)]);
        return;
      case "approve":
        if (!thread.answer(command.id, command.decision, command.note ?? ""))
          tell({ type: "error", message: `no approval '${command.id}'` });
        return;
      case "configure": {
        const { type: _, options, ...change } = command;
        const settings = {
          ...thread.state.settings!,
          ...change,
          options: { ...thread.state.settings!.options, ...options },
        };
        const selectors = thread.state.selectors!.map((selector) => ({
          ...selector,
          value: settings.options[selector.id] ?? selector.default,
        }));
        thread.commit(
          [
            thread.set(["settings"], settings),
            thread.set(["selectors"], selectors),
            thread.set(["thread", "model"], settings.model),
          ],
          { kind: "settings", label: "settings changed" },
        );
        return;
      }
      case "dequeue":
        return thread.commit(
          [
            thread.set(
              ["queue"],
              thread.state.queue!.filter(({ id }) => id !== command.id),
            ),
          ],
          { kind: "other", label: "prompt taken back" },
        );
      case "rename":
        return thread.commit([thread.set(["thread", "title"], command.title)], { kind: "other", label: "renamed" });
      case "compact":
        return void this.run(thread, "hello", nextId("p"), []);
      default:
        tell({ type: "error", message: `unknown command '${command.type}'` });
    }
  }

  private submit(thread: FakeThread, command: Prompt, tell: (message: ServerMessage) => void): void {
    const id = command.id ?? nextId("p");
    if (
      thread.state.messages.some((message) => message.id === id) ||
      thread.state.queue!.some((queued) => queued.id === id)
    )
      return;
    const attachments = this.attached(thread, command);
    if (thread.stop || thread.state.queueHeld) {
      if (thread.state.queue!.length >= 32)
        return tell({ type: "error", message: "32 prompts wait already", submitId: id });
      // No turn has read them yet: they are still uploads.
      const waiting = attachments.map((one) => (one.upload ? { ...one, url: `/uploads/${one.upload}` } : one));
      thread.commit(
        [thread.set(["queue"], [...thread.state.queue!, { id, prompt: command.prompt, attachments: waiting }])],
        {
          kind: "other",
          label: "prompt queued",
        },
      );
      if (!thread.stop) this.next(thread);
      return;
    }
    void this.run(thread, command.prompt, id, attachments);
  }

  private attached(thread: FakeThread, { attachments = [] }: Prompt): Attachment[] {
    return attachments.map((attachment, index) =>
      attachment.type === "image"
        ? {
            kind: "image",
            name: this.uploads.get(attachment.id)?.name ?? "image",
            url: `/threads/${thread.id}/images/${attachment.id}/${index}`,
            upload: attachment.id,
          }
        : { kind: "file", name: attachment.path, url: "", upload: "" },
    );
  }

  private steer(thread: FakeThread, command: Prompt): void {
    const message = {
      id: command.id ?? nextId("p"),
      role: "user",
      content: command.prompt,
      status: "complete",
      toolCalls: [],
      createdAt: Date.now(),
      turnId: thread.state.messages.at(-1)?.turnId ?? "",
      attachments: this.attached(thread, command),
    };
    this.steered.push(command.prompt);
    thread.commit([thread.set(["messages", thread.state.messages.length], message)]);
  }

  private next(thread: FakeThread): void {
    const [first, ...rest] = thread.state.queue!;
    if (!first) return;
    thread.commit([thread.set(["queue"], rest)]);
    const attachments = (first.attachments ?? []).map((one, index) =>
      one.upload ? { ...one, url: `/threads/${thread.id}/images/${one.upload}/${index}` } : one,
    );
    void this.run(thread, first.prompt, first.id, attachments);
  }

  private async run(thread: FakeThread, prompt: string, id: string, attachments: unknown[]): Promise<void> {
    const turn = new Turn(thread, this.options.pace ?? 1);
    thread.stop = turn.stop;
    turn.begin(prompt, id, attachments);
    try {
      if (this.options.keyless && thread.state.settings!.model !== "scripted/demo")
        turn.fail("ANTHROPIC_API_KEY is not set", "Unauthorized");
      else await play(turn, prompt);
    } catch (failure) {
      if (!(failure instanceof Stopped)) throw failure;
      turn.end("cancelled");
    } finally {
      thread.stop = null;
    }
    if (!thread.state.queueHeld) this.next(thread);
  }

  // --- HTTP ------------------------------------------------------------------------------------------------------

  private async handle(request: IncomingMessage, response: ServerResponse): Promise<void> {
    if (this.away) return void request.socket.destroy();
    const url = new URL(request.url ?? "/", "http://x");
    const body = await new Promise<Buffer>((resolve) => {
      const chunks: Buffer[] = [];
      request.on("data", (chunk: Buffer) => chunks.push(chunk));
      request.on("end", () => resolve(Buffer.concat(chunks)));
    });
    const [, root, id = "", action, extra] = url.pathname.split("/").map(decodeURIComponent);
    const api = ["status", "threads", "files", "uploads", "links", "sign-in"].includes(root ?? "");
    if (!api) return this.asset(url.pathname, response);
    const input = () => JSON.parse(body.toString() || "{}") as Record<string, never>;
    if (root === "sign-in") {
      if (input()["code"] !== "ABCD-EFGH")
        return refuse(response, 401, "this code is wrong, was already used, or has expired");
      this.signedIn = true;
      return reply(response, { ok: true });
    }
    if (!this.signedIn) return refuse(response, 401, "not signed in");
    if (root === "links" && !this.canAddDevices) {
      this.notFound.push(url.pathname);
      return refuse(response, 404, "nobody has to sign in here");
    }
    if (root === "links") {
      const link = { path: "/?token=a-word", code: "ABCD-EFGH", expiresInSeconds: 600 };
      return reply(response, { ...link, addresses: ["http://192.0.2.7:4800", "http://192.0.2.8:4800"] }, 201);
    }
    if (root === "status") {
      return reply(response, {
        name: "hames",
        version: "0.1.0",
        cwd: CWD,
        defaultModel: "anthropic/claude-sonnet-5",
        demoModel: "scripted/demo",
        canAddDevices: this.canAddDevices,
        models: this.models(),
        sandbox: this.options.sandboxless
          ? { ok: false, message: "bubblewrap is not installed: apt install bubblewrap" }
          : { ok: true, message: "" },
      });
    }
    if (root === "files") {
      const query = (url.searchParams.get("query") ?? "").toLowerCase();
      const all = [
        "README.md",
        "pyproject.toml",
        "src/login.py",
        "src/sessions.py",
        "src/users.py",
        "tests/test_login.py",
        "tests/test_users.py",
        "docs/index.md",
      ];
      return reply(response, {
        files: all.filter((path) => path.toLowerCase().includes(query)).map((path) => ({ path, kind: "file" })),
      });
    }
    if (root === "uploads" && id) {
      const kept = this.uploads.get(id);
      if (!kept) return refuse(response, 404, "no such upload");
      response.setHeader("Content-Type", kept.type);
      return void response.end(kept.bytes);
    }
    if (root === "uploads") {
      const upload = {
        bytes: body,
        type: request.headers["content-type"] ?? "",
        name: url.searchParams.get("name") ?? "image",
      };
      const uploadId = nextId("up");
      this.uploads.set(uploadId, upload);
      return reply(response, { id: uploadId, name: upload.name, mediaType: upload.type, size: body.length }, 201);
    }
    if (!id) return request.method === "POST" ? this.createdBy(input(), response) : this.list(url, request, response);
    const thread = this.threads.get(id);
    if (!thread) return refuse(response, 404, `no thread '${id}'`);
    switch (action) {
      case undefined:
        if (request.method === "DELETE") {
          if (thread.stop) return refuse(response, 409, `thread '${id}' runs a turn; interrupt it first`);
          this.threads.delete(id);
          for (const socket of this.sockets) socket.close(1012);
          return void response.writeHead(204).end();
        }
        return reply(response, { rev: thread.seq, state: thread.state });
      case "fork": {
        const now = Date.now();
        const title = `${thread.state.thread!.title} (fork)`;
        const fork = thread.forked(
          { id: nextId("thr"), title, createdAt: now, updatedAt: now },
          Number(input()["lastSeq"] ?? thread.seq),
        );
        fork.commit([], { kind: "other", label: "forked" });
        this.threads.set(fork.id, fork);
        return reply(response, { thread: this.row(fork) }, 201);
      }
      case "archive":
        thread.commit([thread.set(["thread", "archived"], input()["archived"] ?? true)]);
        return reply(response, { thread: this.row(thread) });
      case "git-diff":
        return reply(response, this.git);
      case "timeline":
        return reply(response, { seq: thread.seq, marks: thread.marks() });
      case "at": {
        const { state, at } = thread.at(Number(extra));
        const last = Number(url.searchParams.get("last") ?? state.messages.length);
        const skipped = Math.max(0, state.messages.length - last);
        const messages = state.messages.slice(skipped);
        return reply(response, { rev: Number(extra), at, state: { ...state, messages }, skipped });
      }
      case "export": {
        const markdown = thread.state.messages.map(({ role, content }) => `**${role}**\n\n${content}\n`).join("\n");
        const json = url.searchParams.get("format") === "json";
        response.setHeader("Content-Disposition", `attachment; filename="thread.${json ? "json" : "md"}"`);
        return json ? reply(response, thread.state) : void response.end(markdown);
      }
      case "artifacts":
        return this.file(extra ?? "", url, response);
      case "tools":
        if (url.pathname.includes("/images/")) return this.file(extra ?? "", url, response);
        response.setHeader("Content-Type", "text/plain; charset=utf-8");
        return void response.end(thread.outputs.get(extra ?? "") ?? "");
      case "images": {
        const upload = this.uploads.get(extra ?? "");
        if (!upload) return refuse(response, 404, "no such image");
        response.setHeader("Content-Type", upload.type);
        return void response.end(upload.bytes);
      }
      default:
        return refuse(response, 404, "no such path");
    }
  }

  private file(toolCallId: string, url: URL, response: ServerResponse): void {
    const file = this.files.get(toolCallId);
    if (!file) return refuse(response, 404, "no such file");
    const saved = url.searchParams.get("download") === "1";
    response.setHeader("Content-Type", saved ? "application/octet-stream" : file.type);
    if (saved) response.setHeader("Content-Disposition", "attachment");
    response.end(file.bytes);
  }

  private createdBy(input: { title?: string; model?: string }, response: ServerResponse): void {
    const model = input.model ?? (this.options.keyless ? undefined : "anthropic/claude-sonnet-5");
    reply(response, { thread: this.row(this.create({ title: input.title ?? "" }, model)) }, 201);
  }

  private list(url: URL, request: IncomingMessage, response: ServerResponse): void {
    const search = (url.searchParams.get("search") ?? "").toLowerCase();
    const archived = url.searchParams.get("archived") === "true";
    const threads = [...this.threads.values()]
      .map((thread) => this.row(thread))
      .filter((row) => row.archived === archived && `${row.title} ${row.preview}`.toLowerCase().includes(search))
      .sort((a, b) => b.updatedAt - a.updatedAt);
    const etag = `"${url.searchParams.get("cursor") ?? ""}${Buffer.from(JSON.stringify(threads)).toString("base64url").slice(-64)}-${threads.length}"`;
    if (request.headers["if-none-match"] === etag) return void response.writeHead(304).end();
    response.setHeader("ETag", etag);
    const from = Number(url.searchParams.get("cursor") ?? 0);
    const limit = Math.min(200, Number(url.searchParams.get("limit") ?? 50));
    const more = from + limit < threads.length;
    reply(response, { threads: threads.slice(from, from + limit), nextCursor: more ? String(from + limit) : null });
  }

  private asset(path: string, response: ServerResponse): void {
    const file = path === "/" || path.startsWith("/t/") ? "/index.html" : normalize(path);
    const full = join(this.options.page, file);
    response.setHeader("Content-Security-Policy", POLICY);
    response.setHeader("Referrer-Policy", "no-referrer");
    response.setHeader("X-Content-Type-Options", "nosniff");
    if (!existsSync(full)) return refuse(response, 404, "no such file");
    response.setHeader("Content-Type", TYPES[extname(full)] ?? "application/octet-stream");
    response.setHeader(
      "Cache-Control",
      file.startsWith("/assets/") ? "public, max-age=31536000, immutable" : "no-cache",
    );
    response.end(readFileSync(full));
  }
}

function reply(response: ServerResponse, body: unknown, status = 200): void {
  response.setHeader("Content-Type", "application/json");
  response.statusCode = status;
  response.end(JSON.stringify(body));
}

function refuse(response: ServerResponse, status: number, message: string): void {
  reply(response, { error: { message, info: "Other" } }, status);
}
