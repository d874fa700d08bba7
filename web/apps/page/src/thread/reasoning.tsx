/** What the model thought: a line, open while it thinks. */

import { memo, useId, useState } from "react";
import { Icon } from "../shell/icons.js";
import { Markdown } from "../text/markdown.js";

export const Reasoning = memo(function Reasoning({ text, thinking }: { text: string; thinking: boolean }) {
  const [choice, setChoice] = useState<boolean | null>(null);
  const open = choice ?? thinking;
  const bodyId = useId();
  return (
    <section className="reasoning" data-thinking={thinking || undefined}>
      <button type="button" aria-expanded={open} aria-controls={bodyId} onClick={() => setChoice(!open)}>
        <Icon name="thought" size={14} />
        <span className={thinking ? "shimmer" : undefined}>{thinking ? "Thinking" : "Thought"}</span>
        <Icon name="chevron" size={11} className="chevron" />
      </button>
      <div id={bodyId} hidden={!open}>
        {open && <Markdown text={text} live={thinking} />}
      </div>
    </section>
  );
});
