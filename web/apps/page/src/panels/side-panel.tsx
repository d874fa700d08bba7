/** A panel beside the conversation, or over it where there is no room. Takes the focus, and Escape gives it back. */

import { type ReactNode, useEffect, useRef } from "react";
import { focusAgain } from "../shell/focus.js";
import { Icon } from "../shell/icons.js";

type Props = {
  name: string;
  panel: string;
  wide: boolean;
  /** Absent: it has one width. */
  onWide: (() => void) | null;
  onClose: () => void;
  children: ReactNode;
};

export function SidePanel({ name, panel, wide, onWide, onClose, children }: Props) {
  const root = useRef<HTMLElement>(null);
  const before = useRef<Element | null>(null);
  useEffect(() => {
    before.current = document.activeElement;
    return () => {
      const focused = document.activeElement;
      // Somebody who went elsewhere meanwhile stays there.
      if (!focused || focused === document.body || !focused.isConnected) focusAgain(before.current);
    };
  }, []);
  useEffect(() => root.current?.querySelector<HTMLElement>(".panel-body")?.focus({ preventScroll: true }), [panel]);
  return (
    <aside
      ref={root}
      className="panel"
      aria-label={name}
      data-panel={panel}
      onKeyDown={(event) => {
        if (event.key !== "Escape" || event.defaultPrevented) return;
        event.preventDefault();
        event.stopPropagation();
        onClose();
      }}
    >
      <header>
        <h2>{name}</h2>
        {onWide && (
          <button
            type="button"
            className="icon-button only-wide"
            aria-pressed={wide}
            aria-label="Wider"
            title={wide ? "Beside the conversation" : "In place of the conversation"}
            onClick={onWide}
          >
            <Icon name={wide ? "narrow" : "wide"} />
          </button>
        )}
        <button type="button" className="icon-button" aria-label="Close panel" title="Close (Esc)" onClick={onClose}>
          <Icon name="close" />
        </button>
      </header>
      <div className="panel-body" tabIndex={0} role="region" aria-label={`${name} list`}>
        {children}
      </div>
    </aside>
  );
}
