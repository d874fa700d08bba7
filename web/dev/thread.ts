/** A thread of the fake server: a state, and the log of operations that made it. For development and tests only. */

import { applyOperations, type DeltaOperation, type HarnessState, type Mark, type ServerMessage } from "@hames/client";

type Entry = { seq: number; at: number; operations: DeltaOperation[]; mark?: Mark };

/** Where a scenario is: it ends when its turn does. */
export class Stopped extends Error {}

export class FakeThread {
  state: HarnessState;
  readonly log: Entry[] = [];
  readonly watchers = new Set<(message: ServerMessage) => void>();
  readonly outputs = new Map<string, string>();
  private readonly blank: HarnessState;
  private answers = new Map<string, (answer: { decision: string; note: string }) => void>();
  private pendingOps: DeltaOperation[] = [];
  private flushTimer: ReturnType<typeof setTimeout> | undefined;
  stop: (() => void) | null = null;

  constructor(state: HarnessState) {
    this.blank = state;
    this.state = state;
  }

  get seq(): number {
    return this.log.length;
  }

  get id(): string {
    return this.state.thread!.id;
  }

  commit(operations: DeltaOperation[], mark?: { kind: Mark["kind"]; label: string; messageId?: string }): void {
    this.state = applyOperations(this.state, operations);
    const seq = this.log.length + 1;
    const at = Date.now();
    this.log.push({ seq, at, operations, ...(mark && { mark: { seq, at, messageId: "", ...mark } }) });
    this.pendingOps.push(...operations);
    // Coalesced like the real one: at once when it was quiet, then every 16 ms.
    if (this.flushTimer === undefined) {
      this.flush();
      this.flushTimer = setTimeout(() => {
        this.flushTimer = undefined;
        this.flush();
      }, 16);
    }
  }

  private flush(): void {
    if (this.pendingOps.length === 0) return;
    const operations = this.pendingOps;
    this.pendingOps = [];
    for (const tell of this.watchers) tell({ type: "delta", operations, rev: this.seq });
  }

  /** Snapshot and subscription without anything in between. */
  watch(tell: (message: ServerMessage) => void): () => void {
    this.flush();
    this.watchers.add(tell);
    tell({ type: "state", state: this.state, rev: this.seq });
    return () => void this.watchers.delete(tell);
  }

  set(path: (string | number)[], value: unknown): DeltaOperation {
    return { type: "set", path: path.map(String), value: value as never };
  }

  append(path: (string | number)[], value: string): DeltaOperation {
    return { type: "append-text", path: path.map(String), value };
  }

  at(seq: number): { state: HarnessState; at: number } {
    const entries = this.log.slice(0, seq);
    const operations = entries.flatMap((entry) => entry.operations);
    return { state: applyOperations(this.blank, operations), at: entries.at(-1)?.at ?? 0 };
  }

  forked(head: Partial<HarnessState["thread"]>, lastSeq: number): FakeThread {
    const { state } = this.at(lastSeq);
    const whole = { ...state, status: "idle" as const, thread: { ...state.thread!, ...head, forkedFrom: this.id } };
    return new FakeThread({ ...whole, approvals: [], queue: [] });
  }

  marks(): Mark[] {
    return this.log.flatMap(({ mark }) => (mark ? [mark] : []));
  }

  answered(approvalId: string): Promise<{ decision: string; note: string }> {
    return new Promise((resolve, reject) => {
      this.answers.set(approvalId, resolve);
      const before = this.stop;
      this.stop = () => (before?.(), reject(new Stopped()));
    });
  }

  answer(approvalId: string, decision: string, note: string): boolean {
    const resolve = this.answers.get(approvalId);
    if (!resolve) return false;
    this.answers.delete(approvalId);
    this.commit(
      [
        this.set(
          ["approvals"],
          (this.state.approvals ?? []).filter(({ id }) => id !== approvalId),
        ),
      ],
      {
        kind: "decision",
        label: `approval: ${decision}`,
      },
    );
    resolve({ decision, note });
    return true;
  }
}
