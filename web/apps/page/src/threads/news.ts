/** What the socket of the open thread says of all threads: so nobody has to ask, as long as it is open and says so. */

import type { HarnessClient, ThreadRow } from "@hames/client";

type Listener = (rows: readonly ThreadRow[]) => void;

const listeners = new Set<Listener>();
const tellers = new Set<HarnessClient>();

/** Whether whatever changes will be told. */
export function told(): boolean {
  return tellers.size > 0;
}

/** Calls back with the rows that changed; with none when the list should be looked at again. */
export function onNews(listener: Listener): () => void {
  listeners.add(listener);
  return () => void listeners.delete(listener);
}

/** Passes on what this client hears. */
export function passNews(client: HarnessClient): () => void {
  const stopHearing = client.onThreads((rows) => {
    tellers.add(client);
    for (const listener of listeners) listener(rows);
  });
  const stopWatching = client.subscribe(() => {
    if (client.getSnapshot().connection.status === "open" || !tellers.delete(client)) return;
    for (const listener of listeners) listener([]);
  });
  return () => {
    stopHearing();
    stopWatching();
    tellers.delete(client);
  };
}
