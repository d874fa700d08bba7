import type { Asks, ClientInfo, InitializeResult, Notifications, Requests } from "./messages.js";
import { ErrorCodes, type JsonRpcError } from "./names.js";

/** Where messages go and come from: one JSON text each, without the line end. `./node` makes one from a process. */
export interface Transport {
  send(message: string): void;
  /** Called once, before anything is sent. `closed` is called when nothing more will come. */
  receive(message: (text: string) => void, closed: (why: string) => void): void;
  close(): void;
}

type Id = string | number;
type Method = keyof Requests;
type Params<M extends Method> = Requests[M]["params"];
type Result<M extends Method> = Requests[M]["result"];
type Listener = (method: string, params: unknown) => void;
type Answerer = (params: unknown) => unknown;

/** An error that the server answered with. `ErrorCodes` has the numbers. */
export class FlintError extends Error {
  readonly code: number;
  readonly data: unknown;

  constructor({ code, message, data }: JsonRpcError) {
    super(message);
    this.name = "FlintError";
    this.code = code;
    this.data = data;
  }
}

/** One connection. Call `initialize` first. A question of the server that nobody answers here is refused. */
export class FlintClient {
  readonly #transport: Transport;
  readonly #waiting = new Map<Id, { resolve: (result: never) => void; reject: (problem: Error) => void }>();
  readonly #listeners = new Set<Listener>();
  readonly #answerers = new Map<string, Answerer>();
  #lastId = 0;
  #closed: string | undefined;

  constructor(transport: Transport) {
    this.#transport = transport;
    transport.receive(
      (text) => this.#read(text),
      (why) => this.#end(why),
    );
  }

  /** The handshake: `initialize`, and `initialized` after it. */
  async initialize(clientInfo: ClientInfo): Promise<InitializeResult> {
    const result = await this.request("initialize", { clientInfo });
    this.notify("initialized");
    return result;
  }

  /** Rejects with `FlintError` when the server refuses, and with another error when the connection is lost. */
  request<M extends Method>(method: M, params: Params<M>): Promise<Result<M>> {
    if (this.#closed !== undefined) return Promise.reject(new Error(this.#closed));
    const id = ++this.#lastId;
    return new Promise((resolve, reject) => {
      this.#waiting.set(id, { resolve, reject });
      this.#transport.send(JSON.stringify({ id, method, params }));
    });
  }

  notify(method: string, params: unknown = {}): void {
    this.#transport.send(JSON.stringify({ method, params }));
  }

  /** Calls `handler` for each notification of this kind. Returns a function that stops that. */
  on<M extends keyof Notifications>(method: M, handler: (params: Notifications[M]) => void): () => void {
    return this.onAny((name, params) => {
      if (name === method) handler(params as Notifications[M]);
    });
  }

  /** Calls `listener` for every notification, also for those that have no type here. */
  onAny(listener: Listener): () => void {
    this.#listeners.add(listener);
    return () => this.#listeners.delete(listener);
  }

  /** Answers the server's requests of this kind, such as approvals. One answerer for each kind. */
  answer<M extends keyof Asks>(
    method: M,
    answerer: (params: Asks[M]["params"]) => Asks[M]["result"] | Promise<Asks[M]["result"]>,
  ): void {
    this.#answerers.set(method, answerer as Answerer);
  }

  close(): void {
    this.#end("the connection was closed");
    this.#transport.close();
  }

  #end(why: string): void {
    if (this.#closed !== undefined) return;
    this.#closed = why;
    for (const { reject } of this.#waiting.values()) reject(new Error(why));
    this.#waiting.clear();
  }

  #read(text: string): void {
    let message: { id?: Id; method?: string; params?: unknown; result?: unknown; error?: JsonRpcError } | null;
    try {
      message = JSON.parse(text);
    } catch {
      return; // noise on the line is no reason to stop
    }
    if (message === null || typeof message !== "object") return;
    const { id, method, params, result, error } = message;
    if (typeof method === "string") {
      if (id === undefined) for (const listener of this.#listeners) listener(method, params);
      else void this.#answer(id, method, params);
      return;
    }
    const waiting = id === undefined ? undefined : this.#waiting.get(id);
    if (id === undefined || waiting === undefined) return;
    this.#waiting.delete(id);
    if (error) waiting.reject(new FlintError(error));
    else waiting.resolve(result as never);
  }

  async #answer(id: Id, method: string, params: unknown): Promise<void> {
    const answerer = this.#answerers.get(method);
    const refusal = { code: ErrorCodes.MethodNotFound, message: `no method ${JSON.stringify(method)}` };
    const failed = (problem: unknown) => ({ error: { code: ErrorCodes.InternalError, message: String(problem) } });
    const answer = answerer
      ? await Promise.resolve()
          .then(() => answerer(params))
          .then((result) => ({ result }), failed)
      : { error: refusal };
    if (this.#closed === undefined) this.#transport.send(JSON.stringify({ id, ...answer }));
  }
}
