/** React: a thread as a hook, and as an assistant-ui runtime. */

import { type AppendMessage, type AssistantRuntime, useExternalStoreRuntime } from "@assistant-ui/react";
import { useCallback, useMemo, useSyncExternalStore } from "react";
import { type ConvertOptions, createConverter } from "./assistant-ui.js";
import type { ClientSnapshot, HarnessClient } from "./client.js";
import { frameStore } from "./frames.js";
import type { Decision, HarnessState } from "./protocol.js";

/** The client's snapshot, at most once per frame. */
export function useHarness(client: HarnessClient): ClientSnapshot {
  const store = useMemo(() => frameStore(client), [client]);
  return useSyncExternalStore(store.subscribe, store.getSnapshot, store.getSnapshot);
}

export type RuntimeCommands = Pick<HarnessClient, "submit" | "cancel" | "approve">;

const EMPTY: HarnessState = { status: "idle", messages: [] };

/** An assistant-ui runtime over a state: live, or one of the past. Without commands it is read-only. */
export function useHarnessRuntime(
  state: HarnessState | null,
  commands: RuntimeCommands | null,
  { group = true, last = Infinity }: ConvertOptions = {},
): AssistantRuntime {
  const convert = useMemo(createConverter, []);
  const messages = useMemo(() => convert(state ?? EMPTY, { group, last }), [convert, state, group, last]);

  const onNew = useCallback(
    async (message: AppendMessage) => {
      const text = message.content.flatMap((part) => (part.type === "text" ? [part.text] : [])).join("\n");
      commands?.submit(text);
    },
    [commands],
  );
  const onCancel = useCallback(async () => void commands?.cancel(), [commands]);
  const onRespondToToolApproval = useCallback(
    (response: { approvalId: string; approved?: boolean; optionId?: string; reason?: string }) => {
      commands?.approve(response.approvalId, decisionOf(response), response.reason);
    },
    [commands],
  );

  return useExternalStoreRuntime({
    messages,
    isRunning: state?.status === "running",
    isLoading: state === null,
    isDisabled: commands === null,
    onNew,
    onCancel,
    onRespondToToolApproval,
  });
}

function decisionOf({ approved, optionId }: { approved?: boolean; optionId?: string }): Decision {
  if (optionId === "once" || optionId === "always" || optionId === "reject") return optionId;
  return approved ? "once" : "reject";
}
