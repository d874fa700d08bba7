/**
 * `HarnessClient`: follows one thread and sends commands. It never computes state.
 *
 * A connection that ends is not an event people should see: the client comes back by itself, takes the new
 * snapshot, and sends again whatever prompt the server does not know of. Frames of a socket that has been given up are ignored,
 * however late they come.
 */

import { platformWebSocket } from "#websocket";
import { applyOperations } from "./apply.js";
import { backoffMs } from "./backoff.js";
import { newId } from "./ids.js";
import type {
  AttachmentInput,
  Configuration,
  AlwaysScope,
  Decision,
  HarnessCommand,
  HarnessState,
  ReviewTarget,
  ServerMessage,
  ThreadRow,
} from "./protocol.js";
import { CLOSE } from "./protocol.js";

/** Our server says something at least every 20 s. */
const SILENCE_MS = 45_000;

/** After this much silence a tab that wakes up does not trust its socket. */
const DOUBT_MS = 25_000;

export type Connection =
  | { status: "idle" }
  | { status: "connecting"; attempt: number }
  | { status: "open" }
  | { status: "waiting"; attempt: number; retryAt: number }
  | { status: "ended"; reason: "closed" | "unauthorized" | "notFound" };

/** A prompt that is in neither `messages` nor `queue` yet. */
export type PendingSubmit = {
  id: string;
  prompt: string;
  attachments: readonly AttachmentInput[];
  /** Meant for the running turn. The server shows it when the model reads it. */
  steers: boolean;
};

/** What there is to render. A new object whenever anything in it changed. */
export type ClientSnapshot = {
  connection: Connection;
  /** The last state the server sent; kept while reconnecting. */
  state: HarnessState | null;
  /** The log position of `state`; 0 when the server does not say. */
  rev: number;
  pending: readonly PendingSubmit[];
};

type Sent = PendingSubmit & {
  /** Messages there were when it was sent: a server without ids confirms by a later message. */
  after: number;
  sent: boolean;
};

export type HarnessClientOptions = {
  /** `ws://…/ws?thread=…`. A function is asked again at each attempt. */
  url: string | (() => string);
  protocols?: string[];
  /** Refusals of the server, for the sender alone. `submit` is the prompt that was refused, if it was one. */
  onError?: (message: string, submit?: PendingSubmit) => void;
  /** Instead of the platform's own; on Node.js before 22 that is the `ws` package. */
  WebSocket?: typeof WebSocket;
  random?: () => number;
};

export class HarnessClient {
  private snapshot: ClientSnapshot = { connection: { status: "idle" }, state: null, rev: 0, pending: [] };
  private readonly listeners = new Set<() => void>();
  private readonly errorListeners = new Set<(message: string, submit?: PendingSubmit) => void>();
  private readonly threadListeners = new Set<(rows: readonly ThreadRow[]) => void>();
  private submits: Sent[] = [];
  private socket: WebSocket | null = null;
  private attempt = 0;
  private heardAt = 0;
  private retryTimer: ReturnType<typeof setTimeout> | undefined;
  private silenceTimer: ReturnType<typeof setTimeout> | undefined;
  private stopWaking: (() => void) | null = null;

  constructor(private readonly options: HarnessClientOptions) {
    if (options.onError) this.errorListeners.add(options.onError);
  }

  // --- following -------------------------------------------------------------------------------------------------

  readonly getSnapshot = (): ClientSnapshot => this.snapshot;

  readonly subscribe = (listener: () => void): (() => void) => {
    this.listeners.add(listener);
    return () => void this.listeners.delete(listener);
  };

  /** Refusals: commands the server did not take. They are not part of the state. */
  onError(listener: (message: string, submit?: PendingSubmit) => void): () => void {
    this.errorListeners.add(listener);
    return () => void this.errorListeners.delete(listener);
  }

  /**
   * News of all threads, from a server that tells them and was asked with `threads=1` in the url: the rows that changed, none when
   * the list should be asked for again. The first call comes with each connection and says that there will be others.
   */
  onThreads(listener: (rows: readonly ThreadRow[]) => void): () => void {
    this.threadListeners.add(listener);
    return () => void this.threadListeners.delete(listener);
  }

  /** Opens the connection and keeps it open until `close`. */
  connect(): void {
    if (this.socket || this.retryTimer !== undefined) return;
    this.stopWaking ??= onWake(() => this.wake());
    this.open();
  }

  /** Closes the connection and does not reopen it. The run goes on: a disconnect never stops one. Safe at any time, also in a subscriber. */
  close(): void {
    this.abandon(1000);
    if (this.snapshot.connection.status !== "ended") this.end("closed");
  }

  // --- commands --------------------------------------------------------------------------------------------------

