/**
 * Messages, drawn from the state itself: one that did not change is not looked at.
 *
 * assistant-ui's message primitives would do it too, but each of them watches the whole thread: with a window of sixty messages they
 * doubled the script time per token. Its thread, viewport and runtime are around us.
 */

import type { HarnessMessage, PendingSubmit } from "@hames/client";
import { memo } from "react";
import { Boundary } from "../shell/boundary.js";
import { CopyButton } from "../shell/copy.js";
import { Icon } from "../shell/icons.js";
import { Markdown } from "../text/markdown.js";
import { ToolCard } from "../tools/tool-card.js";
import { useThreadTools } from "./context.js";
import { Reasoning } from "./reasoning.js";

export const Messages = memo(function Messages({ messages }: { messages: readonly HarnessMessage[] }) {
  return messages.map((message, index) =>
    message.role === "user" ? (
      <UserMessage key={message.id} source={message} />
    ) : (
      <AssistantMessage key={message.id} source={message} last={index === messages.length - 1} />
    ),
  );
});

const UserMessage = memo(function UserMessage({ source }: { source: HarnessMessage }) {
  const { readOnly, forkBefore } = useThreadTools();
  return (
    <div className="message user" role="article" aria-label="You" data-message-id={source.id}>
      <div className="bubble">
        {source.attachments?.map(({ kind, name, url }, index) =>
          kind === "image" ? (
            <img key={index} src={url} alt={name} className="attached-image" loading="lazy" />
          ) : (
            <span key={index} className="chip">
              <Icon name="file" size={13} /> {name}
            </span>
          ),
        )}
        <p className="prompt">{source.content}</p>
      </div>
      <div className="message-actions">
        <CopyButton text={source.content} label="Copy message" />
        {!readOnly && (
          <button
            type="button"
            className="icon-button small"
            aria-label="Edit in a new fork"
            title="Go back to here in a new fork, and edit"
            onClick={() => forkBefore(source.id)}
          >
            <Icon name="fork" size={14} />
          </button>
        )}
      </div>
    </div>
  );
});

const AssistantMessage = memo(function AssistantMessage({ source, last }: { source: HarnessMessage; last: boolean }) {
  const live = source.status === "pending" || source.status === "streaming";
  const { reasoning, content, toolCalls = [] } = source;
  const nothing = !reasoning && !content && toolCalls.length === 0;
  return (
    <div
      className="message assistant"
      role="article"
      aria-label="Agent"
      aria-busy={live || undefined}
      data-message-id={source.id}
    >
      <Boundary instead={() => <p className="literal">{content}</p>}>
        {reasoning && <Reasoning text={reasoning} thinking={live && !content && toolCalls.length === 0} />}
        {content && <Markdown text={content} live={live && toolCalls.length === 0} />}
        {toolCalls.map((call) => (
          <ToolCard key={call.id} call={call} />
        ))}
      </Boundary>
      {live && last && nothing && <Working />}
      <Ending source={source} last={last} />
    </div>
  );
});

function Working() {
  return (
    <p className="working">
      <span className="dots" aria-hidden="true">
        <i />
        <i />
        <i />
      </span>
      <span className="offscreen">Working</span>
    </p>
  );
}

const ENDINGS: Record<string, string> = {
  cancelled: "Stopped",
  max_tokens: "Cut off: the reply reached its limit",
  length: "Cut off: the reply reached its limit",
  refusal: "The model declined to go on",
};

/** The last line of an answer: how it ended, and what can be done with it. */
function Ending({ source, last }: { source: HarnessMessage; last: boolean }) {
  const { readOnly } = useThreadTools();
  const ended = ENDINGS[source.stopReason ?? ""];
  // The failure of the last turn has a card of its own below.
  if (source.status === "error" && last && !readOnly) return null;
  if (source.status === "error") return <p className="ending bad">{source.error || "Failed"}</p>;
  if (ended) return <p className="ending">{ended}</p>;
  if (source.status !== "complete" || !source.stopReason || !source.content) return null;
  return (
    <div className="message-actions">
      <CopyButton text={source.content} label="Copy answer" />
    </div>
  );
}

/** Prompts the server has not confirmed yet. */
export function Pending({ pending, connected }: { pending: readonly PendingSubmit[]; connected: boolean }) {
  return pending.map(({ id, prompt, attachments }) => (
    <div key={id} className="message user pending" role="article" aria-label="You, being sent">
      <div className="bubble">
        {attachments.length > 0 && (
          <span className="chip">
            <Icon name="attach" size={13} /> {attachments.length}
          </span>
        )}
        <p className="prompt">{prompt}</p>
      </div>
      <p className="ending">{connected ? "Sending…" : "Will be sent when the connection is back"}</p>
    </div>
  ));
}
