/** How much the agent may do without asking. Names and order come from `specs/keys.json`, which the terminal uses, too. */

import type { Configuration, SandboxPolicy, Settings } from "@hames/client";
import type { IconName } from "../shell/icons.js";
import { MODE_TABLE } from "../shell/keys.js";
import type { MenuItem } from "../shell/menu.js";

export type Mode = MenuItem & { set: Configuration };

/** The word that flags, configuration files and the documentation use, beside the plain one. */
function withFlag(words: string, flag: string | null | undefined): string {
  return flag ? `${words} · ${flag}` : words;
}

const ICONS: Record<string, IconName> = { plan: "plan", never: "alert" };

export const MODES: readonly Mode[] = MODE_TABLE.map(({ id, name, words, set }) => ({
  id,
  name,
  description: withFlag(words, (set as Configuration).approvalPolicy),
  icon: ICONS[id] ?? "shield",
  set: set as Configuration,
}));

const ASK = MODES.find(({ id }) => id === "ask")!;

/** Not chosen from the list: a review is started, and ends. */
const REVIEW: Mode = {
  id: "review",
  name: "Review",
  description: "Reviews, changes nothing",
  icon: "search",
  set: { agent: "review" },
};

export function modeOf({ agent, approvalPolicy }: Pick<Settings, "agent" | "approvalPolicy">): Mode {
  if (agent === "review") return REVIEW;
  const chosen = MODES.find(
    ({ set }) => set.agent === agent && (set.approvalPolicy ?? approvalPolicy) === approvalPolicy,
  );
  return chosen ?? ASK;
}

/** What Shift+Tab goes to: plan, ask, auto. "Never ask" is not reached by a key pressed once too often. */
export function nextMode(mode: Mode): Mode {
  const cycle = MODES.filter(({ id }) => MODE_TABLE.find((row) => row.id === id)?.shiftTab);
  return cycle.includes(mode) ? cycle[(cycle.indexOf(mode) + 1) % cycle.length]! : ASK;
}

type SandboxItem = MenuItem & { description: string; set: SandboxPolicy };

const SANDBOXES: readonly SandboxItem[] = [
  {
    id: "readOnly",
    name: "Read only",
    description: "Commands can read files; nothing can be written, no network · readOnly",
    set: { type: "readOnly" },
  },
  {
    id: "workspaceWrite",
    name: "Workspace",
    description: "Commands can write in the workspace, no network · workspaceWrite",
    set: { type: "workspaceWrite" },
  },
  {
    id: "workspaceNetwork",
    name: "Workspace + network",
    description: "Commands can also reach the internet, but not this machine or the local network · networkAccess",
    set: { type: "workspaceWrite", networkAccess: true },
  },
  {
    id: "dangerFullAccess",
    name: "No sandbox",
    description: "Commands run with all your permissions · dangerFullAccess",
    icon: "alert",
    set: { type: "dangerFullAccess" },
  },
];

export function sandboxOf(policy: SandboxPolicy): string {
  if (policy.type === "workspaceWrite" && policy.networkAccess) return "workspaceNetwork";
  return policy.type;
}

/** Writable directories outside the workspace are named with the choices they belong to. */
export function sandboxItems(policy: SandboxPolicy): readonly SandboxItem[] {
  const roots = policy.type === "workspaceWrite" ? (policy.writableRoots ?? []) : [];
  const also = roots.length > 0 ? `. Also writable: ${roots.join(", ")}` : "";
  const items = SANDBOXES.map((item) =>
    item.set.type === "workspaceWrite" ? { ...item, description: item.description + also } : item,
  );
  if (policy.type !== "externalSandbox") return items;
  const description = "Another program isolates the commands · externalSandbox";
  return [{ id: "externalSandbox", name: "External", description, set: policy }, ...items];
}

/** The policy for a choice; the writable roots that were there stay. */
export function sandboxFor(id: string, before: SandboxPolicy): SandboxPolicy {
  const { set } = sandboxItems(before).find((item) => item.id === id)!;
  if (set.type !== "workspaceWrite") return set;
  const roots = before.type === "workspaceWrite" ? (before.writableRoots ?? []) : [];
  return { ...set, writableRoots: roots, networkAccess: set.networkAccess ?? false };
}
