/** The WebSocket of a browser, of Deno, of Bun. `package.json` chooses `websocket-node.ts` instead on Node.js. */

export function platformWebSocket(): typeof WebSocket {
  return WebSocket;
}
