/** Who did something, and what somebody may do here. */

import type { Actor, ServerStatus } from "@hames/client";

export type Role = NonNullable<ServerStatus["role"]>;

const UNNAMED: Partial<Record<Actor["kind"], string>> = { hames: "Hames", rule: "a rule", agent: "the agent" };

/** In words: `ann (terminal)`. */
export function nameOf(actor: Actor): string {
  const who = actor.name || (UNNAMED[actor.kind] ?? actor.kind);
  const where = [actor.via, actor.client].filter(Boolean).join(", ");
  return where ? `${who} (${where})` : who;
}

/** Who it was, where that is not whoever looks at this page; otherwise nothing. */
export function somebodyElse(actor: Actor | null | undefined, user: string): string {
  if (!actor || (actor.via === "page" && actor.name === user)) return "";
  return nameOf(actor);
}

/** Why somebody cannot write here, or nothing. */
export function whyOnlyLooking(role: Role): string {
  return role === "observer"
    ? "You can look at this thread and change nothing: you are signed in with an observer's token."
    : "";
}

/** Why somebody cannot answer a question, or nothing. */
export function whyNotAnswering(role: Role): string {
  return role === "observer" || role === "driver"
    ? `Somebody with the role approver has to answer: you are signed in with ${role === "driver" ? "a driver" : "an observer"}'s token.`
    : "";
}
