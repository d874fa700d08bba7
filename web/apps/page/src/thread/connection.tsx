/** A line at the top when the connection is away: what is on the screen stays, and it comes back by itself. */

import type { Connection } from "@hames/client";
import { useEffect, useState } from "react";
import { Icon } from "../shell/icons.js";

/** A blink is not worth a word. */
const PATIENCE_MS = 700;

export function ConnectionBanner({ connection, onRetry }: { connection: Connection; onRetry: () => void }) {
  const away = connection.status === "connecting" || connection.status === "waiting";
  const [shown, setShown] = useState(false);
  useEffect(() => {
    if (!away) return setShown(false);
    const timer = setTimeout(() => setShown(true), PATIENCE_MS);
    return () => clearTimeout(timer);
  }, [away]);
  return (
    <div role="status" className="banner" hidden={!(away && shown)}>
      {away && shown && (
        <>
          <Icon name="alert" size={14} />
          <span>
            {"attempt" in connection && connection.attempt > 4
              ? "The server does not answer. Is it still running?"
              : "Connection lost. Reconnecting…"}{" "}
            Nothing is lost: the agent goes on without us.
          </span>
          <button type="button" className="link" onClick={onRetry}>
            Try now
          </button>
        </>
      )}
    </div>
  );
}
