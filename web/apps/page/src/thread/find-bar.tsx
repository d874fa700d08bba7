/** Find in this thread: the browser's own search sees only the messages that are drawn. */

import type { HarnessMessage } from "@hames/client";
import { useEffect, useMemo, useRef, useState } from "react";
import { Icon } from "../shell/icons.js";
import { findIn, type Hit, rangesIn } from "./find.js";

const HIGHLIGHT = "find";

type Props = { messages: readonly HarnessMessage[]; onHit: (hit: Hit) => void; onClose: () => void };

export function FindBar({ messages, onHit, onClose }: Props) {
  const [query, setQuery] = useState("");
  // Counted from the end: somebody who searches usually looks for what was said last.
  const [position, setPosition] = useState(0);
  const input = useRef<HTMLInputElement>(null);
  const hits = useMemo(() => findIn(messages, query).toReversed(), [messages, query]);
  const at = hits.length === 0 ? -1 : Math.min(position, hits.length - 1);
  const hit = hits[at];
  const show = useRef(onHit);
  show.current = onHit;

  useEffect(() => input.current?.select(), []);
  useEffect(() => {
    if (hit) show.current(hit);
    // The same place is not jumped to again because a message arrived.
    // oxlint-disable-next-line exhaustive-deps
  }, [hit?.messageId, hit?.toolCallId, query]);
  useHighlight(query, hit);

  const step = (by: number) => hits.length > 0 && setPosition((at + by + hits.length) % hits.length);
  return (
    <search className="find-bar" aria-label="Find in this thread">
      <Icon name="search" size={14} />
      <input
        ref={input}
        type="search"
        value={query}
        autoFocus
        aria-label="Find in this thread"
        placeholder="Find in this thread"
        onChange={(event) => {
          setQuery(event.target.value);
          setPosition(0);
        }}
        onKeyDown={(event) => {
          if (event.key === "Enter") step(event.shiftKey ? -1 : 1);
          else if (event.key === "Escape") onClose();
          else return;
          event.preventDefault();
          event.stopPropagation();
        }}
      />
      <span className="find-count" role="status">
        {query.trim() === "" ? "" : hits.length === 0 ? "Nothing found" : `${at + 1} of ${hits.length}`}
      </span>
      <button
        type="button"
        className="icon-button small"
        aria-label="Earlier match"
        title="Earlier match (Enter)"
        disabled={hits.length === 0}
        onClick={() => step(1)}
      >
        <Icon name="arrowUp" size={14} />
      </button>
      <button
        type="button"
        className="icon-button small"
        aria-label="Later match"
        title="Later match (Shift+Enter)"
        disabled={hits.length === 0}
        onClick={() => step(-1)}
      >
        <Icon name="arrowDown" size={14} />
      </button>
      <button type="button" className="icon-button small" aria-label="Close find" onClick={onClose}>
        <Icon name="close" size={14} />
      </button>
    </search>
  );
}

/** Marks the words where they are drawn. A browser that cannot shows the message alone. */
function useHighlight(query: string, hit: Hit | undefined): void {
  useEffect(() => {
    if (typeof CSS === "undefined" || !("highlights" in CSS)) return;
    const mark = () => {
      const column = document.querySelector(".viewport .column");
      if (column) CSS.highlights.set(HIGHLIGHT, new Highlight(...rangesIn(column, query)));
    };
    // A jump draws other messages, and code gets its colours a moment later.
    const timers = [setTimeout(mark, 50), setTimeout(mark, 400)];
    return () => {
      timers.forEach(clearTimeout);
      CSS.highlights.delete(HIGHLIGHT);
    };
  }, [query, hit?.messageId, hit?.toolCallId]);
}
