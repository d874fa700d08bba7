/** The threads of this server, newest first. A dot says which of them runs, waits for you, or failed. */

import type { ThreadRow } from "@hames/client";
import { type KeyboardEvent, memo, type MouseEvent, useMemo } from "react";
import { Icon, Mark } from "../shell/icons.js";
import { threadUrl } from "../shell/route.js";
import type { Theme } from "../shell/theme.js";
import { ago, baseName, titleOf } from "../text/format.js";
import type { ThreadList } from "./use-threads.js";

type Props = {
  list: ThreadList;
  current: string | null;
  search: string;
  archived: boolean;
  theme: Theme;
  notifying: boolean;
  version: string;
  /** The directory of the server: a thread in another one says so. */
  cwd: string;
  /** Whoever may only look is not offered what would be refused. */
  onlyLooking: boolean;
  onSearch: (search: string) => void;
  onArchived: (archived: boolean) => void;
  onOpen: (threadId: string) => void;
  onNew: () => void;
  onArchive: (thread: ThreadRow, archived: boolean) => void;
  onDelete: (thread: ThreadRow) => void;
  onTheme: () => void;
  onNotify: () => void;
  onAddDevice: () => void;
  onHelp: () => void;
};

const STATUS = { idle: "", running: "running", approval: "needs you", error: "failed" } as const;
const THEME_ICONS = { system: "monitor", light: "sun", dark: "moon" } as const;

export const ThreadSidebar = memo(function ThreadSidebar(props: Props) {
  const { list, current, search, archived, theme } = props;
  const groups = useMemo(() => byDay(list.threads ?? [], Date.now()), [list.threads]);
  return (
    <>
      <div className="sidebar-head">
        <span className="brand">
          <Mark /> Hames
        </span>
        {!props.onlyLooking && (
          <button type="button" className="button new-thread" onClick={() => props.onNew()} title="New thread (Alt+N)">
            <Icon name="plus" size={14} /> New
          </button>
        )}
      </div>
      <div className="search">
        <Icon name="search" size={14} />
        <input
          type="search"
          value={search}
          onChange={(event) => props.onSearch(event.target.value)}
          placeholder="Search threads"
          aria-label="Search threads"
          data-search=""
        />
      </div>
      <nav className="threads" aria-label="Threads" onKeyDown={arrows}>
        {archived && (
          <div className="threads-archived">
            <button
              type="button"
              className="icon-button"
              aria-label="Back to all threads"
              title="Back to all threads"
              onClick={() => props.onArchived(false)}
            >
              <Icon name="chevron" className="flip" />
            </button>
            <h2>Archived threads</h2>
          </div>
        )}
        {list.threads === null && list.problem === null && <p className="threads-empty">Loading…</p>}
        {list.threads?.length === 0 && (
          <p className="threads-empty">
            {list.searching
              ? "Searching…"
              : search
                ? "Nothing found"
                : archived
                  ? "Nothing is archived. Archive a thread to keep it out of the list."
                  : "No threads yet"}
          </p>
        )}
        {list.searching && (list.threads?.length ?? 0) > 0 && <p className="threads-empty">Searching…</p>}
        {groups.map(([day, threads]) => (
          <section key={day} aria-label={day}>
            <h2>{day}</h2>
            <ul>
              {threads.map((thread) => (
                <Row
                  key={thread.id}
                  thread={thread}
                  current={thread.id === current}
                  elsewhere={thread.cwd !== props.cwd}
                  search={search}
                  onlyLooking={props.onlyLooking}
                  onOpen={props.onOpen}
                  onArchive={props.onArchive}
                  onDelete={props.onDelete}
                />
              ))}
            </ul>
          </section>
        ))}
        {list.more && (
          <button type="button" className="link threads-more" onClick={list.more}>
            Older threads
          </button>
        )}
      </nav>
      <div className="sidebar-foot">
        <button
          type="button"
          className="icon-button"
          aria-pressed={archived}
          aria-label="Show archived threads"
          title="Show archived threads"
          onClick={() => props.onArchived(!archived)}
        >
          <Icon name="archive" />
        </button>
        <button
          type="button"
          className="icon-button"
          aria-label={`Theme: ${theme}`}
          title={`Theme: ${theme}`}
          onClick={props.onTheme}
        >
          <Icon name={THEME_ICONS[theme]} />
        </button>
        <button
          type="button"
          className="icon-button"
          aria-pressed={props.notifying}
          aria-label="Notify me when a thread needs me"
          title="Notify me when a thread needs me"
          onClick={props.onNotify}
        >
          <Icon name="bell" />
        </button>
        <button
          type="button"
          className="icon-button"
          aria-label="Add a device"
          title="Add a device: sign in a phone or another browser"
          onClick={props.onAddDevice}
        >
          <Icon name="device" />
        </button>
        <button
          type="button"
          className="icon-button"
          aria-label="Keys and commands"
          title="Keys and commands (?)"
          onClick={props.onHelp}
        >
          <Icon name="help" />
        </button>
        <span className="version">{props.version}</span>
      </div>
    </>
  );
});

