/**
 * The message box. It is never blocked: while a turn runs, Enter sends to that turn and Tab queues the message for the next one.
 * What every key means is in `specs/keys.json`.
 *
 * What is typed is kept per thread until it is sent.
 */

import type { Attachment, AttachmentInput, Configuration, HarnessState, QueuedPrompt, Settings } from "@hames/client";
import {
  type ClipboardEvent,
  type KeyboardEvent,
  memo,
  type Ref,
  useEffect,
  useImperativeHandle,
  useLayoutEffect,
  useRef,
  useState,
} from "react";
import { Icon } from "../shell/icons.js";
import { remember, remembered } from "../shell/storage.js";
import type { SlashCommand } from "./commands.js";
import { attachedStill, usePictures } from "./images.js";
import { type Mode, modeOf, nextMode } from "./modes.js";
import { Queue } from "./queue.js";
import { Selectors } from "./selectors.js";
import { SuggestionList, useSuggestions } from "./suggestions.js";
import { completed, mentioned, triggerAt } from "./triggers.js";
import { UsageMeter } from "./usage.js";

export type ComposerHandle = {
  /** Puts text, and what was attached to it, where it can be changed; behind what is there already. */
  fill: (text: string, attachments?: readonly Attachment[]) => void;
  /** A prompt that could not be sent comes back. */
  giveBack: (text: string, attachments: readonly AttachmentInput[]) => void;
  attach: (files: readonly File[]) => void;
};

export type ComposerProps = {
  ref: Ref<ComposerHandle>;
  threadId: string;
  running: boolean;
  /** Files are dragged over the page. */
  dropping: boolean;
  settings: HarnessState["settings"];
  models: HarnessState["models"];
  selectors: HarnessState["selectors"];
  usage: HarnessState["usage"];
  queue: readonly QueuedPrompt[];
  queueHeld: boolean;
  /** Earlier prompts, newest first. */
  history: readonly string[];
  commands: readonly SlashCommand[];
  submit: (prompt: string, attachments: AttachmentInput[]) => void;
  steer: (prompt: string, attachments: AttachmentInput[]) => void;
  stop: () => void;
  /** Whether it was sent: without a connection a prompt stays in the queue. */
  dequeue: (id: string) => boolean;
  configure: (configuration: Configuration) => void;
  startWork: () => void;
};

/** Without a keyboard Enter is a new line, and hints about keys help nobody. */
function touch(): boolean {
  return matchMedia("(pointer: coarse)").matches;
}

function hint(running: boolean): string {
  if (running) return touch() ? "Message the agent while it works" : "Enter sends it to the agent now, Tab queues it";
  return touch() ? "Ask for a change" : "Ask for a change. Type @ for files, / for commands";
}

/** Somebody who is typing elsewhere is not interrupted. */
function isTypingElsewhere(): boolean {
  const focused = document.activeElement;
  return focused instanceof HTMLElement && focused.matches("input, textarea, select, [contenteditable], dialog *");
}

