/** One thread, live: what the server says, what people do, and now and then a look at the past. */

import type { AttachmentInput, Configuration, Decision, HarnessState, ServerStatus } from "@hames/client";
import { useHarness } from "@hames/client/react";
import { useCallback, useEffect, useMemo, useRef, useState } from "react";
import { api, clientFor } from "../api.js";
import { type SlashCommand, slashCommands } from "../composer/commands.js";
import { Composer, type ComposerHandle } from "../composer/composer.js";
import { Changes, changedFiles } from "../panels/changes.js";
import { PlanList, planProgress } from "../panels/plan.js";
import { TimeBar, useTimeTravel } from "../panels/time-travel.js";
import { Icon } from "../shell/icons.js";
import { go } from "../shell/route.js";
import { remember } from "../shell/storage.js";
import { toast, toastFailure } from "../shell/toasts.js";
import { passNews } from "../threads/news.js";
import { ApprovalCard } from "../tools/approval-card.js";
import { ActivityLine, activityOf, announcement } from "./activity.js";
import { ConnectionBanner } from "./connection.js";
import { ApprovalsProvider, type ThreadTools, ThreadToolsProvider } from "./context.js";
import { Conversation } from "./conversation.js";
import { Header, type Panel } from "./header.js";
import { Pending } from "./messages.js";
import { Blank, EmptyThread, Failure } from "./states.js";

type Props = {
  threadId: string;
  server: ServerStatus | null;
  onSidebar: () => void;
  onNewThread: (model?: string) => void;
  onTheme: () => void;
  onHelp: (commands: readonly SlashCommand[]) => void;
  onState: (state: HarnessState) => void;
  onChanged: () => void;
};

const NONE: never[] = [];

