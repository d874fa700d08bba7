/** The list above the caret: commands after `/`, files after `@`. */

import { useEffect, useId, useMemo, useState } from "react";
import { api } from "../api.js";
import { Icon, type IconName } from "../shell/icons.js";
import type { SlashCommand } from "./commands.js";
import type { Trigger } from "./triggers.js";

export type Suggestion = { id: string; name: string; description: string; icon: IconName };

const FILE_DELAY_MS = 80;

export type Suggestions = {
  listId: string;
  items: readonly Suggestion[];
  active: number;
  setActive: (index: number) => void;
};

type Found = { kind: Trigger["kind"] | undefined; query: string; items: readonly Suggestion[] };

/** Until the list for what was typed last is there, what of the one before it fits: Enter takes nothing that does not. */
function fitting({ kind, query, items }: Found, nowKind: Found["kind"], nowQuery: string): readonly Suggestion[] {
  if (kind !== nowKind) return [];
  if (query === nowQuery) return items;
  return items.filter(({ name }) => name.toLowerCase().includes(nowQuery.toLowerCase()));
}

export function useSuggestions(
  trigger: Trigger | null,
  threadId: string,
  commands: readonly SlashCommand[],
): Suggestions {
  const listId = useId();
  const [found, setFound] = useState<Found>({ kind: undefined, query: "", items: [] });
  const [active, setActive] = useState(0);
  const kind = trigger?.kind;
  const query = trigger?.query ?? "";

  useEffect(() => {
    setActive(0);
    const show = (items: readonly Suggestion[]) => setFound({ kind, query, items });
    if (kind === undefined) return show([]);
    if (kind === "command") {
      const known = commands.filter(({ id }) => id.startsWith(query));
      return show(known.map(({ id, description, icon }) => ({ id, name: `/${id}`, description, icon })));
    }
    const abort = new AbortController();
    const timer = setTimeout(() => {
      api.files(threadId, query, abort.signal).then(
        (files) =>
          show(
            files.map((file) => ({
              id: file.path,
              name: file.path,
              description: "",
              icon: file.kind === "directory" ? "folder" : "file",
            })),
          ),
        // A file list that does not come is no reason to disturb somebody who types. One that was not waited for says
        // nothing about what is typed now.
        () => !abort.signal.aborted && show([]),
      );
    }, FILE_DELAY_MS);
    return () => {
      clearTimeout(timer);
      abort.abort();
    };
  }, [kind, query, threadId, commands]);
  const items = useMemo(() => fitting(found, kind, query), [found, kind, query]);

  return { listId, items, active: Math.min(active, items.length - 1), setActive };
}

export function SuggestionList({
  suggestions: { listId, items, active, setActive },
  onChoose,
}: {
  suggestions: Suggestions;
  onChoose: (id: string) => void;
}) {
  return (
    <div className="suggestions" id={listId} role="listbox" aria-label="Suggestions">
      {items.map(({ id, name, description, icon }, index) => (
        <div
          key={id}
          id={`${listId}-${index}`}
          role="option"
          aria-selected={index === active}
          className="menu-item"
          ref={(element) => void (index === active && element?.scrollIntoView({ block: "nearest" }))}
          onPointerMove={() => index !== active && setActive(index)}
          onPointerDown={(event) => {
            event.preventDefault();
            onChoose(id);
          }}
        >
          <Icon name={icon} size={14} />
          <span className="menu-words">
            <span className="menu-name">{name}</span>
            {description && <span className="menu-description">{description}</span>}
          </span>
        </div>
      ))}
    </div>
  );
}
