/** The scrolling part of a thread: a window of its messages, and what stands below them. */

import { AssistantRuntimeProvider, ThreadPrimitive, useThreadViewport } from "@assistant-ui/react";
import type { HarnessState } from "@hames/client";
import { createConverter } from "@hames/client/assistant-ui";
import { type RuntimeCommands, useHarnessRuntime } from "@hames/client/react";
import {
  type ReactNode,
  type Ref,
  type RefObject,
  useCallback,
  useEffect,
  useImperativeHandle,
  useLayoutEffect,
  useMemo,
  useReducer,
  useRef,
} from "react";
import { Icon } from "../shell/icons.js";
import { plural } from "../text/format.js";
import { Messages } from "./messages.js";
import { around, contains, earlier, later, moved, type Window } from "./window.js";

export type ConversationHandle = {
  /** Draws a message wherever it is in the thread, and scrolls to it. */
  jump: (messageId: string) => void;
  toEnd: () => void;
};

type Props = {
  ref: Ref<ConversationHandle>;
  state: HarnessState;
  /** Messages before the first one of `state`, which are on the server. */
  skipped?: number;
  onSkipped?: () => void;
  commands: RuntimeCommands | null;
  children: ReactNode;
};

/** Where to scroll once it is drawn. */
type Wanted = { messageId: string } | "end";

export function Conversation({ ref, state, skipped = 0, onSkipped, commands, children }: Props) {
  const following = useRef(true);
  const drawn = useRef<Window>({ start: 0, end: null });
  const wanted = useRef<Wanted | null>(null);
  const viewport = useRef<HTMLDivElement>(null);
  const [, redraw] = useReducer((count: number) => count + 1, 0);
  const { messages: all } = state;
  const count = all.length;
  drawn.current = moved(drawn.current, count, { following: following.current });
  const { start, end } = drawn.current;
  // The viewport follows runs and messages; for that it need not know all of them.
  const runtime = useHarnessRuntime(state, commands, { last: 1 });
  const convert = useMemo(createConverter, []);
  const messages = convert(state, { group: false, from: start, to: end ?? count });

  const show = useCallback((next: Window, to: Wanted | null = null) => {
    following.current = false;
    drawn.current = next;
    wanted.current = to;
    redraw();
  }, []);
  const toEnd = useCallback(() => {
    show({ start: 0, end: null }, "end");
    following.current = true;
  }, [show]);
  useImperativeHandle(ref, () => ({
    jump: (messageId) => {
      const index = all.findIndex(({ id }) => id === messageId);
      if (index >= 0) show(contains(drawn.current, index) ? drawn.current : around(index, count), { messageId });
    },
    toEnd,
  }));
  useLayoutEffect(() => {
    const to = wanted.current;
    const element = viewport.current;
    if (!to || !element) return;
    wanted.current = null;
    if (to === "end") {
      element.scrollTop = element.scrollHeight;
      return;
    }
    const found = element.querySelector<HTMLElement>(`[data-message-id="${CSS.escape(to.messageId)}"]`);
    if (!found) return;
    const block = found.offsetHeight > element.clientHeight / 2 ? "start" : "center";
    const scroll = () => found.scrollIntoView({ block });
    scroll();
    // The viewport followed the end until now. Its observers see the new messages after this effect, in the same frame, and
    // scroll to the end once more.
    requestAnimationFrame(() => requestAnimationFrame(scroll));
    found.setAttribute("data-jumped", "");
    setTimeout(() => found.removeAttribute("data-jumped"), 1_600);
  });

  return (
    <AssistantRuntimeProvider runtime={runtime}>
      <ThreadPrimitive.Root className="conversation">
        <ThreadPrimitive.Viewport
          ref={viewport}
          className="viewport"
          role="region"
          aria-label="Conversation"
          tabIndex={0}
          autoScroll={end === null}
        >
          <Following following={following} atEnd={end === null} />
          <div className="column">
            {start > 0 ? (
              <More
                key={`earlier${start}`}
                words={`${plural(start + skipped, "earlier message")}`}
                margin="800px 0px 0px 0px"
                onShow={() => show(earlier(drawn.current, count))}
              />
            ) : (
              skipped > 0 && (
                <button type="button" className="more" onClick={onSkipped}>
                  Show {plural(skipped, "earlier message")}
                </button>
              )
            )}
            <Messages messages={messages} from={start} count={count} />
            {end === null ? (
              children
            ) : (
              <More
                key={`later${end}`}
                words={plural(count - end, "later message")}
                margin="0px 0px 800px 0px"
                onShow={() => show(later(drawn.current, count))}
              />
            )}
          </div>
        </ThreadPrimitive.Viewport>
        {end === null ? (
          <ThreadPrimitive.ScrollToBottom className="to-bottom" aria-label="Go to the latest message">
            <Icon name="arrowDown" />
          </ThreadPrimitive.ScrollToBottom>
        ) : (
          <button type="button" className="to-bottom" aria-label="Go to the latest message" onClick={toEnd}>
            <Icon name="arrowDown" />
          </button>
        )}
      </ThreadPrimitive.Root>
    </AssistantRuntimeProvider>
  );
}

function Following({ following, atEnd }: { following: RefObject<boolean>; atEnd: boolean }) {
  const atBottom = useThreadViewport((viewport) => viewport.isAtBottom);
  useEffect(() => {
    following.current = atBottom && atEnd;
  }, [atBottom, atEnd, following]);
  return null;
}

/** A button that presses itself when somebody scrolls near it. */
function More({ words, margin, onShow }: { words: string; margin: string; onShow: () => void }) {
  const button = useRef<HTMLButtonElement>(null);
  const show = useRef(onShow);
  show.current = onShow;
  useEffect(() => {
    const root = button.current?.closest(".viewport") ?? null;
    const look = (entries: IntersectionObserverEntry[]) =>
      entries.some((entry) => entry.isIntersecting) && show.current();
    const seen = new IntersectionObserver(look, { root, rootMargin: margin });
    // Not at once: a thread opens at its top for a moment before it is scrolled to its end.
    const timer = setTimeout(() => button.current && seen.observe(button.current), 500);
    return () => {
      clearTimeout(timer);
      seen.disconnect();
    };
  }, [margin]);
  return (
    <button ref={button} type="button" className="more" onClick={onShow}>
      {words}
    </button>
  );
}