type RowProps = {
  thread: ThreadRow;
  current: boolean;
  elsewhere: boolean;
  search: string;
  onlyLooking: boolean;
  onOpen: (threadId: string) => void;
  onArchive: (thread: ThreadRow, archived: boolean) => void;
  onDelete: (thread: ThreadRow) => void;
};

/** One line while there is nothing to say of a thread but its name; a second one for what needs attention. */
const Row = memo(function Row(props: RowProps) {
  const { thread, current, elsewhere, search, onlyLooking, onOpen, onArchive, onDelete } = props;
  const open = (event: MouseEvent) => {
    if (event.metaKey || event.ctrlKey || event.shiftKey || event.button !== 0) return;
    event.preventDefault();
    onOpen(thread.id);
  };
  const said = STATUS[thread.status];
  const title = titleOf(thread);
  return (
    <li className="thread-row" data-current={current || undefined}>
      <a
        href={threadUrl(thread.id)}
        onClick={open}
        aria-current={current ? "page" : undefined}
        data-row=""
        title={thread.title ? undefined : thread.preview || undefined}
      >
        <span className="dot" data-status={thread.status} aria-hidden="true" />
        <span className="thread-title">{title}</span>
        <time className="thread-time" dateTime={new Date(thread.updatedAt).toISOString()}>
          {ago(thread.updatedAt, Date.now())}
        </time>
        {(said || elsewhere) && (
          <span className="thread-meta">
            {said && <span data-status={thread.status}>{said}</span>}
            {elsewhere && <span title={thread.cwd}>{baseName(thread.cwd)}</span>}
          </span>
        )}
        {thread.match && (
          <span className="thread-match">
            <Marked text={thread.match} words={search} />
          </span>
        )}
      </a>
      {!onlyLooking && (
        <span className="thread-actions">
          {thread.archived && (
            <button
              type="button"
              className="icon-button small"
              aria-label={`Delete ${title}`}
              title="Delete"
              onClick={() => onDelete(thread)}
            >
              <Icon name="trash" size={13} />
            </button>
          )}
          <button
            type="button"
            className="icon-button small"
            aria-label={`${thread.archived ? "Unarchive" : "Archive"} ${title}`}
            title={thread.archived ? "Unarchive" : "Archive"}
            onClick={() => onArchive(thread, !thread.archived)}
          >
            <Icon name={thread.archived ? "retry" : "archive"} size={13} />
          </button>
        </span>
      )}
    </li>
  );
});

/** The words that were searched for, marked where they are. */
function Marked({ text, words }: { text: string; words: string }) {
  const wanted = words.trim();
  const at = wanted ? text.toLowerCase().indexOf(wanted.toLowerCase()) : -1;
  if (at < 0) return text;
  return (
    <>
      {text.slice(0, at)}
      <mark>{text.slice(at, at + wanted.length)}</mark>
      {text.slice(at + wanted.length)}
    </>
  );
}

function arrows(event: KeyboardEvent<HTMLElement>): void {
  if (event.key !== "ArrowDown" && event.key !== "ArrowUp") return;
  const rows = [...event.currentTarget.querySelectorAll<HTMLElement>("[data-row]")];
  const at = rows.indexOf(document.activeElement as HTMLElement);
  const next = rows[at + (event.key === "ArrowDown" ? 1 : -1)];
  if (at < 0 || !next) return;
  event.preventDefault();
  next.focus();
}

function byDay(threads: readonly ThreadRow[], now: number): [string, ThreadRow[]][] {
  const midnight = new Date(now).setHours(0, 0, 0, 0);
  const groups = new Map<string, ThreadRow[]>();
  for (const thread of threads) {
    const age = midnight - thread.updatedAt;
    const day = age <= 0 ? "Today" : age <= 86_400_000 ? "Yesterday" : age <= 6 * 86_400_000 ? "This week" : "Earlier";
    groups.set(day, [...(groups.get(day) ?? []), thread]);
  }
  return [...groups];
}
