/** The WebSocket of Node.js: its own from version 22 on, the `ws` package before. */

import { WebSocket as Ws } from "ws";

export function platformWebSocket(): typeof WebSocket {
  return globalThis.WebSocket ?? (Ws as unknown as typeof WebSocket);
}
