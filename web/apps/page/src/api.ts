/** The server this page came from. */

import { HarnessApi, HarnessClient } from "@hames/client";
import { BASE } from "./base.js";

export const api = new HarnessApi(BASE.slice(0, -1));

export function clientFor(threadId: string): HarnessClient {
  return new HarnessClient({
    url: () => {
      const { protocol, host } = window.location;
      return `${protocol === "https:" ? "wss" : "ws"}://${host}${BASE}ws?thread=${encodeURIComponent(threadId)}&threads=1`;
    },
  });
}
