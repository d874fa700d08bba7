/** What is shown when a thread is empty or something is wrong: always with a next step. */

import type { HarnessState, Model, ServerStatus } from "@hames/client";
import { memo, type ReactNode } from "react";
import { Icon, type IconName, Mark } from "../shell/icons.js";
import { baseName, sentence } from "../text/format.js";
import { WithCode } from "../text/with-code.js";

export function Notice({
  icon,
  title,
  children,
  tone = "",
}: {
  icon: IconName;
  title: string;
  children: ReactNode;
  tone?: string;
}) {
  return (
    <section className={`notice ${tone}`} aria-label={title}>
      <Icon name={icon} size={18} />
      <div>
        <h2>{title}</h2>
        {children}
      </div>
    </section>
  );
}

const IDEAS = [
  "Explain how this project is structured",
  "Find a bug that no test covers, and fix it with a test",
  "Review my uncommitted changes",
  "What would you improve first, and why?",
];

type EmptyProps = {
  cwd: string;
  model: Model | undefined;
  server: ServerStatus | null;
  onIdea: (prompt: string) => void;
  onDemo: () => void;
};

export const EmptyThread = memo(function EmptyThread({ cwd, model, server, onIdea, onDemo }: EmptyProps) {
  return (
    <div className="empty">
      <Mark size={44} />
      <h2>What should the agent do in {cwd ? baseName(cwd) : "this workspace"}?</h2>
      {cwd && <p className="empty-path">{cwd}</p>}
      {model && !model.available && <NoKey model={model} demo={server?.demoModel ?? ""} onDemo={onDemo} />}
      {server && !server.sandbox.ok && <NoSandbox message={server.sandbox.message} />}
      {(!model || model.available) && (
        <ul className="ideas">
          {IDEAS.map((idea) => (
            <li key={idea}>
              <button type="button" onClick={() => onIdea(idea)}>
                {idea}
              </button>
            </li>
          ))}
        </ul>
      )}
    </div>
  );
});

export function NoKey({ model, demo, onDemo }: { model: Model; demo: string; onDemo: () => void }) {
  return (
    <Notice icon="spark" title={`${model.name} cannot be used yet`}>
      <p>
        <WithCode text={sentence(model.problem || "a key is missing")} />
      </p>
      <p>After you have set the key, restart the server and reload this page; or choose another model below.</p>
      {demo && (
        <button type="button" className="button primary" onClick={onDemo}>
          Try the scripted demo: it needs no key and no network
        </button>
      )}
    </Notice>
  );
}

export function NoSandbox({ message }: { message: string }) {
  return (
    <Notice icon="shield" title="This machine has no sandbox" tone="warn">
      <p>
        <WithCode text={sentence(message)} />
      </p>
      <p>
        Until you fix this, commands are refused, unless you choose “No sandbox” below. They then run with all your
        permissions.
      </p>
    </Notice>
  );
}

type FailureProps = {
  state: HarnessState;
  server: ServerStatus | null;
  onRetry: () => void;
  onCompact: () => void;
  onDemo: () => void;
  /** Puts the last prompt back into the message box. */
  onEdit: () => void;
};

/** Why the last turn failed, and what helps. */
export function Failure({ state, server, onRetry, onCompact, onDemo, onEdit }: FailureProps) {
  if (state.status !== "error") return null;
  const words = state.error || "the agent failed";
  const model = state.models?.find(({ id }) => id === state.settings?.model);
  const retry = (
    <button type="button" className="button" onClick={onRetry}>
      <Icon name="retry" size={14} /> Try again
    </button>
  );
  switch (state.errorInfo) {
    case "Unauthorized":
      return (
        <Notice icon="alert" title="The model provider rejected the API key" tone="bad">
          <p>
            <WithCode text={sentence(words)} />
          </p>
          <p>
            {model?.problem
              ? sentence(model.problem)
              : "Check the key (hames config shows where it comes from), or choose another model below."}
          </p>
          <div className="notice-actions">
            {retry}
            {server?.demoModel && (
              <button type="button" className="button" onClick={onDemo}>
                Try the scripted demo
              </button>
            )}
          </div>
        </Notice>
      );
    case "Refusal":
      return (
        <Notice icon="alert" title="The model refused" tone="warn">
          <p>
            <WithCode text={sentence(words)} />
          </p>
          <p>Rephrase the prompt, or choose another model below.</p>
          <button type="button" className="button" onClick={onEdit}>
            <Icon name="edit" size={14} /> Edit the prompt
          </button>
        </Notice>
      );
    case "ContextWindowExceeded":
      return (
        <Notice icon="alert" title="The conversation is too long for this model" tone="warn">
          <p>
            <WithCode text={sentence(words)} />
          </p>
          <button type="button" className="button primary" onClick={onCompact}>
            Summarise and continue
          </button>
        </Notice>
      );
    case "SandboxError":
      return (
        <Notice icon="shield" title="The sandbox is missing" tone="bad">
          <p>
            <WithCode text={sentence(words)} />
          </p>
          <p>
            {server && !server.sandbox.ok
              ? sentence(server.sandbox.message)
              : "Install what is missing, or choose another sandbox below."}
          </p>
          {retry}
        </Notice>
      );
    case "ModelNotFound":
      return (
        <Notice icon="alert" title="Model not found" tone="bad">
          <p>
            <WithCode text={sentence(words)} />
          </p>
          <p>Choose another one below.</p>
        </Notice>
      );
    default:
      return (
        <Notice icon="alert" title="The agent failed" tone="bad">
          <p>
            <WithCode text={sentence(words)} />
          </p>
          {retry}
        </Notice>
      );
  }
}

/** What a warning of the last turn says, and which server is waited for. What earlier turns said is over. */
export function Notices({ state }: { state: HarnessState }) {
  const turn = state.messages.findLast(({ turnId }) => turnId)?.turnId;
  const notices = (state.notices ?? []).filter(({ turnId }) => !turnId || turnId === turn);
  return notices.map(({ message, severity, at }) => (
    <p
      key={`${at} ${message}`}
      className={`banner${severity === "warning" ? "" : " quiet"}`}
      role={severity === "warning" ? "note" : "status"}
    >
      <Icon name={severity === "warning" ? "alert" : "spark"} size={14} />
      <span>
        <WithCode text={sentence(message)} />
      </span>
    </p>
  ));
}

/** A whole page that says one thing. */
export function Blank({ icon, title, children }: { icon: IconName; title: string; children?: ReactNode }) {
  return (
    <div className="blank">
      <Icon name={icon} size={32} />
      <h1>{title}</h1>
      {children}
    </div>
  );
}
