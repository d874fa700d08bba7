/** What a thread list, a file picker and a time slider ask for: plain requests beside the socket. */

import type {
  ContextReport,
  FileHit,
  Finish,
  FinishAnswer,
  GitChanges,
  NewThread,
  NewWorktree,
  ProcessRow,
  ServerStatus,
  StateAnswer,
  StateAt,
  ThreadPage,
  ThreadRow,
  Timeline,
  Undo,
  UndoAnswer,
  Upload,
} from "./protocol.js";

/** A way in for one more browser. `addresses`: where other devices may reach the server, the likeliest first. */
export type DeviceLink = { path: string; code: string; expiresInSeconds: number; addresses: string[] };

/** An answer that was not 2xx, in the server's own words. `status` is 0 when there was no answer. */
export class RequestFailed extends Error {
  override readonly name = "RequestFailed";

  constructor(
    message: string,
    readonly status: number,
    readonly info: string = "",
  ) {
    super(message);
  }
}

export class HarnessApi {
  private readonly etags = new Map<string, { etag: string; body: unknown }>();

  /** `origin` is empty in a page: same origin. */
  constructor(
    private readonly origin = "",
    private readonly fetcher: typeof fetch = (...args) => fetch(...args),
  ) {}

  status(): Promise<ServerStatus> {
    return this.get("/status");
  }

  /** The same object as last time when nothing changed. */
  async threads(query: { search?: string; archived?: boolean; limit?: number; cursor?: string } = {}) {
    const path = `/threads${parameters(query)}`;
    const known = this.etags.get(path);
    const response = await this.ask(path, known ? { headers: { "If-None-Match": known.etag } } : {}, [304]);
    if (response.status === 304 && known) return known.body as ThreadPage;
    const body = (await response.json()) as ThreadPage;
    const etag = response.headers.get("ETag");
    if (etag) {
      if (this.etags.size > 32) this.etags.clear();
      this.etags.set(path, { etag, body });
    }
    return body;
  }

  async create(thread: NewThread = {}): Promise<ThreadRow> {
    return (await this.post<{ thread: ThreadRow }>("/threads", thread)).thread;
  }

  read(threadId: string): Promise<StateAnswer> {
    return this.get(this.of(threadId));
  }

  async fork(threadId: string, lastSeq?: number, worktree?: NewWorktree): Promise<ThreadRow> {
    const body = { ...(lastSeq === undefined ? {} : { lastSeq }), ...(worktree ? { worktree } : {}) };
    return (await this.post<{ thread: ThreadRow }>(`${this.of(threadId)}/fork`, body)).thread;
  }

  async archive(threadId: string, archived = true): Promise<ThreadRow> {
    return (await this.post<{ thread: ThreadRow }>(`${this.of(threadId)}/archive`, { archived })).thread;
  }

  /** Takes back what a turn did to files, or does it again. With `preview` it only tells what would happen. */
  undo(threadId: string, what: Partial<Undo> = {}): Promise<UndoAnswer> {
    return this.post(`${this.of(threadId)}/undo`, what);
  }

  /** The worktree of a thread: merged into the branch it came from, kept, or dropped. */
  finishWorktree(what: Partial<Finish> & Pick<Finish, "action">): Promise<FinishAnswer> {
    return this.post("/worktrees/finish", what);
  }

  /** For good. Refused while the thread runs a turn. */
  async remove(threadId: string): Promise<void> {
    await this.ask(this.of(threadId), { method: "DELETE", headers: { "Content-Type": "application/json" } });
  }

  timeline(threadId: string): Promise<Timeline> {
    return this.get(`${this.of(threadId)}/timeline`);
  }

  /** The state as of a log position. `last`: only so many of its messages; `skipped` says how many are missing before them. */
  at(threadId: string, seq: number, { last, signal }: { last?: number; signal?: AbortSignal } = {}): Promise<StateAt> {
    return this.get(`${this.of(threadId)}/at/${seq}${parameters({ last })}`, signal);
  }

  /** Everything in the thread's folder that is not committed, whoever changed it. */
  gitChanges(threadId: string, signal?: AbortSignal): Promise<GitChanges> {
    return this.get(`${this.of(threadId)}/git-diff`, signal);
  }

