/** Requests beside the socket: what is asked, and what a refusal becomes. */

import { expect, test } from "vitest";
import { HarnessApi, RequestFailed } from "../src/http.js";

type Asked = { url: string; init: RequestInit };

function answering(...answers: (Response | Error)[]): { api: HarnessApi; asked: Asked[] } {
  const asked: Asked[] = [];
  const fetcher = async (url: string | URL | Request, init: RequestInit = {}) => {
    asked.push({ url: String(url), init });
    const answer = answers.shift();
    if (answer instanceof Error || answer === undefined) throw answer ?? new Error("asked once too often");
    return answer;
  };
  return { api: new HarnessApi("", fetcher as typeof fetch), asked };
}

const json = (body: unknown, init: ResponseInit = {}) => new Response(JSON.stringify(body), init);

test("an unchanged list is the same object, and costs a 304", async () => {
  const { api, asked } = answering(
    json({ threads: [], nextCursor: null }, { headers: { ETag: '"1"' } }),
    new Response(null, { status: 304 }),
  );
  const first = await api.threads({ search: "a b", limit: 5 });
  expect(await api.threads({ search: "a b", limit: 5 })).toBe(first);
  expect(asked[0]?.url).toBe("/threads?search=a+b&limit=5");
  expect(asked[1]?.init.headers).toEqual({ "If-None-Match": '"1"' });
});

test("ids are quoted in paths", async () => {
  const { api, asked } = answering(json({ seq: 1, marks: [] }));
  await api.timeline("../x?y");
  expect(asked[0]?.url).toBe("/threads/..%2Fx%3Fy/timeline");
});

test("a post says that it is JSON", async () => {
  const { api, asked } = answering(json({ thread: { id: "t2" } }, { status: 201 }));
  expect(await api.fork("t1", 12)).toEqual({ id: "t2" });
  expect(asked[0]).toMatchObject({
    url: "/threads/t1/fork",
    init: { method: "POST", headers: { "Content-Type": "application/json" }, body: '{"lastSeq":12}' },
  });
});

test("a refusal carries the server's words", async () => {
  const { api } = answering(json({ error: { message: "no thread 't9'", info: "Other" } }, { status: 404 }));
  await expect(api.read("t9")).rejects.toEqual(new RequestFailed("no thread 't9'", 404, "Other"));
});

test("a refusal without words still says something", async () => {
  const { api } = answering(new Response("<html>", { status: 502 }));
  await expect(api.status()).rejects.toMatchObject({ message: "the server answered 502", status: 502 });
});

test("no answer is a refusal with status 0", async () => {
  const { api } = answering(new TypeError("fetch failed"));
  await expect(api.status()).rejects.toMatchObject({ name: "RequestFailed", status: 0 });
});
