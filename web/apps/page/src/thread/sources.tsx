import type { Citation } from "@hames/client";
import { Visible } from "../text/visible.js";

/** The sources that an answer names, numbered, each once. Only web addresses become links. */
export function Sources({ citations }: { citations: readonly Citation[] }) {
  const named = new Map<string, { url: string; words: string }>();
  for (const { url = "", title = "" } of citations) {
    const name = url || title;
    if (name && !named.has(name)) named.set(name, { url, words: title || url });
  }
  if (named.size === 0) return null;
  return (
    <ol className="sources" aria-label="Sources">
      {[...named].map(([name, { url, words }]) => (
        <li key={name}>
          {/^https?:\/\//i.test(url) ? (
            <a href={url} target="_blank" rel="noopener noreferrer nofollow" title={url}>
              <Visible text={words} />
            </a>
          ) : (
            <Visible text={words} />
          )}
        </li>
      ))}
    </ol>
  );
}
