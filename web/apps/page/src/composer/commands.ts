/** What can be said with a slash. Everything here also has a button. */

import type { IconName } from "../shell/icons.js";

export type SlashCommand = { id: string; description: string; icon: IconName; run: () => void };

export type SlashActions = {
  newThread: () => void;
  fork: () => void;
  archive: () => void;
  rename: () => void;
  compact: () => void;
  review: () => void;
  stop: () => void;
  setAgent: (agent: "code" | "plan") => void;
  showChanges: () => void;
  showPlan: () => void;
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
      description: "Plan only: read and think, change nothing",
      icon: "plan",
      run: () => actions.setAgent("plan"),
    },
    { id: "code", description: "Back to work", icon: "edit", run: () => actions.setAgent("code") },
    { id: "review", description: "Review the uncommitted changes", icon: "search", run: actions.review },
    {
      id: "compact",
      description: "Summarise the conversation to free the context",
      icon: "archive",
      run: actions.compact,
    },
    { id: "changes", description: "Everything this thread changed", icon: "diff", run: actions.showChanges },
    { id: "todo", description: "The plan of the agent", icon: "plan", run: actions.showPlan },
    { id: "history", description: "Go back in time", icon: "history", run: actions.timeTravel },
    { id: "fork", description: "Continue in a copy of this thread", icon: "fork", run: actions.fork },
    { id: "rename", description: "Give this thread a title", icon: "edit", run: actions.rename },
    { id: "archive", description: "Put this thread away", icon: "archive", run: actions.archive },
    { id: "markdown", description: "Export as Markdown", icon: "export", run: () => actions.exportAs("markdown") },
    { id: "json", description: "Export as JSON", icon: "export", run: () => actions.exportAs("json") },
    { id: "stop", description: "Stop the running turn", icon: "stop", run: actions.stop },
    { id: "theme", description: "Light, dark, or as the system has it", icon: "moon", run: actions.theme },
    { id: "help", description: "Keys and commands", icon: "help", run: actions.help },
  ];
}
