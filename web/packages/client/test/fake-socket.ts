/** A WebSocket whose other end is the test. */

import type { ServerMessage } from "../src/protocol.js";

export class FakeSocket {
  static made: FakeSocket[] = [];

  static get last(): FakeSocket {
    const socket = FakeSocket.made.at(-1);
    if (!socket) throw new Error("nothing has connected yet");
    return socket;
  }

  onmessage: ((event: { data: unknown }) => void) | null = null;
  onclose: ((event: { code: number }) => void) | null = null;
  readonly sent: string[] = [];
  closedWith: number | null = null;

  constructor(readonly url: string) {
    FakeSocket.made.push(this);
  }

  send(text: string): void {
    this.sent.push(text);
  }

  close(code: number): void {
    this.closedWith = code;
  }

  /** The server speaks. */
  says(message: ServerMessage | string): void {
    this.onmessage?.({ data: typeof message === "string" ? message : JSON.stringify(message) });
  }

  /** The connection breaks. */
  breaks(code = 1006): void {
    this.onclose?.({ code });
  }

  /** What the client sent: commands, and nothing else. */
  commands(): unknown[] {
    return this.sent.flatMap((text) => {
      const { type, commands, ...rest } = JSON.parse(text) as Record<string, unknown>;
      if (type !== "commands" || !Array.isArray(commands) || Object.keys(rest).length > 0) throw new Error(text);
      return commands as unknown[];
    });
  }
}
