/**
 * The sync protocol as types. `messages.ts` is made from `schemas/sync/schema.json`; here its words get names of their own.
 *
 * A server may know only the specification, so everything beyond it is optional there, and every reader has an
 * opinion about its absence.
 */

import type { Approve, Configure, HarnessMessage, HarnessState, HarnessToolCall, Settings } from "./messages.js";

export type {
  Actor,
  Approval,
  Attachment,
  AttachmentInput,
  Citation,
  ClientMessage,
  ConfigOption,
  ContextPart,
  ContextReport,
  DeltaOperation,
  FileChange,
  FileHit,
  Finish,
  FinishAnswer,
  GitChanges,
  HarnessCommand,
  HarnessMessage,
  HarnessState,
  HarnessToolCall,
  Mark,
  Model,
  NewThread,
  NewWorktree,
  Plan,
  PlanEntry,
  ProcessRow,
  QueuedPrompt,
  ReviewTarget,
  ServerMessage,
  ServerStatus,
  Settings,
  StateAnswer,
  StateAt,
  ThreadHead,
  ThreadPage,
  ThreadRow,
  Timeline,
  Undo,
  UndoAnswer,
  Upload,
  Usage,
} from "./messages.js";

export type JSONValue = null | boolean | number | string | JSONValue[] | { [key: string]: JSONValue };

export type RunStatus = HarnessState["status"];
export type MessageStatus = HarnessMessage["status"];
export type ToolStatus = HarnessToolCall["status"];
export type ToolKind = NonNullable<HarnessToolCall["kind"]>;
export type ToolOutcome = NonNullable<HarnessToolCall["outcome"]>;
export type Decision = Approve["decision"];
export type AlwaysScope = NonNullable<Approve["scope"]>;
export type ApprovalPolicy = Settings["approvalPolicy"];
export type AgentName = Settings["agent"];
export type SandboxPolicy = Settings["sandbox"];

/** What a thread runs with: any part of it. */
export type Configuration = Omit<Configure, "type">;

/** Close codes with a meaning of their own. */
export const CLOSE = { cannotApply: 4000, unauthorized: 4401, notFound: 4404 } as const;