  /** Starts a turn, or waits in the queue while one runs. Returns the id the message will have. Not lost when the connection is. */
  submit(prompt: string, { id = newId("p"), attachments = [] }: { id?: string; attachments?: AttachmentInput[] } = {}) {
    return this.prompt({ id, prompt, attachments, steers: false, after: 0, sent: false });
  }

  /**
   * Sends a message to the running turn; the model reads it at its next step. While nothing runs, or when the agent cannot be
   * steered, it becomes a prompt like any other. Not lost when the connection is.
   */
  steer(prompt: string, attachments: AttachmentInput[] = []): string {
    return this.prompt({ id: newId("p"), prompt, attachments, steers: true, after: 0, sent: false });
  }

  private prompt(submit: Sent): string {
    this.submits.push(submit);
    this.deliver(submit);
    this.publish({ pending: this.pending() });
    return submit.id;
  }

  cancel(): boolean {
    return this.send([{ type: "cancel" }]);
  }

  /** `content` is a form filled in, for an elicitation. `scope` is how far `always` goes. */
  approve(id: string, decision: Decision, note = "", content?: unknown, scope: AlwaysScope = "thread"): boolean {
    const answer = {
      ...(note && { note }),
      ...(content !== undefined && { content }),
      ...(scope !== "thread" && { scope }),
    };
    return this.send([{ type: "approve", id, decision, ...answer }]);
  }

  configure(configuration: Configuration): boolean {
    return this.send([{ type: "configure", ...configuration }]);
  }

  dequeue(id: string): boolean {
    return this.send([{ type: "dequeue", id }]);
  }

  rename(title: string): boolean {
    return this.send([{ type: "rename", title }]);
  }

  compact(): boolean {
    return this.send([{ type: "compact" }]);
  }

  review(target: ReviewTarget): boolean {
    return this.send([{ type: "review", target }]);
  }

  /** False when there is no connection: nothing was sent. Commands of one call are taken together or not at all. */
  send(commands: HarnessCommand[]): boolean {
    if (this.snapshot.connection.status !== "open" || !this.socket) return false;
    this.socket.send(JSON.stringify({ type: "commands", commands }));
    return true;
  }

  // --- the socket ------------------------------------------------------------------------------------------------

  private open(): void {
    clearTimeout(this.retryTimer);
    this.retryTimer = undefined;
    this.publish({ connection: { status: "connecting", attempt: this.attempt } });
    // A subscriber may have closed the client, or connected it again.
    if (this.snapshot.connection.status !== "connecting" || this.socket) return;
    const url = typeof this.options.url === "function" ? this.options.url() : this.options.url;
    const socket = new (this.options.WebSocket ?? platformWebSocket())(url, this.options.protocols ?? []);
    this.socket = socket;
    // `close` follows and says all there is to say; without a listener the `ws` package would end the process.
    socket.onerror = () => {};
    this.heard();
    socket.onmessage = (event: MessageEvent) => {
      if (this.socket === socket) this.receive(event.data);
    };
    socket.onclose = (event: CloseEvent) => {
      if (this.socket === socket) this.lost(event.code);
    };
  }

  private receive(data: unknown): void {
    this.heard();
    try {
      const message = JSON.parse(String(data)) as ServerMessage;
      switch (message.type) {
        case "state":
          return this.take(message.state, message.rev);
        case "delta":
          if (!this.snapshot.state) throw new Error("a delta before the first state");
          if (message.operations.length === 0) return;
          return this.take(applyOperations(this.snapshot.state, message.operations), message.rev);
        case "error":
          return this.refused(message.message, message.submitId);
        case "threads":
          return notify(this.threadListeners, (listener) => listener(message.threads));
      }
    } catch {
      // What we hold may no longer be what the server holds. A new connection brings a snapshot.
      this.abandon(CLOSE.cannotApply);
      this.retry();
    }
  }

  private take(state: HarnessState, rev: number | undefined): void {
    const first = this.snapshot.connection.status !== "open";
    this.attempt = 0;
    this.submits = this.submits.filter((submit) => !confirmed(submit, state));
    if (first) this.publish({ connection: { status: "open" }, state, rev: rev ?? 0, pending: this.pending() });
    // A server that shows no queue knows no ids: what was sent once may wait there unseen, so it is not sent again.
    if (first) for (const submit of this.submits) if (!submit.sent || state.queue) this.deliver(submit);
    if (!first) this.publish({ state, rev: rev ?? this.snapshot.rev, pending: this.pending() });
  }

