/** The client against a server that the test plays. */

import { expect, test } from "vitest";
import { ErrorCodes, FlintClient, FlintError, type Transport } from "@flint/protocol";

class Played implements Transport {
  readonly sent: { id?: number | string; method?: string; params?: unknown; result?: unknown; error?: unknown }[] = [];
  say: (text: string) => void = () => {};
  drop: (why: string) => void = () => {};
  closed = false;

  send(message: string) {
    this.sent.push(JSON.parse(message));
  }
  receive(message: (text: string) => void, closed: (why: string) => void) {
    this.say = message;
    this.drop = closed;
  }
  close() {
    this.closed = true;
  }
}

test("a request is answered by its id, whatever comes in between", async () => {
  const server = new Played();
  const client = new FlintClient(server);
  const first = client.request("thread/archive", { threadId: "a" });
  const second = client.request("thread/archive", { threadId: "b" });
  expect(server.sent.map(({ method }) => method)).toEqual(["thread/archive", "thread/archive"]);
  server.say("noise");
  server.say("null");
  server.say('{"id":99,"result":{}}');
  server.say(`{"id":2,"error":{"code":${ErrorCodes.ThreadNotFound},"message":"no thread"}}`);
  server.say('{"id":1,"result":{}}');
  await expect(first).resolves.toEqual({});
  const problem = await second.catch((failure: unknown) => failure);
  expect(problem).toBeInstanceOf(FlintError);
  expect(problem).toMatchObject({ code: -32001, message: "no thread" });
});

test("the handshake is initialize and initialized", async () => {
  const server = new Played();
  const done = new FlintClient(server).initialize({ name: "me", version: "1" });
  server.say('{"id":1,"result":{"agentInfo":{"name":"a","version":"1","provider":"p"},"capabilities":{}}}');
  expect((await done).agentInfo.name).toBe("a");
  expect(server.sent.map(({ method, id }) => [method, id])).toEqual([
    ["initialize", 1],
    ["initialized", undefined],
  ]);
});

test("notifications reach their listeners until these stop", () => {
  const server = new Played();
  const client = new FlintClient(server);
  const heard: string[] = [];
  const stop = client.on("item/agentMessage/delta", ({ delta }) => heard.push(delta));
  client.onAny((method) => heard.push(method));
  server.say('{"method":"item/agentMessage/delta","params":{"delta":"Hi"}}');
  stop();
  server.say('{"method":"item/agentMessage/delta","params":{"delta":"again"}}');
  server.say('{"method":"hames/of_tomorrow","params":{}}');
  expect(heard).toEqual(["Hi", "item/agentMessage/delta", "item/agentMessage/delta", "hames/of_tomorrow"]);
});

test.each([7, "seven"])("a question with the id %j is answered, refused or failed under that id", async (id) => {
  const server = new Played();
  const client = new FlintClient(server);
  client.answer("item/commandExecution/requestApproval", ({ command }) => ({
    decision: command === "ls" ? "accept" : "decline",
  }));
  client.answer("item/fileChange/requestApproval", () => Promise.reject(new Error("no time")));
  const ask = (method: string) => server.say(JSON.stringify({ id, method, params: { command: "ls" } }));
  ask("item/commandExecution/requestApproval");
  ask("item/fileChange/requestApproval");
  ask("tea/make");
  await expect.poll(() => server.sent.length).toBe(3);
  expect(server.sent.every((answer) => answer.id === id)).toBe(true);
  expect(server.sent.map(({ result }) => result).filter(Boolean)).toEqual([{ decision: "accept" }]);
  const codes = server.sent.flatMap(({ error }) => (error ? [(error as { code: number }).code] : []));
  expect(codes.sort()).toEqual([ErrorCodes.InternalError, ErrorCodes.MethodNotFound].sort());
});

test("what waits when the connection is lost fails, and so does what comes after", async () => {
  const server = new Played();
  const client = new FlintClient(server);
  const waiting = client.request("model/list", {});
  server.drop("the server has ended");
  await expect(waiting).rejects.toThrow("the server has ended");
  await expect(client.request("model/list", {})).rejects.toThrow("the server has ended");
  client.close();
  expect(server.closed).toBe(true);
});
