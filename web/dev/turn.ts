/** What a scenario can do in a turn, told as operations. */

import type { Approval, FileChange, HarnessToolCall, PlanEntry } from "@hames/client";
import { type FakeThread, Stopped } from "./thread.js";

let counter = 0;
export const nextId = (prefix: string) =>
  `${prefix}_${(++counter).toString(36)}${Math.random().toString(36).slice(2, 8)}`;

export class Turn {
  readonly id = nextId("turn");
  private stopped = false;
  private message = -1;
  private wake: (() => void) | null = null;

  constructor(
    private readonly thread: FakeThread,
    /** 0 waits for nothing. */
    private readonly pace: number,
  ) {}

  stop = (): void => {
    this.stopped = true;
    this.wake?.();
  };

  begin(prompt: string, id: string, attachments: unknown[] = []): void {
    const { thread } = this;
    const index = thread.state.messages.length;
    const title = thread.state.thread!.title || prompt.slice(0, 48);
    thread.commit(
      [
        thread.set(["status"], "running"),
        thread.set(["error"], ""),
        thread.set(["errorInfo"], ""),
        thread.set(["queueHeld"], false),
      ],
      {
        kind: "turn",
        label: "turn started",
      },
    );
    thread.commit(
      [
        thread.set(["messages", index], this.blank(id, "user", { content: prompt, status: "complete", attachments })),
        thread.set(["thread", "title"], title),
        thread.set(["thread", "preview"], thread.state.thread!.preview || prompt.slice(0, 120)),
        thread.set(["thread", "updatedAt"], Date.now()),
      ],
      { kind: "user", label: prompt.slice(0, 100), messageId: id },
    );
    this.open("pending");
  }

  private blank(id: string, role: string, change: object) {
    return {
      id,
      role,
      content: "",
      status: "pending",
      toolCalls: [],
      createdAt: Date.now(),
      turnId: this.id,
      reasoning: "",
      stopReason: "",
      error: "",
      attachments: [],
      ...change,
    };
  }

  private open(status = "streaming"): void {
    const { thread } = this;
    const operations = [];
    if (this.message >= 0) operations.push(thread.set(["messages", this.message, "status"], "complete"));
    this.message = thread.state.messages.length;
    const id = nextId("msg");
    operations.push(thread.set(["messages", this.message], this.blank(id, "assistant", { status })));
    thread.commit(operations, { kind: "assistant", label: "reply", messageId: id });
  }

  private get current() {
    return this.thread.state.messages[this.message]!;
  }

  /** Makes room for a part: reasoning, then text, then tools; anything else opens a new message. */
  private room(part: "reasoning" | "content"): void {
    const { content, reasoning, toolCalls } = this.current;
    if ((toolCalls?.length ?? 0) > 0 || (part === "reasoning" && (content || reasoning))) this.open();
    if (this.current.status === "pending")
      this.thread.commit([this.thread.set(["messages", this.message, "status"], "streaming")]);
  }

  async think(text: string): Promise<void> {
    this.room("reasoning");
    await this.stream(["messages", this.message, "reasoning"], text);
  }

  async say(text: string): Promise<void> {
    this.room("content");
    await this.stream(["messages", this.message, "content"], text);
  }

  async stream(path: (string | number)[], text: string, size = 7): Promise<void> {
    for (let i = 0; i < text.length; i += size) {
      this.thread.commit([this.thread.append(path, text.slice(i, i + size))]);
      await this.wait(8);
    }
  }

  async wait(ms: number): Promise<void> {
    if (this.stopped) throw new Stopped();
    await new Promise<void>((resolve) => {
      this.wake = resolve;
      setTimeout(resolve, ms * this.pace);
    });
    this.wake = null;
    if (this.stopped) throw new Stopped();
  }

  tool(
    change: Partial<HarnessToolCall> & { name: string; kind: NonNullable<HarnessToolCall["kind"]>; title: string },
  ): Tool {
    const { thread } = this;
    if (this.current.status === "pending")
      thread.commit([thread.set(["messages", this.message, "status"], "streaming")]);
    const path = ["messages", this.message, "toolCalls", this.current.toolCalls!.length];
    const call: HarnessToolCall = {
      id: nextId("item"),
      status: "running",
      outcome: "running",
      input: null,
      output: "",
      outputTruncated: false,
      exitCode: null,
      durationMs: null,
      changes: [],
      ...change,
    };
    thread.commit([thread.set(path, call)], {
      kind: "tool",
      label: `${change.name}: ${change.title}`.slice(0, 120),
      messageId: this.current.id,
    });
    return new Tool(this, thread, path, call.id);
  }

