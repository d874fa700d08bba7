/** A button that puts words on the clipboard and says that it did. */

import { useEffect, useState } from "react";
import { Icon } from "./icons.js";

export function CopyButton({ text, label }: { text: string | (() => string); label: string }) {
  const [copied, setCopied] = useState(false);
  useEffect(() => {
    if (!copied) return;
    const timer = setTimeout(() => setCopied(false), 1_500);
    return () => clearTimeout(timer);
  }, [copied]);
  const copy = async () => setCopied(await copyText(typeof text === "function" ? text() : text));
  return (
    <button
      type="button"
      className="icon-button small"
      onClick={() => void copy()}
      aria-label={copied ? "Copied" : label}
      title={label}
    >
      <Icon name={copied ? "check" : "copy"} size={14} />
    </button>
  );
}

async function copyText(text: string): Promise<boolean> {
  try {
    await navigator.clipboard.writeText(text);
    return true;
  } catch {
    // Not a secure context: a page served to another machine over plain HTTP.
    const area = document.createElement("textarea");
    area.value = text;
    area.className = "offscreen";
    document.body.append(area);
    area.select();
    const done = document.execCommand("copy");
    area.remove();
    return done;
  }
}
