/**
 * A question that waits for a person: exactly what would happen, and the answers.
 *
 * Its keys work wherever the focus is, except in a text field with text in it, and in a text field that somebody went to after
 * the question appeared: a letter meant for the message box must not approve anything. The card takes the focus when it appears,
 * unless somebody is typing, and ignores keys for a moment. What keys mean is in `specs/keys.json`.
 */

import type { AlwaysScope, Approval, Decision } from "@hames/client";
import { type KeyboardEvent, type ReactNode, useEffect, useId, useRef, useState } from "react";
import { Icon } from "../shell/icons.js";
import { CodeBlock } from "../text/code-block.js";
import { ago, sentence } from "../text/format.js";
import { hides, Visible } from "../text/visible.js";
import { WithCode } from "../text/with-code.js";
import { useIsFirst, useThreadTools } from "../thread/context.js";
import { useReportSeen } from "./answers-seen.js";
import { FileDiff, SidesSwitch, useSides } from "./diff-view.js";
import { Elicitation } from "./elicitation.js";

const IGNORED_MS = 600;
const TYPING_MS = 2_000;

const QUESTIONS: Record<Approval["kind"], string> = {
  command: "Run this command?",
  file: "Make these changes?",
  mcp: "Call this tool?",
  tool: "Use this tool?",
  elicitation: "A question for you",
};

function questionOf(approval: Approval): string {
  return approval.host ? `Let this command connect to ${approval.host}?` : QUESTIONS[approval.kind];
}

let typedAt = -Infinity;
/** When a key was pressed in a text field before the last one. */
let typedBefore = -Infinity;
if (typeof document !== "undefined") {
  document.addEventListener(
    "keydown",
    (event) => {
      if (!textField(event.target)) return;
      typedBefore = typedAt;
      typedAt = performance.now();
    },
    true,
  );
}

/** How long somebody may still be typing: forever when there are words in the composer. */
function busyFor(): number {
  const focused = document.activeElement;
  if (focused instanceof HTMLInputElement) return Infinity;
  if (!(focused instanceof HTMLTextAreaElement)) return 0;
  return focused.value !== "" ? Infinity : Math.max(0, typedAt + TYPING_MS - performance.now());
}

/** A text field, where letters are text. */
function textField(target: EventTarget | null): HTMLInputElement | HTMLTextAreaElement | null {
  if (target instanceof HTMLTextAreaElement) return target;
  return target instanceof HTMLInputElement && !["checkbox", "radio", "range", "button"].includes(target.type)
    ? target
    : null;
}

/** Whether something else takes letters: a dialog, a list, a menu. */
function isTakenElsewhere(target: EventTarget | null): boolean {
  if (document.querySelector("dialog[open]")) return true;
  return target instanceof Element && target.closest(".menu-list, select, .time-bar, [contenteditable]") !== null;
}

