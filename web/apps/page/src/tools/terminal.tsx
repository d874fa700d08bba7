/** What a program printed. Long output is shown from its end; the beginning is one button away. */

import { memo, useLayoutEffect, useMemo, useRef, useState } from "react";
import { api } from "../api.js";
import { CopyButton } from "../shell/copy.js";
import { toastFailure } from "../shell/toasts.js";
import { type Line, parseAnsi, stripAnsi } from "../text/ansi.js";
import { useThreadTools } from "../thread/context.js";

const TAIL_LINES = 200;

type Props = { toolCallId: string; output: string; truncated: boolean; running: boolean };

export const Terminal = memo(function Terminal({ toolCallId, output, truncated, running }: Props) {
  const { threadId } = useThreadTools();
  const [whole, setWhole] = useState<string | null>(null);
  const [expanded, setExpanded] = useState(false);
  const box = useRef<HTMLPreElement>(null);
  const atEnd = useRef(true);

  const text = whole ?? output;
  const lines = useMemo(() => parseAnsi(text.replace(/\n$/, "")), [text]);
  const shown = expanded ? lines : lines.slice(-TAIL_LINES);
  const hidden = lines.length - shown.length;

  useLayoutEffect(() => {
    if (box.current && running && atEnd.current) box.current.scrollTop = box.current.scrollHeight;
  }, [text, running]);

  const showAll = async () => {
    try {
      if (truncated && whole === null) setWhole(await api.toolOutput(threadId, toolCallId));
      setExpanded(true);
    } catch (failure) {
      toastFailure(failure);
    }
  };

  if (output === "") return running ? <p className="terminal-empty">No output yet</p> : null;
  return (
    <div className="terminal">
      {(hidden > 0 || (truncated && whole === null)) && (
        <button type="button" className="terminal-more" onClick={() => void showAll()}>
          {truncated && whole === null ? "The beginning is not shown" : `${hidden} earlier lines`} · Show all
        </button>
      )}
      <div className="terminal-copy">
        <CopyButton text={() => stripAnsi(text)} label="Copy output" />
      </div>
      <pre
        ref={box}
        tabIndex={0}
        role="group"
        aria-label="Output"
        onScroll={({ currentTarget: { scrollTop, scrollHeight, clientHeight } }) => {
          atEnd.current = scrollHeight - scrollTop - clientHeight < 24;
        }}
      >
        {shown.map((line, index) => (
          <TerminalLine key={hidden + index} line={line} />
        ))}
      </pre>
    </div>
  );
});

const TerminalLine = memo(
  function TerminalLine({ line }: { line: Line }) {
    return (
      <>
        {line.map(({ text, classes, color, background }, index) =>
          classes || color || background ? (
            <span key={index} className={classes || undefined} style={{ color, backgroundColor: background }}>
              {text}
            </span>
          ) : (
            text
          ),
        )}
        {"\n"}
      </>
    );
  },
  ({ line: a }, { line: b }) =>
    a.length === b.length &&
    a.every((span, i) => {
      const other = b[i]!;
      return (
        span.text === other.text &&
        span.classes === other.classes &&
        span.color === other.color &&
        span.background === other.background
      );
    }),
);
