/**
 * The thread as it was: a slider over its log, and a fork from any point of it.
 *
 * In a long thread the slider goes turn by turn, and the buttons beside it step by step. What was on the screen stays until the other
 * moment has arrived.
 */

import type { HarnessState, Mark } from "@hames/client";
import { useCallback, useEffect, useMemo, useRef, useState } from "react";
import { api } from "../api.js";
import { Icon } from "../shell/icons.js";
import { toastFailure } from "../shell/toasts.js";

/** `state` is what is shown: of `index`, or still of the moment before while that one is loading. */
export type Past = {
  marks: readonly Mark[];
  index: number;
  state: HarnessState;
  /** Messages that were not fetched, before those in `state`. */
  skipped: number;
  loading: boolean;
};

export type TimeTravel = {
  past: Past | null;
  enter: () => void;
  to: (index: number) => void;
  leave: () => void;
  /** Fetches the messages that were left out. */
  showAll: () => void;
};

type Moment = { state: HarnessState; skipped: number };

const REMEMBERED = 60;
/** More messages than anybody sees at once. The rest is fetched when somebody asks for it. */
const LAST = 120;
/** More stops than a slider has pixels. */
const MANY = 300;

/** Where something is to be seen: token counts and the like are no stops. The beginning is one. */
export function visible(marks: readonly Mark[]): readonly Mark[] {
  return marks.filter(({ kind }, index) => kind !== "other" || index === 0);
}

/** Where the slider stops: everywhere, or at the end of each turn when that would be too much. */
export function sliderStops(marks: readonly Mark[]): readonly number[] {
  const all = marks.map((_, index) => index);
  if (marks.length <= MANY) return all;
  return all.filter((index) => index === 0 || index === marks.length - 1 || marks[index + 1]?.kind === "turn");
}

export function useTimeTravel(threadId: string, live: HarnessState | null): TimeTravel {
  const [past, setPast] = useState<Past | null>(null);
  const known = useRef(new Map<number, Moment>());
  const latest = useRef(live);
  latest.current = live;
  const seq = past?.marks[past.index]?.seq;

  useEffect(() => {
    if (seq === undefined) return;
    const show = (moment: Moment) => setPast((now) => now && { ...now, ...moment, loading: false });
    const there = known.current.get(seq);
    if (there) return show(there);
    setPast((now) => now && { ...now, loading: true });
    const abort = new AbortController();
    // A hand on the slider passes many points it does not mean.
    const timer = setTimeout(() => {
      api.at(threadId, seq, { last: LAST, signal: abort.signal }).then(
        ({ state, skipped = 0 }) => {
          if (known.current.size >= REMEMBERED) known.current.clear();
          known.current.set(seq, { state, skipped });
          show({ state, skipped });
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
      const state = latest.current;
      if (stops.length > 0 && state)
        setPast({ marks: stops, index: stops.length - 1, state, skipped: 0, loading: false });
    }, toastFailure);
  }, [threadId]);
  const to = useCallback(
    (index: number) => setPast((now) => now && { ...now, index: Math.min(now.marks.length - 1, Math.max(0, index)) }),
    [],
  );
  const leave = useCallback(() => {
    known.current.clear();
    setPast(null);
  }, []);
  const showAll = useCallback(() => {
    if (seq === undefined) return;
    api.at(threadId, seq).then(({ state }) => {
      known.current.set(seq, { state, skipped: 0 });
      setPast((now) => now && (now.marks[now.index]?.seq === seq ? { ...now, state, skipped: 0 } : now));
    }, toastFailure);
  }, [seq, threadId]);
  return { past, enter, to, leave, showAll };
}

const LABELS: readonly (readonly [RegExp, string])[] = [
  [/^turn started$/, "The agent starts"],
  [/^turn (completed|ended: end_turn)$/, "The agent is done"],
  [/^turn (interrupted|ended: cancelled)$/, "Stopped"],
  [/^turn failed: /, "Failed: "],
  [/^turn failed$/, "Failed"],
  [/^approval requested/, "The agent asks"],
  [/^approval: once$/, "You allowed it once"],
  [/^approval: always$/, "You allowed it always"],
  [/^approval: reject$/, "You declined it"],
  [/^approval: void$/, "Nobody answered"],
  [/^finished: completed$/, "The tool is done"],
  [/^finished: /, "The tool ended: "],
  [/^thread created$/, "The thread was created"],
];

/** The log's words, as people say them. */
export function labelOf({ label, kind }: Mark): string {
  const known = LABELS.find(([words]) => words.test(label));
  return known ? label.replace(known[0], known[1]) : label || kind;
}

type BarProps = { past: Past; to: (index: number) => void; leave: () => void; fork: ((seq: number) => void) | null };

export function TimeBar({ past: { marks, index, loading }, to, leave, fork }: BarProps) {
  const mark = marks[index]!;
  const when = new Date(mark.at).toLocaleString(undefined, { dateStyle: "medium", timeStyle: "medium" });
  const stops = useMemo(() => sliderStops(marks), [marks]);
  const byTurn = stops.length < marks.length;
  const stop = Math.max(
    0,
    stops.findLastIndex((at) => at <= index),
  );
  return (
    <section
      id="message"
      tabIndex={-1}
      className="time-bar"
      aria-label="Time travel"
      onKeyDown={(event) => event.key === "Escape" && leave()}
    >
      <div className="time-words">
        {loading ? <span className="spinner" aria-hidden="true" /> : <Icon name="history" />}
        <span className="time-label">{labelOf(mark)}</span>
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
          max={stops.length - 1}
          value={stop}
          autoFocus
          aria-label={byTurn ? "Turn of the thread" : "Step of the thread"}
          aria-valuetext={`${index + 1} of ${marks.length}: ${labelOf(mark)}`}
          onChange={(event) => to(stops[Number(event.target.value)]!)}
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
        {fork && (
          <button type="button" className="button primary" onClick={() => fork(mark.seq)}>
            <Icon name="fork" size={14} /> Fork from here
          </button>
        )}
        <button type="button" className="button" onClick={leave}>
          Back to now <kbd>esc</kbd>
        </button>
        {byTurn && <span className="time-note">The slider moves turn by turn, the arrows step by step.</span>}
      </div>
    </section>
  );
}
