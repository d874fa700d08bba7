/**
 * One tool call: a line when it went well, open when it failed or asks.
 *
 * A command that runs for long opens, too, and stays open when it ends: nothing on the screen moves twice because of a command that took
 * a moment.
 */

import type { HarnessToolCall, ToolKind } from "@hames/client";
import { memo, useEffect, useId, useState } from "react";
import { api } from "../api.js";
import { Icon, type IconName } from "../shell/icons.js";
import { CodeBlock } from "../text/code-block.js";
import { countChanges, parseDiff } from "../text/diff.js";
import { baseName, duration, plural, sentence, shortPath } from "../text/format.js";
import { Markdown } from "../text/markdown.js";
import { somebodyElse } from "../text/people.js";
import { WithCode } from "../text/with-code.js";
import { useApproval, useIsFound, useThreadTools } from "../thread/context.js";
import { ApprovalCard } from "./approval-card.js";
import { BareDiff, ChangeCounts, FileDiff, SidesSwitch, useSides, WORDS } from "./diff-view.js";
import { Terminal } from "./terminal.js";

const ICONS: Record<ToolKind, IconName> = {
  command: "command",
  file: "edit",
  mcp: "tool",
  search: "search",
  plan: "plan",
  compaction: "spark",
  artifact: "file",
  tool: "tool",
};

const SAID: Record<string, string> = {
  running: "running",
  completed: "done",
  failed: "failed",
  declined: "you declined it",
  interrupted: "stopped",
  skipped: "not run",
};

/** Most commands are over by then. */
const LONG_MS = 1_000;

