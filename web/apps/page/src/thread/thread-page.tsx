/** One thread: what the server sends, what people do, and now and then a look at the past. */

import type {
  Attachment,
  AttachmentInput,
  Configuration,
  AlwaysScope,
  Decision,
  HarnessState,
  ServerStatus,
  ThreadRow,
} from "@hames/client";
import { useHarness } from "@hames/client/react";
import { useCallback, useEffect, useMemo, useRef, useState } from "react";
import { api, clientFor } from "../api.js";
import { START_WORK, slashCommands } from "../composer/commands.js";
import { Composer, type ComposerHandle } from "../composer/composer.js";
import { useFileDrop } from "../composer/file-drop.js";
import { attachedAgain } from "../composer/images.js";
import { Changes, changedFiles } from "../panels/changes.js";
import { ContextWindow } from "../panels/context-window.js";
import { Processes } from "../panels/processes.js";
import { SidePanel } from "../panels/side-panel.js";
import { Outline } from "../panels/outline.js";
import { PlanList, planProgress } from "../panels/plan.js";
import { TimeBar, useTimeTravel } from "../panels/time-travel.js";
import { focusAgain } from "../shell/focus.js";
import { Icon } from "../shell/icons.js";
import { useBackCloses } from "../shell/back.js";
import { go } from "../shell/route.js";
import { remember } from "../shell/storage.js";
import { toast, toastFailure } from "../shell/toasts.js";
import { sentence } from "../text/format.js";
import { whyNotAnswering, whyOnlyLooking } from "../text/people.js";
import { passNews } from "../threads/news.js";
import { ApprovalCard } from "../tools/approval-card.js";
import { ActivityLine, activityOf, announcement } from "./activity.js";
import { ConnectionBanner } from "./connection.js";
import { ApprovalsProvider, FoundProvider, type ThreadTools, ThreadToolsProvider, UnreadProvider } from "./context.js";
import { Conversation, type ConversationHandle } from "./conversation.js";
import type { Hit } from "./find.js";
import { FindBar } from "./find-bar.js";
import { Header, type Panel } from "./header.js";
import { Pending } from "./messages.js";
import { Blank, EmptyThread, Failure, Notices } from "./states.js";
import { UndoDialog, type UndoRequest } from "./undo-dialog.js";
import { WorktreeDialog } from "./worktree-dialog.js";
import { unreadMessages } from "./unread.js";
import { WINDOW } from "./window.js";

type Props = {
  threadId: string;
  server: ServerStatus | null;
  onSidebar: () => void;
  onNewThread: (model?: string) => void;
  onTheme: () => void;
  onHelp: () => void;
  onState: (state: HarnessState) => void;
  onChanged: () => void;
  onArchive: (thread: ThreadLabel, archived: boolean) => void;
  onDelete: (thread: ThreadLabel) => void;
  onAddDevice: () => void;
};

type ThreadLabel = Pick<ThreadRow, "id" | "title" | "preview">;

const NONE: never[] = [];
/** What people type into the message box when the agent asks. */
const ANSWERS = new Map<string, Decision>([
  ["y", "once"],
  ["yes", "once"],
  ["n", "reject"],
  ["no", "reject"],
]);
const PANELS: Record<Panel, string> = {
  changes: "Changes",
  plan: "Plan",
  outline: "Outline",
  processes: "Processes",
  context: "Context",
};

/** What goes along with the text when a prompt is edited in a fork: the fork's message box takes it when it appears. */
const carried = new Map<string, readonly Attachment[]>();

