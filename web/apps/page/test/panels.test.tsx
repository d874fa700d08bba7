// @vitest-environment happy-dom

/** The panels of background processes and of the context window, rendered to a string. */

import type { ContextReport, ProcessRow } from "@hames/client";
import { renderToStaticMarkup } from "react-dom/server";
import { expect, test } from "vitest";
import { ContextParts } from "../src/panels/context-window.js";
import { ProcessList, processState } from "../src/panels/processes.js";

const server: ProcessRow = {
  number: 1,
  command: "npm run dev",
  cwd: "/work",
  terminal: false,
  running: true,
  seconds: 12,
  outputBytes: 20,
  exitCode: null,
  tail: "ready on <port>\n",
};

const list = (...processes: ProcessRow[]) =>
  renderToStaticMarkup(<ProcessList processes={processes} onEnd={() => {}} />);

test("a process that runs can be ended, one that has ended cannot", () => {
  expect(list(server)).toContain('aria-label="End process 1"');
  expect(list({ ...server, running: false, exitCode: 0 })).not.toContain("<button");
  expect(list()).toContain("no background process");
});

test("the newest process comes first, and what it printed is text", () => {
  const html = list(server, { ...server, number: 2, command: "make <all>" });
  expect(html.indexOf("make &lt;all&gt;")).toBeLessThan(html.indexOf("npm run dev"));
  expect(html).toContain("ready on &lt;port&gt;");
});

test("characters that hide in a command or in output are made visible", () => {
  expect(list({ ...server, command: "echo \u202esafe", tail: "a\u200bb" })).not.toMatch(/\u202e|\u200b/);
});

test.each([
  [{}, "running for 12.0 s"],
  [{ running: false, exitCode: 2 }, "exit code 2 after 12.0 s"],
  [{ running: false, exitCode: -9 }, "ended by signal 9 after 12.0 s"],
  [{ running: false }, "ended after 12.0 s"],
])("%j is told as %s", (change, words) => expect(processState({ ...server, ...change })).toBe(words));

test("what fills the context is told in tokens, and what is no longer shown", () => {
  const report: ContextReport = {
    tokens: 30_000,
    limit: 160_000,
    window: 200_000,
    parts: [
      { name: "tool results", tokens: 20_000, count: 7 },
      { name: "instructions", tokens: 2_000 },
    ],
    shortened: ["old tool results but the last 5"],
  };
  const html = renderToStaticMarkup(<ContextParts report={report} />);
  for (const words of [
    "About 30k of 200k tokens are in use (15%).",
    "tool results (7)",
    "2.0k",
    "No longer shown to the model: old tool results but the last 5.",
    "From 160k tokens on",
  ])
    expect(html).toContain(words);
  expect(renderToStaticMarkup(<ContextParts report={{ tokens: 0, limit: 0, window: 0, parts: [] }} />)).not.toContain(
    "NaN",
  );
});
