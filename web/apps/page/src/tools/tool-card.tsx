/** One tool call: a line when it is done and well, open while it runs, failed, or asks. */

import type { HarnessToolCall, ToolKind } from "@hames/client";
import { memo, useId, useState } from "react";
import { Icon, type IconName } from "../shell/icons.js";
import { CodeBlock } from "../text/code-block.js";
import { countChanges, parseDiff } from "../text/diff.js";
import { duration, shortPath } from "../text/format.js";
import { Markdown } from "../text/markdown.js";
import { useApproval, useThreadTools } from "../thread/context.js";
import { ApprovalCard } from "./approval-card.js";
import { BareDiff, ChangeCounts, FileDiff, SidesSwitch, useSides, WORDS } from "./diff-view.js";
import { Terminal } from "./terminal.js";

const ICONS: Record<ToolKind, IconName> = {
  command: "command",
  file: "edit",
  mcp: "tool",
  search: "search",
  plan: "plan",
  compaction: "archive",
  artifact: "file",
  tool: "tool",
};

const SAID: Record<string, string> = {
  running: "running",
  completed: "done",
  failed: "failed",
  declined: "declined",
  interrupted: "stopped",
};

export const ToolCard = memo(function ToolCard({ call }: { call: HarnessToolCall }) {
  const approval = useApproval(call.id);
  const [choice, setChoice] = useState<boolean | null>(null);
  const bodyId = useId();
  const kind = call.kind ?? "tool";
  const empty = !hasBody(call);
  const open = !empty && !approval && (choice ?? opensItself(call));
  const outcome = approval ? "approval" : (call.outcome ?? call.status);
  return (
    <section
      className="tool"
      data-outcome={outcome}
      data-kind={kind}
      aria-label={`${label(call)}: ${approval ? "waits for you" : (SAID[outcome] ?? outcome)}`}
    >
      {approval ? (
        <ApprovalCard key={approval.id} approval={approval} />
      ) : (
        <button
          type="button"
          className="tool-head"
          aria-expanded={open}
          aria-controls={bodyId}
          disabled={empty}
          onClick={() => setChoice(!open)}
        >
          {call.status === "running" ? (
            <span className="spinner" aria-hidden="true" />
          ) : (
            <Icon name={ICONS[kind] ?? "tool"} className="tool-icon" />
          )}
          <Title call={call} />
          <Facts call={call} />
          {!empty && <Icon name="chevron" size={12} className="chevron" />}
        </button>
      )}
      <div id={bodyId} className="tool-body" hidden={!open}>
        {open && <Body call={call} />}
      </div>
    </section>
  );
});

function label(call: HarnessToolCall): string {
  return call.title || call.name;
}

function hasBody(call: HarnessToolCall): boolean {
  if (call.kind === "command") return true;
  return !!call.output || (call.changes?.length ?? 0) > 0 || (call.input != null && call.kind !== "search");
}

function opensItself(call: HarnessToolCall): boolean {
  if (call.kind === "plan" || call.kind === "compaction" || call.kind === "search") return false;
  if (call.status === "running") return true;
  if (call.outcome === "declined" || call.outcome === "interrupted") return false;
  if (call.status === "error" || (call.exitCode ?? 0) !== 0) return true;
  return call.kind === "file";
}

function Title({ call }: { call: HarnessToolCall }) {
  const { cwd } = useThreadTools();
  if (call.kind === "file" && call.changes?.length) {
    return <span className="tool-title path">{call.changes.map(({ path }) => shortPath(path, cwd)).join(", ")}</span>;
  }
  if (call.kind === "command") return <code className="tool-title">{label(call)}</code>;
  if (call.kind === "plan") return <span className="tool-title">{planned(call)}</span>;
  if (call.kind === "search") return <span className="tool-title">Searched the web: {label(call)}</span>;
  return <span className="tool-title">{label(call)}</span>;
}

/** Where the plan stands, in a line: the panel has the rest. */
function planned({ title, name, output = "" }: HarnessToolCall): string {
  const steps = [...output.matchAll(/^\[(.)\] (.+)$/gm)].map(([, mark, step]) => ({ mark, step }));
  if (steps.length === 0) return title || name;
  const now = steps.findIndex(({ mark }) => mark === "~");
  if (now >= 0) return `Step ${now + 1} of ${steps.length}: ${steps[now]!.step}`;
  return `${steps.filter(({ mark }) => mark === "x").length} of ${steps.length} steps done`;
}

function Facts({ call }: { call: HarnessToolCall }) {
  // An exit code says that it failed, and how.
  const failed = call.status === "error" && !call.exitCode ? SAID[call.outcome ?? "failed"] : "";
  return (
    <span className="tool-facts">
      {call.kind === "file" && call.changes?.length ? <Counts call={call} /> : null}
      {call.exitCode != null && call.exitCode !== 0 && <span className="bad">exit {call.exitCode}</span>}
      {failed && <span className="bad">{failed}</span>}
      {call.durationMs != null && call.durationMs >= 100 && <span>{duration(call.durationMs)}</span>}
      {call.status === "complete" && !call.exitCode && <Icon name="check" size={13} className="good" />}
    </span>
  );
}

function Counts({ call }: { call: HarnessToolCall }) {
  const all = (call.changes ?? []).map(({ diff }) => countChanges(parseDiff(diff)));
  const sum = (key: "added" | "deleted") => all.reduce((total, counts) => total + counts[key], 0);
  return <ChangeCounts added={sum("added")} deleted={sum("deleted")} />;
}

function Body({ call }: { call: HarnessToolCall }) {
  switch (call.kind) {
    case "command":
      return (
        <>
          {(call.title?.includes("\n") || (call.title?.length ?? 0) > 90) && (
            <pre className="tool-command">{call.title}</pre>
          )}
          <Output call={call} />
          {call.status !== "running" && !call.output && <p className="terminal-empty">No output</p>}
        </>
      );
    case "file":
      return <Changes call={call} />;
    case "plan":
      return <pre className="tool-command">{call.output}</pre>;
    case "compaction":
      return <Markdown text={call.output ?? ""} />;
    default:
      return (
        <>
          {call.input != null && <CodeBlock code={JSON.stringify(call.input, null, 2)} language="json" />}
          <Output call={call} />
        </>
      );
  }
}

function Output({ call }: { call: HarnessToolCall }) {
  return (
    <Terminal
      toolCallId={call.id}
      output={call.output ?? ""}
      truncated={call.outputTruncated ?? false}
      running={call.status === "running"}
    />
  );
}

function Changes({ call }: { call: HarnessToolCall }) {
  const [sides, setSides] = useSides();
  const changes = call.changes ?? [];
  return (
    <>
      <div className="tool-bar">
        {changes.length === 1 && <span className={`change-kind ${changes[0]!.kind}`}>{WORDS[changes[0]!.kind]}</span>}
        <SidesSwitch sides={sides} onChange={setSides} />
      </div>
      {changes.length === 1 ? (
        <BareDiff change={changes[0]!} sides={sides} />
      ) : (
        changes.map((change) => <FileDiff key={change.path} change={change} sides={sides} />)
      )}
      {call.status === "error" && <Output call={call} />}
    </>
  );
}
