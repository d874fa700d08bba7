/** Model, approval mode, sandbox, and whatever else the server offers to choose: rendered from its own list. */

import type { ConfigOption, Configuration, HarnessState, Model } from "@hames/client";
import { memo } from "react";
import { Icon } from "../shell/icons.js";
import { Menu, type MenuItem } from "../shell/menu.js";
import { plural } from "../text/format.js";
import { MODES, modeOf, sandboxFor, sandboxItems, sandboxOf } from "./modes.js";

/** So many have a button each. */
const FEW = 2;

type Props = {
  settings: HarnessState["settings"];
  models: HarnessState["models"];
  selectors: HarnessState["selectors"];
  configure: (configuration: Configuration) => void;
  /** Leaves plan mode; missing while there is no plan to carry out. */
  startWork?: (() => void) | undefined;
};

export const Selectors = memo(function Selectors(props: Props) {
  const { settings, models = [], selectors = [], configure, startWork } = props;
  if (!settings) return null;
  const model = models.find(({ id }) => id === settings.model);
  const mode = modeOf(settings);
  const sandbox = sandboxItems(settings.sandbox);
  const walls = sandbox.find(({ id }) => id === sandboxOf(settings.sandbox));
  return (
    <div className="selectors">
      <Menu
        label={`Model: ${model?.name ?? settings.model}`}
        title="Model"
        heading="Model"
        note="Choose the model"
        side="top"
        className="compact"
        value={settings.model}
        items={modelItems(models, settings.model)}
        onChoose={(id) => configure({ model: id })}
      >
        <Icon name="spark" size={14} />
        <span>{model?.name ?? settings.model}</span>
      </Menu>
      <Menu
        label={`Mode: ${mode.name}`}
        title={`Mode: ${mode.name}. ${mode.description} (Shift+Tab)`}
        heading="Mode"
        note="How much the agent does by itself"
        side="top"
        className={mode.id === "never" ? "risky" : ""}
        value={mode.id}
        items={MODES}
        onChoose={(id) => configure(MODES.find((known) => known.id === id)!.set)}
      >
        <Icon name={mode.icon ?? "shield"} size={14} />
        <span>{mode.name}</span>
      </Menu>
      {settings.agent === "plan" && startWork && (
        <button
          type="button"
          className="button go"
          title="Leave plan mode and carry out the plan (/go)"
          onClick={startWork}
        >
          Go
        </button>
      )}
      <Menu
        label={`Sandbox: ${walls?.name ?? ""}`}
        title="Sandbox"
        heading="Sandbox"
        note="What commands can reach"
        side="top"
        className={walls?.id === "dangerFullAccess" ? "risky" : "compact"}
        value={walls?.id ?? ""}
        items={sandbox}
        onChoose={(id) => configure({ sandbox: sandboxFor(id, settings.sandbox) })}
      >
        <Icon name="panel" size={14} />
        <span>{walls?.name}</span>
      </Menu>
      {selectors.length > FEW ? (
        <Options selectors={selectors} configure={configure} />
      ) : (
        selectors.map(({ id, name, description, value, choices }) => (
          <Menu
            key={id}
            label={`${name} ${choices.find((choice) => choice.id === value)?.name ?? value}`}
            title={description || name}
            heading={name}
            note={description ?? ""}
            side="top"
            className="compact"
            value={value}
            items={choices}
            onChoose={(choice) => configure({ options: { [id]: choice } })}
          >
            <span className="muted">{name}</span>{" "}
            <span>{choices.find((choice) => choice.id === value)?.name ?? value}</span>
          </Menu>
        ))
      )}
    </div>
  );
});

const PROVIDERS: Record<string, string> = {
  anthropic: "Anthropic",
  openai: "OpenAI",
  openrouter: "OpenRouter",
  deepseek: "DeepSeek",
  lmstudio: "LM Studio",
  vllm: "vLLM",
};

function providerName(id: string): string {
  return PROVIDERS[id] ?? id.charAt(0).toUpperCase() + id.slice(1);
}

/** What can be used, by provider; then a line for each provider that lacks something. The chosen model is always there. */
export function modelItems(models: readonly Model[], chosen: string): readonly MenuItem[] {
  const listed = models
    .filter(({ id, available }) => available || id === chosen)
    .map(({ id, name, provider, description, available, problem }) => ({
      id,
      name,
      description: available ? description : problem,
      disabled: !available,
      group: providerName(provider),
    }));
  const missing = new Map<string, { count: number; problem: string }>();
  for (const { provider, available, problem } of models) {
    if (available) continue;
    const known = missing.get(provider);
    missing.set(provider, { count: (known?.count ?? 0) + 1, problem: known?.problem || problem });
  }
  const folded = [...missing].map(([provider, { count, problem }]) => ({
    id: `no ${provider}`,
    name: `${providerName(provider)}: ${/KEY/.test(problem) ? "no key" : "cannot be used"} (${plural(count, "model")})`,
    description: /KEY/.test(problem) ? "`hames setup` adds one" : problem,
    disabled: true,
    group: "Not set up",
  }));
  return [...listed, ...folded];
}

/** Many options in one list; the button names those that differ from their default. */
function Options({ selectors, configure }: { selectors: readonly ConfigOption[]; configure: Props["configure"] }) {
  const changed = selectors.flatMap(({ value, default: preset, choices }) =>
    value === preset ? [] : [choices.find(({ id }) => id === value)?.name ?? value],
  );
  const words = changed.join(", ") || "default";
  return (
    <Menu
      label={`Options: ${words}`}
      title="Options of the model"
      heading="Options of the model"
      side="top"
      className="compact"
      value={selectors.map(({ id, value }) => `${id} ${value}`)}
      items={selectors.flatMap(({ id, name, choices }) =>
        choices.map((choice) => ({ ...choice, id: `${id} ${choice.id}`, group: name })),
      )}
      onChoose={(chosen) => {
        const option = selectors.find(({ id }) => chosen.startsWith(`${id} `))!;
        configure({ options: { [option.id]: chosen.slice(option.id.length + 1) } });
      }}
    >
      <Icon name="options" size={14} />
      <span>{changed.length > 0 ? changed.join(", ") : "Options"}</span>
    </Menu>
  );
}
