/** The scrolling part of a thread: a window of its last messages, and what stands below them. */

import { AssistantRuntimeProvider, ThreadPrimitive, useThreadViewport } from "@assistant-ui/react";
import type { HarnessState } from "@hames/client";
import { createConverter } from "@hames/client/assistant-ui";
import { type RuntimeCommands, useHarnessRuntime } from "@hames/client/react";
import { type ReactNode, type RefObject, useEffect, useMemo, useReducer, useRef } from "react";
import { Icon } from "../shell/icons.js";
import { Messages } from "./messages.js";
import { earlier, windowStart } from "./window.js";

type Props = { state: HarnessState; commands: RuntimeCommands | null; children: ReactNode };

export function Conversation({ state, commands, children }: Props) {
  const following = useRef(true);
  const start = useRef(0);
  const [, redraw] = useReducer((count: number) => count + 1, 0);
  const count = state.messages.length;
  start.current = windowStart(count, start.current, { following: following.current });
  const from = start.current;
  // The viewport follows runs and messages; for that it need not know all of them.
  const runtime = useHarnessRuntime(state, commands, { last: 1 });
  const convert = useMemo(createConverter, []);
  const messages = convert(state, { group: false, last: count - from });

  const showEarlier = () => {
    following.current = false;
    start.current = earlier(start.current);
    redraw();
  };
  return (
    <AssistantRuntimeProvider runtime={runtime}>
      <ThreadPrimitive.Root className="conversation">
        <ThreadPrimitive.Viewport className="viewport" role="region" aria-label="Conversation" tabIndex={0}>
          <Following following={following} />
          <div className="column">
            {from > 0 && <Earlier hidden={from} onShow={showEarlier} />}
            <Messages messages={messages} from={from} />
            {children}
          </div>
        </ThreadPrimitive.Viewport>
        <ThreadPrimitive.ScrollToBottom className="to-bottom" aria-label="To the end">
          <Icon name="arrowDown" />
        </ThreadPrimitive.ScrollToBottom>
      </ThreadPrimitive.Root>
    </AssistantRuntimeProvider>
  );
}

function Following({ following }: { following: RefObject<boolean> }) {
  const atBottom = useThreadViewport((viewport) => viewport.isAtBottom);
  useEffect(() => {
    following.current = atBottom;
  }, [atBottom, following]);
  return null;
}

function Earlier({ hidden, onShow }: { hidden: number; onShow: () => void }) {
  const button = useRef<HTMLButtonElement>(null);
  const show = useRef(onShow);
  show.current = onShow;
  useEffect(() => {
    const root = button.current?.closest(".viewport") ?? null;
    const look = (entries: IntersectionObserverEntry[]) =>
      entries.some((entry) => entry.isIntersecting) && show.current();
    const seen = new IntersectionObserver(look, { root, rootMargin: "800px 0px 0px 0px" });
    // Not at once: a thread opens at its top for a moment before it is scrolled to its end.
    const timer = setTimeout(() => button.current && seen.observe(button.current), 500);
    return () => {
      clearTimeout(timer);
      seen.disconnect();
    };
  }, [hidden]);
  return (
    <button ref={button} type="button" className="earlier" onClick={onShow}>
      {hidden} earlier {hidden === 1 ? "message" : "messages"}
    </button>
  );
}
