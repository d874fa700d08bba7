/** Commands that begin with a slash. */

import type { IconName } from "../shell/icons.js";

export type SlashCommand = { id: string; description: string; icon: IconName; run: () => void };

/** What is sent when plan mode is left for work. */
export const START_WORK = "Go ahead: carry out the plan.";

export type SlashActions = {
  newThread: () => void;
  fork: () => void;
  undo: () => void;
  redo: () => void;
  worktree: () => void;
  archive: () => void;
  remove: () => void;
  find: () => void;
  outline: () => void;
  addDevice: () => void;
  rename: () => void;
  compact: () => void;
  review: () => void;
  stop: () => void;
  setAgent: (agent: "code" | "plan") => void;
  startWork: () => void;
  showChanges: () => void;
  showPlan: () => void;
  showProcesses: () => void;
  showContext: () => void;
  timeTravel: () => void;
  exportAs: (format: "markdown" | "json") => void;
  theme: () => void;
  help: () => void;
};

export function slashCommands(actions: SlashActions): readonly SlashCommand[] {
  return [
    { id: "new", description: "Start a new thread", icon: "plus", run: actions.newThread },
    {
      id: "plan",
      description: "Plan mode: read and plan, change nothing",
      icon: "plan",
      run: () => actions.setAgent("plan"),
    },
    { id: "go", description: "Leave plan mode and carry out the plan", icon: "send", run: actions.startWork },
    { id: "code", description: "Leave plan mode and make changes", icon: "edit", run: () => actions.setAgent("code") },
    { id: "review", description: "Review the uncommitted changes", icon: "search", run: actions.review },
    {
      id: "compact",
      description: "Replace the conversation so far with a summary for the model",
      icon: "spark",
      run: actions.compact,
    },
    { id: "changes", description: "Show every file this thread changed", icon: "diff", run: actions.showChanges },
    { id: "todo", description: "Show the agent's plan", icon: "plan", run: actions.showPlan },
    {
      id: "ps",
      description: "Show the processes that run in the background",
      icon: "command",
      run: actions.showProcesses,
    },
    { id: "context", description: "Show what fills the model's context", icon: "options", run: actions.showContext },
    { id: "history", description: "Look at the thread as it was earlier", icon: "history", run: actions.timeTravel },
    { id: "fork", description: "Continue in a copy of this thread", icon: "fork", run: actions.fork },
    { id: "undo", description: "Take back what the last turn did to files", icon: "undo", run: actions.undo },
    { id: "redo", description: "Do again what was undone", icon: "retry", run: actions.redo },
    {
      id: "worktree",
      description: "Work in a git worktree of its own; later merge, keep or drop it",
      icon: "fork",
      run: actions.worktree,
    },
    { id: "rename", description: "Give this thread a title", icon: "edit", run: actions.rename },
    { id: "archive", description: "Archive this thread", icon: "archive", run: actions.archive },
    { id: "delete", description: "Delete this thread", icon: "trash", run: actions.remove },
    { id: "find", description: "Find in this thread", icon: "search", run: actions.find },
    { id: "outline", description: "List the prompts of this thread", icon: "outline", run: actions.outline },
    { id: "device", description: "Sign in a phone or another browser", icon: "device", run: actions.addDevice },
    { id: "markdown", description: "Export as Markdown", icon: "export", run: () => actions.exportAs("markdown") },
    { id: "json", description: "Export as JSON", icon: "export", run: () => actions.exportAs("json") },
    { id: "stop", description: "Stop the agent", icon: "stop", run: actions.stop },
    { id: "theme", description: "Switch between light, dark, and the system theme", icon: "moon", run: actions.theme },
    { id: "help", description: "Keys and commands", icon: "help", run: actions.help },
  ];
}

const NO_ACTIONS = new Proxy({}, { get: () => () => {} }) as SlashActions;

/** The commands in words, for the help, which runs none of them. */
export const COMMAND_WORDS = slashCommands(NO_ACTIONS).map(({ id, description }) => ({ id, description }));
