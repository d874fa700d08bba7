/** The applier passes the cases it shares with every other applier, and shares what it does not change. */

import { readdirSync, readFileSync } from "node:fs";
import { describe, expect, test } from "vitest";
import { ApplyError, applyOperations } from "../src/apply.js";

type Case = { name: string; state: object; operations: unknown[]; result?: object; error?: string };

const FIXTURES = new URL("../../../../specs/fixtures/sync/", import.meta.url);
const files = readdirSync(FIXTURES).filter((name) => name.endsWith(".json"));

const read = (file: string) => JSON.parse(readFileSync(new URL(file, FIXTURES), "utf8")) as { cases: Case[] };

function frozen<T>(value: T): T {
  if (typeof value === "object" && value !== null) {
    Object.freeze(value);
    Object.values(value).forEach(frozen);
  }
  return value;
}

test("there are fixtures to pass", () => expect(files.length).toBeGreaterThanOrEqual(5));

describe.each(files)("%s", (file) => {
  test.each(read(file).cases)("$name", ({ state, operations, result, error }) => {
    const before = structuredClone(state);
    const apply = () => applyOperations(frozen(state), frozen(operations));
    if (error === undefined) {
      expect(apply()).toStrictEqual(result);
    } else {
      expect(apply).toThrow(expect.objectContaining({ name: "ApplyError", code: error }));
    }
    expect(state).toStrictEqual(before);
  });
});

test("what is not on the path keeps its identity", () => {
  const state = { status: "running", messages: [{ content: "a" }, { content: "b" }], usage: { inputTokens: 1 } };
  const next = applyOperations(state, [{ type: "append-text", path: ["messages", "1", "content"], value: "!" }]);
  expect(next.messages[0]).toBe(state.messages[0]);
  expect(next.usage).toBe(state.usage);
  expect(next.messages[1]).toStrictEqual({ content: "b!" });
});

test("no operation reaches a prototype", () => {
  for (const key of ["__proto__", "constructor", "prototype"]) {
    expect(() => applyOperations({ a: {} }, [{ type: "set", path: ["a", key, "polluted"], value: 1 }])).toThrow(
      ApplyError,
    );
  }
  const sent = JSON.parse(
    '[{"type":"set","path":["a"],"value":{"__proto__":{"polluted":1}}},{"type":"set","path":["a","b"],"value":1}]',
  );
  const next = applyOperations({ a: {} as Record<string, unknown> }, sent);
  expect(next.a["polluted"]).toBeUndefined();
  expect(({} as Record<string, unknown>)["polluted"]).toBeUndefined();
});
