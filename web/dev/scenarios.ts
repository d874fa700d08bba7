/** What the fake agent does when it is asked. The first words of a prompt choose. */

import type { Turn } from "./turn.js";

const CWD = "/home/ada/project";

const LOGIN_DIFF = `--- a/src/login.py
+++ b/src/login.py
@@ -1,15 +1,19 @@
 """Signing in."""

+import hmac
+
 from project.users import find
 from project.errors import WrongPassword


 def login(name: str, password: str) -> str:
     user = find(name)
-    if user.password == password:
-        return user.token
-    raise WrongPassword(name)
+    if user is None:
+        raise WrongPassword(name)
+    if not hmac.compare_digest(user.digest, digest(password, user.salt)):
+        raise WrongPassword(name)
+    return user.token


 def logout(token: str) -> None:
     sessions.pop(token, None)
@@ -31,4 +35,4 @@ def digest(password: str, salt: bytes) -> bytes:
 def rotate(user: User) -> None:
     """A new token; the old one stops working at once."""
-    user.token = make_token()
+    user.token = secrets.token_urlsafe(32)
     sessions.clear(user)
`;

const TEST_DIFF = `--- /dev/null
+++ b/tests/test_login.py
@@ -0,0 +1,9 @@
+from project.login import login
+from project.errors import WrongPassword
+
+import pytest
+
+
+def test_an_unknown_name_is_refused_like_a_wrong_password() -> None:
+    with pytest.raises(WrongPassword):
+        login("nobody", "secret")
`;

const PYTEST = `\u001b[1m============================= test session starts ==============================\u001b[0m
platform linux -- Python 3.11.9, pytest-9.0.1
collected 14 items

tests/test_users.py \u001b[32m.\u001b[0m\u001b[32m.\u001b[0m\u001b[32m.\u001b[0m\u001b[32m.\u001b[0m\u001b[32m.\u001b[0m\u001b[32m                                              [ 35%]\u001b[0m
tests/test_sessions.py \u001b[32m.\u001b[0m\u001b[32m.\u001b[0m\u001b[32m.\u001b[0m\u001b[32m.\u001b[0m\u001b[32m.\u001b[0m\u001b[32m.\u001b[0m\u001b[32m                                          [ 78%]\u001b[0m
tests/test_login.py \u001b[31mF\u001b[0m\u001b[32m.\u001b[0m\u001b[33ms\u001b[0m                                                 [100%]

=================================== FAILURES ===================================
\u001b[31m\u001b[1m_______________ test_an_unknown_name_is_refused_like_a_wrong_password ___________\u001b[0m
\u001b[1m\u001b[31mE       AttributeError: 'NoneType' object has no attribute 'password'\u001b[0m

\u001b[31m=========================== short test summary info ============================\u001b[0m
\u001b[31mFAILED\u001b[0m tests/test_login.py::\u001b[1mtest_an_unknown_name…\u001b[0m - AttributeError
\u001b[31m=================== \u001b[31m\u001b[1m1 failed\u001b[0m, \u001b[32m12 passed\u001b[0m, \u001b[33m1 skipped\u001b[0m\u001b[31m in 0.41s ===================\u001b[0m
`;

const MARKDOWN = `Here is what I found.

## The cause

\`login()\` reads \`user.password\` before it knows that there **is** a user. For an unknown name \`find\` returns \`None\`, so the
caller sees an *AttributeError* instead of \`WrongPassword\`. There are two more things:

1. The comparison is not constant time.
2. The token is predictable:
   - it is made from the clock,
   - and it is **never** rotated.
3. ~~Sessions leak.~~ They do not; I checked.

| file | lines | risk |
|---|---:|:---:|
| \`src/login.py\` | 12 | high |
| \`src/sessions.py\` | 3 | low |

\`\`\`python
def login(name: str, password: str) -> str:
    """Signs a user in, or says no in constant time."""
    user = find(name)
    if user is None or not hmac.compare_digest(user.digest, digest(password, user.salt)):
        raise WrongPassword(name)  # the same words for both
    return user.token
\`\`\`

> A wrong name and a wrong password must look the same.

See [the documentation](https://docs.python.org/3/library/hmac.html) for \`compare_digest\`. Next I will write a test, then the fix.
`;

const HOSTILE = `Raw HTML is text: <img src=x onerror="window.__pwned=1"> <script>window.__pwned=1</script>

[a link](javascript:window.__pwned=1) and [another](data:text/html,<script>window.__pwned=1</script>) and <https://example.com/?q=1>

![picture](javascript:alert(1)) ![remote](https://example.com/track.png)

<div onclick="window.__pwned=1">block **html**</div>

\`\`\`html"><img src=x onerror="window.__pwned=1">
<b>code</b>
\`\`\`
`;

export async function play(turn: Turn, prompt: string): Promise<void> {
  const word = prompt.trim().split(/\s+/)[0]?.toLowerCase() ?? "";
  const scenario = SCENARIOS[word] ?? everything;
  await scenario(turn, prompt);
}

type Scenario = (turn: Turn, prompt: string) => Promise<void>;

