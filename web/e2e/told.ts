/** A proxy between a page and its server that also says what a test wants said, for what no scene plays. */

import type { DeltaOperation } from "@hames/client";
import type { Page, WebSocketRoute } from "playwright-core";

/** The server sends at most one message in this time. */
const COALESCED_MS = 16;

export class Told {
  /** What the page sent. */
  readonly sent: string[] = [];
  private readonly sockets: WebSocketRoute[] = [];
  private begin = (): void => {};
  /** The page has its first state: before that, nothing that is said would last. */
  readonly begun = new Promise<void>((resolve) => (this.begin = resolve));
  private waiting: DeltaOperation[] = [];
  private timer: ReturnType<typeof setTimeout> | undefined;

  /** Before the page is opened. After a reload it knows only what the real server said. */
  async join(page: Page): Promise<void> {
    await page.routeWebSocket(/\/ws\?/, (socket) => {
      const server = socket.connectToServer();
      socket.onMessage((message) => {
        this.sent.push(String(message));
        server.send(message);
      });
      server.onMessage((message) => {
        socket.send(message);
        if (!String(message).includes('"type":"state"')) return;
        this.sockets.push(socket);
        this.begin();
      });
    });
  }

  say(...operations: DeltaOperation[]): void {
    this.waiting.push(...operations);
    this.timer ??= setTimeout(() => {
      this.timer = undefined;
      const message = JSON.stringify({ type: "delta", operations: this.waiting.splice(0), rev: 1_000 });
      for (const socket of this.sockets) socket.send(message);
    }, COALESCED_MS);
  }
}
