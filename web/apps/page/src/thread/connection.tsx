/** A line at the top while there is no connection. It says only what is known: whether the agent still runs is not. */

import type { Connection } from "@hames/client";
import { useEffect, useState } from "react";
import { Icon } from "../shell/icons.js";

/** A shorter interruption is not worth a message. */
const PATIENCE_MS = 700;
/** So many attempts without an answer: it is probably not the network. */
const MANY_ATTEMPTS = 4;

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
            {"attempt" in connection && connection.attempt > MANY_ATTEMPTS ? (
              <>
                The server does not answer. Check that <code>hames serve</code> is running.
              </>
            ) : (
              "Connection lost. Reconnecting…"
            )}{" "}
            This page may be out of date; messages are sent when the connection is back.
          </span>
          <button type="button" className="link" onClick={onRetry}>
            Try now
          </button>
        </>
      )}
    </div>
  );
}
