/** Every prompt of the thread in a line, as a way through a long one. */

import type { HarnessMessage } from "@hames/client";
import { memo, useMemo } from "react";
import { Icon } from "../shell/icons.js";

type Props = { messages: readonly HarnessMessage[]; onJump: (messageId: string) => void; onEnd: () => void };

export const Outline = memo(function Outline({ messages, onJump, onEnd }: Props) {
  const prompts = useMemo(() => messages.filter(({ role }) => role === "user"), [messages]);
  if (prompts.length === 0) return <p className="panel-empty">There are no prompts in this thread yet.</p>;
  return (
    <>
      <div className="panel-bar">
        <button type="button" className="button" onClick={() => onJump(messages[0]!.id)}>
          <Icon name="arrowUp" size={14} /> First message
        </button>
        <button type="button" className="button" onClick={onEnd}>
          <Icon name="arrowDown" size={14} /> Latest message
        </button>
      </div>
      <ol className="outline">
        {prompts.map(({ id, content, attachments, createdAt }) => (
          <li key={id}>
            <button type="button" onClick={() => onJump(id)}>
              <span className="outline-words">{firstLine(content) || attached(attachments?.length ?? 0)}</span>
              {createdAt ? <time dateTime={new Date(createdAt).toISOString()}>{when(createdAt)}</time> : null}
            </button>
          </li>
        ))}
      </ol>
    </>
  );
});

function firstLine(text: string): string {
  return text.trim().split("\n")[0]!.slice(0, 200);
}

function attached(count: number): string {
  return count === 1 ? "1 picture" : `${count} pictures`;
}

function when(at: number): string {
  const date = new Date(at);
  const today = date.toDateString() === new Date().toDateString();
  return today
    ? date.toLocaleTimeString(undefined, { hour: "2-digit", minute: "2-digit" })
    : date.toLocaleDateString(undefined, { month: "short", day: "numeric" });
}
