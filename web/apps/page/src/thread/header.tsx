/** The thread's name, its panels, and the menu of what can be done with it. */

import type { ThreadHead } from "@hames/client";
import { memo, useEffect, useRef, useState } from "react";
import { api } from "../api.js";
import { focusAgain } from "../shell/focus.js";
import { Icon } from "../shell/icons.js";
import { Menu, type MenuItem } from "../shell/menu.js";
import { baseName, titleOf } from "../text/format.js";

export type Panel = "changes" | "plan" | "outline" | "processes" | "context";

type Props = {
  thread: ThreadHead | undefined;
  panel: Panel | null;
  changed: number;
  progress: string;
  travelling: boolean;
  /** Whoever may only look is not offered what would be refused. */
  onlyLooking: boolean;
  /** Somebody asked for the title by command. */
  renaming: boolean;
  onRenaming: (renaming: boolean) => void;
  onRename: (title: string) => void;
  onPanel: (panel: Panel) => void;
  onTravel: () => void;
  onFind: () => void;
  onSidebar: () => void;
  onAction: (action: string) => void;
};

export const Header = memo(function Header(props: Props) {
  const { thread, panel, changed, progress, travelling } = props;
  return (
    <header className="head">
      <button type="button" className="icon-button only-narrow" aria-label="Threads" onClick={props.onSidebar}>
        <Icon name="menu" />
      </button>
      <div className="head-words">
        <Title
          title={thread ? titleOf(thread) : "New thread"}
          fixed={props.onlyLooking}
          editing={props.renaming && !props.onlyLooking}
          onEditing={props.onRenaming}
          onRename={props.onRename}
        />
        {thread && (
          <span className="head-path" title={thread.cwd}>
            {baseName(thread.cwd)}
            {thread.forkedFrom && " · forked"}
            {thread.archived && " · archived"}
          </span>
        )}
      </div>
      <div className="head-actions">
        <button
          type="button"
          className="tab"
          aria-pressed={panel === "plan"}
          onClick={() => props.onPanel("plan")}
          title="Plan (Alt+P)"
          aria-label={progress ? `Plan ${progress}` : "Plan"}
        >
          <Icon name="plan" />
          <span className="tab-name">Plan</span> {progress && <span className="count">{progress}</span>}
        </button>
        <button
          type="button"
          className="tab"
          aria-pressed={panel === "changes"}
          onClick={() => props.onPanel("changes")}
          title="Changes (Alt+C)"
          aria-label={changed > 0 ? `Changes ${changed}` : "Changes"}
        >
          <Icon name="diff" />
          <span className="tab-name">Changes</span> {changed > 0 && <span className="count">{changed}</span>}
        </button>
        <button
          type="button"
          className="tab wide-only"
          onClick={props.onFind}
          title="Find in this thread (Alt+F)"
          aria-label="Find in this thread"
        >
          <Icon name="search" />
        </button>
        <button
          type="button"
          className="tab wide-only"
          aria-pressed={panel === "outline"}
          onClick={() => props.onPanel("outline")}
          title="Outline: every prompt of this thread (Alt+O)"
          aria-label="Outline"
        >
          <Icon name="outline" />
        </button>
        <button
          type="button"
          className="tab"
          aria-pressed={travelling}
          onClick={props.onTravel}
          title="Time travel: the thread as it was earlier (Alt+T)"
          aria-label="Time travel"
        >
          <Icon name="history" />
        </button>
        <Menu
          label="More"
          align="end"
          items={thread ? actions(thread, props.onlyLooking) : []}
          onChoose={props.onAction}
        >
          <Icon name="more" />
        </Menu>
      </div>
    </header>
  );
});

/** What changes the thread, or asks its agent. */
const CHANGING = new Set(["context", "rename", "fork", "compact", "archive", "delete"]);

function actions(thread: ThreadHead, onlyLooking: boolean): MenuItem[] {
  const all: MenuItem[] = [
    { id: "find", name: "Find in this thread", icon: "search" },
    { id: "outline", name: "Outline", description: "Every prompt of this thread", icon: "outline" },
    { id: "ps", name: "Processes", description: "What runs in the background", icon: "command" },
    { id: "context", name: "Context", description: "What fills the model's context", icon: "options" },
    { id: "rename", name: "Rename", icon: "edit" },
    { id: "fork", name: "Fork", description: "Continue in a copy of this thread", icon: "fork" },
    {
      id: "compact",
      name: "Compact",
      description: "Replace the conversation by a summary for the model",
      icon: "spark",
    },
    { id: "archive", name: thread.archived ? "Unarchive" : "Archive", icon: "archive" },
    { id: "delete", name: "Delete…", icon: "trash" },
    {
      id: "markdown",
      name: "Export as Markdown",
      icon: "export",
      group: "Export",
      href: api.exportUrl(thread.id, "markdown"),
    },
    { id: "json", name: "Export as JSON", icon: "export", group: "Export", href: api.exportUrl(thread.id, "json") },
  ];
  return onlyLooking ? all.filter(({ id }) => !CHANGING.has(id)) : all;
}

type TitleProps = {
  title: string;
  fixed: boolean;
  editing: boolean;
  onEditing: (editing: boolean) => void;
  onRename: (title: string) => void;
};

function Title({ title, fixed, editing, onEditing, onRename }: TitleProps) {
  const [words, setWords] = useState(title);
  const input = useRef<HTMLInputElement>(null);
  useEffect(() => {
    if (!editing) return;
    setWords(title);
    // Once the words are there.
    requestAnimationFrame(() => input.current?.select());
    // The title may change while it is edited; what is typed wins.
    // oxlint-disable-next-line exhaustive-deps
  }, [editing]);
  const before = useRef<Element | null>(null);
  const done = (keep: boolean, byKey = false) => {
    onEditing(false);
    if (byKey)
      requestAnimationFrame(() =>
        focusAgain(before.current?.isConnected ? before.current : document.querySelector(".head-title button")),
      );
    if (keep && words.trim() && words.trim() !== title) onRename(words.trim());
  };
  if (fixed) return <h1 className="head-title">{title}</h1>;
  if (!editing) {
    return (
      <h1 className="head-title">
        <button type="button" onClick={() => onEditing(true)} title={`Rename: ${title}`}>
          {title}
        </button>
      </h1>
    );
  }
  return (
    <input
      ref={input}
      className="head-title"
      value={words}
      autoFocus
      maxLength={200}
      aria-label="Title"
      onChange={(event) => setWords(event.target.value)}
      onFocus={(event) => (before.current = event.relatedTarget)}
      onBlur={() => done(true)}
      onKeyDown={(event) => {
        if (event.key === "Enter") done(true, true);
        if (event.key === "Escape") done(false, true);
      }}
    />
  );
}