  /** The processes that the agent runs in the background, and the last that ended, oldest first. */
  async processes(threadId: string, signal?: AbortSignal): Promise<ProcessRow[]> {
    return (await this.get<{ processes: ProcessRow[] }>(`${this.of(threadId)}/processes`, signal)).processes;
  }

  /** Ends one of them. The answer is the list as it is then. */
  async endProcess(threadId: string, number: number): Promise<ProcessRow[]> {
    const path = `${this.of(threadId)}/processes/${number}/end`;
    return (await this.post<{ processes: ProcessRow[] }>(path, {})).processes;
  }

  /** What fills the model's context window. */
  context(threadId: string, signal?: AbortSignal): Promise<ContextReport> {
    return this.get(`${this.of(threadId)}/context`, signal);
  }

  /** The file of an artifact as it is now. */
  artifactUrl(threadId: string, toolCallId: string, { download = false } = {}): string {
    const path = `${this.of(threadId)}/artifacts/${encodeURIComponent(toolCallId)}`;
    return `${this.origin}${path}${download ? "?download=1" : ""}`;
  }

  /** A picture that a tool returned, counted from 0. */
  toolPictureUrl(threadId: string, toolCallId: string, number: number): string {
    return `${this.origin}${this.of(threadId)}/tools/${encodeURIComponent(toolCallId)}/images/${number}`;
  }

  exportUrl(threadId: string, format: "markdown" | "json"): string {
    return `${this.origin}${this.of(threadId)}/export?format=${format}`;
  }

  async toolOutput(threadId: string, toolCallId: string): Promise<string> {
    return (await this.ask(`${this.of(threadId)}/tools/${encodeURIComponent(toolCallId)}/output`)).text();
  }

  async files(threadId: string, query: string, signal?: AbortSignal): Promise<FileHit[]> {
    return (await this.get<{ files: FileHit[] }>(`/files${parameters({ thread: threadId, query })}`, signal)).files;
  }

  async upload(image: Blob, name: string): Promise<Upload> {
    const response = await this.ask(`/uploads${parameters({ name })}`, {
      method: "POST",
      headers: { "Content-Type": image.type },
      body: image,
    });
    return (await response.json()) as Upload;
  }

  /** A link and a code, one of which signs in one more browser. */
  link(): Promise<DeviceLink> {
    return this.post("/links", {});
  }

  /** Signs this browser in with a code from another one. */
  async signIn(code: string): Promise<void> {
    await this.post("/sign-in", { code });
  }

  private of(threadId: string): string {
    return `/threads/${encodeURIComponent(threadId)}`;
  }

  private async get<T>(path: string, signal?: AbortSignal): Promise<T> {
    return (await (await this.ask(path, signal ? { signal } : {})).json()) as T;
  }

  private async post<T>(path: string, body: unknown): Promise<T> {
    const response = await this.ask(path, {
      method: "POST",
      headers: { "Content-Type": "application/json" },
      body: JSON.stringify(body),
    });
    return (await response.json()) as T;
  }

  private async ask(path: string, init: RequestInit = {}, also: number[] = []): Promise<Response> {
    let response: Response;
    try {
      response = await this.fetcher(this.origin + path, { credentials: "same-origin", ...init });
    } catch (failure) {
      if (init.signal?.aborted) throw failure;
      throw new RequestFailed("the server does not answer", 0);
    }
    if (!response.ok && !also.includes(response.status)) throw await refusal(response);
    return response;
  }
}

async function refusal(response: Response): Promise<RequestFailed> {
  const body = (await response.json().catch(() => null)) as { error?: { message?: string; info?: string } } | null;
  return new RequestFailed(
    body?.error?.message ?? `the server answered ${response.status}`,
    response.status,
    body?.error?.info ?? "",
  );
}

function parameters(query: Record<string, string | number | boolean | undefined>): string {
  const search = new URLSearchParams();
  for (const [key, value] of Object.entries(query))
    if (value !== undefined && value !== "") search.set(key, `${value}`);
  const text = search.toString();
  return text && `?${text}`;
}
