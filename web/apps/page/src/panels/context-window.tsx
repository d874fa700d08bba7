/** What fills the model's context window. */

import type { ContextReport } from "@hames/client";
import { memo, useEffect, useState } from "react";
import { api } from "../api.js";
import { sentence, tokens } from "../text/format.js";
import { useThreadTools } from "../thread/context.js";

/** `version` changes when there may be news. */
export const ContextWindow = memo(function ContextWindow({ live, version }: { live: boolean; version: string }) {
  const { threadId } = useThreadTools();
  const [found, setFound] = useState<ContextReport | string | null>(null);
  useEffect(() => {
    if (!live) return;
    const abort = new AbortController();
    api
      .context(threadId, abort.signal)
      .then(
        setFound,
        (failure: unknown) =>
          !abort.signal.aborted && setFound(failure instanceof Error ? failure.message : String(failure)),
      );
    return () => abort.abort();
  }, [threadId, live, version]);
  if (!live) return <p className="panel-empty">The context is shown as it is now. Go back to now to see it.</p>;
  if (found === null) return <p className="panel-empty">Loading…</p>;
  if (typeof found === "string") return <p className="panel-empty">{sentence(found)}</p>;
  return <ContextParts report={found} />;
});

export function ContextParts({ report }: { report: ContextReport }) {
  const { tokens: used, limit, window, parts, shortened = [] } = report;
  const share = window > 0 ? ` (${Math.round((100 * used) / window)}%)` : "";
  const largest = Math.max(1, ...parts.map((part) => part.tokens));
  return (
    <>
      <p className="panel-note">
        About {tokens(used)} of {tokens(window)} tokens are in use{share}.
      </p>
      {parts.length > 0 && (
        <table className="context-parts">
          <caption className="offscreen">What fills the context window</caption>
          <thead className="offscreen">
            <tr>
              <th scope="col">Part</th>
              <th scope="col">Tokens</th>
            </tr>
          </thead>
          <tbody>
            {parts.map(({ name, tokens: size, count = 0 }) => (
              <tr key={name}>
                <th scope="row">
                  {name}
                  {count > 0 && ` (${count})`}
                  <span className="context-bar" style={{ width: `${(100 * size) / largest}%` }} aria-hidden="true" />
                </th>
                <td>{tokens(size)}</td>
              </tr>
            ))}
          </tbody>
        </table>
      )}
      {shortened.map((words) => (
        <p key={words} className="panel-note">
          No longer shown to the model: {words}.
        </p>
      ))}
      <p className="panel-note">From {tokens(limit)} tokens on, the oldest parts are shortened.</p>
    </>
  );
}