  async approval(
    change: Partial<Approval> & { toolCallId: string; kind: Approval["kind"] },
  ): Promise<{ decision: string; note: string }> {
    const { thread } = this;
    const approval = {
      id: nextId("appr"),
      reason: "",
      command: "",
      cwd: "",
      unsandboxed: false,
      why: "",
      changes: [],
      protected: false,
      server: "",
      tool: "",
      input: null,
      ...change,
    };
    thread.commit([thread.set(["approvals"], [...(thread.state.approvals ?? []), approval])], {
      kind: "approval",
      label: "approval requested",
    });
    return thread.answered(approval.id);
  }

  plan(explanation: string, entries: PlanEntry[]): void {
    this.thread.commit([this.thread.set(["plan"], { explanation, entries })], { kind: "other", label: "plan updated" });
  }

  usage(inputTokens: number, outputTokens: number): void {
    const { thread } = this;
    const u = thread.state.usage!;
    const next = {
      ...u,
      inputTokens: u.inputTokens + inputTokens,
      outputTokens: u.outputTokens + outputTokens,
      cacheReadTokens: u.cacheReadTokens + inputTokens * 4,
      contextTokens: u.contextTokens + inputTokens + outputTokens,
      cost: (u.cost ?? 0) + inputTokens * 3e-6 + outputTokens * 1.5e-5,
    };
    thread.commit([thread.set(["usage"], next)], { kind: "other", label: "usage" });
  }

  end(stopReason = "end_turn"): void {
    this.close("complete", stopReason, "");
    this.thread.commit([this.thread.set(["status"], "idle"), this.thread.set(["thread", "updatedAt"], Date.now())], {
      kind: "end",
      label: `turn ended: ${stopReason}`,
    });
  }

  fail(error: string, info: string): void {
    const { thread } = this;
    this.close("error", "", error);
    thread.commit(
      [
        thread.set(["error"], error),
        thread.set(["errorInfo"], info),
        thread.set(["status"], "error"),
        thread.set(["queueHeld"], (thread.state.queue ?? []).length > 0),
      ],
      { kind: "end", label: `turn failed: ${error}`.slice(0, 120) },
    );
  }

  private close(status: string, stopReason: string, error: string): void {
    const { thread } = this;
    const cancelled = stopReason === "cancelled";
    const operations = [];
    const asked = new Set(thread.state.approvals?.map(({ toolCallId }) => toolCallId));
    for (const [index, call] of (this.current.toolCalls ?? []).entries()) {
      if (call.status !== "running") continue;
      const outcome = asked.has(call.id) ? "skipped" : "interrupted";
      operations.push(
        thread.set(["messages", this.message, "toolCalls", index, "status"], "error"),
        thread.set(["messages", this.message, "toolCalls", index, "outcome"], outcome),
      );
    }
    operations.push(
      thread.set(["messages", this.message, "status"], status),
      thread.set(["messages", this.message, "stopReason"], stopReason),
      thread.set(["messages", this.message, "error"], error),
    );
    if (cancelled)
      operations.push(thread.set(["approvals"], []), thread.set(["queueHeld"], (thread.state.queue ?? []).length > 0));
    thread.commit(operations);
  }
}

export class Tool {
  private readonly began = Date.now();

  constructor(
    private readonly turn: Turn,
    private readonly thread: FakeThread,
    private readonly path: (string | number)[],
    readonly id: string,
  ) {}

  async print(text: string, size = 24): Promise<void> {
    this.thread.outputs.set(this.id, (this.thread.outputs.get(this.id) ?? "") + text);
    await this.turn.stream([...this.path, "output"], text, size);
  }

  /** Too long for the state: a tail of it, and the rest over HTTP. */
  flood(text: string): void {
    this.thread.outputs.set(this.id, text);
    this.thread.commit([
      this.thread.set([...this.path, "output"], text.slice(-40_000)),
      this.thread.set([...this.path, "outputTruncated"], true),
    ]);
  }

  done(change: Partial<HarnessToolCall> & { changes?: FileChange[] } = {}): void {
    const all: Partial<HarnessToolCall> = {
      status: "complete",
      outcome: "completed",
      durationMs: Date.now() - this.began,
      ...change,
    };
    this.thread.commit(
      Object.entries(all).map(([key, value]) => this.thread.set([...this.path, key], value)),
      { kind: "tool", label: `finished: ${all.outcome}` },
    );
  }
}
