/** Why something did not happen, and what is waited for, is on the page. */

import type { HarnessMessage, HarnessState } from "@hames/client";
import { renderToStaticMarkup } from "react-dom/server";
import { expect, test } from "vitest";
import { Notices } from "../src/thread/states.js";

type Notice = NonNullable<HarnessState["notices"]>[number];

const message = (turnId: string): HarnessMessage => ({
  id: turnId,
  role: "user",
  content: "go",
  status: "complete",
  turnId,
});

const notice = (said: Partial<Notice>): Notice => ({
  severity: "warning",
  source: "hames",
  name: "mcp_server",
  message: "",
  turnId: "t2",
  at: 1,
  ...said,
});

function shown(...notices: Notice[]): string {
  const state = { status: "running", messages: [message("t1"), message("t2")], error: "", notices };
  return renderToStaticMarkup(<Notices state={state as unknown as HarnessState} />);
}

test("a dead server says why, and what to do", () => {
  const told = shown(
    notice({ message: "MCP server 's' is not available: it exited. `hames mcp test s` tries it again" }),
  );
  expect(told).toContain("is not available: it exited.");
  expect(told).toContain("<code>hames mcp test s</code>");
  expect(told).toContain('role="note"');
});

test("a server that is waited for is named, and read aloud", () => {
  const told = shown(notice({ severity: "info", message: "starting MCP server 's' …" }));
  expect(told).toContain("Starting MCP server &#x27;s&#x27; …</span>");
  expect(told).toContain('role="status"');
});

test("ignored configuration is named", () => {
  const words = "hames.toml is ignored because this project is not trusted. Run `hames trust`";
  expect(shown(notice({ name: "configuration", turnId: "", message: words }))).toContain("<code>hames trust</code>");
});

test("what an earlier turn said is over", () => {
  expect(shown(notice({ turnId: "t1", message: "gone" }))).toBe("");
  expect(shown()).toBe("");
});
