/** The conversation, on assistant-ui's primitives: they find, order and follow messages; how one looks is here. */

import { MessagePrimitive, type TextMessagePartProps, ThreadPrimitive, useAuiState } from "@assistant-ui/react";
import type { HarnessMessage, PendingSubmit } from "@hames/client";
import { memo } from "react";
import { Boundary } from "../shell/boundary.js";
import { CopyButton } from "../shell/copy.js";
import { Icon } from "../shell/icons.js";
import { Markdown } from "../text/markdown.js";
import { ToolPart } from "../tools/tool-card.js";
import { useThreadTools } from "./context.js";
import { Reasoning } from "./reasoning.js";

export const Messages = memo(function Messages() {
  return <ThreadPrimitive.Messages components={{ UserMessage, AssistantMessage }} />;
});

function useSource(): HarnessMessage | undefined {
  return useAuiState(
    ({ message }) => (message.metadata.custom["harness"] as readonly HarnessMessage[] | undefined)?.[0],
  );
}

function UserMessage() {
  const source = useSource();
  const { readOnly, forkBefore } = useThreadTools();
  if (!source) return null;
  return (
    <MessagePrimitive.Root className="message user" role="article" aria-label="You">
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
    </MessagePrimitive.Root>
  );
}

const PARTS = { Text, Reasoning, Empty: () => null, tools: { Override: ToolPart } };

function AssistantMessage() {
  const source = useSource();
  const running = useAuiState(({ message }) => message.status?.type === "running");
  const last = useAuiState(({ message }) => message.isLast);
  const parts = useAuiState(({ message }) => message.parts.length);
  return (
    <MessagePrimitive.Root
      className="message assistant"
      role="article"
      aria-label="Agent"
      aria-busy={running || undefined}
    >
      <Boundary instead={() => <p className="literal">{source?.content}</p>}>
        <MessagePrimitive.Parts components={PARTS} />
      </Boundary>
      {running && last && parts === 0 && <Working />}
      {source && <Ending source={source} />}
    </MessagePrimitive.Root>
  );
}

function Text({ text, status }: TextMessagePartProps) {
  return <Markdown text={text} live={status.type === "running"} />;
}

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
function Ending({ source }: { source: HarnessMessage }) {
  const { readOnly } = useThreadTools();
  const last = useAuiState(({ message }) => message.isLast);
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
