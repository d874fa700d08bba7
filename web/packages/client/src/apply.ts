/**
 * Delta operations: all of them, or none.
 *
 * The old state is never touched: what an operation changes is copied on the way down, once per transaction, and
 * everything else is shared. So a failure leaves the caller with what it had, and unchanged messages keep
 * their identity, which is what makes rendering cheap.
 */

import type { JSONValue } from "./protocol.js";

export type ApplyErrorCode = "operation" | "key" | "index" | "missing" | "type";

export class ApplyError extends Error {
  override readonly name = "ApplyError";

  constructor(
    readonly code: ApplyErrorCode,
    message: string,
  ) {
    super(message);
  }
}

type JSONObject = { [key: string]: JSONValue };
type Container = JSONObject | JSONValue[];

const UNSAFE_KEYS: ReadonlySet<string> = new Set(["__proto__", "constructor", "prototype"]);
const INDEX = /^(?:0|[1-9][0-9]*)$/;

/** The state after `operations`. Throws `ApplyError` and changes nothing when any of them makes no sense. */
export function applyOperations<State extends object>(state: State, operations: readonly unknown[]): State {
  const transaction = new Transaction(state as JSONObject);
  for (const operation of operations) transaction.apply(operation);
  return transaction.root as State;
}

class Transaction {
  /** Made during this transaction: nobody else has seen them, so they may be changed in place. */
  private readonly own = new Set<Container>();

  constructor(public root: JSONObject) {}

  apply(operation: unknown): void {
    const { type, path, value } = checked(operation);
    const last = path.at(-1);
    if (last === undefined) {
      if (type !== "set" || !isObject(value)) throw new ApplyError("type", "the state is an object");
      this.root = value;
      return;
    }
    const parent = this.descend(path);
    if (Array.isArray(parent)) {
      const index = indexOf(parent, last, { end: type === "set" });
      parent[index] = type === "set" ? value : appended(parent[index], value);
    } else {
      if (type === "append-text" && !Object.hasOwn(parent, last)) throw missing(last);
      parent[last] = type === "set" ? value : appended(parent[last], value);
    }
  }

  /** The container that holds the last step, ours to change. */
  private descend(path: readonly string[]): Container {
    let here: Container = this.owned(this.root);
    this.root = here as JSONObject;
    for (const step of path.slice(0, -1)) {
      const parent: Container = here;
      let child: JSONValue | undefined;
      if (Array.isArray(parent)) {
        const index = indexOf(parent, step, { end: false });
        child = this.entered(parent[index], step);
        parent[index] = child;
      } else {
        if (!Object.hasOwn(parent, step)) throw missing(step);
        child = this.entered(parent[step], step);
        parent[step] = child;
      }
      here = child as Container;
    }
    return here;
  }

  private entered(value: JSONValue | undefined, step: string): Container {
    if (typeof value !== "object" || value === null) {
      throw new ApplyError("type", `${JSON.stringify(step)} is neither object nor list`);
    }
    return this.owned(value);
  }

  private owned<C extends Container>(container: C): C {
    if (this.own.has(container)) return container;
    const copy = (Array.isArray(container) ? container.slice() : { ...container }) as C;
    this.own.add(copy);
    return copy;
  }
}

type Checked = { type: "set" | "append-text"; path: string[]; value: JSONValue };

function checked(operation: unknown): Checked {
  if (!isObject(operation)) throw new ApplyError("operation", "an operation is an object");
  const { type, path, value } = operation as Record<string, unknown>;
  if (type !== "set" && type !== "append-text") {
    throw new ApplyError("operation", `unknown operation ${JSON.stringify(type)}`);
  }
  if (!Array.isArray(path) || !path.every((step) => typeof step === "string")) {
    throw new ApplyError("operation", "a path is a list of strings");
  }
  if (value === undefined || (type === "append-text" && typeof value !== "string")) {
    throw new ApplyError("operation", `${type} without its value`);
  }
  const unsafe = path.find((step) => UNSAFE_KEYS.has(step));
  if (unsafe !== undefined) throw new ApplyError("key", `${JSON.stringify(unsafe)} is not a key`);
  return { type, path, value: value as JSONValue };
}

function indexOf(list: readonly JSONValue[], step: string, { end }: { end: boolean }): number {
  const index = INDEX.test(step) ? Number(step) : -1;
  if (index < 0 || index > list.length || (index === list.length && !end)) {
    throw new ApplyError("index", `no ${JSON.stringify(step)} in a list of ${list.length}`);
  }
  return index;
}

function appended(before: JSONValue | undefined, text: JSONValue): string {
  if (typeof before !== "string") throw new ApplyError("type", "append-text on something that is not text");
  return before + (text as string);
}

function missing(step: string): ApplyError {
  return new ApplyError("missing", `no ${JSON.stringify(step)}`);
}

function isObject(value: unknown): value is JSONObject {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}
