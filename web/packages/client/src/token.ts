/** How a program signs in to a server that asks for a token. A page needs none of this: it has a cookie. */

/** For `HarnessClient`'s `protocols`: a browser, and so this client, can send a token nowhere else. */
export function bearerProtocols(token: string): string[] {
  const bytes = new TextEncoder().encode(token);
  const text = btoa(String.fromCharCode(...bytes));
  return ["harness.v1", `harness.bearer.${text.replaceAll("+", "-").replaceAll("/", "_").replace(/=+$/, "")}`];
}

/** For `HarnessApi`'s `fetcher`. */
export function bearerFetch(token: string): typeof fetch {
  return (input, init) => {
    const headers = new Headers(init?.headers);
    headers.set("Authorization", `Bearer ${token}`);
    return fetch(input, { ...init, headers });
  };
}
