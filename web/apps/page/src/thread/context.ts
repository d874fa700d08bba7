/** What everything inside a thread may need and changes rarely. */

import type { Approval, Decision } from "@hames/client";
import { createContext, useContext } from "react";

export type ThreadTools = {
  threadId: string;
  cwd: string;
  /** A look at the past: nothing can be done here. */
  readOnly: boolean;
  approve: (approvalId: string, decision: Decision, note?: string, content?: unknown) => void;
  /** Stops the running turn. */
  stop: () => void;
  forkBefore: (messageId: string) => void;
  /** Takes back what the turn of a message did to files, after asking. */
  undo: (turnId: string) => void;
  /** Sends a message of the thread once more. */
  sendAgain: (messageId: string) => void;
};

const ThreadToolsContext = createContext<ThreadTools | null>(null);
const ApprovalsContext = createContext<readonly Approval[]>([]);
const FoundContext = createContext("");
const UnreadContext = createContext<ReadonlySet<string>>(new Set());

export const ThreadToolsProvider = ThreadToolsContext.Provider;
export const ApprovalsProvider = ApprovalsContext.Provider;
/** The tool call in which a search found something: it opens. */
export const FoundProvider = FoundContext.Provider;

/** Messages that the agent never read. */
export const UnreadProvider = UnreadContext.Provider;

export function useIsUnread(messageId: string): boolean {
  return useContext(UnreadContext).has(messageId);
}

export function useThreadTools(): ThreadTools {
  const tools = useContext(ThreadToolsContext);
  if (!tools) throw new Error("outside of a thread");
  return tools;
}

export function useApproval(toolCallId: string): Approval | undefined {
  return useContext(ApprovalsContext).find((approval) => approval.toolCallId === toolCallId);
}

/** Of several questions the oldest is answered first. */
export function useIsFirst(approval: Approval): boolean {
  return useContext(ApprovalsContext)[0]?.id === approval.id;
}

export function useIsFound(toolCallId: string): boolean {
  return useContext(FoundContext) === toolCallId;
}
