/** Messages that were sent to the agent while it worked and that it never read, because it was stopped first. Pure. */

import type { HarnessState } from "@hames/client";

type Shown = Pick<HarnessState, "messages" | "status">;

export function unreadMessages({ messages, status }: Shown): ReadonlySet<string> {
  const unread = new Set<string>();
  for (const [index, message] of messages.entries()) {
    if (message.role !== "user") continue;
    const before = messages[index - 1];
    // The first message of a turn is what the agent was started with; any later one was sent while it worked.
    const sentWhileWorking = before !== undefined && isSameTurn(before, message);
    if (!sentWhileWorking) continue;
    const after = messages.slice(index + 1).find(({ role }) => role === "assistant");
    const read = after !== undefined && isSameTurn(after, message);
    const over = after !== undefined || status !== "running";
    if (!read && over) unread.add(message.id);
  }
  return unread;
}

function isSameTurn(a: HarnessState["messages"][number], b: HarnessState["messages"][number]): boolean {
  return !!a.turnId && a.turnId === b.turnId;
}
