/** The thread as it was: a slider over its log, and a fork from any point of it. */

import type { HarnessState, Mark } from "@hames/client";
import { useCallback, useEffect, useRef, useState } from "react";
import { api } from "../api.js";
import { Icon } from "../shell/icons.js";
import { toastFailure } from "../shell/toasts.js";

export type Past = { marks: readonly Mark[]; index: number; state: HarnessState | null };

export type TimeTravel = {
  past: Past | null;
  enter: () => void;
  to: (index: number) => void;
  leave: () => void;
};

const REMEMBERED = 60;

/** Where something is to be seen: token counts and the like are no stops. The beginning is one. */
export function visible(marks: readonly Mark[]): readonly Mark[] {
  return marks.filter(({ kind }, index) => kind !== "other" || index === 0);
}

export function useTimeTravel(threadId: string): TimeTravel {
  const [past, setPast] = useState<Past | null>(null);
  const known = useRef(new Map<number, HarnessState>());
  const seq = past?.marks[past.index]?.seq;

  useEffect(() => {
    if (seq === undefined) return;
    const show = (state: HarnessState) => setPast((now) => now && { ...now, state });
    const there = known.current.get(seq);
    if (there) return show(there);
    const abort = new AbortController();
    // A hand on the slider passes many points it does not mean.
    const timer = setTimeout(() => {
      api.at(threadId, seq, abort.signal).then(
        ({ state }) => {
          if (known.current.size >= REMEMBERED) known.current.clear();
          known.current.set(seq, state);
          show(state);
        },
        (failure: unknown) => !abort.signal.aborted && toastFailure(failure),
      );
    }, 40);
    return () => {
      clearTimeout(timer);
      abort.abort();
    };
  }, [seq, threadId]);

  const enter = useCallback(() => {
    api.timeline(threadId).then(({ marks }) => {
      const stops = visible(marks);
      if (stops.length > 0) setPast({ marks: stops, index: stops.length - 1, state: null });
    }, toastFailure);
  }, [threadId]);
  const to = useCallback(
    (index: number) => setPast((now) => now && { ...now, index: Math.min(now.marks.length - 1, Math.max(0, index)) }),
    [],
  );
  const leave = useCallback(() => setPast(null), []);
  return { past, enter, to, leave };
}

type BarProps = { past: Past; to: (index: number) => void; leave: () => void; fork: (seq: number) => void };

export function TimeBar({ past: { marks, index }, to, leave, fork }: BarProps) {
  const mark = marks[index]!;
  const when = new Date(mark.at).toLocaleString(undefined, { dateStyle: "medium", timeStyle: "medium" });
  return (
    <section className="time-bar" aria-label="Time travel" onKeyDown={(event) => event.key === "Escape" && leave()}>
      <div className="time-words">
        <Icon name="history" />
        <span className="time-label">{mark.label || mark.kind}</span>
        <time dateTime={new Date(mark.at).toISOString()}>{when}</time>
      </div>
      <div className="time-slide">
        <button
          type="button"
          className="icon-button"
          aria-label="One step back"
          disabled={index === 0}
          onClick={() => to(index - 1)}
        >
          <Icon name="chevron" className="flip" />
        </button>
        <input
          type="range"
          min={0}
          max={marks.length - 1}
          value={index}
          autoFocus
          aria-label="Position in the history of the thread"
          aria-valuetext={`${index + 1} of ${marks.length}: ${mark.label}`}
          onChange={(event) => to(Number(event.target.value))}
        />
        <button
          type="button"
          className="icon-button"
          aria-label="One step forward"
          disabled={index === marks.length - 1}
          onClick={() => to(index + 1)}
        >
          <Icon name="chevron" />
        </button>
        <span className="time-count">
          {index + 1} / {marks.length}
        </span>
      </div>
      <div className="time-actions">
        <button type="button" className="button primary" onClick={() => fork(mark.seq)}>
          <Icon name="fork" size={14} /> Fork from here
        </button>
        <button type="button" className="button" onClick={leave}>
          Back to now <kbd>esc</kbd>
        </button>
      </div>
    </section>
  );
}