export const Composer = memo(function Composer(props: ComposerProps) {
  const { threadId, running, settings, queue, history, commands, configure } = props;
  const draftKey = `draft.${threadId}`;
  const [text, setText] = useState(() => remembered(draftKey) ?? "");
  const [caret, setCaret] = useState(text.length);
  const [dismissed, setDismissed] = useState("");
  const [modeWords, setModeWords] = useState("");
  const area = useRef<HTMLTextAreaElement>(null);
  const filePicker = useRef<HTMLInputElement>(null);
  const recalled = useRef(-1);
  const leaving = useRef(false);
  const offered = useRef(new Set<string>());
  const askedMode = useRef<Mode | null>(null);
  const pictures = usePictures(threadId);

  const found = triggerAt(text, caret);
  const trigger = found && `${found.kind}${found.start}` !== dismissed ? found : null;
  const suggestions = useSuggestions(trigger, threadId, commands);
  const suggesting = trigger !== null && suggestions.items.length > 0;

  const change = (next: string, at = next.length) => {
    setText(next);
    setCaret(at);
    remember(draftKey, next);
  };
  const place = (next: string, at = next.length) => {
    change(next, at);
    requestAnimationFrame(() => {
      area.current?.focus();
      area.current?.setSelectionRange(at, at);
    });
  };
  const append = (more: string) => place(text && more ? `${text}\n${more}` : text || more);
  useImperativeHandle(props.ref, () => ({
    fill: (next, attachments = []) => {
      append(next);
      for (const { kind, name } of attachments) if (kind === "file") offered.current.add(name);
      pictures.restore(attachments);
    },
    giveBack: (next, attachments) => {
      append(next);
      for (const attachment of attachments) {
        if (attachment.type === "file") offered.current.add(attachment.path);
        else pictures.keep([attachment.id]);
      }
    },
    attach: (files) => {
      if (pictures.add(files)) area.current?.focus();
    },
  }));

  useLayoutEffect(() => {
    const element = area.current;
    if (!element) return;
    element.style.height = "auto";
    element.style.height = `${element.scrollHeight}px`;
  }, [text]);
  useEffect(() => {
    if (!touch() && !isTypingElsewhere()) area.current?.focus();
  }, []);
  useEffect(() => setDismissed(""), [found?.kind, found?.start]);
  useEffect(() => {
    if (settings && modeOf(settings).id === askedMode.current?.id) askedMode.current = null;
  }, [settings]);

  const send = (how: "submit" | "steer") => {
    const prompt = text.trim();
    if ((prompt === "" && pictures.pictures.length === 0) || pictures.uploading) return;
    // Also with the button: on a phone there is no Enter that would take it from the list.
    const command = commands.find(({ id }) => prompt === `/${id}`);
    if (command && pictures.pictures.length === 0) {
      change("");
      command.run();
      return;
    }
    const files = mentioned(prompt, offered.current).map((path) => ({ type: "file" as const, path }));
    props[how](prompt, [...pictures.take(), ...files]);
    offered.current.clear();
    recalled.current = -1;
    change("");
  };
  const sendNow = () => send(running ? "steer" : "submit");

  /** From the mode that was asked for last, not the one that the server has confirmed: two quick presses are two steps. */
  const goToNextMode = (now: Settings) => {
    const asked = askedMode.current;
    const next = nextMode(asked ?? modeOf(now));
    askedMode.current = next;
    setModeWords(`Mode: ${next.name}. ${next.description ?? ""}`);
    configure(next.set);
  };

  const choose = (id: string) => {
    if (!trigger) return;
    if (trigger.kind === "command") {
      change("");
      commands.find((command) => command.id === id)?.run();
    } else {
      offered.current.add(id);
      const next = completed(text, trigger, `@${id}`);
      place(next.text, next.caret);
    }
  };

  const recall = (step: number): boolean => {
    const at = recalled.current + step;
    if (at < -1 || at >= history.length) return false;
    recalled.current = at;
    place(at === -1 ? "" : history[at]!);
    return true;
  };

  const keys = (event: KeyboardEvent<HTMLTextAreaElement>) => {
    if (event.nativeEvent.isComposing) return;
    if (suggesting && suggestionKey(event)) return event.preventDefault();
    const plain = !event.ctrlKey && !event.metaKey && !event.altKey;
    if (event.key === "Enter" && !event.shiftKey && !event.altKey && (!plain || !touch())) {
      event.preventDefault();
      sendNow();
    } else if (event.key === "Tab" && !event.shiftKey && plain && running && text.trim() !== "") {
      event.preventDefault();
      send("submit");
    } else if (event.key === "Tab" && event.shiftKey && plain && settings && !leaving.current) {
      event.preventDefault();
      goToNextMode(settings);
    } else if (event.key === "Escape") {
      event.preventDefault();
      if (running) props.stop();
      // Somebody who moves by keyboard must be able to go back: after Escape, Shift+Tab does what it always does.
      else leaving.current = true;
      return;
    } else if (
      event.key === "ArrowUp" &&
      plain &&
      !event.shiftKey &&
      (text === "" || recalled.current >= 0) &&
      recall(1)
    ) {
      event.preventDefault();
    } else if (event.key === "ArrowDown" && plain && recalled.current >= 0 && recall(-1)) {
      event.preventDefault();
    }
    if (event.key !== "Tab" && event.key !== "Shift") leaving.current = false;
  };

  const suggestionKey = (event: KeyboardEvent): boolean => {
    const { items, active, setActive } = suggestions;
    if (event.key === "ArrowDown") setActive((active + 1) % items.length);
    else if (event.key === "ArrowUp") setActive((active - 1 + items.length) % items.length);
    else if ((event.key === "Enter" && !event.shiftKey) || (event.key === "Tab" && !event.shiftKey))
      choose(items[active]!.id);
    else if (event.key === "Escape" && found) setDismissed(`${found.kind}${found.start}`);
    else return false;
    return true;
  };

  const paste = (event: ClipboardEvent) => {
    const files = [...event.clipboardData.files];
    // Some programs put a picture of the text beside the text: then the text is meant.
    if (files.length === 0 || event.clipboardData.types.includes("text/plain")) return;
    event.preventDefault();
    pictures.add(files);
  };

  /** The button goes when the agent has stopped: the focus would go with it. */
  const stopHere = () => {
    props.stop();
    if (!touch()) area.current?.focus();
  };

  const nothing = text.trim() === "" && pictures.pictures.length === 0;
  const blocked = nothing || pictures.uploading;
  return (
    <div className="composer-wrap">
      <Queue
        queue={queue}
        held={props.queueHeld}
        running={running}
        onEdit={({ id, prompt, attachments = [] }) => {
          if (!props.dequeue(id)) return;
          for (const { kind, name } of attachments) if (kind === "file") offered.current.add(name);
          pictures.restore(attachments);
          append(prompt);
        }}
        onRemove={({ id }) => void props.dequeue(id)}
        onSteer={({ id, prompt, attachments = [] }) => {
          if (props.dequeue(id)) props.steer(prompt, attachedStill(attachments));
        }}
        onClear={props.stop}
      />
      <div className="composer" data-dropping={props.dropping || undefined}>
        {props.dropping && <p className="drop-hint">Drop pictures anywhere to attach them</p>}
        {suggesting && <SuggestionList suggestions={suggestions} onChoose={choose} />}
        {pictures.pictures.length > 0 && (
          <ul className="pictures" aria-label="Attached pictures">
            {pictures.pictures.map(({ key, name, preview, uploadId }) => (
              <li key={key} data-uploading={uploadId === null || undefined}>
                <img src={preview} alt={name} onError={() => pictures.remove(key)} />
                <button
                  type="button"
                  className="icon-button small"
                  aria-label={`Remove ${name}`}
                  onClick={() => pictures.remove(key)}
                >
                  <Icon name="close" size={12} />
                </button>
              </li>
            ))}
          </ul>
        )}
        <textarea
          ref={area}
          id="message"
          data-composer=""
          rows={1}
          value={text}
          placeholder={hint(running)}
          aria-label="Message"
          aria-autocomplete="list"
          aria-controls={suggesting ? suggestions.listId : undefined}
          aria-activedescendant={suggesting ? `${suggestions.listId}-${suggestions.active}` : undefined}
          onChange={(event) => change(event.target.value, event.target.selectionStart)}
          onSelect={(event) => setCaret(event.currentTarget.selectionStart)}
          onKeyDown={keys}
          onPaste={paste}
        />
        <div className="composer-row">
          <div className="composer-tools">
            <button
              type="button"
              className="icon-button"
              aria-label="Attach a picture"
              title="Attach a picture"
              onClick={() => filePicker.current?.click()}
            >
              <Icon name="attach" />
            </button>
            <input
              ref={filePicker}
              type="file"
              accept="image/png,image/jpeg,image/gif,image/webp"
              multiple
              hidden
              aria-label="Pictures to attach"
              onChange={(event) => {
                pictures.add(event.target.files ?? []);
                event.target.value = "";
              }}
            />
            <Selectors
              settings={settings}
              models={props.models}
              selectors={props.selectors}
              configure={configure}
              startWork={running || props.history.length === 0 ? undefined : props.startWork}
            />
            <UsageMeter usage={props.usage} />
          </div>
          <div className="composer-end" data-running={running || undefined}>
            {running && (
              <button type="button" className="round stop" aria-label="Stop" title="Stop (Esc)" onClick={stopHere}>
                <Icon name="stop" />
              </button>
            )}
            {running && !nothing && (
              <button
                type="button"
                className="round queue-button"
                aria-label="Queue"
                title="Send when the agent is done (Tab)"
                disabled={blocked}
                onClick={() => send("submit")}
              >
                <Icon name="queue" />
              </button>
            )}
            {(!running || !nothing) && (
              <button
                type="button"
                className="round send"
                aria-label={running ? "Send to the agent now" : "Send"}
                title={running ? "Send to the agent now (Enter)" : "Send (Enter)"}
                disabled={blocked}
                onClick={sendNow}
              >
                <Icon name="send" />
              </button>
            )}
          </div>
        </div>
      </div>
      <p className="offscreen" role="status">
        {suggesting ? `${suggestions.items.length} suggestions` : ""}
      </p>
      <p className="offscreen" role="status" data-mode-announcer="">
        {modeWords}
      </p>
    </div>
  );
});
