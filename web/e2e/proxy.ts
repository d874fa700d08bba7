/** A wire that can be cut: everything between the browser and the server goes through it. */

import { createServer, connect as dial, type Server, type Socket } from "node:net";
import type { AddressInfo } from "node:net";

export class Wire {
  readonly port: number;
  target = 0;
  /** New connections are refused while it is down. */
  down = false;
  private readonly open = new Set<Socket>();

  private constructor(private readonly listener: Server) {
    this.port = (listener.address() as AddressInfo).port;
    listener.on("connection", (near) => this.join(near));
  }

  static async lay(): Promise<Wire> {
    const listener = createServer();
    await new Promise<void>((resolve) => listener.listen(0, "127.0.0.1", resolve));
    return new Wire(listener);
  }

  private join(near: Socket): void {
    if (this.down) return void near.destroy();
    const far = dial(this.target, "127.0.0.1");
    for (const [one, other] of [
      [near, far],
      [far, near],
    ] as const) {
      this.open.add(one);
      one.on("error", () => other.destroy());
      one.on("close", () => {
        this.open.delete(one);
        other.destroy();
      });
      one.pipe(other);
    }
  }

  /** Every connection ends here and now, in the middle of whatever it was saying. */
  cut(): void {
    for (const socket of this.open) socket.destroy();
  }

  async close(): Promise<void> {
    this.cut();
    await new Promise((resolve) => this.listener.close(resolve));
  }
}
