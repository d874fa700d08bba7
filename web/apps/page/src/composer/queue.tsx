/** Prompts that wait until the agent is done: to read, edit, remove, or send now. */

import type { QueuedPrompt } from "@hames/client";
import { memo } from "react";
import { Icon } from "../shell/icons.js";

type Props = {
  queue: readonly QueuedPrompt[];
  held: boolean;
  running: boolean;
  onEdit: (prompt: QueuedPrompt) => void;
  onRemove: (prompt: QueuedPrompt) => void;
  onSteer: (prompt: QueuedPrompt) => void;
  onClear: () => void;
};

export const Queue = memo(function Queue({ queue, held, running, onEdit, onRemove, onSteer, onClear }: Props) {
  if (queue.length === 0) return null;
  return (
    <section className="queue" aria-label="Queued prompts">
      <header>
        <Icon name="clock" size={13} />
        <span>{held ? "Queue paused. Your next message starts it again." : "Up next"}</span>
        {held && (
          <button type="button" className="link" onClick={onClear}>
            Clear
          </button>
        )}
      </header>
      <ol>
        {queue.map((prompt) => (
          <li key={prompt.id}>
            {prompt.attachments?.map(({ kind, name, url }, index) =>
              kind === "image" && url ? (
                <img key={index} className="queue-picture" src={url} alt={name} />
              ) : (
                <span key={index} className="chip">
                  <Icon name={kind === "image" ? "image" : "file"} size={12} /> {name}
                </span>
              ),
            )}
            <span className="queue-text">{prompt.prompt}</span>
            {running && (
              <button
                type="button"
                className="icon-button small"
                aria-label="Send to the agent now"
                title="Send to the agent now"
                onClick={() => onSteer(prompt)}
              >
                <Icon name="arrowUp" size={13} />
              </button>
            )}
            <button
              type="button"
              className="icon-button small"
              aria-label="Edit"
              title="Edit"
              onClick={() => onEdit(prompt)}
            >
              <Icon name="edit" size={13} />
            </button>
            <button
              type="button"
              className="icon-button small"
              aria-label="Remove"
              title="Remove"
              onClick={() => onRemove(prompt)}
            >
              <Icon name="close" size={13} />
            </button>
          </li>
        ))}
      </ol>
    </section>
  );
});
