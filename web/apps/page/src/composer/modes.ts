/** How much the agent may do without asking: the engine's policies, as the four steps people think in. */

import type { Configuration, SandboxPolicy, Settings } from "@hames/client";
import type { MenuItem } from "../shell/menu.js";

type Mode = MenuItem & { set: Configuration };

export const MODES: readonly Mode[] = [
  { id: "plan", name: "Plan", description: "Reads and thinks, changes nothing", icon: "plan", set: { agent: "plan" } },
  {
    id: "ask",
    name: "Ask always",
    description: "Every command and every change is asked about",
    icon: "shield",
    set: { agent: "code", approvalPolicy: "always" },
  },
  {
    id: "trusted",
    name: "Ask when in doubt",
    description: "What is known to be harmless just runs",
    icon: "shield",
    set: { agent: "code", approvalPolicy: "unlessTrusted" },
  },
  {
    id: "never",
    name: "Never ask",
    description: "Everything runs, inside the sandbox",
    icon: "alert",
    set: { agent: "code", approvalPolicy: "never" },
  },
];

/** Not chosen from the list: a review is started, and ends. */
const REVIEW: Mode = {
  id: "review",
  name: "Review",
  description: "Reads and judges, changes nothing",
  icon: "search",
  set: { agent: "review" },
};

export function modeOf({ agent, approvalPolicy }: Settings): Mode {
  if (agent === "review") return REVIEW;
  if (agent === "plan") return MODES[0]!;
  return MODES.find(({ set }) => set.agent === "code" && set.approvalPolicy === approvalPolicy) ?? MODES[2]!;
}

/** What Shift+Tab goes to. "Never ask" is not reached by a key pressed once too often. */
export function nextMode(settings: Settings): Mode {
  const cycle = MODES.filter(({ id }) => id !== "never");
  return cycle[(cycle.indexOf(modeOf(settings)) + 1) % cycle.length]!;
}

type SandboxItem = MenuItem & { set: SandboxPolicy };

const SANDBOXES: readonly SandboxItem[] = [
  { id: "readOnly", name: "Read only", description: "Nothing can be written, no network", set: { type: "readOnly" } },
  {
    id: "workspaceWrite",
    name: "Workspace",
    description: "The workspace can be written, no network",
    set: { type: "workspaceWrite" },
  },
  {
    id: "workspaceNetwork",
    name: "Workspace + network",
    description: "Also reaches the network and this machine's own services",
    set: { type: "workspaceWrite", networkAccess: true },
  },
  {
    id: "dangerFullAccess",
    name: "No sandbox",
    description: "Commands run with all your rights",
    icon: "alert",
    set: { type: "dangerFullAccess" },
  },
];

export function sandboxOf(policy: SandboxPolicy): string {
  if (policy.type === "workspaceWrite" && policy.networkAccess) return "workspaceNetwork";
  return policy.type;
}

export function sandboxItems(policy: SandboxPolicy): readonly SandboxItem[] {
  if (policy.type !== "externalSandbox") return SANDBOXES;
  return [
    { id: "externalSandbox", name: "External", description: "Somebody else holds the walls", set: policy },
    ...SANDBOXES,
  ];
}

/** The policy for a choice; the writable roots that were there stay. */
export function sandboxFor(id: string, before: SandboxPolicy): SandboxPolicy {
  const { set } = sandboxItems(before).find((item) => item.id === id)!;
  if (set.type !== "workspaceWrite") return set;
  const roots = before.type === "workspaceWrite" ? (before.writableRoots ?? []) : [];
  return { ...set, writableRoots: roots, networkAccess: set.networkAccess ?? false };
}
