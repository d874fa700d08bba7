/** What an MCP server asks for: its schema as fields, and what was filled in as the answer. Pure; the server judges the answer. */

export type Choice = { value: string; name: string };

export type Field = {
  name: string;
  title: string;
  description: string;
  required: boolean;
  kind: "text" | "number" | "flag" | "one" | "some";
  /** The type of the input for a text: a browser knows some of them. */
  input: "text" | "email" | "url" | "date" | "datetime-local" | "number";
  choices: readonly Choice[];
};

/** What is typed and ticked, by the name of its field. */
export type Filled = Record<string, string | boolean | readonly string[]>;

type Members = Record<string, unknown>;

const INPUTS: Record<string, Field["input"]> = { email: "email", uri: "url", date: "date" };

/** An odd schema is shown as far as it goes. */
export function fieldsOf(schema: unknown): Field[] {
  const required = list(member(schema, "required"));
  return Object.entries(object(member(schema, "properties"))).map(([name, property]) => {
    const type = member(property, "type");
    const many = type === "array";
    const choices = choicesOf(many ? member(property, "items") : property);
    const kind = many
      ? "some"
      : choices.length > 0
        ? "one"
        : type === "boolean"
          ? "flag"
          : type === "number" || type === "integer"
            ? "number"
            : "text";
    return {
      name,
      title: text(member(property, "title")) || name,
      description: text(member(property, "description")),
      required: required.includes(name),
      kind,
      input: kind === "number" ? "number" : (INPUTS[text(member(property, "format"))] ?? "text"),
      choices,
    };
  });
}

/** The form as it stands before anybody touches it. */
export function filledBefore(schema: unknown): Filled {
  const filled: Filled = {};
  for (const [name, property] of Object.entries(object(member(schema, "properties")))) {
    const before = member(property, "default");
    if (typeof before === "boolean") filled[name] = before;
    else if (Array.isArray(before)) filled[name] = before.map(String);
    else if (typeof before === "string" || typeof before === "number") filled[name] = String(before);
  }
  return filled;
}

/** What is sent. A field that was left empty and need not be there is not. */
export function contentOf(fields: readonly Field[], filled: Filled): Members {
  const content: Members = {};
  for (const { name, kind, required } of fields) {
    const value = filled[name];
    if (kind === "flag") content[name] = value === true;
    else if (kind === "some") content[name] = Array.isArray(value) ? value : [];
    else if (typeof value === "string" && value !== "") content[name] = kind === "number" ? Number(value) : value;
    else if (required && kind === "text") content[name] = "";
  }
  return content;
}

/** Whether everything that must be there is. */
export function isComplete(fields: readonly Field[], filled: Filled): boolean {
  return fields.every(
    ({ name, kind, required }) => !required || kind === "flag" || kind === "some" || Boolean(filled[name]),
  );
}

function choicesOf(property: unknown): Choice[] {
  const names = list(member(property, "enumNames"));
  const plain = list(member(property, "enum"));
  if (plain.length > 0)
    return plain.map((value, index) => ({ value: String(value), name: text(names[index]) || String(value) }));
  const titled = list(member(property, "oneOf")).concat(list(member(property, "anyOf")));
  return titled.flatMap((one) => {
    const value = member(one, "const");
    return value === undefined ? [] : [{ value: String(value), name: text(member(one, "title")) || String(value) }];
  });
}

export function member(value: unknown, name: string): unknown {
  return object(value)[name];
}

function object(value: unknown): Members {
  return typeof value === "object" && value !== null && !Array.isArray(value) ? (value as Members) : {};
}

function list(value: unknown): unknown[] {
  return Array.isArray(value) ? value : [];
}

function text(value: unknown): string {
  return typeof value === "string" ? value : "";
}
