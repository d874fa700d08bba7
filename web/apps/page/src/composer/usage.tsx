/** How full the model's window is, and what the thread has cost so far. */

import type { Usage } from "@hames/client";
import { memo } from "react";
import { dollars, tokens } from "../text/format.js";

const CIRCUMFERENCE = 2 * Math.PI * 6.5;

export const UsageMeter = memo(function UsageMeter({ usage }: { usage: Usage | undefined }) {
  if (!usage || usage.contextTokens === 0) return null;
  const { contextTokens, contextWindow, cost } = usage;
  const share = contextWindow > 0 ? Math.min(1, contextTokens / contextWindow) : 0;
  const percent = Math.round(share * 100);
  const words =
    contextWindow > 0
      ? `${percent}% of the context window is used (${tokens(contextTokens)} of ${tokens(contextWindow)} tokens)`
      : `${tokens(contextTokens)} tokens of context`;
  const detail = `${words}. Thread: ${tokens(usage.inputTokens)} in, ${tokens(usage.cacheReadTokens)} from cache, ${tokens(usage.outputTokens)} out, ${cost == null ? "cost unknown" : dollars(cost)}`;
  return (
    <div className="usage" role="img" aria-label={detail} title={detail} data-full={share > 0.85 || undefined}>
      <svg width="16" height="16" viewBox="0 0 16 16" aria-hidden="true">
        <circle cx="8" cy="8" r="6.5" className="usage-track" />
        <circle
          cx="8"
          cy="8"
          r="6.5"
          className="usage-value"
          strokeDasharray={`${share * CIRCUMFERENCE} ${CIRCUMFERENCE}`}
          transform="rotate(-90 8 8)"
        />
      </svg>
      <span className="usage-share">{contextWindow > 0 ? `${percent}%` : tokens(contextTokens)}</span>
      {cost != null && cost > 0 && <span className="usage-cost">{dollars(cost)}</span>}
    </div>
  );
});