  private refused(message: string, submitId: string | undefined): void {
    const refused = this.submits.find((submit) => submit.id === submitId);
    if (refused?.steers) {
      // Some agents cannot be steered. The words are worth more than the way they were meant to go.
      refused.steers = false;
      this.deliver(refused);
      this.publish({ pending: this.submits.map(shown) });
      return;
    }
    if (refused) {
      this.submits = this.submits.filter((submit) => submit !== refused);
      this.publish({ pending: this.pending() });
    }
    notify(this.errorListeners, (listener) => (refused ? listener(message, shown(refused)) : listener(message)));
  }

  private deliver(submit: Sent): void {
    const { id, prompt, attachments, steers } = submit;
    const more = { ...(attachments.length > 0 && { attachments: [...attachments] }) };
    if (!this.send([{ type: steers ? "steer" : "submit", prompt, id, ...more }])) return;
    if (!submit.sent) submit.after = this.snapshot.state?.messages.length ?? 0;
    submit.sent = true;
  }

  private lost(code: number): void {
    this.forget();
    if (code === CLOSE.unauthorized) this.end("unauthorized");
    else if (code === CLOSE.notFound) this.end("notFound");
    else this.retry();
  }

  private retry(): void {
    const delay = backoffMs(this.attempt, this.options.random);
    this.attempt += 1;
    this.retryTimer = setTimeout(() => this.open(), delay);
    this.publish({ connection: { status: "waiting", attempt: this.attempt, retryAt: Date.now() + delay } });
  }

  private end(reason: "closed" | "unauthorized" | "notFound"): void {
    clearTimeout(this.retryTimer);
    this.retryTimer = undefined;
    this.stopWaking?.();
    this.stopWaking = null;
    this.publish({ connection: { status: "ended", reason } });
  }

  /** Gives up on the socket, whatever it still says. */
  private abandon(code: number): void {
    const socket = this.socket;
    this.forget();
    socket?.close(code);
  }

  private forget(): void {
    clearTimeout(this.silenceTimer);
    this.socket = null;
  }

  // --- liveness --------------------------------------------------------------------------------------------------

  private heard(): void {
    this.heardAt = Date.now();
    clearTimeout(this.silenceTimer);
    this.silenceTimer = setTimeout(() => this.silent(), SILENCE_MS);
  }

  private silent(): void {
    // Only a server that numbers its messages also promises heartbeats.
    if (this.snapshot.connection.status === "open" && this.snapshot.rev === 0) return;
    this.reconnect();
  }

  /** The tab is back, or the network is. */
  private wake(): void {
    const doubtful = Date.now() - this.heardAt > DOUBT_MS && this.snapshot.rev > 0;
    if (this.retryTimer !== undefined || (this.socket && doubtful)) this.reconnect();
  }

  /** At once, without waiting for the next attempt. */
  reconnect(): void {
    if (this.snapshot.connection.status === "ended" || this.snapshot.connection.status === "idle") return;
    this.abandon(1000);
    this.attempt = 0;
    this.open();
  }

  // --- telling ---------------------------------------------------------------------------------------------------

  private pending(): readonly PendingSubmit[] {
    const before = this.snapshot.pending;
    const same =
      before.length === this.submits.length && this.submits.every((submit, i) => before[i]?.id === submit.id);
    return same ? before : this.submits.map(shown);
  }

  private publish(change: Partial<ClientSnapshot>): void {
    this.snapshot = { ...this.snapshot, ...change };
    notify(this.listeners, (listener) => listener());
  }
}

/** An error in one listener is reported, and stops neither the others nor the connection. */
function notify<Listener>(listeners: Iterable<Listener>, call: (listener: Listener) => void): void {
  for (const listener of listeners) {
    try {
      call(listener);
    } catch (error) {
      if (typeof reportError === "function") reportError(error);
      else console.error(error);
    }
  }
}

function shown({ id, prompt, attachments, steers }: Sent): PendingSubmit {
  return { id, prompt, attachments, steers };
}

function confirmed(submit: Sent, state: HarnessState): boolean {
  if (state.messages.some(({ id }) => id === submit.id)) return true;
  if (state.queue) return state.queue.some(({ id }) => id === submit.id);
  // No queue, no ids: the words themselves, said after we said them.
  if (!submit.sent) return false;
  return state.messages.slice(submit.after).some(({ role, content }) => role === "user" && content === submit.prompt);
}

/** Calls back when a browser has reason to look again; a no-op elsewhere. */
function onWake(wake: () => void): () => void {
  if (typeof window === "undefined") return () => {};
  const visible = () => document.visibilityState === "visible" && wake();
  window.addEventListener("online", wake);
  window.addEventListener("pageshow", wake);
  document.addEventListener("visibilitychange", visible);
  return () => {
    window.removeEventListener("online", wake);
    window.removeEventListener("pageshow", wake);
    document.removeEventListener("visibilitychange", visible);
  };
}
