/**
 * Messages, on assistant-ui's primitives, each in a store of its own.
 *
 * A primitive hears of every change in the store around it. In the store of the thread sixty messages would look up at every token that
 * goes into the last one; here only that one does. The state's own message travels along in the converted one, so nothing is lost that
 * assistant-ui has no word for.
 */

import {
  AuiConfig,
  AuiProvider,
  DataRenderers,
  MessagePrimitive,
  MessageProvider,
  type ThreadMessage,
  Tools,
  useAuiState,
} from "@assistant-ui/react";
import type { HarnessMessage, HarnessToolCall, PendingSubmit } from "@hames/client";
import { harnessMessage } from "@hames/client/assistant-ui";
import { memo } from "react";
import { serverUrl } from "../base.js";
import { Boundary } from "../shell/boundary.js";
import { CopyButton } from "../shell/copy.js";
import { Icon } from "../shell/icons.js";
import { shortPath, withoutContents } from "../text/format.js";
import { Markdown } from "../text/markdown.js";
import { somebodyElse } from "../text/people.js";
import { ToolCard } from "../tools/tool-card.js";
import { useIsUnread, useThreadTools } from "./context.js";
import { Reasoning } from "./reasoning.js";
import { Sources } from "./sources.js";

/** What parts are drawn with when nobody registers anything. */
const ALONE = AuiConfig({ tools: Tools({}), dataRenderers: DataRenderers() });

/** `from`: how many there are before the first of these, `count`: how many in all. */
export const Messages = memo(function Messages({
  messages,
  from,
  count,
}: {
  messages: readonly ThreadMessage[];
  from: number;
  count: number;
}) {
  return (
    <AuiProvider extends={null} config={ALONE}>
      {messages.map((message, index) => (
        <Message key={message.id} message={message} index={from + index} isLast={from + index === count - 1} />
      ))}
    </AuiProvider>
  );
});

const Message = memo(function Message(props: { message: ThreadMessage; index: number; isLast: boolean }) {
  return (
    <MessageProvider {...props}>
      {props.message.role === "user" ? <UserMessage /> : <AssistantMessage />}
    </MessageProvider>
  );
});

/** The message of the state that this one was made of. */
function useSource(): HarnessMessage {
  return useAuiState(({ message }) => harnessMessage(message)!);
}

function UserMessage() {
  const source = useSource();
  const { readOnly, forkBefore, undo, sendAgain, user } = useThreadTools();
  const writer = somebodyElse(source.by, user);
  const unread = useIsUnread(source.id) && !readOnly;
  return (
    <MessagePrimitive.Root className="message user" role="article" aria-label={writer || "You"}>
      {writer && <p className="ending writer">{writer}</p>}
      <div className="bubble">
        {source.attachments?.map(({ kind, name, url }, index) =>
          kind === "image" ? (
            <a key={index} href={url && serverUrl(url)} target="_blank" rel="noreferrer" title={`Open ${name}`}>
              <img src={url && serverUrl(url)} alt={name} className="attached-image" loading="lazy" />
            </a>
          ) : (
            <span key={index} className="chip">
              <Icon name="file" size={13} /> {name}
            </span>
          ),
        )}
        {source.content && <p className="prompt">{source.content}</p>}
      </div>
      {unread && (
        <p className="ending unread">
          Not read by the agent: it was stopped first.{" "}
          <button type="button" className="link" onClick={() => sendAgain(source.id)}>
            Send again
          </button>
        </p>
      )}
      <div className="message-actions">
        <CopyButton text={source.content} label="Copy message" />
        {!readOnly && (
          <button
            type="button"
            className="icon-button small"
            aria-label="Edit in a new fork"
            title="Edit this prompt in a fork of the thread"
            onClick={() => forkBefore(source.id)}
          >
            <Icon name="fork" size={14} />
          </button>
        )}
        {!readOnly && source.turnId && (
          <button
            type="button"
            className="icon-button small"
            aria-label="Undo file changes"
            title="Take back what the agent did to files after this prompt"
            onClick={() => undo(source.turnId!)}
          >
            <Icon name="undo" size={14} />
          </button>
        )}
      </div>
    </MessagePrimitive.Root>
  );
}

function AssistantMessage() {
  const live = useAuiState(({ message }) => message.status?.type === "running");
  return (
    <MessagePrimitive.Root
      className="message assistant"
      role="article"
      aria-label="Agent"
      aria-busy={live || undefined}
    >
      <Boundary instead={() => <Literal />}>
        <MessagePrimitive.Parts>{drawn}</MessagePrimitive.Parts>
      </Boundary>
      <Cited />
      <Undone />
      <Ending />
    </MessagePrimitive.Root>
  );
}

type Part = Parameters<MessagePrimitive.Parts.Props["children"] & {}>[0]["part"];

/** One function for all messages, so that a part is drawn again only when it has changed. */
function drawn({ part }: { part: Part }) {
  switch (part.type) {
    case "reasoning":
      return <Thought text={part.text} thinking={part.status.type === "running"} />;
    case "text":
      if (part.text === "") return <Working />;
      return <Markdown text={part.text} live={part.status.type === "running"} />;
    case "tool-call":
      return <ToolCard call={part.artifact as HarnessToolCall} />;
    default:
      return null;
  }
}

function Cited() {
  return <Sources citations={useSource().citations ?? []} />;
}

const MOST_UNDONE = 6;

/** After the last message of a turn: which of its changes to files are taken back. */
function Undone() {
  const undone = withoutContents(useSource().undone ?? []);
  const { cwd } = useThreadTools();
  if (undone.length === 0) return null;
  const names = undone.slice(0, MOST_UNDONE).map((path) => shortPath(path, cwd));
  return (
    <p className="ending undone">
      <Icon name="undo" size={13} /> Changes undone: {names.join(", ")}
      {undone.length > MOST_UNDONE && ` and ${undone.length - MOST_UNDONE} more`}
    </p>
  );
}

function Thought({ text, thinking }: { text: string; thinking: boolean }) {
  return <Reasoning text={text} thinking={thinking} tookMs={useSource().reasoningMs ?? null} />;
}

/** When a part cannot be drawn: its words. */
function Literal() {
  return <p className="literal">{useSource().content}</p>;
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
  max_tokens: "Cut off: the reply reached its length limit",
  length: "Cut off: the reply reached its length limit",
  refusal: "The model refused to continue",
};

/** The last line of an answer: how it ended, and what can be done with it. */
function Ending() {
  const source = useSource();
  const last = useAuiState(({ message }) => message.isLast);
  const { readOnly, user } = useThreadTools();
  const stopper = source.stopReason === "cancelled" ? somebodyElse(source.by, user) : "";
  const ended = stopper ? `Stopped by ${stopper}` : ENDINGS[source.stopReason ?? ""];
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

/** Prompts that are not in the thread yet. */
export function Pending({ pending, connected }: { pending: readonly PendingSubmit[]; connected: boolean }) {
  return pending.map(({ id, prompt, attachments, steers }) => (
    <div key={id} className="message user pending" role="article" aria-label="You, being sent">
      <div className="bubble">
        {attachments.length > 0 && (
          <span className="chip">
            <Icon name="attach" size={13} /> {attachments.length}
          </span>
        )}
        <p className="prompt">{prompt}</p>
      </div>
      <p className="ending">{pendingWords(connected, steers)}</p>
    </div>
  ));
}

function pendingWords(connected: boolean, steers: boolean): string {
  if (!connected) return "Will be sent when the connection is back";
  return steers ? "The agent reads this at its next step" : "Sending…";
}
