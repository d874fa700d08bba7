/**
 * The names that the specification of flint gives its types, where the schema calls them something else. Members that
 * Hames adds are optional in all of them.
 */

import type {
  ApprovalResponse,
  CommandApprovalParams,
  CommandExecutionItem,
  ConfigOptions,
  DangerFullAccess,
  Delta,
  Empty,
  ExternalSandbox,
  FileChangeApprovalParams,
  FileChangeItem,
  FileInput,
  ImageInput,
  ItemCompleted,
  ItemStarted,
  LocalImageInput,
  ReadOnly,
  TextInput,
  ThreadIdParams,
  ThreadOpened,
  ThreadStarted,
  ThreadStartParams,
  Turn,
  TurnChanged,
  TurnResult,
  WorkspaceWrite,
} from "./messages.js";

export type InitializedParams = Empty;
export type ThreadStartResult = ThreadOpened;
export type ThreadResumeResult = ThreadOpened;
export type ThreadArchiveParams = ThreadIdParams;
export type ThreadStartedNotification = ThreadStarted;
export type TurnStartResult = TurnResult;
export type TurnStatus = Turn["status"];
export type UserInput = TextInput | ImageInput | LocalImageInput | FileInput;
export type TurnStartedNotification = TurnChanged;
export type TurnCompletedNotification = TurnChanged;
export type ItemStartedNotification = ItemStarted;
export type ItemCompletedNotification = ItemCompleted;
export type ThreadItem = ItemStarted["item"];
export type AgentMessageDelta = Delta;
export type ReasoningTextDelta = Delta;
export type ReasoningSummaryTextDelta = Delta;
export type CommandExecutionStatus = CommandExecutionItem["status"];
export type CommandExecutionOutputDelta = Delta;
export type CommandExecutionRequestApproval = CommandApprovalParams;
export type CommandExecutionApprovalResponse = ApprovalResponse;
export type FileChangeStatus = FileChangeItem["status"];
export type FileChangeOutputDelta = Delta;
export type FileChangeRequestApproval = FileChangeApprovalParams;
export type FileChangeApprovalResponse = ApprovalResponse;
export type PlanDelta = Delta;
export type ApprovalPolicy = NonNullable<ThreadStartParams["approvalPolicy"]>;
export type SandboxPolicy = DangerFullAccess | ReadOnly | WorkspaceWrite | ExternalSandbox;
export type ConfigListResult = ConfigOptions;
export type ConfigSetResult = ConfigOptions;

export interface JsonRpcError {
  code: number;
  message: string;
  data?: unknown;
}

export const ErrorCodes = {
  ParseError: -32700,
  InvalidRequest: -32600,
  MethodNotFound: -32601,
  InvalidParams: -32602,
  InternalError: -32603,
  NotInitialized: -32000,
  ThreadNotFound: -32001,
  TurnInProgress: -32002,
  NotRunning: -32003,
} as const;
