/** What an MCP server asks a person: a form to fill in, or an address to visit. Who asks is always said; nothing is opened by itself. */

import type { Approval } from "@hames/client";
import { useId, useMemo, useState } from "react";
import { safeLink } from "../text/links.js";
import { hides, Visible } from "../text/visible.js";
import { contentOf, type Field, type Filled, fieldsOf, filledBefore, isComplete, member } from "./form.js";

type Props = {
  approval: Approval;
  disabled: boolean;
  onAccept: (content: unknown) => void;
  onDecline: () => void;
};

export function Elicitation({ approval, disabled, onAccept, onDecline }: Props) {
  const schema = member(approval.input, "requestedSchema");
  const message = String(member(approval.input, "message") ?? "");
  const address = member(approval.input, "url");
  const fields = useMemo(() => fieldsOf(schema), [schema]);
  const [filled, setFilled] = useState<Filled>(() => filledBefore(schema));
  const url = typeof address === "string" ? address : "";
  const change = (name: string, value: Filled[string]) => setFilled((now) => ({ ...now, [name]: value }));
  return (
    <form
      className="form"
      onSubmit={(event) => {
        event.preventDefault();
        onAccept(url ? null : contentOf(fields, filled));
      }}
    >
      <p className="form-asks">
        The MCP server <code>{approval.server}</code> asks: <Visible text={message} />
      </p>
      {url && <Address url={url} />}
      {fields.map((field) => (
        <FormField key={field.name} field={field} value={filled[field.name]} disabled={disabled} onChange={change} />
      ))}
      <div className="approval-answers">
        <button type="submit" className="button primary" disabled={disabled || !isComplete(fields, filled)}>
          {url ? "I have visited it" : "Send"}
        </button>
        <button type="button" className="button danger" disabled={disabled} onClick={onDecline}>
          Decline
        </button>
      </div>
    </form>
  );
}

function Address({ url }: { url: string }) {
  const safe = hides(url) ? undefined : safeLink(url);
  return (
    <p className="form-address">
      {safe?.startsWith("http") ? (
        <a href={safe} target="_blank" rel="noreferrer noopener">
          {url}
        </a>
      ) : (
        <Visible text={url} />
      )}
    </p>
  );
}

type FieldProps = {
  field: Field;
  value: Filled[string] | undefined;
  disabled: boolean;
  onChange: (name: string, value: Filled[string]) => void;
};

function FormField({ field, value, disabled, onChange }: FieldProps) {
  const id = useId();
  const { name, title, description, required, kind, choices } = field;
  const hint = description && (
    <span id={`${id}-hint`} className="form-hint">
      {description}
    </span>
  );
  const shared = { id, disabled, "aria-describedby": description ? `${id}-hint` : undefined };
  if (kind === "flag") {
    return (
      <div className="form-field">
        <label className="form-flag">
          <input
            {...shared}
            type="checkbox"
            checked={value === true}
            onChange={(event) => onChange(name, event.target.checked)}
          />
          {title}
        </label>
        {hint}
      </div>
    );
  }
  if (kind === "some") {
    const chosen = Array.isArray(value) ? (value as readonly string[]) : [];
    return (
      <fieldset className="form-field" disabled={disabled}>
        <legend>{title}</legend>
        {hint}
        {choices.map((choice) => (
          <label key={choice.value} className="form-flag">
            <input
              type="checkbox"
              checked={chosen.includes(choice.value)}
              onChange={(event) =>
                onChange(
                  name,
                  event.target.checked ? [...chosen, choice.value] : chosen.filter((one) => one !== choice.value),
                )
              }
            />
            {choice.name}
          </label>
        ))}
      </fieldset>
    );
  }
  return (
    <div className="form-field">
      <label htmlFor={id}>
        {title}
        {required && <span className="form-hint"> required</span>}
      </label>
      {kind === "one" ? (
        <select
          {...shared}
          value={typeof value === "string" ? value : ""}
          onChange={(event) => onChange(name, event.target.value)}
        >
          <option value="">{required ? "Choose…" : "None"}</option>
          {choices.map((choice) => (
            <option key={choice.value} value={choice.value}>
              {choice.name}
            </option>
          ))}
        </select>
      ) : (
        <input
          {...shared}
          type={field.input}
          step={kind === "number" ? "any" : undefined}
          value={typeof value === "string" ? value : ""}
          onChange={(event) => onChange(name, event.target.value)}
        />
      )}
      {hint}
    </div>
  );
}
