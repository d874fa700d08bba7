/** What the agent means to do, and how far it is. */

import type { Plan } from "@hames/client";
import { memo } from "react";
import { Icon } from "../shell/icons.js";

const SAID = { pending: "to do", inProgress: "in progress", completed: "done", failed: "failed" } as const;

export const PlanList = memo(function PlanList({ plan }: { plan: Plan | null | undefined }) {
  if (!plan || plan.entries.length === 0) return <p className="panel-empty">There is no plan.</p>;
  const words = explanation(plan);
  return (
    <>
      {words && <p className="plan-explanation">{words}</p>}
      <ol className="plan">
        {plan.entries.map(({ step, status = "pending" }, index) => (
          <li key={index} data-status={status}>
            <span className="plan-mark">
              {status === "completed" && <Icon name="check" size={12} />}
              {status === "failed" && <Icon name="close" size={12} />}
              {status === "inProgress" && <span className="spinner" />}
            </span>
            <span>{step}</span>
            <span className="offscreen">({SAID[status]})</span>
          </li>
        ))}
      </ol>
    </>
  );
});

export function planProgress(plan: Plan | null | undefined): string {
  if (!plan?.entries.length) return "";
  return `${plan.entries.filter(({ status }) => status === "completed").length}/${plan.entries.length}`;
}

/** The words around the steps: an agent that streams its plan as text says the steps there once more. */
export function explanation({ explanation: text, entries }: Plan): string {
  const lines = text.split("\n").filter((line) => !entries.some(({ step }) => line.trimEnd().endsWith(step)));
  return lines.join("\n").trim();
}
