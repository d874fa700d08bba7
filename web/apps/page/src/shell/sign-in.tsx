/** What somebody sees who is not signed in: why, and a field for a code from a device that is, or for a token. */

import { RequestFailed } from "@hames/client";
import { type SyntheticEvent, useEffect, useState } from "react";
import { api } from "../api.js";
import { sentence } from "../text/format.js";
import { Mark } from "./icons.js";

/** As it is meant: letters of a code are capitals, those of a token are what they are. */
function asTyped(text: string): string {
  return text.length > LONGEST_CODE || text.startsWith("hames_") ? text.trim() : text.toUpperCase();
}

const LONGEST_CODE = 12;

/** A link that no longer works leaves its word in the address. It says nothing to anybody any more, and goes. */
function usedLink(): boolean {
  return new URLSearchParams(window.location.search).has("token");
}

export function SignIn({ onDone }: { onDone: () => void }) {
  const [used] = useState(usedLink);
  const [code, setCode] = useState("");
  const [problem, setProblem] = useState("");
  const [busy, setBusy] = useState(false);
  useEffect(() => {
    document.title = "Sign in · Hames";
    if (used) window.history.replaceState(null, "", window.location.pathname);
  }, [used]);

  const submit = (event: SyntheticEvent) => {
    event.preventDefault();
    setBusy(true);
    api.signIn(code).then(onDone, (failure: unknown) => {
      setBusy(false);
      setProblem(failure instanceof RequestFailed ? sentence(failure.message) : String(failure));
    });
  };
  return (
    <main className="sign-in">
      <Mark size={44} />
      <h1>Sign in to Hames</h1>
      {used && (
        <p className="sign-in-problem" role="alert">
          That link was already used or has expired.
        </p>
      )}
      <p>
        On a device that is signed in, open <b>Add a device</b> at the bottom of the thread list. Scan the QR code it
        shows with this device, or type the code here. If you were given a token, paste it instead:
      </p>
      <form onSubmit={submit}>
        <label htmlFor="code">Code or token</label>
        <div className="sign-in-row">
          <input
            id="code"
            value={code}
            autoFocus
            autoComplete="one-time-code"
            autoCapitalize="characters"
            autoCorrect="off"
            spellCheck={false}
            maxLength={200}
            placeholder="ABCD-EFGH"
            aria-describedby="code-problem"
            onChange={(event) => setCode(asTyped(event.target.value))}
          />
          <button
            type="submit"
            className="button primary"
            disabled={busy || code.replace(/[^A-Za-z0-9]/g, "").length < 8}
          >
            Sign in
          </button>
        </div>
        <p id="code-problem" className="sign-in-problem" role="status">
          {problem}
        </p>
      </form>
      <p className="sign-in-note">
        No device is signed in yet? Start <code>hames serve</code> again and open the link that it prints.
      </p>
    </main>
  );
}