export function ThreadPage({ threadId, server, onSidebar, onNewThread, onTheme, onHelp, onState, onChanged }: Props) {
  const client = useMemo(() => clientFor(threadId), [threadId]);
  const { connection, state: live, pending } = useHarness(client);
  const { past, enter, to, leave } = useTimeTravel(threadId);
  const [panel, setPanel] = useState<Panel | null>(null);
  const [wide, setWide] = useState(false);
  const [renaming, setRenaming] = useState(false);
  const composer = useRef<ComposerHandle>(null);
  const travelling = past !== null;
  const state = past ? past.state : live;
  const latest = useRef(live);
  latest.current = live;

  useEffect(() => {
    client.connect();
    const stops = [client.onError(toast), passNews(client)];
    return () => {
      for (const stop of stops) stop();
      client.close();
    };
  }, [client]);
  useEffect(() => {
    if (live) onState(live);
  }, [live, onState]);

  const send = useCallback((sent: boolean) => void (sent || toast("there is no connection: nothing was sent")), []);
  const submit = useCallback(
    (prompt: string, attachments: AttachmentInput[]) => void client.submit(prompt, { attachments }),
    [client],
  );
  const steer = useCallback(
    (prompt: string, attachments: AttachmentInput[]) => void client.steer(prompt, attachments),
    [client],
  );
  const stop = useCallback(() => send(client.cancel()), [client, send]);
  const dequeue = useCallback((id: string) => send(client.dequeue(id)), [client, send]);
  const configure = useCallback(
    (configuration: Configuration) => send(client.configure(configuration)),
    [client, send],
  );
  const rename = useCallback((title: string) => (send(client.rename(title)), onChanged()), [client, send, onChanged]);

  const fork = useCallback(
    (lastSeq?: number, draft = "") => {
      api.fork(threadId, lastSeq).then((thread) => {
        remember(`draft.${thread.id}`, draft);
        onChanged();
        go(thread.id);
      }, toastFailure);
    },
    [threadId, onChanged],
  );
  const forkBefore = useCallback(
    (messageId: string) => {
      const prompt = latest.current?.messages.find(({ id }) => id === messageId)?.content ?? "";
      api.timeline(threadId).then(({ marks }) => {
        const at = marks.findIndex((mark) => mark.messageId === messageId);
        const turn = marks.slice(0, at + 1).findLast(({ kind }) => kind === "turn") ?? marks[at];
        if (!turn) return toast("the log does not say where this message began");
        fork(turn.seq - 1, prompt);
      }, toastFailure);
    },
    [threadId, fork],
  );
  const archive = useCallback(() => {
    api.archive(threadId, !latest.current?.thread?.archived).then((row) => {
      onChanged();
      if (row.archived) go(null);
    }, toastFailure);
  }, [threadId, onChanged]);
  const showPanel = useCallback((wanted: Panel) => setPanel((now) => (now === wanted ? null : wanted)), []);
  const travel = useCallback(() => (past ? leave() : enter()), [past, leave, enter]);

  const commands = useMemo(() => {
    const all: readonly SlashCommand[] = slashCommands({
      newThread: () => onNewThread(),
      fork: () => fork(),
      archive,
      rename: () => setRenaming(true),
      compact: () => send(client.compact()),
      review: () => send(client.review({ kind: "uncommittedChanges", text: "" })),
      stop,
      setAgent: (agent) => configure({ agent }),
      showChanges: () => setPanel("changes"),
      showPlan: () => setPanel("plan"),
      timeTravel: enter,
      exportAs: (format) => window.location.assign(api.exportUrl(threadId, format)),
      theme: onTheme,
      help: () => onHelp(all),
    });
    return all;
  }, [client, threadId, archive, configure, enter, fork, onHelp, onNewThread, onTheme, send, stop]);

  const act = useCallback(
    (action: string) => commands.find(({ id }) => id === action && id !== "markdown" && id !== "json")?.run(),
    [commands],
  );

  useEffect(() => {
    const keys = (event: KeyboardEvent) => {
      if (!event.altKey || event.ctrlKey || event.metaKey) return;
      if (event.code === "KeyC") showPanel("changes");
      else if (event.code === "KeyP") showPanel("plan");
      else if (event.code === "KeyT") travel();
      else return;
      event.preventDefault();
    };
    window.addEventListener("keydown", keys);
    return () => window.removeEventListener("keydown", keys);
  }, [showPanel, travel]);

  const cwd = state?.thread?.cwd ?? "";
  const tools = useMemo<ThreadTools>(
    () => ({
      threadId,
      cwd,
      readOnly: travelling,
      approve: (id: string, decision: Decision, note = "", content?: unknown) =>
        send(client.approve(id, decision, note, content)),
      forkBefore,
    }),
    [threadId, cwd, travelling, client, send, forkBefore],
  );

  const messages = state?.messages ?? NONE;
  const lastTools = messages.at(-1)?.toolCalls;
  // Files change when a tool call does, not at every token.
  // oxlint-disable-next-line exhaustive-deps
  const files = useMemo(() => changedFiles(messages), [messages.length, lastTools, threadId, past?.index]);
  // oxlint-disable-next-line exhaustive-deps
  const history = useMemo(() => prompts(live?.messages ?? NONE), [live?.messages.length]);

  const demo = useCallback(() => server?.demoModel && onNewThread(server.demoModel), [server, onNewThread]);
  const lastPrompt = () => latest.current?.messages.findLast(({ role }) => role === "user")?.content ?? "";
  const retry = useCallback(() => void (lastPrompt() && client.submit(lastPrompt())), [client]);
  const edit = useCallback(() => composer.current?.fill(lastPrompt()), []);
  const idea = useCallback((prompt: string) => composer.current?.fill(prompt), []);
  const showApproval = useCallback(() => {
    const card = document.querySelector<HTMLElement>("[data-approval]");
    card?.scrollIntoView({ block: "center" });
    card?.focus({ preventScroll: true });
  }, []);

  if (connection.status === "ended" && connection.reason === "notFound") {
    return (
      <Blank icon="search" title="There is no such thread">
        <p>It may have been deleted, or it belongs to another server.</p>
        <button type="button" className="button primary" onClick={() => go(null)}>
          To the newest thread
        </button>
      </Blank>
    );
  }

  const approvals = state?.approvals ?? NONE;
  const known = new Set(messages.slice(-3).flatMap(({ toolCalls }) => toolCalls?.map(({ id }) => id) ?? []));
  const model = state?.models?.find(({ id }) => id === state.settings?.model);
  return (
    <ThreadToolsProvider value={tools}>
      <ApprovalsProvider value={approvals}>
        <main className="thread" data-travelling={past ? "" : undefined}>
          <Header
            thread={live?.thread}
            panel={panel}
            changed={files.length}
            progress={planProgress(state?.plan)}
            travelling={travelling}
            renaming={renaming}
            onRenaming={setRenaming}
            onRename={rename}
            onPanel={showPanel}
            onTravel={travel}
            onSidebar={onSidebar}
            onAction={act}
          />
          <ConnectionBanner connection={connection} onRetry={() => client.reconnect()} />
          <div className="thread-body" data-wide={(panel === "changes" && wide) || undefined}>
            <div className="thread-main">
              {state ? (
                <Conversation key={past ? "past" : "live"} state={state} commands={past ? null : client}>
                  {messages.length === 0 && pending.length === 0 && (
                    <EmptyThread cwd={cwd} model={model} server={server} onIdea={idea} onDemo={demo} />
                  )}
                  {approvals
                    .filter(
                      ({ toolCallId }) =>
                        !known.has(toolCallId) &&
                        !messages.some(({ toolCalls }) => toolCalls?.some(({ id }) => id === toolCallId)),
                    )
                    .map((approval) => (
                      <ApprovalCard key={approval.id} approval={approval} />
                    ))}
                  {!past && (
                    <Failure
                      state={state}
                      server={server}
                      onRetry={retry}
                      onCompact={() => send(client.compact())}
                      onDemo={demo}
                      onEdit={edit}
                    />
                  )}
                  {!past && <Pending pending={pending} connected={connection.status === "open"} />}
                </Conversation>
              ) : (
                <div className="loading" aria-busy="true">
                  <span className="spinner" aria-hidden="true" />
                  <span className="offscreen">Loading</span>
                </div>
              )}
              <footer className="foot">
                {past ? (
                  <TimeBar past={past} to={to} leave={leave} fork={fork} />
                ) : (
                  <>
                    <ActivityLine activity={live && activityOf(live)} onAnswer={showApproval} />
                    <Composer
                      ref={composer}
                      threadId={threadId}
                      running={live?.status === "running"}
                      settings={live?.settings}
                      models={live?.models}
                      selectors={live?.selectors}
                      usage={live?.usage}
                      queue={live?.queue ?? NONE}
                      queueHeld={live?.queueHeld ?? false}
                      history={history}
                      commands={commands}
                      submit={submit}
                      steer={steer}
                      stop={stop}
                      dequeue={dequeue}
                      configure={configure}
                    />
                  </>
                )}
              </footer>
            </div>
            {panel && (
              <aside className="panel" aria-label={panel === "changes" ? "Changes" : "Plan"}>
                <header>
                  <h2>{panel === "changes" ? "Changes" : "Plan"}</h2>
                  {panel === "changes" && (
                    <button
                      type="button"
                      className="icon-button only-wide"
                      aria-pressed={wide}
                      aria-label="Wider"
                      title={wide ? "Beside the conversation" : "In place of the conversation"}
                      onClick={() => setWide(!wide)}
                    >
                      <Icon name={wide ? "narrow" : "wide"} />
                    </button>
                  )}
                  <button type="button" className="icon-button" aria-label="Close panel" onClick={() => setPanel(null)}>
                    <Icon name="close" />
                  </button>
                </header>
                <div
                  className="panel-body"
                  tabIndex={0}
                  role="region"
                  aria-label={panel === "changes" ? "Changed files" : "Steps"}
                >
                  {panel === "changes" ? <Changes files={files} /> : <PlanList plan={state?.plan} />}
                </div>
              </aside>
            )}
          </div>
          <p className="offscreen" role="status" data-announcer="">
            {announcement(live)}
          </p>
        </main>
      </ApprovalsProvider>
    </ThreadToolsProvider>
  );
}

/** Newest first, without repetitions. */
function prompts(messages: HarnessState["messages"]): readonly string[] {
  return [
    ...new Set(messages.flatMap(({ role, content }) => (role === "user" && content ? [content] : [])).toReversed()),
  ];
}
