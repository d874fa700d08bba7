/** What the model thought: one line with its first words, open while it thinks. */

import { memo, useId, useState } from "react";
import { Icon } from "../shell/icons.js";
import { duration } from "../text/format.js";
import { Markdown } from "../text/markdown.js";

type Props = { text: string; thinking: boolean; tookMs: number | null };

export const Reasoning = memo(function Reasoning({ text, thinking, tookMs }: Props) {
  const [choice, setChoice] = useState<boolean | null>(null);
  const open = choice ?? thinking;
  const bodyId = useId();
  const took = tookMs !== null && tookMs >= 1_000 ? ` for ${duration(tookMs)}` : "";
  return (
    <section className="reasoning" data-thinking={thinking || undefined} aria-label="Reasoning">
      <button type="button" aria-expanded={open} aria-controls={bodyId} onClick={() => setChoice(!open)}>
        <Icon name="thought" size={14} />
        <span className={thinking ? "shimmer" : undefined}>{thinking ? "Thinking" : `Thought${took}`}</span>
        {!open && <span className="reasoning-start">{firstWords(text)}</span>}
        <Icon name="chevron" size={11} className="chevron" />
      </button>
      <div id={bodyId} hidden={!open}>
        {open && <Markdown text={text} live={thinking} />}
      </div>
    </section>
  );
});

/** The first line that says something, without the signs of Markdown. */
export function firstWords(text: string): string {
  const line = text.split("\n").find((words) => /[\p{L}\p{N}]/u.test(words)) ?? "";
  return line
    .replace(/^[\s#>*-]+/, "")
    .replace(/[*_`]+/g, "")
    .trim()
    .slice(0, 160);
}
