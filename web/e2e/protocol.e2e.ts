/** `@flint/protocol` as others get it: packed, installed into an empty folder, compiled strictly, run by Node.js. */

import { execFile } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import { afterAll, beforeAll, expect, test } from "vitest";

const run = promisify(execFile);
const WEB = fileURLToPath(new URL("../", import.meta.url));
const HAMES = fileURLToPath(new URL("../../.venv/bin/hames", import.meta.url));

/** Every name that the specification declares. */
const NAMES = `InitializeParams InitializeResult InitializedParams ThreadStartParams ThreadStartResult Thread
ThreadResumeParams ThreadResumeResult ThreadListParams ThreadListResult ThreadArchiveParams ThreadStartedNotification
TurnStartParams TurnStartResult Turn TurnStatus UserInput TurnInterruptParams TurnStartedNotification
TurnCompletedNotification ItemStartedNotification ItemCompletedNotification ThreadItem AgentMessageItem
AgentMessageDelta ReasoningItem ReasoningTextDelta ReasoningSummaryTextDelta CommandExecutionItem
CommandExecutionStatus CommandExecutionOutputDelta CommandExecutionRequestApproval CommandExecutionApprovalResponse
FileChangeItem FileUpdateChange FileChangeStatus FileChangeOutputDelta FileChangeRequestApproval
FileChangeApprovalResponse McpToolCallItem WebSearchItem PlanItem PlanEntry PlanDelta TurnPlanUpdated ApprovalPolicy
SandboxPolicy ModelListParams ModelListResult Model ConfigListResult ConfigOption ConfigSelectOption ConfigSetParams
ConfigSetResult ConfigReadResult TokenUsageUpdated JsonRpcError TurnError`.split(/\s+/);

const folder = mkdtempSync(join(tmpdir(), "protocol-"));

beforeAll(async () => {
  const pack = ["pack", "--json", "--pack-destination", folder, "-w", "@flint/protocol"];
  const { stdout } = await run("npm", pack, { cwd: WEB });
  const [packed] = JSON.parse(stdout.slice(stdout.indexOf("[\n"))) as [{ filename: string; files: { path: string }[] }];
  const files = packed.files.map(({ path }) => path);
  expect(files).toContain("README.md");
  expect(files.filter((path) => !/^(dist\/|package\.json$|README\.md$)/.test(path))).toEqual([]);
  const dependencies = { "@flint/protocol": `file:${packed.filename}` };
  writeFileSync(join(folder, "package.json"), JSON.stringify({ type: "module", private: true, dependencies }));
  await run("npm", ["install", "--offline", "--no-audit", "--no-fund"], { cwd: folder });
});

afterAll(() => rmSync(folder, { recursive: true, force: true }));

async function tsc(name: string): Promise<void> {
  const strict = ["--strict", "--module", "nodenext", "--target", "es2022", "--exactOptionalPropertyTypes"];
  const types = ["--types", "node", "--typeRoots", join(WEB, "node_modules/@types"), "--lib", "es2023"];
  const words = [...strict, ...types, "--skipLibCheck", "false", name];
  await run(join(WEB, "node_modules/.bin/tsc"), words, { cwd: folder }).catch((failure: { stdout: string }) => {
    throw new Error(failure.stdout);
  });
}

test("all names of the specification are there, and none of them is any", async () => {
  expect(new Set(NAMES).size).toBe(59); // ErrorCodes is the sixtieth, and a value
  const known = NAMES.map((name) => `const check_${name}: 0 extends 1 & p.${name} ? never : true = true;`);
  const use = `import * as p from "@flint/protocol";
${known.join("\n")}
const code: -32002 = p.ErrorCodes.TurnInProgress;
const policy: p.SandboxPolicy = { type: "workspaceWrite", networkAccess: true };
const item: p.ThreadItem = { type: "agentMessage", id: "i1", text: "Hello" };
console.log(code, policy.type, item.type);`;
  writeFileSync(join(folder, "names.ts"), use);
  await tsc("names.ts");
  const { stdout } = await run(process.execPath, ["names.js"], { cwd: folder });
  expect(stdout).toBe("-32002 workspaceWrite agentMessage\n");
});

test("a wrong parameter does not compile", async () => {
  writeFileSync(
    join(folder, "wrong.ts"),
    `import type { FlintClient } from "@flint/protocol";
     export const start = (client: FlintClient) => client.request("turn/start", { threadId: 1, input: [] });`,
  );
  await expect(tsc("wrong.ts")).rejects.toThrow("Type 'number' is not assignable to type 'string'");
});

test("the example of the README runs a prompt, prints the answer and ends by itself", async () => {
  const readme = readFileSync(join(folder, "node_modules/@flint/protocol/README.md"), "utf8");
  const example = /## Run a prompt[^`]*```ts\n([\s\S]*?)```/.exec(readme)![1]!;
  const app = example.replace('"hames"', JSON.stringify(HAMES));
  expect(app).not.toBe(example);
  writeFileSync(join(folder, "app.ts"), app);
  await tsc("app.ts");
  const { stdout } = await run(process.execPath, ["app.js"], { cwd: folder, timeout: 120_000 });
  expect(stdout).toContain("I am a script, not a model");
  expect(stdout.trimEnd().endsWith("completed")).toBe(true);
});