export const ToolCard = memo(function ToolCard({ call }: { call: HarnessToolCall }) {
  const approval = useApproval(call.id);
  const [choice, setChoice] = useState<boolean | null>(null);
  const bodyId = useId();
  const kind = call.kind ?? "tool";
  const empty = !hasBody(call);
  const ranLong = useRanLong(call.status === "running" && !approval);
  const found = useIsFound(call.id);
  const open = !empty && !approval && (choice ?? (found || ranLong || opensItself(call)));
  const outcome = approval ? "approval" : (call.outcome ?? call.status);
  const said = `${SAID[outcome] ?? outcome}${call.undone?.length ? ", then undone" : ""}`;
  return (
    <section
      className="tool"
      data-outcome={outcome}
      data-kind={kind}
      aria-label={`${label(call)}: ${approval ? "waiting for your answer" : said}`}
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
            <Icon name={call.outcome === "skipped" ? "skipped" : (ICONS[kind] ?? "tool")} className="tool-icon" />
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

/** Whether it has been running for a while; true from then on. */
function useRanLong(running: boolean): boolean {
  const [long, setLong] = useState(false);
  useEffect(() => {
    if (!running) return;
    const timer = setTimeout(() => setLong(true), LONG_MS);
    return () => clearTimeout(timer);
  }, [running]);
  return long;
}

function hasBody(call: HarnessToolCall): boolean {
  if (call.kind === "command" || call.reason) return true;
  return !!call.output || (call.changes?.length ?? 0) > 0 || (call.input != null && call.kind !== "search");
}

function opensItself(call: HarnessToolCall): boolean {
  if (call.kind === "plan" || call.kind === "compaction" || call.kind === "search") return false;
  if (call.status === "running") return false;
  if (call.outcome === "declined" || call.outcome === "interrupted" || call.outcome === "skipped") return false;
  if (call.status === "error" || (call.exitCode ?? 0) !== 0) return true;
  return call.kind === "file" || call.kind === "artifact" || (call.pictures ?? 0) > 0;
}

function Title({ call }: { call: HarnessToolCall }) {
  const { cwd } = useThreadTools();
  if (call.kind === "file" && call.changes?.length) {
    return <span className="tool-title path">{call.changes.map(({ path }) => shortPath(path, cwd)).join(", ")}</span>;
  }
  // As many lines as it has: joined to one line it would read as another command.
  if (call.kind === "command") return <Command text={label(call)} />;
  if (call.kind === "plan") return <span className="tool-title">{planned(call)}</span>;
  if (call.kind === "search") return <span className="tool-title">Searched the web: {label(call)}</span>;
  return <span className="tool-title">{label(call)}</span>;
}

const SHOWN_LINES = 4;

function Command({ text }: { text: string }) {
  const lines = text.replace(/\n+$/, "").split("\n");
  return (
    <code className="tool-title command">
      {lines.slice(0, SHOWN_LINES).map((line, index) => (
        <span key={index}>{line || " "}</span>
      ))}
      {lines.length > SHOWN_LINES && <span className="muted">… {plural(lines.length - SHOWN_LINES, "more line")}</span>}
    </code>
  );
}

/** Where the plan stands, in a line: the panel has the rest. */
function planned({ title, name, output = "" }: HarnessToolCall): string {
  const steps = [...output.matchAll(/^\[(.)\] (.+)$/gm)].map(([, mark, step]) => ({ mark, step }));
  if (steps.length === 0) return title || name;
  const now = steps.findIndex(({ mark }) => mark === "~");
  if (now >= 0) return `Step ${now + 1} of ${steps.length}: ${steps[now]!.step}`;
  return `${steps.filter(({ mark }) => mark === "x").length} of ${steps.length} steps done`;
}

const DECIDED: Record<string, string> = { once: "allowed by", always: "always allowed by", reject: "refused by" };

function Facts({ call }: { call: HarnessToolCall }) {
  const { user } = useThreadTools();
  const decider = somebodyElse(call.decidedBy, user);
  // An exit code says that it failed, and how.
  const failed = call.status === "error" && !call.exitCode ? SAID[call.outcome ?? "failed"] : "";
  const undone = call.undone?.length ?? 0;
  const harmless = call.outcome === "skipped" || call.outcome === "interrupted";
  return (
    <span className="tool-facts">
      {call.kind === "file" && call.changes?.length ? <Counts call={call} /> : null}
      {call.exitCode != null && call.exitCode !== 0 && <span className="bad">exit {call.exitCode}</span>}
      {decider && DECIDED[call.decision ?? ""] && (
        <span>
          {DECIDED[call.decision ?? ""]} {decider}
        </span>
      )}
      {failed && <span className={harmless ? undefined : "bad"}>{failed}</span>}
      {call.durationMs != null && call.durationMs >= 100 && <span>{duration(call.durationMs)}</span>}
      {undone > 0 && (
        <span className="undone">
          <Icon name="undo" size={13} /> {undone < (call.changes?.length ?? 0) ? "partly undone" : "undone"}
        </span>
      )}
      {call.status === "complete" && !call.exitCode && undone === 0 && <Icon name="check" size={13} className="good" />}
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
          <Reason call={call} />
          {isCut(call.title ?? "") && <pre className="tool-command">{call.title}</pre>}
          {hasOwnOutput(call) && <Output call={call} />}
          {call.status !== "running" && !call.output && !call.reason && <p className="terminal-empty">No output</p>}
        </>
      );
    case "file":
      return <Changes call={call} />;
    case "plan":
      return <pre className="tool-command">{call.output}</pre>;
    case "compaction":
      return <Markdown text={call.output ?? ""} />;
    case "artifact":
      return <Artifact call={call} />;
    default:
      // What came out is what matters; what went in is one click away.
      return (
        <>
          <Reason call={call} />
          <Pictures call={call} />
          {hasOwnOutput(call) && <Output call={call} />}
          {call.input != null && <Arguments input={call.input} open={!call.output && !call.reason} />}
        </>
      );
  }
}

/** Whether the output is more than the reason in other words, which only the model needs. */
function hasOwnOutput({ output, reason, outcome }: HarnessToolCall): boolean {
  return !reason || (output !== reason && outcome !== "skipped" && outcome !== "declined");
}

/** Whether the closed card cannot show all of it. */
function isCut(command: string): boolean {
  const lines = command.split("\n");
  return lines.length > SHOWN_LINES || lines.some(({ length }) => length > 90);
}

/** Why it failed, was refused or skipped: before anything else. */
function Reason({ call }: { call: HarnessToolCall }) {
  if (!call.reason) return null;
  return (
    <p className="tool-reason">
      <WithCode text={sentence(call.reason)} />
    </p>
  );
}

function Arguments({ input, open }: { input: unknown; open: boolean }) {
  return (
    <details className="tool-arguments" open={open}>
      <summary>Arguments</summary>
      <CodeBlock code={JSON.stringify(input, null, 2)} language="json" />
    </details>
  );
}

function Pictures({ call }: { call: HarnessToolCall }) {
  const { threadId } = useThreadTools();
  return Array.from({ length: call.pictures ?? 0 }, (_, number) => {
    const url = api.toolPictureUrl(threadId, call.id, number);
    return <Picture key={number} url={url} name={label(call)} />;
  });
}

function Picture({ url, name }: { url: string; name: string }) {
  return (
    <a className="tool-picture" href={url} target="_blank" rel="noreferrer" title="Open the picture">
      <img src={url} alt={name} loading="lazy" />
    </a>
  );
}

const PICTURES = /^image\/(png|jpeg|gif|webp)$/;

/** A file that the agent made: the picture itself, or its name, and ways to open and save it. */
function Artifact({ call }: { call: HarnessToolCall }) {
  const { threadId } = useThreadTools();
  const { path = "", mediaType = "" } = (call.input ?? {}) as { path?: string; mediaType?: string };
  const [gone, setGone] = useState(false);
  if (call.status === "error") return <Reason call={{ ...call, reason: call.reason || call.output || "failed" }} />;
  if (call.status === "running") return null;
  const url = api.artifactUrl(threadId, call.id);
  const name = baseName(path) || label(call);
  return (
    <>
      {PICTURES.test(mediaType) && !gone && (
        <a className="tool-picture" href={url} target="_blank" rel="noreferrer" title={`Open ${name}`}>
          <img src={url} alt={label(call)} loading="lazy" onError={() => setGone(true)} />
        </a>
      )}
      <div className="artifact">
        <Icon name={PICTURES.test(mediaType) ? "image" : "file"} />
        <span className="path">{name}</span>
        {gone && <span className="muted">cannot be shown any more</span>}
        <a className="button" href={url} target="_blank" rel="noreferrer">
          <Icon name="open" size={14} /> Open
        </a>
        <a className="button" href={api.artifactUrl(threadId, call.id, { download: true })} download={name}>
          <Icon name="download" size={14} /> Download
        </a>
      </div>
    </>
  );
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
      <Reason call={call} />
      <div className="tool-bar">
        {changes.length === 1 && <span className={`change-kind ${changes[0]!.kind}`}>{WORDS[changes[0]!.kind]}</span>}
        <SidesSwitch sides={sides} onChange={setSides} />
      </div>
      {changes.length === 1 ? (
        <BareDiff change={changes[0]!} sides={sides} />
      ) : (
        changes.map((change) => <FileDiff key={change.path} change={change} sides={sides} />)
      )}
      {call.status === "error" && hasOwnOutput(call) && <Output call={call} />}
    </>
  );
}