export function ApprovalCard({ approval }: { approval: Approval }) {
  const { approve, stop, readOnly: looking, notAnswering } = useThreadTools();
  const readOnly = looking || notAnswering !== "";
  const first = useIsFirst(approval);
  const card = useRef<HTMLDivElement>(null);
  const noteField = useRef<HTMLInputElement>(null);
  const [listening, setListening] = useState(false);
  const [note, setNote] = useState("");
  const [answered, setAnswered] = useState<Decision | null>(null);
  const titleId = useId();
  const always = approval.alwaysCovers?.text ?? "";
  const project = approval.projectCovers?.text ?? "";

  useEffect(() => {
    if (!first || readOnly) return;
    const take = () => {
      const wait = busyFor();
      if (wait === 0) card.current?.focus({ preventScroll: true });
      else if (wait < Infinity) timer = setTimeout(take, wait);
    };
    let timer = setTimeout(take, 0);
    return () => clearTimeout(timer);
  }, [first, readOnly]);

  useReportSeen(card, first);
  useEffect(() => {
    const timer = setTimeout(() => setListening(true), IGNORED_MS);
    return () => clearTimeout(timer);
  }, []);

  const answer = (decision: Decision, content?: unknown, scope?: AlwaysScope) => {
    if (answered || readOnly) return;
    setAnswered(decision);
    approve(approval.id, decision, note.trim(), content, scope);
    document.querySelector<HTMLElement>("[data-composer]")?.focus();
  };
  const letter = useRef<(event: globalThis.KeyboardEvent) => void>(() => {});
  const wentTo = useRef<EventTarget | null>(null);
  useEffect(() => {
    if (!first || readOnly) return;
    // Whoever goes to a text field while the question is there means to write.
    const went = (event: Event) => (wentTo.current = textField(event.target));
    const pressed = (event: globalThis.KeyboardEvent) => letter.current(event);
    document.addEventListener("focusin", went);
    document.addEventListener("pointerdown", went);
    window.addEventListener("keydown", pressed);
    return () => {
      document.removeEventListener("focusin", went);
      document.removeEventListener("pointerdown", went);
      window.removeEventListener("keydown", pressed);
    };
  }, [first, readOnly]);

  letter.current = (event) => {
    if (event.defaultPrevented || event.ctrlKey || event.metaKey || event.altKey || event.repeat) return;
    if (!listening || event.isComposing || !/^[yapnr]$/.test(event.key) || isTakenElsewhere(event.target)) return;
    const field = textField(event.target);
    if (field && (field.value !== "" || field === wentTo.current || typedAt - typedBefore < TYPING_MS)) return;
    if (approval.kind !== "elicitation" && act(event.key)) event.preventDefault();
  };

  const keys = (event: KeyboardEvent) => {
    if (event.target instanceof HTMLInputElement || event.target instanceof HTMLSelectElement) return;
    if (event.ctrlKey || event.metaKey || event.altKey || event.repeat || !listening || readOnly) return;
    if (!act(event.key)) return;
    event.preventDefault();
    event.stopPropagation();
  };
  const act = (key: string): boolean => {
    if (approval.kind === "elicitation") {
      if (key !== "Escape") return false;
      answer("reject");
    } else if (key === "y") answer("once");
    else if (key === "a" && always) answer("always");
    else if (key === "p" && project) answer("always", undefined, "project");
    else if (key === "n") answer("reject");
    else if (key === "r") noteField.current?.focus();
    else if (key === "Escape") stop();
    else return false;
    return true;
  };

  return (
    <div
      ref={card}
      className="approval"
      role="group"
      aria-labelledby={titleId}
      tabIndex={-1}
      onKeyDown={keys}
      data-approval={approval.id}
      data-listening={listening || undefined}
    >
      <div className="approval-head">
        <Icon name="shield" />
        <strong id={titleId}>{questionOf(approval)}</strong>
        {approval.kind !== "elicitation" && says(approval) && (
          <span className="approval-reason">
            <WithCode text={sentence(approval.reason ?? "")} />
          </span>
        )}
        {age(approval) && <span className="approval-age">{age(approval)}</span>}
      </div>
      {notAnswering && <p className="approval-scope">{notAnswering}</p>}
      {approval.kind === "elicitation" ? (
        <Elicitation
          approval={approval}
          disabled={answered !== null || readOnly}
          onAccept={(content) => answer("once", content)}
          onDecline={() => answer("reject")}
        />
      ) : (
        <>
          <Subject approval={approval} />
          <div className="approval-answers">
            <button
              type="button"
              className="button primary"
              disabled={answered !== null || readOnly}
              onClick={() => answer("once")}
            >
              Yes, once <kbd>y</kbd>
            </button>
            {always && (
              <button
                type="button"
                className="button"
                title={always}
                disabled={answered !== null || readOnly}
                onClick={() => answer("always")}
              >
                Always <kbd>a</kbd>
              </button>
            )}
            {project && (
              <button
                type="button"
                className="button"
                title={project}
                disabled={answered !== null || readOnly}
                onClick={() => answer("always", undefined, "project")}
              >
                In this project <kbd>p</kbd>
              </button>
            )}
            <button
              type="button"
              className="button danger"
              disabled={answered !== null || readOnly}
              onClick={() => answer("reject")}
            >
              No <kbd>n</kbd>
            </button>
            <span className="approval-reply">
              <input
                ref={noteField}
                className="approval-note"
                value={note}
                disabled={answered !== null || readOnly}
                onChange={(event) => setNote(event.target.value)}
                onKeyDown={(event) => {
                  if (event.key === "Enter" && note.trim()) answer("reject");
                  else if (event.key === "Escape") card.current?.focus();
                  else return;
                  event.preventDefault();
                  event.stopPropagation();
                }}
                placeholder="Or say in your own words"
                aria-label="Reject and tell the agent why"
              />
              <button
                type="button"
                className="button"
                disabled={answered !== null || readOnly || note.trim() === ""}
                onClick={() => answer("reject")}
              >
                Reject and send
              </button>
            </span>
          </div>
          {always && (
            <p className="approval-scope" title={approval.alwaysCovers?.files?.join("\n")}>
              Always: {always}.
            </p>
          )}
          {project && (
            <p className="approval-scope">
              In this project: <WithCode text={`${project}.`} />
            </p>
          )}
        </>
      )}
    </div>
  );
}

/** How long it has waited: it outlives the server that asked it. Nothing in the first minute. */
function age({ askedAt = 0 }: Approval): string {
  const now = Date.now();
  return askedAt > 0 && now - askedAt >= 60_000 ? `asked ${ago(askedAt, now)} ago` : "";
}

/** Whether the reason is more than the command once again, or the warning below it. */
function says({ reason = "", command = "", unsandboxed, why = "" }: Approval): boolean {
  const said = ["", command.trim(), unsandboxed ? `${OUTSIDE}: ${why}` : ""].map((words) => words.toLowerCase());
  return !said.includes(reason.trim().toLowerCase());
}

const OUTSIDE = "Runs outside the sandbox";

function Subject({ approval }: { approval: Approval }) {
  const [sides, setSides] = useSides();
  switch (approval.kind) {
    case "command":
      return (
        <>
          <pre className="approval-command" tabIndex={0} aria-label="Command" role="group">
            <Visible text={approval.command ?? ""} />
          </pre>
          {hides(approval.command ?? "") && (
            <Warning>It contains invisible characters. They are shown by their numbers.</Warning>
          )}
          {approval.unsandboxed && (
            <Warning>
              {OUTSIDE}
              {approval.why ? `: ${approval.why}` : ""}
            </Warning>
          )}
          {approval.cwd && <p className="approval-where">in {approval.cwd}</p>}
        </>
      );
    case "file":
      return (
        <>
          {approval.protected && (
            <Warning>It changes protected files, which can make other programs run something.</Warning>
          )}
          <div className="approval-layout">
            <SidesSwitch sides={sides} onChange={setSides} />
          </div>
          {approval.changes?.map((change) => (
            <FileDiff key={change.path} change={change} sides={sides} open />
          ))}
        </>
      );
    default:
      return (
        <>
          <p className="approval-tool">
            {approval.server && <span>{approval.server} ›</span>} <code>{approval.tool}</code>
          </p>
          {approval.input != null && <CodeBlock code={JSON.stringify(approval.input, null, 2)} language="json" />}
        </>
      );
  }
}

function Warning({ children }: { children: ReactNode }) {
  return (
    <p className="warning">
      <Icon name="alert" size={14} /> {children}
    </p>
  );
}
