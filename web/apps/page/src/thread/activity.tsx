/** One line about what the agent is doing, above the message box. Read aloud when it changes, not at every token. */

import type { HarnessState } from "@hames/client";
import { useEffect, useState } from "react";
import { duration } from "../text/format.js";
import { useAreAnswersSeen } from "../tools/answers-seen.js";

export type Activity = { words: string; since: number };

export function activityOf(state: HarnessState): Activity | null {
  if (state.status !== "running") return null;
  const since = state.messages.findLast(({ role }) => role === "user")?.createdAt ?? 0;
  return { words: doing(state), since };
}

function doing(state: HarnessState): string {
  const waiting = state.approvals?.length ?? 0;
  if (waiting > 0) return waiting === 1 ? "Waiting for your answer" : `Waiting for ${waiting} answers`;
  const last = state.messages.at(-1);
  const call = last?.toolCalls?.findLast(({ status }) => status === "running");
  if (call) {
    if (call.kind === "command") return `Running ${firstLine(call.title ?? call.name)}`;
    if (call.kind === "file") return "Changing files";
    if (call.kind === "search") return "Searching the web";
    return `Using ${firstLine(call.name)}`;
  }
  if (last?.role === "assistant" && last.reasoning && !last.content) return "Thinking";
  if (last?.role === "assistant" && last.content && last.status === "streaming") return "Writing";
  return "Working";
}

function firstLine(text: string): string {
  const line = text.split("\n")[0] ?? "";
  return line.length > 60 ? `${line.slice(0, 59)}…` : line;
}

type LineProps = { activity: Activity | null; connected: boolean; onAnswer: () => void };

/** Without a connection nobody knows what the agent does, or whether it still runs: then this says nothing. */
export function ActivityLine({ activity, connected, onAnswer }: LineProps) {
  const shown = connected ? activity : null;
  const words = shown?.words ?? "";
  const waiting = words.startsWith("Waiting");
  const seen = useAreAnswersSeen();
  return (
    <div className="activity" data-active={shown ? "" : undefined} data-waiting={waiting || undefined}>
      {shown && (
        <>
          <span className={waiting ? "dot" : "spinner"} data-status="approval" aria-hidden="true" />
          <span className="activity-words">{words}</span>
          {waiting ? <Waited /> : <Elapsed since={shown.since} />}
          {waiting && !seen && (
            <button type="button" className="link" onClick={onAnswer}>
              Show
            </button>
          )}
        </>
      )}
    </div>
  );
}

/** Counts from when this page first showed the question. */
function Waited() {
  const [since] = useState(Date.now);
  return <Elapsed since={since} />;
}

function Elapsed({ since }: { since: number }) {
  const [now, setNow] = useState(Date.now);
  useEffect(() => {
    const timer = setInterval(() => setNow(Date.now()), 1_000);
    return () => clearInterval(timer);
  }, []);
  const ms = now - since;
  if (since === 0 || ms < 2_000) return null;
  return (
    <span className="activity-time" aria-hidden="true">
      {duration(Math.floor(ms / 1_000) * 1_000).replace(".0 s", " s")}
    </span>
  );
}

/** What a screen reader hears: changes of state, and the answer once it is whole. */
export function announcement(state: HarnessState | null): string {
  if (!state) return "";
  const approval = state.approvals?.[0];
  if (approval) {
    const what = approval.command || approval.tool || approval.changes?.map(({ path }) => path).join(", ") || "";
    return `The agent asks for your approval: ${what}. Press y for yes, a for always, n for no, Alt+A to go to the question.`;
  }
  if (state.status === "running") return "The agent is working";
  if (state.status === "error") return `The agent failed: ${state.error ?? ""}`;
  const last = state.messages.findLast(({ role }) => role === "assistant");
  if (!last) return "";
  if (last.stopReason === "cancelled") return "Stopped.";
  return `The agent has finished. ${last.content.slice(0, 400)}`;
}
