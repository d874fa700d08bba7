/** The server this page came from. */

import { HarnessApi, HarnessClient } from "@hames/client";

export const api = new HarnessApi();

export function clientFor(threadId: string): HarnessClient {
  return new HarnessClient({
    url: () => {
      const { protocol, host } = window.location;
      return `${protocol === "https:" ? "wss" : "ws"}://${host}/ws?thread=${encodeURIComponent(threadId)}&threads=1`;
    },
  });
}
