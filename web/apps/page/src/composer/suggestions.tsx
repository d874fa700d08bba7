/** The list above the caret: commands after `/`, files after `@`. */

import { useEffect, useId, useState } from "react";
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

export function useSuggestions(
  trigger: Trigger | null,
  threadId: string,
  commands: readonly SlashCommand[],
): Suggestions {
  const listId = useId();
  const [items, setItems] = useState<readonly Suggestion[]>([]);
  const [active, setActive] = useState(0);
  const kind = trigger?.kind;
  const query = trigger?.query ?? "";

  useEffect(() => {
    setActive(0);
    if (kind === undefined) return setItems([]);
    if (kind === "command") {
      const fitting = commands.filter(({ id }) => id.startsWith(query));
      return setItems(fitting.map(({ id, description, icon }) => ({ id, name: `/${id}`, description, icon })));
    }
    const abort = new AbortController();
    const timer = setTimeout(() => {
      api.files(threadId, query, abort.signal).then(
        (files) =>
          setItems(
            files.map((file) => ({
              id: file.path,
              name: file.path,
              description: "",
              icon: file.kind === "directory" ? "folder" : "file",
            })),
          ),
        // A file list that does not come is no reason to disturb somebody who types.
        () => setItems([]),
      );
    }, FILE_DELAY_MS);
    return () => {
      clearTimeout(timer);
      abort.abort();
    };
  }, [kind, query, threadId, commands]);

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
