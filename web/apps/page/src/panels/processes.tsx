/** The processes that the agent left running, what they print, and a way to end them. */

import type { ProcessRow } from "@hames/client";
import { memo, useCallback, useEffect, useState } from "react";
import { api } from "../api.js";
import { Icon } from "../shell/icons.js";
import { toastFailure } from "../shell/toasts.js";
import { duration, sentence } from "../text/format.js";
import { hides, Visible } from "../text/visible.js";
import { useThreadTools } from "../thread/context.js";

const REFRESH_MS = 2_000;

/** `version` changes when there may be news. */
export const Processes = memo(function Processes({ live, version }: { live: boolean; version: number }) {
  const { threadId, readOnly } = useThreadTools();
  const [found, setFound] = useState<readonly ProcessRow[] | null>(null);
  const [problem, setProblem] = useState("");
  const running = found?.some((one) => one.running) ?? false;

  useEffect(() => {
    if (!live) return;
    const abort = new AbortController();
    const look = () =>
      api.processes(threadId, abort.signal).then(
        (rows) => (setFound(rows), setProblem("")),
        (failure: unknown) =>
          !abort.signal.aborted && setProblem(failure instanceof Error ? failure.message : String(failure)),
      );
    void look();
    // Output comes at any time, and nobody tells this page of it.
    const timer = setInterval(() => document.visibilityState === "visible" && void look(), REFRESH_MS);
    return () => {
      clearInterval(timer);
      abort.abort();
    };
  }, [threadId, live, version, running]);

  const end = useCallback(
    (number: number) => {
      // Its button goes away with it, and the focus would be lost.
      document.querySelector<HTMLElement>(".panel-body")?.focus({ preventScroll: true });
      api.endProcess(threadId, number).then(setFound, toastFailure);
    },
    [threadId],
  );

  if (!live) return <p className="panel-empty">Processes are shown as they are now. Go back to now to see them.</p>;
  if (problem) return <p className="panel-empty">{sentence(problem)}</p>;
  if (found === null) return <p className="panel-empty">Loading…</p>;
  return <ProcessList processes={found} onEnd={readOnly ? null : end} />;
});

type ListProps = { processes: readonly ProcessRow[]; onEnd: ((number: number) => void) | null };

export function ProcessList({ processes, onEnd }: ListProps) {
  if (processes.length === 0) return <p className="panel-empty">The agent has started no background process.</p>;
  return (
    <ul className="processes">
      {processes.toReversed().map((one) => (
        <li key={one.number} data-running={one.running || undefined}>
          <div className="process-head">
            <code className="process-command">{hides(one.command) ? <Visible text={one.command} /> : one.command}</code>
            {one.running && onEnd && (
              <button
                type="button"
                className="button small"
                onClick={() => onEnd(one.number)}
                aria-label={`End process ${one.number}`}
              >
                <Icon name="stop" size={12} /> End
              </button>
            )}
          </div>
          <p className="process-facts">
            Process {one.number} · {processState(one)}
          </p>
          {one.tail && (
            <pre tabIndex={0} role="group" aria-label={`Last output of process ${one.number}`}>
              {hides(one.tail) ? <Visible text={one.tail} /> : one.tail}
            </pre>
          )}
        </li>
      ))}
    </ul>
  );
}

export function processState({ running, seconds, exitCode }: ProcessRow): string {
  const time = duration(seconds * 1_000);
  if (running) return `running for ${time}`;
  if (exitCode === null || exitCode === undefined) return `ended after ${time}`;
  return exitCode < 0 ? `ended by signal ${-exitCode} after ${time}` : `exit code ${exitCode} after ${time}`;
}