export function ThreadPage(props: Props) {
  const { threadId, server, onSidebar, onNewThread, onTheme, onHelp, onState, onChanged } = props;
  const { onArchive, onDelete, onAddDevice } = props;
  const client = useMemo(() => clientFor(threadId), [threadId]);
  const { connection, state: live, pending } = useHarness(client);
  const { past, enter, to, leave, showAll } = useTimeTravel(threadId, live);
  const [panel, setPanel] = useState<Panel | null>(null);
  const [wide, setWide] = useState(false);
  const [renaming, setRenaming] = useState(false);
  const [undoing, setUndoing] = useState<UndoRequest | null>(null);
  const undo = useCallback((turnId: string) => setUndoing({ turnId }), []);
  const undone = useCallback(() => setUndoing(null), []);
  const [inWorktree, setInWorktree] = useState(false);
  const leaveWorktree = useCallback(() => setInWorktree(false), []);
  const [finding, setFinding] = useState(false);
  const [found, setFound] = useState<Hit | null>(null);
  const composer = useRef<ComposerHandle>(null);
  const conversation = useRef<ConversationHandle>(null);
  const travelling = past !== null;
  const state = past ? past.state : live;
  const latest = useRef(live);
  latest.current = live;

  useEffect(() => {
    client.connect();
    const refused = client.onError((message, submit) => {
      toast(sentence(message));
      if (submit) composer.current?.giveBack(submit.prompt, submit.attachments);
    });
    const stops = [refused, passNews(client)];
    return () => {
      for (const stop of stops) stop();
      client.close();
    };
  }, [client]);
  useEffect(() => {
    if (live) onState(live);
  }, [live, onState]);

  const dropping = useFileDrop((files) => {
    if (composer.current) composer.current.attach(files);
    else
      toast(
        whyOnlyLooking(server?.role ?? "owner") ||
          "You see an earlier state of the thread. Go back to now before you attach something.",
      );
  });
  useEffect(() => {
    const attachments = carried.get(threadId);
    if (!attachments || !composer.current) return;
    carried.delete(threadId);
    composer.current.fill("", attachments);
  }, [threadId]);

  const send = useCallback((sent: boolean) => (sent || toast("Not connected: nothing was sent."), sent), []);
  const submit = useCallback(
    (prompt: string, attachments: AttachmentInput[]) => {
      client.submit(prompt, { attachments });
      conversation.current?.toEnd();
    },
    [client],
  );
  const steer = useCallback(
    (prompt: string, attachments: AttachmentInput[]) => {
      // A question waits, and somebody typed its answer into the message box.
      const asked = latest.current?.approvals?.[0];
      const answer =
        attachments.length === 0 && asked?.kind !== "elicitation" ? ANSWERS.get(prompt.toLowerCase()) : undefined;
      if (asked && answer) return void send(client.approve(asked.id, answer));
      client.steer(prompt, attachments);
      conversation.current?.toEnd();
    },
    [client, send],
  );
  const stop = useCallback(() => void send(client.cancel()), [client, send]);
  const dequeue = useCallback((id: string) => send(client.dequeue(id)), [client, send]);
  const configure = useCallback(
    (configuration: Configuration) => void send(client.configure(configuration)),
    [client, send],
  );
  const startWork = useCallback(() => {
    if (send(client.configure({ agent: "code" }))) submit(START_WORK, []);
  }, [client, send, submit]);
  const rename = useCallback((title: string) => (send(client.rename(title)), onChanged()), [client, send, onChanged]);

  const fork = useCallback(
    (lastSeq?: number, draft = "", attachments: readonly Attachment[] = []) => {
      api.fork(threadId, lastSeq).then((thread) => {
        remember(`draft.${thread.id}`, draft);
        if (attachments.length > 0) carried.set(thread.id, attachments);
        onChanged();
        go(thread.id);
      }, toastFailure);
    },
    [threadId, onChanged],
  );
  const forkBefore = useCallback(
    (messageId: string) => {
      const prompt = latest.current?.messages.find(({ id }) => id === messageId);
      api.timeline(threadId).then(({ marks }) => {
        const at = marks.findIndex((mark) => mark.messageId === messageId);
        const turn = marks.slice(0, at + 1).findLast(({ kind }) => kind === "turn") ?? marks[at];
        if (!turn) return toast("This message was not found in the log of the thread.");
        fork(turn.seq - 1, prompt?.content ?? "", prompt?.attachments ?? []);
      }, toastFailure);
    },
    [threadId, fork],
  );
  const archive = useCallback(() => {
    const thread = latest.current?.thread;
    if (thread) onArchive(thread, !thread.archived);
  }, [onArchive]);
  const remove = useCallback(() => {
    const thread = latest.current?.thread;
    if (thread) onDelete(thread);
  }, [onDelete]);
  const beforeFind = useRef<Element | null>(null);
  const find = useCallback(() => {
    if (!document.activeElement?.closest(".find-bar")) beforeFind.current = document.activeElement;
    setFinding(true);
  }, []);
  const closeFind = useCallback(() => {
    setFinding(false);
    setFound(null);
    focusAgain(beforeFind.current);
  }, []);
  const showHit = useCallback((hit: Hit) => {
    setFound(hit);
    conversation.current?.jump(hit.messageId);
  }, []);
  const jump = useCallback((messageId: string) => conversation.current?.jump(messageId), []);
  const toEnd = useCallback(() => conversation.current?.toEnd(), []);
  const showPanel = useCallback((wanted: Panel) => setPanel((now) => (now === wanted ? null : wanted)), []);
  const closePanel = useCallback(() => setPanel(null), []);
  useBackCloses(panel !== null, closePanel);
  const travel = useCallback(() => (past ? leave() : enter()), [past, leave, enter]);

  const commands = useMemo(() => {
    return slashCommands({
      newThread: () => onNewThread(),
      fork: () => fork(),
      undo: () => setUndoing({}),
      redo: () => setUndoing({ redo: true }),
      worktree: () => setInWorktree(true),
      archive,
      remove,
      find,
      outline: () => setPanel("outline"),
      addDevice: onAddDevice,
      rename: () => setRenaming(true),
      compact: () => void send(client.compact()),
      review: () => void send(client.review({ kind: "uncommittedChanges", text: "" })),
      stop,
      setAgent: (agent) => configure({ agent }),
      startWork,
      showChanges: () => setPanel("changes"),
      showPlan: () => setPanel("plan"),
      showProcesses: () => setPanel("processes"),
      showContext: () => setPanel("context"),
      timeTravel: enter,
      exportAs: (format) => window.location.assign(api.exportUrl(threadId, format)),
      theme: onTheme,
      help: onHelp,
    });
  }, [
    client,
    threadId,
    archive,
    remove,
    find,
    configure,
    startWork,
    enter,
    fork,
    onAddDevice,
    onHelp,
    onNewThread,
    onTheme,
    send,
    stop,
  ]);

  const act = useCallback(
    (action: string) => commands.find(({ id }) => id === action && id !== "markdown" && id !== "json")?.run(),
    [commands],
  );

  const showApproval = useCallback(() => {
    const card = document.querySelector<HTMLElement>("[data-approval]");
    card?.scrollIntoView({ block: "center" });
    card?.focus({ preventScroll: true });
  }, []);

  useEffect(() => {
    const keys = (event: KeyboardEvent) => {
      const { altKey, ctrlKey, metaKey, code } = event;
      const inFind = event.target instanceof HTMLElement && event.target.closest(".find-bar");
      // The browser's own search would see only what is drawn. In the search box it is the browser's again.
      if ((ctrlKey || metaKey) && !altKey && code === "KeyF" && !inFind && isLong(latest.current)) find();
      else if (!altKey || ctrlKey || metaKey) return;
      else if (code === "KeyC") showPanel("changes");
      else if (code === "KeyP") showPanel("plan");
      else if (code === "KeyO") showPanel("outline");
      else if (code === "KeyF") find();
      else if (code === "KeyT") travel();
      else if (code === "KeyA") showApproval();
      else if (code === "KeyM") toggleMessageBox();
      else return;
      event.preventDefault();
    };
    window.addEventListener("keydown", keys);
    return () => window.removeEventListener("keydown", keys);
  }, [showPanel, travel, find, showApproval]);

  const sendAgain = useCallback(
    (messageId: string) => {
      const prompt = latest.current?.messages.find(({ id }) => id === messageId);
      if (!prompt) return;
      attachedAgain(prompt.attachments ?? []).then((attachments) => submit(prompt.content, attachments), toastFailure);
    },
    [submit],
  );
  const cwd = state?.thread?.cwd ?? "";
  const role = server?.role ?? "owner";
  const onlyLooking = whyOnlyLooking(role);
  const tools = useMemo<ThreadTools>(
    () => ({
      threadId,
      cwd,
      readOnly: travelling || onlyLooking !== "",
      notAnswering: whyNotAnswering(role),
      user: server?.user ?? "",
      approve: (id: string, decision: Decision, note = "", content?: unknown, scope?: AlwaysScope) =>
        void send(client.approve(id, decision, note, content, scope)),
      stop,
      forkBefore,
      undo,
      sendAgain,
    }),
    [threadId, cwd, travelling, onlyLooking, role, server?.user, client, send, stop, forkBefore, undo, sendAgain],
  );

  const messages = state?.messages ?? NONE;
  const lastTools = messages.at(-1)?.toolCalls;
  const takenBack = messages.reduce((sum, message) => sum + (message.undone?.length ?? 0), 0);
  // Files change when a tool call does, or by an undo: not at every token.
  // oxlint-disable-next-line exhaustive-deps
  const files = useMemo(() => changedFiles(messages), [messages.length, lastTools, takenBack, threadId, past?.index]);
  // Git is asked again when a tool call has ended.
  const toolsDone = useMemo(
    () =>
      messages.reduce(
        (sum, { toolCalls }) => sum + (toolCalls?.filter(({ status }) => status !== "running").length ?? 0),
        0,
      ),
    [messages],
  );
  const ranCommands = messages.some(({ toolCalls }) => toolCalls?.some(({ kind }) => kind === "command"));
  const status = state?.status ?? "idle";
  const unread = useMemo(
    () => unreadMessages({ messages, status }),
    // Only a whole message, or the end of the work, makes a difference.
    // oxlint-disable-next-line exhaustive-deps
    [messages.length, status],
  );
  // oxlint-disable-next-line exhaustive-deps
  const history = useMemo(() => prompts(live?.messages ?? NONE), [live?.messages.length]);

  const demo = useCallback(() => server?.demoModel && onNewThread(server.demoModel), [server, onNewThread]);
  const lastPrompt = () => latest.current?.messages.findLast(({ role }) => role === "user");
  const retry = useCallback(() => {
    const prompt = lastPrompt();
    if (!prompt) return;
    attachedAgain(prompt.attachments ?? []).then(
      (attachments) => submit(prompt.content, attachments),
      (failure: unknown) => {
        toastFailure(failure);
        composer.current?.fill(prompt.content);
      },
    );
  }, [submit]);
  const edit = useCallback(() => {
    const prompt = lastPrompt();
    if (prompt) composer.current?.fill(prompt.content, prompt.attachments);
  }, []);
  const idea = useCallback((prompt: string) => composer.current?.fill(prompt), []);

  if (connection.status === "ended" && connection.reason === "notFound") {
    return (
      <main id="main" tabIndex={-1} className="thread">
        <Blank icon="search" title="Thread not found">
          <p>It may have been deleted, or it belongs to another server.</p>
          <button type="button" className="button primary" onClick={() => go(null)}>
            Open the newest thread
          </button>
        </Blank>
      </main>
    );
  }

  const approvals = state?.approvals ?? NONE;
  const known = new Set(messages.slice(-3).flatMap(({ toolCalls }) => toolCalls?.map(({ id }) => id) ?? []));
  const model = state?.models?.find(({ id }) => id === state.settings?.model);
  return (
    <ThreadToolsProvider value={tools}>
      <ApprovalsProvider value={approvals}>
        <FoundProvider value={found?.toolCallId ?? ""}>
          <UnreadProvider value={unread}>
            <main id="main" tabIndex={-1} className="thread" data-travelling={past ? "" : undefined}>
              <Header
                thread={live?.thread}
                panel={panel}
                changed={files.length}
                progress={planProgress(state?.plan)}
                travelling={travelling}
                onlyLooking={onlyLooking !== ""}
                renaming={renaming}
                onRenaming={setRenaming}
                onRename={rename}
                onPanel={showPanel}
                onTravel={travel}
                onFind={find}
                onSidebar={onSidebar}
                onAction={act}
              />
              <ConnectionBanner connection={connection} onRetry={() => client.reconnect()} />
              {live?.thread?.notice && (
                <p className="banner" role="note">
                  <Icon name="alert" size={14} />
                  <span>
                    This thread was not written by you on this machine. Its settings are not used: if you continue, the
                    agent works in <code>{live.thread.cwd}</code> with your settings.
                  </span>
                  <button type="button" className="link" onClick={() => onNewThread()}>
                    New thread
                  </button>
                </p>
              )}
              {finding && <FindBar messages={messages} onHit={showHit} onClose={closeFind} />}
              <div className="thread-body" data-wide={(panel === "changes" && wide) || undefined}>
                <div className="thread-main">
                  {state ? (
                    <Conversation
                      ref={conversation}
                      state={state}
                      skipped={past?.skipped ?? 0}
                      onSkipped={showAll}
                      commands={past ? null : client}
                    >
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
                      {!past && !onlyLooking && (
                        <Failure
                          state={state}
                          server={server}
                          onRetry={retry}
                          onCompact={() => void send(client.compact())}
                          onDemo={demo}
                          onEdit={edit}
                        />
                      )}
                      {!past && <Notices state={state} />}
                      {!past && <Pending pending={pending} connected={connection.status === "open"} />}
                    </Conversation>
                  ) : (
                    <div className="loading" aria-busy="true">
                      <span className="spinner" aria-hidden="true" />
                      <span className="offscreen">Loading</span>
                    </div>
                  )}
                  <section className="foot" aria-label="Message and settings">
                    {past ? (
                      <TimeBar past={past} to={to} leave={leave} fork={onlyLooking ? null : fork} />
                    ) : (
                      <>
                        <ActivityLine
                          activity={live && activityOf(live)}
                          connected={connection.status === "open"}
                          onAnswer={showApproval}
                        />
                        {onlyLooking ? (
                          <p className="banner" role="note">
                            {onlyLooking}
                          </p>
                        ) : (
                          <Composer
                            ref={composer}
                            threadId={threadId}
                            running={live?.status === "running"}
                            dropping={dropping}
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
                            startWork={startWork}
                          />
                        )}
                      </>
                    )}
                  </section>
                </div>
                {panel && (
                  <SidePanel
                    name={PANELS[panel]}
                    panel={panel}
                    wide={wide}
                    onWide={panel === "changes" ? () => setWide(!wide) : null}
                    onClose={closePanel}
                  >
                    {panel === "changes" && (
                      <Changes
                        files={files}
                        live={!travelling}
                        ranCommands={ranCommands}
                        version={toolsDone + takenBack}
                      />
                    )}
                    {panel === "processes" && <Processes live={!travelling} version={toolsDone} />}
                    {panel === "context" && (
                      <ContextWindow
                        live={!travelling}
                        version={`${messages.length} ${status} ${live?.usage?.contextTokens ?? 0}`}
                      />
                    )}
                    {panel === "plan" && <PlanList plan={state?.plan} />}
                    {panel === "outline" && <Outline messages={messages} onJump={jump} onEnd={toEnd} />}
                  </SidePanel>
                )}
              </div>
              {undoing && <UndoDialog threadId={threadId} request={undoing} onClose={undone} />}
              {inWorktree && <WorktreeDialog threadId={threadId} onClose={leaveWorktree} />}
              <p className="offscreen" role="status" data-announcer="">
                {announcement(live)}
              </p>
            </main>
          </UnreadProvider>
        </FoundProvider>
      </ApprovalsProvider>
    </ThreadToolsProvider>
  );
}

/** From the message box to the conversation, and back: Shift+Tab is taken there, and Escape stops the agent. */
function toggleMessageBox(): void {
  const message = document.querySelector<HTMLElement>("[data-composer]");
  if (document.activeElement === message) document.querySelector<HTMLElement>(".viewport")?.focus();
  else message?.focus();
}

/** More messages than are drawn at once. */
function isLong(state: HarnessState | null): boolean {
  return (state?.messages.length ?? 0) > WINDOW;
}

/** Newest first, without repetitions. */
function prompts(messages: HarnessState["messages"]): readonly string[] {
  return [
    ...new Set(messages.flatMap(({ role, content }) => (role === "user" && content ? [content] : [])).toReversed()),
  ];
}
