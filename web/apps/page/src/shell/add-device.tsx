/** Signing a phone or another browser in from here: a QR code, a link, or a short code. Each works once. */

import { type DeviceLink, RequestFailed } from "@hames/client";
import { useCallback, useEffect, useState } from "react";
import { api } from "../api.js";
import { BASE } from "../base.js";
import { sentence } from "../text/format.js";
import { WithCode } from "../text/with-code.js";
import { CopyButton } from "./copy.js";
import { Dialog } from "./dialog.js";
import { qrCode, qrPath } from "./qr.js";

const SERVE = "hames serve --host 0.0.0.0 --token";

/** `possible`: false on a server that only this machine reaches. Then there is nothing to ask it for. */
export function AddDevice({ possible, onClose }: { possible: boolean; onClose: () => void }) {
  if (possible) return <DeviceLinks onClose={onClose} />;
  return (
    <Dialog title="Add a device" className="add-device" onClose={onClose}>
      <p className="dialog-words">
        Other devices cannot reach this server: it was started for this machine only. To use it from a phone or another
        computer:
      </p>
      <ol className="dialog-steps">
        <li>Stop this server: press Ctrl+C where it runs. Your threads stay.</li>
        <li>
          Start it again with
          <span className="device-link">
            <code>{SERVE}</code>
            <CopyButton text={SERVE} label="Copy command" />
          </span>
        </li>
        <li>Open the link that it prints, here, and choose “Add a device” again.</li>
      </ol>
    </Dialog>
  );
}

function DeviceLinks({ onClose }: { onClose: () => void }) {
  const [link, setLink] = useState<DeviceLink | null>(null);
  const [problem, setProblem] = useState("");
  const create = useCallback(() => {
    setLink(null);
    setProblem("");
    api
      .link()
      .then(setLink, (failure: unknown) =>
        setProblem(failure instanceof RequestFailed ? failure.message : String(failure)),
      );
  }, []);
  useEffect(create, [create]);
  return (
    <Dialog title="Add a device" className="add-device" onClose={onClose}>
      {problem ? (
        <p className="dialog-words">
          <WithCode text={sentence(problem)} />
        </p>
      ) : link ? (
        <Ways key={link.code} link={link} onAgain={create} />
      ) : (
        <div className="loading">
          <span className="spinner" aria-hidden="true" />
          <span className="offscreen">Loading</span>
        </div>
      )}
    </Dialog>
  );
}

function Ways({ link, onAgain }: { link: DeviceLink; onAgain: () => void }) {
  const origins = useOrigins(link);
  const [origin, setOrigin] = useState(origins[0]!);
  const left = useSecondsLeft(link.expiresInSeconds);
  const url = origin + link.path;
  if (left <= 0) {
    return (
      <>
        <p className="dialog-words">This code has expired.</p>
        <button type="button" className="button primary" onClick={onAgain}>
          New code
        </button>
      </>
    );
  }
  return (
    <>
      <p className="dialog-words">Scan this with the camera of the other device:</p>
      <QrCode text={url} />
      {origins.length > 1 && (
        <label className="device-address">
          Address of this server{" "}
          <select value={origin} onChange={(event) => setOrigin(event.target.value)}>
            {origins.map((one) => (
              <option key={one}>{one}</option>
            ))}
          </select>
        </label>
      )}
      <div className="device-way">
        <span>Or open this link there:</span>
        <span className="device-link">
          <code>{url}</code>
          <CopyButton text={url} label="Copy link" />
        </span>
      </div>
      <div className="device-way">
        <span>
          Or open <code>{origin}</code> there and type this code:
        </span>
        <strong className="device-code" aria-label={`Code: ${[...link.code].join(" ")}`}>
          {link.code}
        </strong>
      </div>
      <p className="dialog-note">
        Link and code work once, for one device, within {Math.ceil(left / 60)} min. Whoever uses them can do everything
        that you can do here.
      </p>
    </>
  );
}

/** Where the other device finds this server: as we do, unless we are on the same machine. */
function useOrigins({ addresses }: DeviceLink): readonly string[] {
  const { hostname, origin } = window.location;
  const loopback = hostname === "localhost" || hostname.startsWith("127.") || hostname === "[::1]";
  return loopback && addresses.length > 0 ? addresses : [origin + BASE.slice(0, -1)];
}

function useSecondsLeft(seconds: number): number {
  const [left, setLeft] = useState(seconds);
  useEffect(() => {
    const until = Date.now() + seconds * 1_000;
    const timer = setInterval(() => setLeft(Math.round((until - Date.now()) / 1_000)), 1_000);
    return () => clearInterval(timer);
  }, [seconds]);
  return left;
}

function QrCode({ text }: { text: string }) {
  const modules = qrCode(text);
  const side = modules.length + 8;
  // Dark on light whatever the theme is: many readers take nothing else.
  return (
    <svg className="qr" viewBox={`-4 -4 ${side} ${side}`} role="img" aria-label="QR code of the link" data-qr={text}>
      <rect x="-4" y="-4" width={side} height={side} fill="#fff" />
      <path d={qrPath(modules)} fill="#000" shapeRendering="crispEdges" />
    </svg>
  );
}