const everything: Scenario = async (turn) => {
  turn.plan("Fix the sign-in, with a test first.", [
    { step: "Find out why unknown names crash", status: "inProgress" },
    { step: "Write a test that fails", status: "pending" },
    { step: "Compare digests in constant time", status: "pending" },
    { step: "Run the whole suite", status: "pending" },
  ]);
  await turn.think(
    "The traceback names `login`. I should look at the file before I change anything, and run the tests once to see what fails today.",
  );
  await turn.say("I'll run the tests first to see where we stand.");
  const tests = turn.tool({
    name: "shell",
    kind: "command",
    title: "uv run pytest -q",
    input: { command: "uv run pytest -q", cwd: CWD },
  });
  await tests.print(PYTEST, 60);
  tests.done({ exitCode: 1, durationMs: 1840 });
  turn.usage(4200, 310);
  await turn.say(MARKDOWN);
  turn.plan("Fix the sign-in, with a test first.", [
    { step: "Find out why unknown names crash", status: "completed" },
    { step: "Write a test that fails", status: "inProgress" },
    { step: "Compare digests in constant time", status: "pending" },
    { step: "Run the whole suite", status: "pending" },
  ]);
  const edit = turn.tool({ name: "edit", kind: "file", title: "src/login.py, tests/test_login.py", changes: [] });
  edit.done({
    durationMs: 12,
    changes: [
      { path: `${CWD}/src/login.py`, kind: "modify", diff: LOGIN_DIFF },
      { path: `${CWD}/tests/test_login.py`, kind: "add", diff: TEST_DIFF },
    ],
  });
  const command = "git add -A && git commit -m 'An unknown name is refused like a wrong password'";
  const commit = turn.tool({ name: "shell", kind: "command", title: command, input: { command, cwd: CWD } });
  const { decision } = await turn.approval({
    toolCallId: commit.id,
    kind: "command",
    command,
    cwd: CWD,
    reason: "`git commit` is not on the list of git commands that only read",
    alwaysCovers: { text: "this exact command in this directory, for the rest of this thread" },
  });
  if (decision === "reject") {
    commit.done({ status: "error", outcome: "declined" });
    await turn.say("You declined the commit, so the changes stay in the working tree.");
  } else {
    await commit.print(
      "[main 3f2c1aa] An unknown name is refused like a wrong password\n 2 files changed, 17 insertions(+), 4 deletions(-)\n",
    );
    commit.done({ exitCode: 0, durationMs: 95 });
    turn.plan("Fix the sign-in, with a test first.", [
      { step: "Find out why unknown names crash", status: "completed" },
      { step: "Write a test that fails", status: "completed" },
      { step: "Compare digests in constant time", status: "completed" },
      { step: "Run the whole suite", status: "completed" },
    ]);
    await turn.say(
      "Committed. An unknown name and a wrong password now look exactly the same, and the token comes from `secrets`.",
    );
  }
  turn.usage(6100, 540);
  turn.end();
};

const hello: Scenario = async (turn) => {
  await turn.say("Hello. What shall we do?");
  turn.usage(900, 12);
  turn.end();
};

const slow: Scenario = async (turn) => {
  for (let i = 1; i <= 400; i++) await turn.say(`word${i} `);
  turn.end();
};

const fail: Scenario = async (turn) => {
  await turn.say("Let me see");
  turn.fail("the key was refused (401)", "Unauthorized");
};

const refuse: Scenario = async (turn) => {
  turn.fail("the model declined to answer", "Refusal");
};

const sandbox: Scenario = async (turn) => {
  turn.fail("no sandbox on this machine: install bubblewrap, or choose full access", "SandboxError");
};

const flood: Scenario = async (turn) => {
  const tool = turn.tool({
    name: "shell",
    kind: "command",
    title: "seq 20000",
    input: { command: "seq 20000", cwd: CWD },
  });
  tool.flood(Array.from({ length: 20_000 }, (_, i) => `${i + 1}`).join("\n"));
  tool.done({ exitCode: 0 });
  await turn.say("That was a lot.");
  turn.end();
};

const hostile: Scenario = async (turn) => {
  await turn.say(HOSTILE);
  const tool = turn.tool({
    name: '<img src=x onerror="window.__pwned=1">',
    kind: "tool",
    title: "<b>bold</b>",
    input: { html: "<script>window.__pwned=1</script>" },
  });
  await tool.print("<script>window.__pwned=1</script>\u001b]8;;javascript:alert(1)\u0007link\u001b]8;;\u0007\n");
  tool.done();
  turn.end();
};

const edits: Scenario = async (turn) => {
  const edit = turn.tool({
    name: "edit",
    kind: "file",
    title: "src/login.py",
    changes: [{ path: `${CWD}/src/login.py`, kind: "modify", diff: LOGIN_DIFF }],
  });
  const { decision } = await turn.approval({
    toolCallId: edit.id,
    kind: "file",
    changes: [{ path: `${CWD}/src/login.py`, kind: "modify", diff: LOGIN_DIFF }],
    reason: "the policy asks about every change",
    alwaysCovers: {
      text: "further changes to src/login.py, for the rest of this thread",
      files: [`${CWD}/src/login.py`],
    },
  });
  if (decision === "reject") edit.done({ status: "error", outcome: "declined" });
  else edit.done({ durationMs: 4 });
  await turn.say(decision === "reject" ? "Not changed." : "Changed.");
  turn.end();
};

const mcp: Scenario = async (turn) => {
  const tool = turn.tool({
    name: "github.create_issue",
    kind: "mcp",
    title: "github.create_issue",
    input: { title: "Crash on sign-in", labels: ["bug", "auth"], body: "Steps…" },
  });
  const { decision, note } = await turn.approval({
    toolCallId: tool.id,
    kind: "mcp",
    server: "github",
    tool: "create_issue",
    input: { title: "Crash on sign-in", labels: ["bug", "auth"], body: "Steps…" },
    reason: "tools of MCP servers are asked about",
    alwaysCovers: { text: "calls of create_issue on the server github, for the rest of this thread" },
  });
  if (decision === "reject") tool.done({ status: "error", outcome: "declined" });
  else {
    await tool.print('{"number": 412, "url": "https://example.com/412"}');
    tool.done();
  }
  await turn.say(note ? `Understood: ${note}` : "Done.");
  turn.end();
};

const SCENARIOS: Record<string, Scenario> = { hello, slow, fail, refuse, sandbox, flood, hostile, edits, mcp };
